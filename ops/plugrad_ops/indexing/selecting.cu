// Finding: the positions of elements that are not zero, and the places of values in sorted rows.
//
// T: the type of what is searched.

struct Shape {
    i64 ndim, count;                        // dimensions and elements
    i64 step[MAX_DIMS];                     // elements between neighbours, in C order
};

// rank: how many elements up to each one are chosen. Every chosen one writes its coordinates in the row of its rank.
extern "C" __global__ void coordinates(i64 *out, const bool *chosen, const i64 *rank, const Shape shape) {
    const i64 threads = (i64)gridDim.x * blockDim.x;
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < shape.count; i += threads) {
        if (!chosen[i]) continue;
        i64 *row = out + (rank[i] - 1) * shape.ndim, rest = i;
        for (int d = 0; d < (int)shape.ndim; ++d) {
            row[d] = rest / shape.step[d];
            rest %= shape.step[d];
        }
    }
}

// Whether an element of a sorted row stands before a value; NaN is the greatest.
PLUGRAD_FN bool stands_before(compute_t<T> there, compute_t<T> value, bool right) {
    const bool none = value != value;
    if (none) return right || there == there;
    return right ? there <= value : there < value;
}

// `width` values are searched in each row of `length`; with one row for all, `width` is the number of values.
extern "C" __global__ void search(
    i64 *out, const T *rows, const T *values, const i64 count, const i64 length, const i64 width, const bool right
) {
    const i64 threads = (i64)gridDim.x * blockDim.x;
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += threads) {
        const T *row = rows + i / width * length;
        const compute_t<T> value = load(values[i]);
        i64 low = 0, high = length;
        while (low < high) {
            const i64 middle = low + (high - low) / 2;
            if (stands_before(load(row[middle]), value, right)) low = middle + 1;
            else high = middle;
        }
        out[i] = low;
    }
}
