// Scans: element i of every line is what `combine` makes of elements 0 to i, the earlier one always on the left. In front of
// this text stands what stands in front of reductions (see reduction.cuh).
//
// (a) Always the same tree, so always the same bits.
// (b) `lines`: a block walks along a line, tile by tile, with what came before in `carry`. A few long lines are cut into
//     shares: the first launch finds what each share adds (TOTALS), `starts` what comes before each, the last launch begins
//     there (RESUME).
// (c) `columns`: a thread per line, for short lines and for those whose neighbours are neighbours in memory.

enum { ITEMS = 4, WHOLE = 0, TOTALS = 1, RESUME = 2 };

struct Task {
    i64 lines, length;      // how many, of how many elements
    i64 share, splits;      // elements per block, blocks per line
    i64 step;               // from one result of a line to the next
    i64 reverse, mode;
};

extern "C" __global__ void __launch_bounds__(256) lines(PLUGRAD_PARAMETERS) {
    const Input in = PLUGRAD_INPUT;
    const Output out = PLUGRAD_OUTPUT;
    const Combine combine = {numbers};
    __shared__ Acc shared[8];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
    const i64 part = i64(blockIdx.x) * task.splits + blockIdx.y;
    const i64 limit = (blockIdx.y + 1) * task.share;
    const I begin = I(blockIdx.y * task.share), end = I(limit < task.length ? limit : task.length);
    I at[N + 1];
    place(outer, I(blockIdx.x), at);
    Acc carry = task.mode == RESUME ? partial[part] : plugrad::identity(numbers);
    for (I tile = begin; tile < end; tile += I(blockDim.x * ITEMS)) {
        const I first = tile + I(threadIdx.x * ITEMS);
        Acc item[ITEMS];
#pragma unroll
        for (int k = 0; k < ITEMS; ++k) {
            const I i = first + k;
            const I spot = task.reverse ? I(task.length) - 1 - i : i;
            item[k] = i < end ? in.taken(at, inner, spot, i, numbers) : plugrad::identity(numbers);
            if (k > 0) item[k] = combine(item[k - 1], item[k]);
        }
        Acc upto = item[ITEMS - 1];
        for (int apart = 1; apart < 32; apart *= 2) {
            const Acc earlier = shuffle_up(upto, apart);
            if (lane >= apart) upto = combine(earlier, upto);
        }
        const Acc below = shuffle_up(upto, 1);
        if (lane == 31) shared[warp] = upto;
        __syncthreads();
        Acc before = carry;
        for (int w = 0; w < warps; ++w) {
            if (w == warp) before = carry;
            carry = combine(carry, shared[w]);
        }
        if (lane > 0) before = combine(before, below);
        if (task.mode != TOTALS)
#pragma unroll
            for (int k = 0; k < ITEMS; ++k) {
                const I i = first + k;
                if (i < end) {
                    const i64 spot = task.reverse ? task.length - 1 - i : i;
                    out.put(at[N] + spot * task.step, combine(before, item[k]), i + 1, numbers);
                }
            }
        __syncthreads();
    }
    if (task.mode == TOTALS && threadIdx.x == 0) partial[part] = carry;
}

extern "C" __global__ void __launch_bounds__(128) starts(PLUGRAD_PARAMETERS) {
    const i64 line = i64(blockIdx.x) * blockDim.x + threadIdx.x;
    if (line >= task.lines) return;
    Acc carry = plugrad::identity(numbers);
    for (i64 s = line * task.splits; s < (line + 1) * task.splits; ++s) {
        const Acc own = partial[s];
        partial[s] = carry;
        carry = plugrad::combine(carry, own, numbers);
    }
}

extern "C" __global__ void __launch_bounds__(128) columns(PLUGRAD_PARAMETERS) {
    const Input in = PLUGRAD_INPUT;
    const Output out = PLUGRAD_OUTPUT;
    const I line = I(blockIdx.x) * blockDim.x + threadIdx.x;
    if (line >= task.lines) return;
    I at[N + 1];
    place(outer, line, at);
    Acc carry = plugrad::identity(numbers);
    for (I i = 0; i < task.length; ++i) {
        const I spot = task.reverse ? I(task.length) - 1 - i : i;
        carry = plugrad::combine(carry, in.taken(at, inner, spot, i, numbers), numbers);
        out.put(at[N] + spot * task.step, carry, i + 1, numbers);
    }
}
