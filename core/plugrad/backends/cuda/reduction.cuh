// Reductions: every output is what `combine` makes of many elements. In front of this text stand, written for one of them:
//   N (number of operands), V (elements in 16 bytes), I (the type of offsets), Acc (what is accumulated), Numbers
//   (constants), Input (pointers to operands), Row (operands whose reduced elements are neighbours), Output, Combine,
//   PLUGRAD_PARAMETERS, plugrad::identity, plugrad::map, plugrad::combine, plugrad::finish.
//
// (a) Always the same tree, so always the same bits: no atomics, and what a thread takes depends on the layout only.
// (b) A thread adds up FOLD elements before it adds the sum to what it has, in several accumulators at once. So no long
//     chain of roundings arises, and several loads are under way.
// (c) `rows_packed` and `rows`: the threads of a warp or block share the elements of one output. `columns`: a thread has an
//     output of its own, neighbours have neighbouring outputs, and several lines of threads share the elements. Where there
//     are few outputs, several blocks share them, too (`splits`); `fold` then combines what each has found.

enum { FOLD = 32, UNROLL = 4 };

struct Task {
    i64 outputs, count;     // how many, of how many elements
    i64 share, splits;      // elements per block, blocks per output
};

// What `take(acc, i)` makes of i = first, first + step, … below end, in W accumulators.
template <int W, class F> PLUGRAD_FN Acc gathered(I first, I end, I step, const Numbers &numbers, F take) {
    const Combine combine = {numbers};
    Acc total[W];
#pragma unroll
    for (int k = 0; k < W; ++k) total[k] = plugrad::identity(numbers);
    for (I i = first; i < end;) {
        Acc part[W];
#pragma unroll
        for (int k = 0; k < W; ++k) part[k] = plugrad::identity(numbers);
        for (int turn = 0; turn < FOLD && i < end; ++turn, i += step) take(part, i);
#pragma unroll
        for (int k = 0; k < W; ++k) total[k] = combine(total[k], part[k]);
    }
#pragma unroll
    for (int apart = 1; apart < W; apart *= 2)
#pragma unroll
        for (int k = 0; k + apart < W; k += 2 * apart) total[k] = combine(total[k], total[k + apart]);
    return total[0];
}

// The same of an output's elements from first on, one by one wherever they are; `at` is where the output's begin.
PLUGRAD_FN Acc collected(const Input &in, const I (&at)[N + 1], const Layout<I, N> &inner, I first, I end, I step,
                         const Numbers &numbers) {
    return gathered<UNROLL>(first, end, UNROLL * step, numbers, [&](Acc (&acc)[UNROLL], I start) {
#pragma unroll
        for (int k = 0; k < UNROLL; ++k) {
            const I i = start + k * step;
            if (i < end) acc[k] = plugrad::combine(acc[k], in.taken(at, inner, i, i, numbers), numbers);
        }
    });
}

PLUGRAD_FN I share_begin(const Task &task) { return I(blockIdx.y * task.share); }
PLUGRAD_FN I share_end(const Task &task) {
    const i64 end = (blockIdx.y + 1) * task.share;
    return I(end < task.count ? end : task.count);
}

// Among the threads of one line of a block; right in the first of them.
PLUGRAD_FN Acc across_line(Acc value, const Numbers &numbers, Acc *shared) {
    const Combine combine = {numbers};
    value = warp_reduce(value, combine);
    if (blockDim.x == 32) return value;
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x == 0)
        for (int w = 1; w < int(blockDim.x / 32); ++w) value = combine(value, shared[w]);
    return value;
}

PLUGRAD_FN void deliver(const Task &task, I output, i64 at, Acc value, Output out, Acc *partial, const Numbers &numbers) {
    if (task.splits > 1) partial[output * task.splits + blockIdx.y] = value;
    else out.put(at, value, task.count, numbers);
}

// The parameters are the same for all: operands, results, `partial` (what blocks that share an output have found), numbers,
// task, and where an output's elements begin (`outer`, with the output's own place last) and go on (`inner`).

// Reduced elements are neighbours in memory: each thread takes 16 bytes at a time.
extern "C" __global__ void __launch_bounds__(256) rows_packed(PLUGRAD_PARAMETERS) {
    const Input in = PLUGRAD_INPUT;
    const Output out = PLUGRAD_OUTPUT;
    __shared__ Acc shared[8];
    const I output = I(blockIdx.x) * blockDim.y + threadIdx.y;
    if (output >= task.outputs) return;                 // a whole warp; blocks of several lines have no barrier
    const I begin = share_begin(task), end = share_end(task);
    I at[N + 1];
    place(outer, output, at);
    const Row row(in, at);
    const I packs = end / V;
    Acc value = gathered<V>(begin / V + threadIdx.x, packs, blockDim.x, numbers, [&](Acc (&acc)[V], I p) {
        row.take(acc, p * V, numbers);
    });
    const I last = packs * V + threadIdx.x;
    if (last < end) value = plugrad::combine(value, row.one(last, numbers), numbers);
    value = across_line(value, numbers, shared);
    if (threadIdx.x == 0) deliver(task, output, at[N], value, out, partial, numbers);
}

extern "C" __global__ void __launch_bounds__(256) rows(PLUGRAD_PARAMETERS) {
    const Input in = PLUGRAD_INPUT;
    const Output out = PLUGRAD_OUTPUT;
    __shared__ Acc shared[8];
    const I output = I(blockIdx.x) * blockDim.y + threadIdx.y;
    if (output >= task.outputs) return;
    const I begin = share_begin(task), end = share_end(task);
    I at[N + 1];
    place(outer, output, at);
    Acc value = collected(in, at, inner, begin + threadIdx.x, end, blockDim.x, numbers);
    value = across_line(value, numbers, shared);
    if (threadIdx.x == 0) deliver(task, output, at[N], value, out, partial, numbers);
}

extern "C" __global__ void __launch_bounds__(256) columns(PLUGRAD_PARAMETERS) {
    const Input in = PLUGRAD_INPUT;
    const Output out = PLUGRAD_OUTPUT;
    __shared__ Acc shared[256];
    const I output = I(blockIdx.x) * blockDim.x + threadIdx.x;
    const I begin = share_begin(task), end = share_end(task);
    I at[N + 1];
    Acc value = plugrad::identity(numbers);
    if (output < task.outputs) {
        place(outer, output, at);
        value = collected(in, at, inner, begin + threadIdx.y, end, blockDim.y, numbers);
    }
    if (blockDim.y > 1) {
        shared[threadIdx.y * blockDim.x + threadIdx.x] = value;
        __syncthreads();
        if (threadIdx.y > 0) return;
        for (int y = 1; y < int(blockDim.y); ++y)
            value = plugrad::combine(value, shared[y * blockDim.x + threadIdx.x], numbers);
    }
    if (output < task.outputs) deliver(task, output, at[N], value, out, partial, numbers);
}

// What the blocks of one output have found, combined by a warp.
extern "C" __global__ void __launch_bounds__(128) fold(PLUGRAD_PARAMETERS) {
    const Output out = PLUGRAD_OUTPUT;
    const I output = I(blockIdx.x) * blockDim.y + threadIdx.y;
    if (output >= task.outputs) return;
    const Acc *found = partial + output * task.splits;
    Acc value = plugrad::identity(numbers);
    for (int s = threadIdx.x; s < task.splits; s += 32) value = plugrad::combine(value, found[s], numbers);
    value = warp_reduce(value, Combine{numbers});
    if (threadIdx.x == 0) {
        I at[N + 1];
        place(outer, output, at);
        out.put(at[N], value, task.count, numbers);
    }
}
