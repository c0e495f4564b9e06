// Special functions of double, one text for both devices: C for the CPU's loops, CUDA in front of expressions.
//
// (a) float32 and float16 are computed in double and rounded once, so these functions need one precision only.
// (b) digamma and its derivatives climb by their recurrence to where the asymptotic series holds (Abramowitz and Stegun,
//     6.3.5 and 6.3.18, 6.4.6 and 6.4.11); left of 0 they are reflected. Within 20 units in the last place, except
//     near a zero of the function, where the error is that small next to the terms that cancel.
// (c) erfinv starts from Chebyshev expansions in w = -log(1 - x*x), right to 1e-6, and beyond w = 5 in its root, right to
//     1e-4. One of Halley's steps, there two, cube the error. Within 2 units in the last place.
// (d) Derivatives of sin(z) / z are a recurrence from z = 1 + order / 2 on, and the Taylor series below that, where the
//     recurrence would divide what has cancelled by a small number.
// (e) Modified Bessel functions: the power series, all of whose terms have one sign, below 20; from there on the asymptotic
//     one (9.6.10 and 9.7.1 of the same book). Within 15 units in the last place.
#ifndef PLUGRAD_SPECIAL
#define PLUGRAD_SPECIAL

#ifdef PLUGRAD_PRELUDE
#define PLUGRAD_SPECIAL_FN PLUGRAD_FN
#define PLUGRAD_SPECIAL_INF ((double)INF)
#define PLUGRAD_SPECIAL_NAN ((double)NAN)
#else
#include <math.h>
#define PLUGRAD_SPECIAL_FN static inline
#define PLUGRAD_SPECIAL_INF ((double)INFINITY)
#define PLUGRAD_SPECIAL_NAN ((double)NAN)
#endif
#define PLUGRAD_SPECIAL_PI 3.14159265358979323846

// ---- the gamma function's logarithmic derivatives -------------------------------------------------------------------

// At the poles what PyTorch has there: -inf at 0, inf at -0, NaN at the negative integers.
PLUGRAD_SPECIAL_FN double special_digamma(double x) {
    double out = 0.0;
    if (x == 0.0) return copysign(PLUGRAD_SPECIAL_INF, -x);
    if (x < 0.0) {
        if (x == floor(x)) return PLUGRAD_SPECIAL_NAN;
        out = -PLUGRAD_SPECIAL_PI / tan(PLUGRAD_SPECIAL_PI * (x - rint(x)));
        x = 1.0 - x;
    }
    for (; x < 10.0; x += 1.0) out -= 1.0 / x;
    const double y = 1.0 / (x * x);
    double series = 1.0 / 12.0;
    series = 691.0 / 32760.0 - y * series;
    series = 1.0 / 132.0 - y * series;
    series = 1.0 / 240.0 - y * series;
    series = 1.0 / 252.0 - y * series;
    series = 1.0 / 120.0 - y * series;
    series = 1.0 / 12.0 - y * series;
    return out + (log(x) - 0.5 / x - y * series);
}

// order! / x**(order + 1) for x > 0; neither the factorial nor the power has to be in range.
PLUGRAD_SPECIAL_FN double special_term(int order, double x) {
    double term = 1.0 / x;
    for (int i = 1; i <= order; ++i) term *= i / x;
    return term;
}

// order! times the Hurwitz zeta function of order + 1 and x, for order >= 1 and x > 0.
PLUGRAD_SPECIAL_FN double special_zeta(int order, double x) {
    const double s = order + 1.0;
    double sum = 0.0;
    for (; x < 10.0 + s; x += 1.0) sum += special_term(order, x);
    const double first = special_term(order, x), y = 1.0 / (x * x);
    if (first == 0.0) return sum;
    // Bernoulli number 2j over (2j)!, and the rising factorial of s with 2j - 1 factors
    double rising = s / x, tail = 0.5 + rising / 12.0;
    rising *= (s + 1.0) * (s + 2.0) * y;
    tail -= rising / 720.0;
    rising *= (s + 3.0) * (s + 4.0) * y;
    tail += rising / 30240.0;
    rising *= (s + 5.0) * (s + 6.0) * y;
    tail -= rising / 1209600.0;
    rising *= (s + 7.0) * (s + 8.0) * y;
    tail += rising / 47900160.0;
    rising *= (s + 9.0) * (s + 10.0) * y;
    tail -= rising * (691.0 / 1307674368000.0);
    rising *= (s + 11.0) * (s + 12.0) * y;
    tail += rising / 74724249600.0;
    return sum + first * (x / order + tail);
}

// The derivative number `order` of digamma. At the poles inf for odd orders and -inf for even ones.
PLUGRAD_SPECIAL_FN double special_polygamma(int order, double x) {
    if (order == 0) return special_digamma(x);
    const int odd = order % 2;
    if (x <= 0.0 && x == floor(x)) return odd ? PLUGRAD_SPECIAL_INF : -PLUGRAD_SPECIAL_INF;
    double sum;
    if (x > 0.0) sum = special_zeta(order, x);
    else {  // the terms at x, x + 1, … below 0, whose distances from 0 are 1 - x less those further out; then those above
        const double f = -x - floor(-x), below = special_zeta(order, f) - special_zeta(order, 1.0 - x);
        sum = special_zeta(order, 1.0 - f) + (odd ? below : -below);
    }
    return odd ? sum : -sum;
}

// ---- the inverse error function -------------------------------------------------------------------------------------

PLUGRAD_SPECIAL_FN double special_erfinv(double x) {
    const double size = fabs(x);
    if (!(size < 1.0)) return size == 1.0 ? copysign(PLUGRAD_SPECIAL_INF, x) : PLUGRAD_SPECIAL_NAN;
    double w = -log((1.0 - size) * (1.0 + size)), p;
    int steps = 1;
    if (w < 5.0) {
        p = 3.561808432918e-07;
        p = p * w - 9.406510158711e-06;
        p = p * w + 8.981545378106e-05;
        p = p * w - 2.183992516365e-04;
        p = p * w - 2.230183103397e-03;
        p = p * w + 1.148786599326e-02;
        p = p * w + 2.320277830208e-01;
        p = p * w + 8.862263780404e-01;
    } else {
        steps = 2;
        w = sqrt(w);
        p = 1.1635391068e-04;
        p = p * w - 3.2513225086e-03;
        p = p * w + 3.7540330916e-02;
        p = p * w - 2.2963168195e-01;
        p = p * w + 7.8672175663e-01;
        p = p * w - 4.2571929280e-01;
        p = p * w + 8.9404629614e-01;
    }
    double y = size * p;
    for (; steps > 0; --steps) {
        // The smaller of erf and erfc, so that the difference keeps its digits.
        const double over = size < 0.5 ? erf(y) - size : (1.0 - size) - erfc(y);
        const double u = over * exp(y * y) * 0.88622692545275801365;  // over the slope, 2 exp(-y*y) / sqrt(pi)
        y -= u / (1.0 + y * u);
    }
    return copysign(y, x);
}

// ---- sin(pi x) / (pi x) ---------------------------------------------------------------------------------------------

// Its derivative number `order`.
PLUGRAD_SPECIAL_FN double special_sinc(int order, double x) {
    const double z = PLUGRAD_SPECIAL_PI * x, size = fabs(z);
    double out, scale = 1.0;
    for (int n = 0; n < order; ++n) scale *= PLUGRAD_SPECIAL_PI;
    if (!(size < PLUGRAD_SPECIAL_INF)) return z - z;
    if (order == 0) {
        if (z == 0.0) return 1.0;
    } else if (size < 1.0 + 0.5 * order) {
        // sum over even m >= order of (-1)**(m/2) z**(m - order) / ((m + 1) (m - order)!)
        const int first = order + order % 2;
        double power = order % 2 ? z : 1.0;
        out = 0.0;
        for (int m = first; m < first + 60; m += 2) {
            out += (m % 4 ? -power : power) / (m + 1.0);
            power *= z * z / ((m - order + 1.0) * (m - order + 2.0));
            if (fabs(power) < 1e-17 * fabs(out)) break;
        }
        return scale * out;
    }
    // z f(n) + n f(n - 1) = the derivative number n of the sine, which at whole numbers is exactly 0
    const double whole = rint(x), angle = PLUGRAD_SPECIAL_PI * (x - whole);
    const double sign = 0.5 * whole == floor(0.5 * whole) ? 1.0 : -1.0;
    const double sine = sign * sin(angle), cosine = sign * cos(angle);
    const double wave[4] = {sine, cosine, -sine, -cosine};
    out = wave[0] / z;
    for (int n = 1; n <= order; ++n) out = (wave[n % 4] - n * out) / z;
    return scale * out;
}

// ---- modified Bessel functions --------------------------------------------------------------------------------------

// exp(-|x|) times the function of the first kind of this order.
PLUGRAD_SPECIAL_FN double special_bessel_scaled(int order, double x) {
    const double size = fabs(x), half = 0.5 * size, mu = 4.0 * order * order;
    double out, term = 1.0;
    if (size != size) return x;
    if (size < 20.0 + order * order) {
        for (int n = 1; n <= order; ++n) term *= half / n;
        out = term;
        for (int k = 1; k < 500 && term > 1e-17 * out; ++k) {
            term *= half * half / (k * (double)(k + order));
            out += term;
        }
        out *= exp(-size);
    } else {
        out = 1.0;
        for (int k = 1; k < 40 && fabs(term) > 1e-17; ++k) {
            term *= -(mu - (2.0 * k - 1.0) * (2.0 * k - 1.0)) / (k * 8.0 * size);
            out += term;
        }
        out /= sqrt(2.0 * PLUGRAD_SPECIAL_PI * size);
    }
    return order % 2 && x < 0.0 ? -out : out;
}

PLUGRAD_SPECIAL_FN double special_bessel(int order, double x) {
    // Two factors: exp(x) leaves the range before the product does.
    const double root = exp(0.5 * fabs(x)), scaled = special_bessel_scaled(order, x);
    return scaled == 0.0 && root > 1.0 ? (order % 2 && x < 0.0 ? -root : root) * root : scaled * root * root;
}

#endif
