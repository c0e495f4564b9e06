// Normalisation of rows, forward and backward: one pass over memory for rows that fit the registers of a team (see rows.cuh).
//
// (a) Statistics are those of the whole row, in two steps: the mean, then the squares of what is left without it. The mean
//     of that corrects the rounding of the first, which would otherwise show where a mean is large.
// (b) Element e of row r has the weight number (r % groups) * channels + e / span.
// (c) The gradients of weights are sums over rows. They are another kernel's work, for which `statistics` is kept.
//
// Macros: those of rows.cuh.

struct Affine { i64 groups, channels, span; };

PLUGRAD_FN i64 channel(const Affine &the, i64 row, i64 e) {
    const i64 run = the.span == 1 ? e : e <= 0x7fffffff ? (i64)((unsigned)e / (unsigned)the.span) : e / the.span;
    return row % the.groups * the.channels + run;
}

struct Statistics { C high, low, rstd; };   // the mean is high + low

// `held` keeps the row's last chunk.
PLUGRAD_FN Statistics statistics(C (&held)[HELD], const T *row, i64 step, i64 length, double eps, bool centered) {
    Statistics found = {0, 0, 0};
    if (centered) {
        C total = 0;
        for (i64 chunk = 0; chunk < length; chunk += CHUNK) {
            fetch(held, row, step, chunk, length, 0);
#pragma unroll
            for (int k = 0; k < HELD; ++k) total += held[k];
        }
        found.high = team_reduce(total, Sum()) / (C)length;
    }
    C rest = 0, squares = 0;
    for (i64 chunk = 0; chunk < length; chunk += CHUNK) {
        if (length > CHUNK || !centered) fetch(held, row, step, chunk, length, 0);
#pragma unroll
        for (int k = 0; k < HELD; ++k) {
            const C d = element(chunk, k) < length ? held[k] - found.high : C(0);
            rest += d;
            squares += d * d;
        }
    }
    if (centered) found.low = team_reduce(rest, Sum()) / (C)length;
    const C variance = team_reduce(squares, Sum()) / (C)length - found.low * found.low;
    found.rstd = C(1) / plugrad::sqrt((variance < C(0) ? C(0) : variance) + (C)eps);
    return found;
}

extern "C" __global__ void __launch_bounds__(ROW_THREADS) normalize(
    T *out, const T *input, const T *weight, const T *bias, Affine affine, double eps, bool centered, Rows<2> rows
) {
    for (i64 first = (i64)blockIdx.x * BLOCK_ROWS; first < rows.count; first += (i64)gridDim.x * BLOCK_ROWS) {
        const i64 row = first + row_of_thread(), length = row < rows.count ? rows.length : 0;
        i64 at[2];
        begin_of_row(rows, row < rows.count ? row : 0, at);
        C held[HELD];
        const Statistics found = statistics(held, input + at[0], rows.step[0], length, eps, centered);
        for (i64 chunk = 0; chunk < length; chunk += CHUNK) {
            if (length > CHUNK) fetch(held, input + at[0], rows.step[0], chunk, length, 0);
#pragma unroll
            for (int k = 0; k < HELD; ++k) {
                const i64 e = element(chunk, k);
                if (e >= length) continue;
                C y = (held[k] - found.high - found.low) * found.rstd;
                if (weight || bias) {
                    const i64 c = channel(affine, row, e);
                    if (weight) y *= load(weight[c]);
                    if (bias) y += load(bias[c]);
                }
                held[k] = y;
            }
            put(out + at[1], held, rows.step[1], chunk, length);
        }
    }
}

// `result` may be null; `kept` are the statistics of all rows: means, their corrections, and reciprocal deviations.
extern "C" __global__ void __launch_bounds__(ROW_THREADS) gradients(
    T *result, const T *grad, const T *input, const T *weight, C *kept, Affine affine, double eps, bool centered,
    Rows<3> rows
) {
    for (i64 first = (i64)blockIdx.x * BLOCK_ROWS; first < rows.count; first += (i64)gridDim.x * BLOCK_ROWS) {
        const i64 row = first + row_of_thread(), length = row < rows.count ? rows.length : 0;
        i64 at[3];
        begin_of_row(rows, row < rows.count ? row : 0, at);
        C g[HELD], x[HELD];
        const Statistics found = statistics(x, input + at[1], rows.step[1], length, eps, centered);
        if (kept && length && place_in_team() == 0) {
            kept[row] = found.high;
            kept[rows.count + row] = found.low;
            kept[2 * rows.count + row] = found.rstd;
        }
        C sum = 0, product = 0;
        for (int turn = 0; turn < 2; ++turn) {          // the sums, then what they are for
            for (i64 chunk = 0; chunk < length; chunk += CHUNK) {
                if (turn == 0 || length > CHUNK) {
                    if (length > CHUNK) fetch(x, input + at[1], rows.step[1], chunk, length, 0);
                    fetch(g, grad + at[0], rows.step[0], chunk, length, 0);
#pragma unroll
                    for (int k = 0; k < HELD; ++k) {
                        const i64 e = element(chunk, k);
                        if (e >= length) x[k] = found.high + found.low;
                        else if (weight) g[k] *= load(weight[channel(affine, row, e)]);
                        x[k] = (x[k] - found.high - found.low) * found.rstd;
                    }
                }
#pragma unroll
                for (int k = 0; k < HELD; ++k) {
                    if (turn == 0) {
                        sum += g[k];
                        product += g[k] * x[k];
                    } else g[k] = (g[k] - sum - x[k] * product) * found.rstd;
                }
                if (turn == 1) put(result + at[2], g, rows.step[2], chunk, length);
            }
            if (turn == 1) break;
            sum = centered ? team_reduce(sum, Sum()) / (C)length : C(0);
            product = team_reduce(product, Sum()) / (C)length;
            if (!result) break;
        }
    }
}
