// What windows took from each element of a tensor, added up: the adjoint of a strided view whose positions overlap.
//
// One thread an element. It walks through the dimensions of the view, largest stride first, and in each tries only the
// indices from which the dimensions behind can still reach the element. The order is that of the indices, so the same
// input gives the same bits. S is the type of the elements; the launcher defines it.

struct Windows {
    i64 count;                      // elements of the result
    i64 offset;                     // where the view begins, in elements of the memory behind the result
    i64 ndim;                       // dimensions of the result longer than 1
    i64 depth;                      // dimensions of the view longer than 1
    i64 shape[MAX_DIMS];            // of the result, and where its elements lie in that memory
    i64 layout[MAX_DIMS];
    i64 size[MAX_DIMS];             // of the view, largest stride first
    i64 stride[MAX_DIMS];
    i64 step[MAX_DIMS];             // between the elements of the incoming gradient
};

// The smallest and the largest index in dimension k with which `left` can still be reached; none if first > last.
__device__ void candidates(const Windows &w, const i64 *reach, int k, i64 left, i64 *first, i64 *last) {
    const i64 stride = w.stride[k], top = w.size[k] - 1;
    if (stride == 0) {
        *first = 0;
        *last = left >= 0 && left <= reach[k + 1] ? top : -1;
        return;
    }
    const i64 least = left - reach[k + 1];
    *first = least > 0 ? (least + stride - 1) / stride : 0;
    const i64 most = left >= 0 ? left / stride : -1;
    *last = most < top ? most : top;
}

extern "C" __global__ void gather_windows(S *out, const S *grad, const Windows w) {
    i64 reach[MAX_DIMS + 1];
    const int depth = (int)w.depth;
    reach[depth] = 0;
    for (int k = depth - 1; k >= 0; --k) reach[k] = reach[k + 1] + (w.size[k] - 1) * w.stride[k];

    const i64 threads = (i64)gridDim.x * blockDim.x;
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < w.count; i += threads) {
        i64 position = -w.offset, rest = i;
        for (int k = (int)w.ndim - 1; k >= 0; --k) {
            position += rest % w.shape[k] * w.layout[k];
            rest /= w.shape[k];
        }
        // The index that is tried in each dimension, the last one to try, what is left to reach, and where we read.
        i64 index[MAX_DIMS], last[MAX_DIMS], left[MAX_DIMS + 1], from[MAX_DIMS + 1];
        compute_t<S> sum = 0;
        int k = 0;
        left[0] = position;
        from[0] = 0;
        candidates(w, reach, 0, left[0], &index[0], &last[0]);
        while (k >= 0) {
            if (index[k] > last[k]) {
                --k;
                if (k >= 0) ++index[k];
                continue;
            }
            left[k + 1] = left[k] - index[k] * w.stride[k];
            from[k + 1] = from[k] + index[k] * w.step[k];
            if (k + 1 == depth) {
                sum = (compute_t<S>)(sum + load(grad[from[depth]]));
                ++index[k];
            } else {
                ++k;
                candidates(w, reach, k, left[k], &index[k], &last[k]);
            }
        }
        store(out[i], sum);
    }
}
