// Sorting rows: a bitonic network over (key, index) pairs. In front of this text: X, the type of keys.
//
// (a) Pairs are never equal, since their indices differ: the result is the one stable order, whatever the network does.
// (b) NaN counts as the greatest key. Rows are filled up to a power of two with pairs whose index is `n` or more, which
//     come last.
// (c) Up to TILE elements stay in shared memory. Longer rows go through global memory for exchanges that are farther apart.

enum { TILE = 2048 };    // shared memory is the launch's: padded, or TILE, pairs

struct Rows {
    i64 count, n, padded;   // how many rows, of how many keys, filled up to how many
    i64 descending;
};

PLUGRAD_FN bool comes_first(X key, int index, X other_key, int other_index, const Rows &rows) {
    const bool filler = index >= rows.n, other_filler = other_index >= rows.n;
    if (filler || other_filler) return filler == other_filler ? index < other_index : other_filler;
    const compute_t<X> a = load(key), b = load(other_key);
    const bool none = a != a, other_none = b != b;
    if (none != other_none) return rows.descending ? none : other_none;
    if (none || a == b) return index < other_index;
    return rows.descending ? a > b : a < b;
}

// Exchange two pairs unless they are in order: forwards or backwards.
PLUGRAD_FN void exchange(X &key, int &index, X &other_key, int &other_index, bool forwards, const Rows &rows) {
    if (comes_first(other_key, other_index, key, index, rows) != forwards) return;
    const X k = key;
    const int i = index;
    key = other_key;
    index = other_index;
    other_key = k;
    other_index = i;
}

// One merge within a tile: exchanges at most `apart` away, in a network whose runs have length `run`.
PLUGRAD_FN void merge_tile(X *keys, int *indices, i64 first, int size, int apart, i64 run, const Rows &rows) {
    for (; apart > 0; apart /= 2) {
        __syncthreads();
        for (int t = threadIdx.x; t < size / 2; t += blockDim.x) {
            const int low = 2 * t - (t & (apart - 1)), high = low + apart;
            exchange(keys[low], indices[low], keys[high], indices[high], ((first + low) & run) == 0, rows);
        }
    }
}

PLUGRAD_FN void sort_tile(X *keys, int *indices, i64 first, int size, const Rows &rows) {
    for (int run = 2; run <= size; run *= 2) merge_tile(keys, indices, first, size, run / 2, run, rows);
    __syncthreads();
}

// Rows that fit into shared memory.
extern "C" __global__ void __launch_bounds__(1024) short_rows(const X *in, X *values, i64 *order, const Rows rows) {
    extern __shared__ __align__(16) unsigned char memory[];
    X *keys = reinterpret_cast<X *>(memory);
    int *indices = reinterpret_cast<int *>(keys + rows.padded);
    const i64 row = blockIdx.x;
    for (int i = threadIdx.x; i < rows.padded; i += blockDim.x) {
        keys[i] = in[row * rows.n + (i < rows.n ? i : 0)];
        indices[i] = i;
    }
    sort_tile(keys, indices, 0, int(rows.padded), rows);
    for (int i = threadIdx.x; i < rows.n; i += blockDim.x) {
        values[row * rows.n + i] = keys[i];
        order[row * rows.n + i] = indices[i];
    }
}

// Longer ones: a block per tile sorts it, …
extern "C" __global__ void __launch_bounds__(1024) tiles(const X *in, X *work_keys, int *work_indices, const Rows rows) {
    extern __shared__ __align__(16) unsigned char memory[];
    X *keys = reinterpret_cast<X *>(memory);
    int *indices = reinterpret_cast<int *>(keys + TILE);
    const i64 tile = i64(blockIdx.x) * TILE, row = tile / rows.padded, first = tile % rows.padded;
    for (int t = threadIdx.x; t < TILE; t += blockDim.x) {
        const i64 i = first + t;
        keys[t] = in[row * rows.n + (i < rows.n ? i : 0)];
        indices[t] = int(i);
    }
    sort_tile(keys, indices, first, TILE, rows);
    for (int t = threadIdx.x; t < TILE; t += blockDim.x) {
        work_keys[tile + t] = keys[t];
        work_indices[tile + t] = indices[t];
    }
}

// … exchanges that reach beyond a tile run one by one, …
extern "C" __global__ void __launch_bounds__(256) far(
    X *keys, int *indices, const i64 apart, const i64 run, const Rows rows) {
    const i64 pairs = rows.count * rows.padded / 2, step = i64(gridDim.x) * blockDim.x;
    for (i64 t = i64(blockIdx.x) * blockDim.x + threadIdx.x; t < pairs; t += step) {
        const i64 low = 2 * t - (t & (apart - 1)), high = low + apart;
        exchange(keys[low], indices[low], keys[high], indices[high], (low % rows.padded & run) == 0, rows);
    }
}

// … and those within a tile together.
extern "C" __global__ void __launch_bounds__(1024) near(X *work_keys, int *work_indices, const i64 run, const Rows rows) {
    extern __shared__ __align__(16) unsigned char memory[];
    X *keys = reinterpret_cast<X *>(memory);
    int *indices = reinterpret_cast<int *>(keys + TILE);
    const i64 tile = i64(blockIdx.x) * TILE;
    for (int t = threadIdx.x; t < TILE; t += blockDim.x) {
        keys[t] = work_keys[tile + t];
        indices[t] = work_indices[tile + t];
    }
    merge_tile(keys, indices, tile % rows.padded, TILE, TILE / 2, run, rows);
    __syncthreads();
    for (int t = threadIdx.x; t < TILE; t += blockDim.x) {
        work_keys[tile + t] = keys[t];
        work_indices[tile + t] = indices[t];
    }
}

extern "C" __global__ void __launch_bounds__(256) unpadded(
    const X *keys, const int *indices, X *values, i64 *order, const Rows rows) {
    const i64 total = rows.count * rows.n, step = i64(gridDim.x) * blockDim.x;
    for (i64 t = i64(blockIdx.x) * blockDim.x + threadIdx.x; t < total; t += step) {
        const i64 from = t / rows.n * rows.padded + t % rows.n;
        values[t] = keys[from];
        order[t] = indices[from];
    }
}
