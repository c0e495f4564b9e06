// Cross entropy of logits and class indices, in one pass over the logits each way (see rows.cuh).
//
// A row are the logits of one target; targets and losses lie in C order. A target that is `ignored` has loss and gradient 0,
// and so has one that is no class, where those are not looked for.
// The share `smoothing` of each target is spread evenly over all classes.
//
// Macros: those of rows.cuh, and L, the type in which losses are stored.

// outside = count - (the first row whose target is no class); it was 0.
extern "C" __global__ void __launch_bounds__(ROW_THREADS) losses(
    L *loss, u64 *outside, const T *input, const i64 *target, i64 ignored, double smoothing, Rows<1> rows
) {
    const C even_share = (C)smoothing;
    for (i64 first = (i64)blockIdx.x * BLOCK_ROWS; first < rows.count; first += (i64)gridDim.x * BLOCK_ROWS) {
        const i64 row = first + row_of_thread(), wanted = row < rows.count ? target[row] : ignored;
        const bool counts = row < rows.count && wanted != ignored, inside = wanted >= 0 && wanted < rows.length;
        const i64 length = counts && inside ? rows.length : 0;
        i64 at[1];
        begin_of_row(rows, row < rows.count ? row : 0, at);
        const T *from = input + at[0];
        C held[HELD], total = 0;
        const Exponentials found = exponentials(held, from, rows.step[0], length);
        if (smoothing != 0) {
            for (i64 chunk = 0; chunk < length; chunk += CHUNK) {
                if (length > CHUNK) fetch(held, from, rows.step[0], chunk, length, 0);
#pragma unroll
                for (int k = 0; k < HELD; ++k)
                    if (element(chunk, k) < length) total += held[k];
            }
            total = team_reduce(total, Sum());
        }
        if (row >= rows.count || place_in_team() != 0) continue;
        C value = 0;
        if (length) {
            const C scale = plugrad::isinf(found.top) ? found.top - found.top : found.top + plugrad::log(found.sum);
            value = scale - load(from[wanted * rows.step[0]]);
            if (smoothing != 0) value = (C(1) - even_share) * value + even_share * (scale - total / (C)rows.length);
        } else if (counts) atomicMax(outside, (u64)(rows.count - row));
        store(loss[row], value);
    }
}

// The gradient of the logits. `step` goes along the incoming gradients, which are divided by *divisor if `mean`.
extern "C" __global__ void __launch_bounds__(ROW_THREADS) loss_gradients(
    T *result, const T *grad, i64 step, const i64 *divisor, bool mean, const T *input, const i64 *target, i64 ignored,
    double smoothing, Rows<2> rows
) {
    const C own = C(1) - (C)smoothing, even = (C)(smoothing / (double)rows.length);
    for (i64 first = (i64)blockIdx.x * BLOCK_ROWS; first < rows.count; first += (i64)gridDim.x * BLOCK_ROWS) {
        const i64 row = first + row_of_thread(), wanted = row < rows.count ? target[row] : ignored;
        const bool counts = row < rows.count && wanted != ignored && wanted >= 0 && wanted < rows.length;
        const i64 length = row < rows.count ? rows.length : 0;
        i64 at[2];
        begin_of_row(rows, row < rows.count ? row : 0, at);
        const T *from = input + at[0];
        C held[HELD];
        const Exponentials found = exponentials(held, from, rows.step[0], length);
        C factor = counts ? load(grad[row * step]) : C(0);
        if (mean) factor /= (C)*divisor;
        for (i64 chunk = 0; chunk < length; chunk += CHUNK) {
            if (length > CHUNK) fetch(held, from, rows.step[0], chunk, length, -INF);
#pragma unroll
            for (int k = 0; k < HELD; ++k) {
                const C share = plugrad::exp(held[k] - found.top) / found.sum - even;
                held[k] = counts ? factor * (element(chunk, k) == wanted ? share - own : share) : C(0);
            }
            put(result + at[1], held, rows.step[1], chunk, length);
        }
    }
}
