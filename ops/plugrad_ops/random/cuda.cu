// Category of each uniform number: where it falls among the running sums of its row.
extern "C" __global__ void pick(i64 *out, const double *sums, const double *points, i64 rows, i64 categories, i64 count) {
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < rows * count; i += (i64)gridDim.x * blockDim.x) {
        const double *row = sums + i / count * categories;
        const double total = row[categories - 1], point = points[i] * total;
        i64 low = 0, high = categories - 1;
        while (low < high) {
            const i64 middle = (low + high) / 2;
            // The last category that has a share is not passed, whatever rounding did.
            if (row[middle] > point || row[middle] >= total) high = middle;
            else low = middle + 1;
        }
        out[i] = low;
    }
}
