// A tensor as rows along one of its dimensions, and the threads that work on a row together: softmax, its relatives and
// losses.
//
// (a) A *team* of TEAM threads has one row and holds CHUNK elements of it at a time, in registers: a row that fits is
//     read once. A team is part of a warp, a warp, or a block.
// (b) COLUMNS: the rows lie across memory. Neighbouring threads have neighbouring rows, a team is one thread of each warp.
// (c) All threads of a block go through the same steps, whether they have a row or not, since a team meets at shuffles
//     and barriers. Sums are made in a fixed order.
//
// Macros: T, COLUMNS, TEAM (a power of two), VEC (neighbours that are brought with one instruction), ITEMS (of those, per
// thread and chunk). With VEC > 1 everything is aligned, and lengths are multiples of VEC.

typedef compute_t<T> C;

enum {
    ROW_THREADS = COLUMNS ? 32 * TEAM : TEAM <= 32 ? 128 : TEAM,    // a team beyond a warp is the block
    BLOCK_ROWS = ROW_THREADS / TEAM,
    HELD = ITEMS * VEC,                     // elements in the registers of a thread
    CHUNK = TEAM * HELD,
};

template <int N> struct Rows {
    i64 count, length;
    i64 dims, shape[MAX_DIMS];              // of what is not a row, innermost dimension first
    i64 stride[N][MAX_DIMS];                // in elements
    i64 step[N];                            // along a row
};

// Where a row begins in each operand.
template <int N> PLUGRAD_FN void begin_of_row(const Rows<N> &rows, i64 row, i64 (&at)[N]) {
#pragma unroll
    for (int k = 0; k < N; ++k) at[k] = 0;
    for (int d = 0; d < rows.dims; ++d) {
        const i64 rest = d + 1 < rows.dims ? row / rows.shape[d] : 0, along = row - rest * rows.shape[d];
#pragma unroll
        for (int k = 0; k < N; ++k) at[k] += along * rows.stride[k][d];
        row = rest;
    }
}

PLUGRAD_FN int row_of_thread() { return COLUMNS ? threadIdx.x % 32 : threadIdx.x / TEAM; }
PLUGRAD_FN int place_in_team() { return COLUMNS ? threadIdx.x / 32 : threadIdx.x % TEAM; }

// The element of a row that is number `k` of a thread.
PLUGRAD_FN i64 element(i64 chunk, int k) { return chunk + (k / VEC * TEAM + place_in_team()) * VEC + k % VEC; }

// A thread's elements of a chunk; `none` where there is none.
PLUGRAD_FN void fetch(C (&held)[HELD], const T *row, i64 step, i64 chunk, i64 length, C none) {
#pragma unroll
    for (int u = 0; u < ITEMS; ++u) {
        const i64 first = element(chunk, u * VEC);
        if constexpr (VEC > 1) {
            if (first < length) {
                const Pack<T, VEC> pack = load_pack<VEC>(row + first, true);
#pragma unroll
                for (int k = 0; k < VEC; ++k) held[u * VEC + k] = load(pack.at[k]);
            } else {
#pragma unroll
                for (int k = 0; k < VEC; ++k) held[u * VEC + k] = none;
            }
        } else held[u] = first < length ? load(row[first * step]) : none;
    }
}

// The opposite.
PLUGRAD_FN void put(T *row, const C (&held)[HELD], i64 step, i64 chunk, i64 length) {
#pragma unroll
    for (int u = 0; u < ITEMS; ++u) {
        const i64 first = element(chunk, u * VEC);
        if (first >= length) continue;
        if constexpr (VEC > 1) {
            Pack<T, VEC> pack;
#pragma unroll
            for (int k = 0; k < VEC; ++k) store(pack.at[k], held[u * VEC + k]);
            store_pack<VEC>(row + first, pack, true);
        } else store(row[first * step], held[u]);
    }
}

template <class F> PLUGRAD_FN C team_reduce(C value, F combine) {
    if constexpr (TEAM == 1) return value;
    else if constexpr (COLUMNS) {
        __shared__ C shared[TEAM][33];
        const int row = threadIdx.x % 32;
        shared[threadIdx.x / 32][row] = value;
        __syncthreads();
        value = shared[0][row];
        for (int k = 1; k < TEAM; ++k) value = combine(value, shared[k][row]);
        __syncthreads();
        return value;
    } else if constexpr (TEAM <= 32) return warp_reduce(value, combine, TEAM);
    else {
        __shared__ C shared[32];
        return block_reduce(value, combine, shared);
    }
}

// The greatest element of a row, and the sum of exp(x - top). `held` keeps the last chunk, with -INF behind the row's end.
struct Exponentials { C top, sum; };

PLUGRAD_FN Exponentials exponentials(C (&held)[HELD], const T *row, i64 step, i64 length) {
    C top = -INF, sum = 0;
    for (i64 chunk = 0; chunk < length; chunk += CHUNK) {
        fetch(held, row, step, chunk, length, -INF);
        C high = top;
#pragma unroll
        for (int k = 0; k < HELD; ++k) high = nan_max(high, held[k]);
        const C shift = high == C(-INF) ? C(0) : high;      // of nothing but -INF the sum is 0
        sum *= plugrad::exp(top - shift);
#pragma unroll
        for (int k = 0; k < HELD; ++k) sum += plugrad::exp(held[k] - shift);
        top = high;
    }
    const C all = team_reduce(top, Max()), shift = all == C(-INF) ? C(0) : all;
    return {all, team_reduce(C(sum * plugrad::exp(top - shift)), Sum())};
}
