// Eigenvalues of symmetric matrices and singular values, by Jacobi's rotations.
//
// (a) A block works on one matrix after another. Each sweep rotates every pair of rows once, in rounds of disjoint pairs (the
//     schedule of a tournament), so that a round's rotations are made at the same time.
// (b) A matrix is scaled by its largest element first, so that no square overflows.
// (c) info is 0, or 1 where the sweeps did not end, which infinities and NaN bring about.
//
// Macro: T, float or double.

#define EACH(i, first, end) for (i64 i = (first) + threadIdx.x; i < (end); i += blockDim.x)

enum { WARPS = 32, SWEEPS = 60 };

PLUGRAD_FN constexpr T epsilon() { return sizeof(T) == 4 ? T(1.1920929e-07) : T(2.220446049250313e-16); }

// Players of a round: the last one stays, the others move on by one place each round.
PLUGRAD_FN void players(i64 n, i64 round, i64 pair, i64 *p, i64 *q) {
    const i64 even = n + n % 2, circle = even - 1;
    i64 a = pair == 0 ? circle : (round + pair) % circle, b = (round + circle - pair) % circle;
    if (pair == 0) b = round % circle;
    *p = a < b ? a : b;
    *q = a < b ? b : a;                     // n itself: there is none, the other one pauses
}

struct Rotation { T c, s, t; };

// The rotation that makes the element between two diagonal ones, of sizes a and b, zero.
PLUGRAD_FN Rotation rotation(T a, T b, T between) {
    Rotation r = {T(1), T(0), T(0)};
    if (between != T(0)) {
        const T slope = (b - a) / (T(2) * between);
        r.t = (slope >= T(0) ? T(1) : T(-1)) / (plugrad::abs(slope) + plugrad::hypot(T(1), slope));
        r.c = plugrad::rsqrt(T(1) + r.t * r.t);
        r.s = r.t * r.c;
    }
    return r;
}

// Divides a matrix by its largest element in size, which is returned: 1 where there is none, NaN if one is not finite.
PLUGRAD_FN T scale_down(T *a, i64 size, T *shared) {
    T top = 0;
    EACH(e, 0, size) top = nan_max(top, plugrad::abs(a[e]));
    top = block_reduce(top, Max(), shared);
    if (top == T(0)) return T(1);
    if (!plugrad::isfinite(top)) return T(NAN);
    EACH(e, 0, size) a[e] /= top;
    __syncthreads();
    return top;
}

// ---- symmetric matrices ---------------------------------------------------------------------------------------------

// The sum of squares on the diagonal, or off it.
PLUGRAD_FN T squares(const T *a, i64 n, bool diagonal, T *shared) {
    T sum = 0;
    EACH(e, 0, n * n) if ((e / n == e % n) == diagonal) sum += a[e] * a[e];
    return block_reduce(sum, Sum(), shared);
}

// Whole matrices, which are overwritten; `turned` and `rotations` are room to work in, of their size and of n/2 each.
extern "C" __global__ void eigh(
    T *values, T *vectors, int *info, T *matrices, T *turned, Rotation *rotations, i64 count, i64 n
) {
    __shared__ T shared[WARPS];
    const i64 pairs = (n + 1) / 2, rounds = n + n % 2 - 1;
    for (i64 s = blockIdx.x; s < count; s += gridDim.x) {
        T *a = matrices + s * n * n, *v = turned + s * n * n;       // v: eigenvectors are its rows
        Rotation *own = rotations + s * pairs;
        const T scale = scale_down(a, n * n, shared);
        EACH(e, 0, n * n) v[e] = e / n == e % n ? T(1) : T(0);
        int sweep = plugrad::isfinite(scale) ? 0 : (int)SWEEPS;
        for (; sweep < SWEEPS; ++sweep) {
            const T off = squares(a, n, false, shared), on = squares(a, n, true, shared);
            if (off <= square(epsilon()) * on) break;
            for (i64 round = 0; round < rounds; ++round) {
                i64 p, q;
                EACH(i, 0, pairs) {
                    players(n, round, i, &p, &q);
                    if (q < n) own[i] = rotation(a[p * n + p], a[q * n + q], a[p * n + q]);
                }
                __syncthreads();
                EACH(e, 0, pairs * n) {                             // rows, of the eigenvectors too
                    players(n, round, e / n, &p, &q);
                    if (q >= n) continue;
                    const i64 j = e % n;
                    const Rotation r = own[e / n];
                    const T x = a[p * n + j], y = a[q * n + j], u = v[p * n + j], w = v[q * n + j];
                    a[p * n + j] = r.c * x - r.s * y;
                    a[q * n + j] = r.s * x + r.c * y;
                    v[p * n + j] = r.c * u - r.s * w;
                    v[q * n + j] = r.s * u + r.c * w;
                }
                __syncthreads();
                EACH(e, 0, pairs * n) {                             // columns
                    players(n, round, e % pairs, &p, &q);
                    if (q >= n) continue;
                    const i64 i = e / pairs;
                    const Rotation r = own[e % pairs];
                    const T x = a[i * n + p], y = a[i * n + q];
                    a[i * n + p] = i == q ? T(0) : r.c * x - r.s * y;
                    a[i * n + q] = i == p ? T(0) : r.s * x + r.c * y;
                }
                __syncthreads();
            }
        }
        const bool failed = sweep == SWEEPS;
        EACH(i, 0, n) {                                             // in ascending order
            const T value = a[i * n + i];
            i64 rank = failed ? i : 0;
            for (i64 j = 0; j < n && !failed; ++j) {
                const T other = a[j * n + j];
                rank += other < value || (other == value && j < i);
            }
            values[s * n + rank] = value * scale;
            for (i64 j = 0; j < n; ++j) vectors[s * n * n + j * n + rank] = v[i * n + j];
        }
        if (threadIdx.x == 0) info[s] = failed;
        __syncthreads();
    }
}

// ---- singular values ------------------------------------------------------------------------------------------------

// One-sided: the rows of W, the transpose of a square matrix A, are rotated until each is orthogonal to all others. Their
// lengths are the singular values, the rotations the right singular vectors V. `matrices` (W) is overwritten; `turned` and
// `lengths` are room to work in, of its size and of n each. `products` is A V, but for the scale, largest column first.
extern "C" __global__ void svd(
    T *products, T *values, T *vectors, int *info, T *matrices, T *turned, T *lengths, i64 count, i64 n
) {
    __shared__ T shared[WARPS];
    __shared__ int moved;
    const i64 pairs = (n + 1) / 2, rounds = n + n % 2 - 1;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    const T tolerance = epsilon() * plugrad::sqrt(T(n));
    for (i64 s = blockIdx.x; s < count; s += gridDim.x) {
        T *w = matrices + s * n * n, *v = turned + s * n * n;
        const T scale = scale_down(w, n * n, shared);
        EACH(e, 0, n * n) v[e] = e / n == e % n ? T(1) : T(0);
        int sweep = plugrad::isfinite(scale) ? 0 : (int)SWEEPS;
        for (; sweep < SWEEPS; ++sweep) {
            __syncthreads();
            if (threadIdx.x == 0) moved = 0;
            __syncthreads();
            for (i64 round = 0; round < rounds; ++round) {
                for (i64 i = warp; i < pairs; i += warps) {
                    i64 p, q;
                    players(n, round, i, &p, &q);
                    if (q >= n) continue;                           // the whole warp
                    T *x = w + p * n, *y = w + q * n, *t = v + p * n, *u = v + q * n, a = 0, b = 0, between = 0;
                    for (i64 j = lane; j < n; j += 32) {
                        a += x[j] * x[j];
                        b += y[j] * y[j];
                        between += x[j] * y[j];
                    }
                    a = warp_reduce(a, Sum()), b = warp_reduce(b, Sum()), between = warp_reduce(between, Sum());
                    if (!(plugrad::abs(between) > tolerance * plugrad::sqrt(a) * plugrad::sqrt(b))) continue;
                    if (lane == 0) atomicOr(&moved, 1);
                    const Rotation r = rotation(a, b, between);
                    for (i64 j = lane; j < n; j += 32) {
                        const T k = x[j], l = y[j], g = t[j], h = u[j];
                        x[j] = r.c * k - r.s * l;
                        y[j] = r.s * k + r.c * l;
                        t[j] = r.c * g - r.s * h;
                        u[j] = r.s * g + r.c * h;
                    }
                }
                __syncthreads();
            }
            if (!moved) break;
        }
        __syncthreads();
        const bool failed = sweep == SWEEPS;
        T *own = lengths + s * n;
        EACH(i, 0, n) {
            T sum = 0;
            for (i64 j = 0; j < n; ++j) sum += square(w[i * n + j]);
            own[i] = plugrad::sqrt(sum);
        }
        __syncthreads();
        for (i64 i = warp; i < n; i += warps) {                     // in descending order
            i64 rank = failed ? i : 0;
            for (i64 j = 0; j < n && !failed; ++j) rank += own[j] > own[i] || (own[j] == own[i] && j < i);
            if (lane == 0) values[s * n + rank] = own[i] * scale;
            for (i64 j = lane; j < n; j += 32) {
                vectors[s * n * n + rank * n + j] = v[i * n + j];
                products[s * n * n + j * n + rank] = w[i * n + j];
            }
        }
        if (threadIdx.x == 0) info[s] = failed;
        __syncthreads();
    }
}
