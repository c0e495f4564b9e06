// Sparse linear maps along up to three dimensions at once: a thread adds up all that one output is made of.
//
// `places` holds the maps' offsets and taps, `factors` their weights and divisors; `Maps` says where those of each
// dimension begin. Macros: T, the type of an element; I, in which elements are counted.

struct Maps { i64 size[3], out[3], offsets[3], taps[3], weights[3], divisors[3]; };

extern "C" __global__ void resample(T *out, const T *input, const i64 *places, const double *factors, Maps m, i64 count) {
    typedef compute_t<T> C;
    const I plane = (I)(m.size[0] * m.size[1] * m.size[2]);
    for (i64 at = (i64)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += (i64)gridDim.x * blockDim.x) {
        I rest = (I)at;
        i64 first[3], last[3];
        C divisor = 1;
#pragma unroll
        for (int d = 2; d >= 0; --d) {
            const I i = rest % (I)m.out[d];
            rest /= (I)m.out[d];
            first[d] = places[m.offsets[d] + i];
            last[d] = places[m.offsets[d] + i + 1];
            divisor *= (C)factors[m.divisors[d] + i];
        }
        const T *from = input + (i64)rest * plane;
        C sum = 0;
        for (i64 a = first[0]; a < last[0]; ++a) {
            const i64 slab = places[m.taps[0] + a] * m.size[1];
            const C slab_weight = (C)factors[m.weights[0] + a];
            for (i64 b = first[1]; b < last[1]; ++b) {
                const i64 line = (slab + places[m.taps[1] + b]) * m.size[2];
                const C line_weight = slab_weight * (C)factors[m.weights[1] + b];
                for (i64 e = first[2]; e < last[2]; ++e)
                    sum += load(from[line + places[m.taps[2] + e]]) * (line_weight * (C)factors[m.weights[2] + e]);
            }
        }
        store(out[at], sum / divisor);
    }
}
