// Softmax and its logarithm, forward and backward: one pass over memory for rows that fit the registers of a team
// (see rows.cuh).
//
// Macros: those of rows.cuh, and LOG: whether it is the logarithm.

extern "C" __global__ void __launch_bounds__(ROW_THREADS) softmax_forward(T *out, const T *input, Rows<2> rows) {
    for (i64 first = (i64)blockIdx.x * BLOCK_ROWS; first < rows.count; first += (i64)gridDim.x * BLOCK_ROWS) {
        const i64 row = first + row_of_thread(), length = row < rows.count ? rows.length : 0;
        i64 at[2];
        begin_of_row(rows, row < rows.count ? row : 0, at);
        const T *from = input + at[0];
        T *to = out + at[1];
        C held[HELD];
        const Exponentials found = exponentials(held, from, rows.step[0], length);
        const C scale = LOG ? plugrad::log(found.sum) : found.sum;
        for (i64 chunk = 0; chunk < length; chunk += CHUNK) {
            if (length > CHUNK) fetch(held, from, rows.step[0], chunk, length, -INF);
#pragma unroll
            for (int k = 0; k < HELD; ++k) {
                const C x = held[k] - found.top;
                held[k] = LOG ? x - scale : plugrad::exp(x) / scale;
            }
            put(to, held, rows.step[1], chunk, length);
        }
    }
}

extern "C" __global__ void __launch_bounds__(ROW_THREADS) softmax_backward(
    T *result, const T *grad, const T *out, Rows<3> rows
) {
    for (i64 first = (i64)blockIdx.x * BLOCK_ROWS; first < rows.count; first += (i64)gridDim.x * BLOCK_ROWS) {
        const i64 row = first + row_of_thread(), length = row < rows.count ? rows.length : 0;
        i64 at[3];
        begin_of_row(rows, row < rows.count ? row : 0, at);
        C g[HELD], y[HELD], sum = 0;
        for (i64 chunk = 0; chunk < length; chunk += CHUNK) {
            fetch(g, grad + at[0], rows.step[0], chunk, length, 0);
            fetch(y, out + at[1], rows.step[1], chunk, length, 0);
#pragma unroll
            for (int k = 0; k < HELD; ++k) sum += LOG ? g[k] : g[k] * y[k];
        }
        sum = team_reduce(sum, Sum());
        for (i64 chunk = 0; chunk < length; chunk += CHUNK) {
            if (length > CHUNK) {
                fetch(g, grad + at[0], rows.step[0], chunk, length, 0);
                fetch(y, out + at[1], rows.step[1], chunk, length, 0);
            }
#pragma unroll
            for (int k = 0; k < HELD; ++k) g[k] = LOG ? g[k] - plugrad::exp(y[k]) * sum : g[k] * y[k] - y[k] * sum;
            put(result + at[2], g, rows.step[2], chunk, length);
        }
    }
}
