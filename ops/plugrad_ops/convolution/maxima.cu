// Maxima over windows, and the gradient: each element gathers from the windows that may have chosen it, in their order.
//
// `ends` holds, for the three dimensions one after the other, a pair of numbers for each window (its first element and the
// one behind its last), or for each element (the first window that reaches it and the one behind the last).
// Macros: T, the type of an element; I, in which elements are counted.

struct Spans { i64 size[3], out[3], step[3], begin[3]; };

extern "C" __global__ void maxima(T *values, i64 *indices, const T *input, const i64 *ends, Spans s, i64 count) {
    const i64 plane = s.size[0] * s.size[1] * s.size[2];
    for (i64 at = (i64)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += (i64)gridDim.x * blockDim.x) {
        I rest = (I)at;
        i64 first[3], last[3];
#pragma unroll
        for (int d = 2; d >= 0; --d) {
            const I i = rest % (I)s.out[d];
            rest /= (I)s.out[d];
            first[d] = ends[s.begin[d] + 2 * i];
            last[d] = ends[s.begin[d] + 2 * i + 1];
        }
        const T *from = input + rest * plane;
        i64 best = (first[0] * s.size[1] + first[1]) * s.size[2] + first[2];
        compute_t<T> top = load(from[best]);
        for (i64 a = first[0]; a < last[0]; a += s.step[0])
            for (i64 b = first[1]; b < last[1]; b += s.step[1])
                for (i64 e = first[2]; e < last[2]; e += s.step[2]) {
                    const i64 place = (a * s.size[1] + b) * s.size[2] + e;
                    const compute_t<T> x = load(from[place]);
                    if (x > top || x != x) top = x, best = place;
                }
        store(values[at], top);
        indices[at] = best;
    }
}

extern "C" __global__ void maxima_backward(
    T *out, const T *grad, const i64 *indices, const i64 *ends, Spans s, i64 count
) {
    const I plane = (I)(s.size[0] * s.size[1] * s.size[2]);
    const i64 windows = s.out[0] * s.out[1] * s.out[2];
    for (i64 at = (i64)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += (i64)gridDim.x * blockDim.x) {
        const I image = (I)at / plane, place = (I)at - image * plane;
        I rest = place;
        i64 first[3], last[3];
#pragma unroll
        for (int d = 2; d >= 0; --d) {
            const I i = rest % (I)s.size[d];
            rest /= (I)s.size[d];
            first[d] = ends[s.begin[d] + 2 * i];
            last[d] = ends[s.begin[d] + 2 * i + 1];
        }
        compute_t<T> sum = 0;
        for (i64 a = first[0]; a < last[0]; ++a)
            for (i64 b = first[1]; b < last[1]; ++b)
                for (i64 e = first[2]; e < last[2]; ++e) {
                    const i64 window = image * windows + (a * s.out[1] + b) * s.out[2] + e;
                    if (indices[window] == place) sum += load(grad[window]);
                }
        store(out[at], sum);
    }
}
