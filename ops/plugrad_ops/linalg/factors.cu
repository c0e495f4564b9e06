// Factorisations of matrices and triangular systems.
//
// (a) A block factors one matrix, in place, after another. Matrices lie one after another in C order. That is made for many
//     small matrices; a single large one occupies one multiprocessor.
// (b) Neighbouring threads go along a row.
// (c) Sums are made in a fixed order: the same input gives the same bits.
//
// Macro: T, float or double.

#define EACH(i, first, end) for (i64 i = (first) + threadIdx.x; i < (end); i += blockDim.x)

enum { WARPS = 32 };                        // room for what each warp of a block found

// ---- LU with partial pivoting, as LAPACK's getrf --------------------------------------------------------------------

struct Candidate { T size; int row; };
struct Leading {
    __device__ __forceinline__ Candidate operator()(Candidate a, Candidate b) const {
        return leads_max(a.size, a.row, b.size, b.row) ? a : b;
    }
};

// Row k was exchanged with row pivots[k], both counted from 1 as LAPACK does; info is the first pivot that is zero, or 0.
extern "C" __global__ void lu(T *matrices, int *pivots, int *info, i64 count, i64 m, i64 n) {
    __shared__ Candidate shared[WARPS];
    const i64 steps = m < n ? m : n;
    for (i64 s = blockIdx.x; s < count; s += gridDim.x) {
        T *a = matrices + s * m * n;
        int zero = 0;
        for (i64 k = 0; k < steps; ++k) {
            Candidate best = {T(-1), (int)m};
            EACH(i, k, m) {
                const Candidate own = {plugrad::abs(a[i * n + k]), (int)i};
                best = Leading()(best, own);
            }
            best = block_reduce(best, Leading(), shared);
            __syncthreads();                // everybody has read the column
            if (best.row != k)
                EACH(j, 0, n) {
                    const T held = a[k * n + j];
                    a[k * n + j] = a[best.row * n + j];
                    a[best.row * n + j] = held;
                }
            if (threadIdx.x == 0) pivots[s * steps + k] = best.row + 1;
            __syncthreads();
            if (best.size == T(0)) {
                if (!zero) zero = (int)k + 1;
                continue;
            }
            const T pivot = a[k * n + k];
            EACH(i, k + 1, m) a[i * n + k] /= pivot;
            __syncthreads();
            const i64 width = n - k - 1;
            EACH(e, 0, (m - k - 1) * width) {
                const i64 i = k + 1 + e / width, j = k + 1 + e % width;
                a[i * n + j] -= a[i * n + k] * a[k * n + j];
            }
            __syncthreads();
        }
        if (threadIdx.x == 0) info[s] = zero;
        __syncthreads();
    }
}

// order[i]: which row comes to place i once all exchanges are made; `inverse`: to which place row i comes.
extern "C" __global__ void lu_permutation(i64 *order, i64 *scratch, const int *pivots, i64 count, i64 steps, i64 rows, bool inverse) {
    for (i64 s = (i64)blockIdx.x * blockDim.x + threadIdx.x; s < count; s += (i64)gridDim.x * blockDim.x) {
        i64 *own = (inverse ? scratch : order) + s * rows;
        for (i64 i = 0; i < rows; ++i) own[i] = i;
        for (i64 k = 0; k < steps; ++k) {
            const i64 other = pivots[s * steps + k] - 1, held = own[k];
            own[k] = own[other];
            own[other] = held;
        }
        if (inverse)
            for (i64 i = 0; i < rows; ++i) order[s * rows + own[i]] = i;
    }
}

// ---- Cholesky -------------------------------------------------------------------------------------------------------

// Reads the lower triangle. info is the order of the first leading minor that is not positive, or 0; then L is NaN.
extern "C" __global__ void cholesky(T *matrices, int *info, i64 count, i64 n) {
    for (i64 s = blockIdx.x; s < count; s += gridDim.x) {
        T *a = matrices + s * n * n;
        int failed = 0;
        for (i64 k = 0; k < n && !failed; ++k) {
            const T square = a[k * n + k], root = plugrad::sqrt(square);
            if (!(square > T(0))) failed = (int)k + 1;
            __syncthreads();                // everybody has read the diagonal
            EACH(i, k, n) a[i * n + k] = i == k ? root : a[i * n + k] / root;
            __syncthreads();
            const i64 width = n - k - 1;
            EACH(e, 0, width * width) {
                const i64 i = k + 1 + e / width, j = k + 1 + e % width;
                if (j <= i) a[i * n + j] -= a[i * n + k] * a[j * n + k];
            }
            __syncthreads();
        }
        EACH(e, 0, n * n)
            if (e % n > e / n) a[e] = T(0);
            else if (failed) a[e] = T(NAN);
        if (threadIdx.x == 0) info[s] = failed;
        __syncthreads();
    }
}

// ---- triangular systems ---------------------------------------------------------------------------------------------

struct Triangular {
    i64 count, n, width;                    // systems, unknowns, right-hand sides of each
    i64 a_stack, a_row, a_col;              // strides of the triangles, in elements
    i64 x_row, x_col;                       // and of the right-hand sides, over which the solutions are written
    i64 upper, unit;
    i64 lanes;                              // neighbouring threads that share a right-hand side: 1, or 32
};

extern "C" __global__ void solve_triangular(T *x, const T *matrices, Triangular p) {
    const i64 thread = (i64)blockIdx.x * blockDim.x + threadIdx.x, lane = thread % p.lanes;
    const i64 threads = (i64)gridDim.x * blockDim.x;
    for (i64 line = thread / p.lanes; line < p.count * p.width; line += threads / p.lanes) {
        const T *a = matrices + line / p.width * p.a_stack;
        T *own = x + line / p.width * p.n * p.width + line % p.width * p.x_col;
        for (i64 step = 0; step < p.n; ++step) {
            const i64 i = p.upper ? p.n - 1 - step : step;
            T sum = 0;
            for (i64 j = lane; j < step; j += p.lanes) {
                const i64 known = p.upper ? p.n - 1 - j : j;
                sum += a[i * p.a_row + known * p.a_col] * own[known * p.x_row];
            }
            if (p.lanes > 1) sum = warp_reduce(sum, Sum());
            if (lane == 0) {
                const T rest = own[i * p.x_row] - sum;
                own[i * p.x_row] = p.unit ? rest : rest / a[i * (p.a_row + p.a_col)];
            }
            if (p.lanes > 1) __syncwarp();
        }
    }
}

// ---- QR by Householder's reflections, with the signs of LAPACK's geqrf ----------------------------------------------

// R on and above the diagonal, the reflections' vectors below it; their first elements are 1.
extern "C" __global__ void reflect(T *matrices, T *factors, i64 count, i64 m, i64 n) {
    __shared__ T shared[WARPS];
    const i64 steps = m < n ? m : n;
    for (i64 s = blockIdx.x; s < count; s += gridDim.x) {
        T *a = matrices + s * m * n;
        for (i64 k = 0; k < steps; ++k) {
            T top = 0, sum = 0;             // the largest element is taken out, so that no square overflows
            EACH(i, k + 1, m) top = nan_max(top, plugrad::abs(a[i * n + k]));
            top = block_reduce(top, Max(), shared);
            const T alpha = a[k * n + k], scale = top > T(0) ? top : T(1);
            EACH(i, k + 1, m) sum += square(a[i * n + k] / scale);
            sum = block_reduce(sum, Sum(), shared);
            const T length = plugrad::hypot(alpha, scale * plugrad::sqrt(sum));
            const T beta = alpha >= T(0) ? -length : length, tau = top == T(0) ? T(0) : (beta - alpha) / beta;
            __syncthreads();
            if (top != T(0)) {
                EACH(i, k, m) a[i * n + k] = i == k ? beta : a[i * n + k] / (alpha - beta);
                __syncthreads();
                EACH(j, k + 1, n) {
                    T dot = a[k * n + j];
                    for (i64 i = k + 1; i < m; ++i) dot += a[i * n + k] * a[i * n + j];
                    dot *= tau;
                    a[k * n + j] -= dot;
                    for (i64 i = k + 1; i < m; ++i) a[i * n + j] -= dot * a[i * n + k];
                }
            }
            if (threadIdx.x == 0) factors[s * steps + k] = tau;
            __syncthreads();
        }
    }
}

// The first p columns of Q, and the first p rows of R.
extern "C" __global__ void unfold(T *q, T *r, const T *matrices, const T *factors, i64 count, i64 m, i64 n, i64 p, bool only_r) {
    const i64 steps = m < n ? m : n;
    for (i64 s = blockIdx.x; s < count; s += gridDim.x) {
        const T *a = matrices + s * m * n, *tau = factors + s * steps;
        EACH(e, 0, p * n) r[s * p * n + e] = e % n >= e / n ? a[e] : T(0);
        if (only_r) continue;
        EACH(j, 0, p) {                     // a thread makes a whole column
            T *column = q + s * m * p + j;
            for (i64 i = 0; i < m; ++i) column[i * p] = i == j ? T(1) : T(0);
            for (i64 k = steps - 1; k >= 0; --k) {
                T dot = column[k * p];
                for (i64 i = k + 1; i < m; ++i) dot += a[i * n + k] * column[i * p];
                dot *= tau[k];
                column[k * p] -= dot;
                for (i64 i = k + 1; i < m; ++i) column[i * p] -= dot * a[i * n + k];
            }
        }
    }
}
