// Complex numbers, as NumPy lays them out; put in front of kernels that have some.
template <class F> struct alignas(2 * sizeof(F)) Complex {
    F re, im;
    Complex() = default;
    template <class N> PLUGRAD_FN Complex(N real) : re(real), im(0) {}
    PLUGRAD_FN Complex(F real, F imaginary) : re(real), im(imaginary) {}
    template <class G> PLUGRAD_FN Complex(const Complex<G> &z) : re(z.re), im(z.im) {}
};
template <class F> PLUGRAD_FN Complex<F> operator-(Complex<F> z) { return Complex<F>(-z.re, -z.im); }
template <class F> PLUGRAD_FN Complex<F> operator+(Complex<F> a, Complex<F> b) {
    return Complex<F>(a.re + b.re, a.im + b.im);
}
template <class F> PLUGRAD_FN Complex<F> operator-(Complex<F> a, Complex<F> b) {
    return Complex<F>(a.re - b.re, a.im - b.im);
}
template <class F> PLUGRAD_FN Complex<F> operator*(Complex<F> a, Complex<F> b) {
    return Complex<F>(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re);
}
template <class F> PLUGRAD_FN Complex<F> operator/(Complex<F> a, Complex<F> b) {  // R. L. Smith's: neither square is formed
    if (plugrad::abs(b.re) >= plugrad::abs(b.im)) {
        if (b.re == F(0) && b.im == F(0)) return Complex<F>(a.re / plugrad::abs(b.re), a.im / plugrad::abs(b.re));
        const F ratio = b.im / b.re, scale = F(1) / (b.re + b.im * ratio);
        return Complex<F>((a.re + a.im * ratio) * scale, (a.im - a.re * ratio) * scale);
    }
    const F ratio = b.re / b.im, scale = F(1) / (b.im + b.re * ratio);
    return Complex<F>((a.re * ratio + a.im) * scale, (a.im * ratio - a.re) * scale);
}
#define PLUGRAD_WITH_REAL(sign, result) \
    template <class F, class N> PLUGRAD_FN result operator sign(Complex<F> a, N b) { return a sign Complex<F>(b); } \
    template <class F, class N> PLUGRAD_FN result operator sign(N a, Complex<F> b) { return Complex<F>(a) sign b; }
template <class F> PLUGRAD_FN bool operator==(Complex<F> a, Complex<F> b) { return a.re == b.re && a.im == b.im; }
template <class F> PLUGRAD_FN bool operator!=(Complex<F> a, Complex<F> b) { return !(a == b); }
PLUGRAD_WITH_REAL(+, Complex<F>) PLUGRAD_WITH_REAL(-, Complex<F>)
PLUGRAD_WITH_REAL(*, Complex<F>) PLUGRAD_WITH_REAL(/, Complex<F>)
PLUGRAD_WITH_REAL(==, bool) PLUGRAD_WITH_REAL(!=, bool)
template <class F> PLUGRAD_FN Complex<F> &operator+=(Complex<F> &a, Complex<F> b) { return a = a + b; }
template <class F> PLUGRAD_FN Complex<F> &operator*=(Complex<F> &a, Complex<F> b) { return a = a * b; }
template <class F> PLUGRAD_FN bool operator!(Complex<F> z) { return z == Complex<F>(0); }
template <class F> PLUGRAD_FN Complex<F> conj(Complex<F> z) { return Complex<F>(z.re, -z.im); }
template <class F> PLUGRAD_FN F real(Complex<F> z) { return z.re; }
template <class F> PLUGRAD_FN F imag(Complex<F> z) { return z.im; }
template <class F> PLUGRAD_FN bool isnan(Complex<F> z) { return plugrad::isnan(z.re) || plugrad::isnan(z.im); }
template <class F> PLUGRAD_FN bool isinf(Complex<F> z) { return plugrad::isinf(z.re) || plugrad::isinf(z.im); }
template <class F> PLUGRAD_FN bool isfinite(Complex<F> z) { return plugrad::isfinite(z.re) && plugrad::isfinite(z.im); }
template <class F> PLUGRAD_FN F abs(Complex<F> z) { return plugrad::hypot(z.re, z.im); }
template <class F> PLUGRAD_FN Complex<F> sign(Complex<F> z) {
    const F size = abs(z);
    return size == F(0) ? z : Complex<F>(z.re / size, z.im / size);
}

// Functions by those of real numbers: exp(x + iy) = exp(x) (cos y + i sin y), and what follows from it.
template <class F> PLUGRAD_FN Complex<F> exp(Complex<F> z) {
    const F size = plugrad::exp(z.re);
    if (z.im == F(0)) return Complex<F>(size, z.im);
    return Complex<F>(size * plugrad::cos(z.im), size * plugrad::sin(z.im));
}
template <class F> PLUGRAD_FN Complex<F> log(Complex<F> z) {
    return Complex<F>(plugrad::log(abs(z)), plugrad::atan2(z.im, z.re));
}
template <class F> PLUGRAD_FN Complex<F> sqrt(Complex<F> z) {
    if (z.re == F(0) && z.im == F(0)) return Complex<F>(F(0), z.im);
    const F root = plugrad::sqrt((plugrad::abs(z.re) + abs(z)) / F(2));  // of the two parts, the one without cancellation
    if (z.re >= F(0)) return Complex<F>(root, z.im / (F(2) * root));
    return Complex<F>(plugrad::abs(z.im) / (F(2) * root), plugrad::copysign(root, z.im));
}
template <class F> PLUGRAD_FN Complex<F> rsqrt(Complex<F> z) { return Complex<F>(1) / sqrt(z); }
template <class F> PLUGRAD_FN Complex<F> pow(Complex<F> a, Complex<F> b) {
    if (b == Complex<F>(0)) return Complex<F>(1);
    return a == Complex<F>(0) ? Complex<F>(0) : exp(b * log(a));
}
template <class F> PLUGRAD_FN Complex<F> sinh(Complex<F> z) {
    return Complex<F>(plugrad::sinh(z.re) * plugrad::cos(z.im), plugrad::cosh(z.re) * plugrad::sin(z.im));
}
template <class F> PLUGRAD_FN Complex<F> cosh(Complex<F> z) {
    return Complex<F>(plugrad::cosh(z.re) * plugrad::cos(z.im), plugrad::sinh(z.re) * plugrad::sin(z.im));
}
template <class F> PLUGRAD_FN Complex<F> tanh(Complex<F> z) {
    if (plugrad::abs(z.re) > F(20)) {  // cosh would leave the range
        const F rest = F(2) * plugrad::exp(F(-2) * plugrad::abs(z.re));
        return Complex<F>(plugrad::copysign(F(1), z.re), rest * plugrad::sin(F(2) * z.im));
    }
    const F s = plugrad::sinh(z.re), c = plugrad::cos(z.im), scale = s * s + c * c;
    return Complex<F>(s * plugrad::cosh(z.re) / scale, plugrad::sin(z.im) * c / scale);
}
template <class F> PLUGRAD_FN Complex<F> turned(Complex<F> z) { return Complex<F>(-z.im, z.re); }   // i z
template <class F> PLUGRAD_FN Complex<F> back(Complex<F> z) { return Complex<F>(z.im, -z.re); }     // -i z
template <class F> PLUGRAD_FN Complex<F> sin(Complex<F> z) { return back(sinh(turned(z))); }
template <class F> PLUGRAD_FN Complex<F> cos(Complex<F> z) { return cosh(turned(z)); }
template <class F> PLUGRAD_FN Complex<F> tan(Complex<F> z) { return back(tanh(turned(z))); }
