// Products of matrices and vectors of any strides.
//
// (a) A product is described by sizes and strides only (`Product`): a transposed operand is another pair of strides, a
//     broadcast one has stride 0, a stack has up to MAX_DIMS leading dimensions. Nothing is copied before.
// (b) T is what lies in memory, ACC what is summed up: float for half, 64-bit integers for integers.
// (c) Long inner dimensions with few results are split. Each part writes its own sums, which are added up in a fixed order:
//     the same input gives the same bits.
//
// Macros: T, ACC, TILE (results per side of a block of `product`) and PER (results per side of a thread).

struct Product {
    i64 m, n, k;                            // results are m x n, each the sum of k products
    i64 a_row, a_col, b_row, b_col, c_row, c_col;       // strides in elements
    i64 dims, shape[MAX_DIMS];              // the stack, innermost dimension first
    i64 a_stack[MAX_DIMS], b_stack[MAX_DIMS], c_stack[MAX_DIMS];
    i64 stack;                              // how many products there are
    i64 part;                               // length of a part of the inner dimension
    i64 count;                              // results of all products
    i64 bias, width;                        // stride of the bias, length of a row of the whole result; 0: there is no bias
};

struct Place { i64 a, b, c; };              // where the operands of one product begin

PLUGRAD_FN Place place_in_stack(const Product &p, i64 i) {
    Place at = {0, 0, 0};
    for (int d = 0; d < p.dims; ++d) {
        const i64 rest = i / p.shape[d], along = i - rest * p.shape[d];
        at.a += along * p.a_stack[d];
        at.b += along * p.b_stack[d];
        at.c += along * p.c_stack[d];
        i = rest;
    }
    return at;
}

// `column`: of the whole result, to which the bias belongs.
PLUGRAD_FN void finish(T *c, i64 at, ACC sum, const T *bias, i64 column, const Product &p) {
    if (p.width) sum += (ACC)load(bias[column * p.bias]);
    store(c[at], sum);
}
PLUGRAD_FN void finish(T *c, i64 at, ACC sum, const T *bias, const Product &p) {
    finish(c, at, sum, bias, p.width ? at % p.width : 0, p);
}

// ---- tiles ----------------------------------------------------------------------------------------------------------

enum {
    SIDE = TILE / PER,                      // threads per side
    THREADS = SIDE * SIDE,
    LOADS = 4,                              // elements of each operand that a thread brings
    DEPTH = THREADS * LOADS / TILE,         // of the inner dimension, at a time
    BLOCKS = PER < 8 ? 1 : 2,               // at a time on a multiprocessor, for which registers are held back
    RUN = PER < 4 ? PER : 4,                // neighbours that a thread computes
};

// How a thread brings its elements of one operand, seen as lines: rows of the left operand, columns of the right one.
// Neighbouring threads go along whatever lies together in memory.
struct Loader {
    const T *at;                            // the thread's first element of the next tile
    i64 forward, next;                      // to the next tile; to the thread's next element of a tile
    int line, step, lines;                  // the first element's place in the tile; lines that there are
    bool along;                             // neighbouring threads go along a line

    __device__ __forceinline__ Loader(const T *data, i64 first, i64 count, i64 begin, i64 line_stride, i64 step_stride) {
        along = step_stride == 1 || line_stride != 1;
        line = along ? threadIdx.x / DEPTH : threadIdx.x % TILE;
        step = along ? threadIdx.x % DEPTH : threadIdx.x / TILE;
        lines = count - first < TILE ? (int)(count - first) : TILE;
        at = data + (first + line) * line_stride + (begin + step) * step_stride;
        next = along ? THREADS / DEPTH * line_stride : THREADS / TILE * step_stride;
        forward = DEPTH * step_stride;
    }
    __device__ __forceinline__ int line_of(int u) const { return along ? line + u * (THREADS / DEPTH) : line; }
    __device__ __forceinline__ int step_of(int u) const { return along ? step : step + u * (THREADS / TILE); }

    // The elements of the next tile, in which `steps` of the inner dimension are left.
    __device__ __forceinline__ void fetch(ACC (&held)[LOADS], int steps) {
        const T *from = at;
#pragma unroll
        for (int u = 0; u < LOADS; ++u, from += next)
            held[u] = line_of(u) < lines && step_of(u) < steps ? (ACC)load(*from) : ACC(0);
        at += forward;
    }
    __device__ __forceinline__ void put(ACC (&tile)[DEPTH][TILE + 4], const ACC (&held)[LOADS]) const {
#pragma unroll
        for (int u = 0; u < LOADS; ++u) tile[step_of(u)][line_of(u)] = held[u];
    }
};

// Blocks that run at the same time share rows and columns: tiles are taken eight rows of tiles at a time.
PLUGRAD_FN void tile_of_block(const Product &p, i64 *row, i64 *column) {
    const i64 rows = (p.m + TILE - 1) / TILE, columns = (p.n + TILE - 1) / TILE;
    const i64 group = blockIdx.x / (8 * columns), within = blockIdx.x % (8 * columns);
    const i64 high = rows - group * 8 < 8 ? rows - group * 8 : 8;
    *row = (group * 8 + within % high) * TILE;
    *column = within / high * TILE;
}

// The result's row or column u of a thread.
PLUGRAD_FN int spread_over_tile(int thread, int u) { return u / RUN * (SIDE * RUN) + thread * RUN + u % RUN; }

PLUGRAD_FN int steps_left(i64 k, i64 end) { return end - k < DEPTH ? (int)(end - k) : DEPTH; }

// Split: sums go to `parts`, one after the other part; otherwise results to `c`.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) product(
    T *c, ACC *parts, const T *a, const T *b, const T *bias, Product p
) {
    __shared__ ACC left[DEPTH][TILE + 4], right[DEPTH][TILE + 4];
    const int x = threadIdx.x % SIDE, y = threadIdx.x / SIDE;
    const i64 begin = blockIdx.z * p.part, end = begin + p.part < p.k ? begin + p.part : p.k;
    i64 row, column;
    tile_of_block(p, &row, &column);

    for (i64 s = blockIdx.y; s < p.stack; s += gridDim.y) {
        const Place at = place_in_stack(p, s);
        Loader rows(a + at.a, row, p.m, begin, p.a_row, p.a_col), columns(b + at.b, column, p.n, begin, p.b_col, p.b_row);
        ACC sums[PER][PER] = {}, next_left[LOADS], next_right[LOADS];
        int steps = steps_left(begin, end);
        rows.fetch(next_left, steps);
        columns.fetch(next_right, steps);
        for (i64 k = begin; k < end; k += DEPTH) {
            rows.put(left, next_left);
            columns.put(right, next_right);
            __syncthreads();
            if (k + DEPTH < end) {                      // on its way while this tile is multiplied
                steps = steps_left(k + DEPTH, end);
                rows.fetch(next_left, steps);
                columns.fetch(next_right, steps);
            }
#pragma unroll 2
            for (int d = 0; d < DEPTH; ++d) {
                ACC u[PER], v[PER];
#pragma unroll
                for (int i = 0; i < PER; ++i) {
                    u[i] = left[d][spread_over_tile(y, i)];
                    v[i] = right[d][spread_over_tile(x, i)];
                }
#pragma unroll
                for (int i = 0; i < PER; ++i)
#pragma unroll
                    for (int j = 0; j < PER; ++j) sums[i][j] += u[i] * v[j];
            }
            __syncthreads();
        }
        const i64 part = blockIdx.z * p.count, first = at.c + row * p.c_row + column * p.c_col;
#pragma unroll
        for (int i = 0; i < PER; ++i) {
            const int r = spread_over_tile(y, i);
#pragma unroll
            for (int j = 0; j < PER; ++j) {
                const int q = spread_over_tile(x, j);
                if (row + r < p.m && column + q < p.n) {
                    const i64 to = first + r * p.c_row + q * p.c_col;
                    if (gridDim.z > 1) parts[part + to] = sums[i][j];
                    else finish(c, to, sums[i][j], bias, column + q, p);
                }
            }
        }
    }
}

// ---- a matrix and a vector ------------------------------------------------------------------------------------------

// n is 1. The rows lie in one piece each: a warp computes one result. Blocks of 128 threads.
extern "C" __global__ void rows_by_vector(T *c, ACC *parts, const T *a, const T *b, const T *bias, Product p) {
    const int lane = threadIdx.x % 32;
    const i64 row = (i64)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    const i64 begin = blockIdx.z * p.part, end = begin + p.part < p.k ? begin + p.part : p.k;
    if (row >= p.m) return;                 // the whole warp
    for (i64 s = blockIdx.y; s < p.stack; s += gridDim.y) {
        const Place at = place_in_stack(p, s);
        const T *line = a + at.a + row * p.a_row, *vector = b + at.b;
        ACC sum = 0;
        for (i64 k = begin + lane; k < end; k += 32) sum += (ACC)load(line[k * p.a_col]) * (ACC)load(vector[k * p.b_row]);
        sum = warp_reduce(sum, Sum());
        const i64 to = at.c + row * p.c_row;
        if (lane == 0) {
            if (gridDim.z > 1) parts[blockIdx.z * p.count + to] = sum;
            else finish(c, to, sum, bias, p);
        }
    }
}

// n is 1. Neighbouring rows lie together: 32 of them side by side, eight threads share each. Blocks of 256 threads.
extern "C" __global__ void columns_by_vector(T *c, ACC *parts, const T *a, const T *b, const T *bias, Product p) {
    __shared__ ACC shared[8][33];
    const int x = threadIdx.x % 32, y = threadIdx.x / 32;
    const i64 row = (i64)blockIdx.x * 32 + x;
    const i64 begin = blockIdx.z * p.part, end = begin + p.part < p.k ? begin + p.part : p.k;
    for (i64 s = blockIdx.y; s < p.stack; s += gridDim.y) {
        const Place at = place_in_stack(p, s);
        ACC sum = 0;
        if (row < p.m)
            for (i64 k = begin + y; k < end; k += 8)
                sum += (ACC)load(a[at.a + row * p.a_row + k * p.a_col]) * (ACC)load(b[at.b + k * p.b_row]);
        shared[y][x] = sum;
        __syncthreads();
        if (y == 0 && row < p.m) {
            for (int other = 1; other < 8; ++other) sum += shared[other][x];
            const i64 to = at.c + row * p.c_row;
            if (gridDim.z > 1) parts[blockIdx.z * p.count + to] = sum;
            else finish(c, to, sum, bias, p);
        }
        __syncthreads();
    }
}

// ---- parts ----------------------------------------------------------------------------------------------------------

extern "C" __global__ void add_parts(T *c, const ACC *parts, const T *bias, i64 many, Product p) {
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < p.count; i += (i64)gridDim.x * blockDim.x) {
        ACC sum = parts[i];
        for (i64 s = 1; s < many; ++s) sum += parts[s * p.count + i];
        finish(c, i, sum, bias, p);
    }
}

// Every row of the result is the bias, for a product that adds to what is there.
extern "C" __global__ void fill_rows(T *c, const T *bias, i64 step, i64 width, i64 count) {
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (i64)gridDim.x * blockDim.x)
        c[i] = bias[i % width * step];
}
