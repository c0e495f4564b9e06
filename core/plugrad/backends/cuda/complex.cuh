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
template <class F> PLUGRAD_FN bool operator==(Complex<F> a, Complex<F> b) { return a.re == b.re && a.im == b.im; }
template <class F> PLUGRAD_FN bool operator!=(Complex<F> a, Complex<F> b) { return !(a == b); }
template <class F> PLUGRAD_FN Complex<F> conj(Complex<F> z) { return Complex<F>(z.re, -z.im); }
template <class F> PLUGRAD_FN F real(Complex<F> z) { return z.re; }
template <class F> PLUGRAD_FN F imag(Complex<F> z) { return z.im; }
