// Connectionist temporal classification: a block per sequence, whose threads share the states of one time after the other.
//
// (a) States, alpha and beta are those of ctc_cpu.pyx. They lie in `room`: alpha for every time (the loss alone: for two),
//     then beta for two times, then the share of each state.
// (b) The states of one label are added up by the thread of the first, which finds the others along `next`: no atomics, so
//     the same input gives the same bits.
//
// Macros: T.

typedef compute_t<T> C;

struct Sizes { i64 times, count, classes, widest, width, blank; };     // width of `targets`, widest = 2 width + 1

PLUGRAD_FN C log_sum(C a, C b, C c) {
    const C top = nan_max(nan_max(a, b), c);
    return top == C(-INF) ? top : top + plugrad::log(plugrad::exp(a - top) + plugrad::exp(b - top) + plugrad::exp(c - top));
}
PLUGRAD_FN i64 label_of(const i64 *target, i64 s, i64 blank) { return s % 2 ? target[s / 2] : blank; }
PLUGRAD_FN bool skips(const i64 *target, i64 s) { return s % 2 && s > 1 && target[s / 2] != target[s / 2 - 1]; }

// Returns the loss, to all threads.
PLUGRAD_FN C forward(const T *x, i64 step, const i64 *target, i64 times, i64 states, i64 blank, C *alpha, bool keep, i64 widest) {
    if (times == 0) return states == 1 ? C(0) : C(INF);
    C *now = alpha;
    for (i64 s = threadIdx.x; s < states; s += blockDim.x) now[s] = s < 2 ? load(x[label_of(target, s, blank)]) : C(-INF);
    __syncthreads();
    for (i64 t = 1; t < times; ++t) {
        const C *before = now;
        now = alpha + (keep ? t : t % 2) * widest;
        for (i64 s = threadIdx.x; s < states; s += blockDim.x)
            now[s] = load(x[t * step + label_of(target, s, blank)]) + log_sum(
                before[s], s > 0 ? before[s - 1] : C(-INF), skips(target, s) ? before[s - 2] : C(-INF));
        __syncthreads();
    }
    return -log_sum(now[states - 1], states > 1 ? now[states - 2] : C(-INF), C(-INF));
}

extern "C" __global__ void __launch_bounds__(128) losses(
    T *out, const T *log_probs, const i64 *targets, const i64 *input_lengths, const i64 *target_lengths, C *room, Sizes sizes
) {
    const i64 n = blockIdx.x;
    const C loss = forward(
        log_probs + n * sizes.classes, sizes.count * sizes.classes, targets + n * sizes.width, input_lengths[n],
        2 * target_lengths[n] + 1, sizes.blank, room + n * 2 * sizes.widest, false, sizes.widest);
    if (threadIdx.x == 0) store(out[n], loss);
}

// `out` was filled with zeros.
extern "C" __global__ void __launch_bounds__(128) gradients(
    T *out, const T *grad, const T *log_probs, const i64 *targets, const i64 *input_lengths, const i64 *target_lengths, C *room,
    i64 *next, Sizes sizes
) {
    __shared__ C shared[4];
    const i64 n = blockIdx.x, step = sizes.count * sizes.classes, widest = sizes.widest, blank = sizes.blank;
    const i64 times = input_lengths[n], states = 2 * target_lengths[n] + 1;
    const i64 *target = targets + n * sizes.width;
    const T *x = log_probs + n * sizes.classes;
    C *alpha = room + n * (sizes.times + 3) * widest, *beta = alpha + sizes.times * widest, *shares = beta + 2 * widest;
    out += n * sizes.classes;
    next += n * widest;
    // The next state with the same label: 0 if there is none, -1 - that if the state is not the first of its label.
    for (i64 s = 2 * (i64)threadIdx.x + 1; s < states; s += 2 * (i64)blockDim.x) {
        i64 later = s + 2, earlier = s - 2;
        while (later < states && target[later / 2] != target[s / 2]) later += 2;
        while (earlier > 0 && target[earlier / 2] != target[s / 2]) earlier -= 2;
        later = later < states ? later : 0;
        next[s] = earlier > 0 ? -1 - later : later;
    }
    const C loss = forward(x, step, target, times, states, blank, alpha, true, widest), scale = load(grad[n]);
    if (scale == C(0)) return;
    if (plugrad::isinf(loss)) {
        for (i64 t = 0; t < times; ++t)
            for (i64 c = threadIdx.x; c < sizes.classes; c += blockDim.x) store(out[t * step + c], C(NAN));
        return;
    }
    for (i64 t = times - 1; t >= 0; --t) {
        C *now = beta + t % 2 * widest, blanks = 0;
        const C *after = beta + (t + 1) % 2 * widest;
        const T *then = x + (t + 1) * step;
        for (i64 s = threadIdx.x; s < states; s += blockDim.x) {
            C value = s + 2 >= states ? C(0) : C(-INF);
            if (t < times - 1)
                value = log_sum(
                    after[s] + load(then[label_of(target, s, blank)]),
                    s + 1 < states ? after[s + 1] + load(then[label_of(target, s + 1, blank)]) : C(-INF),
                    s + 2 < states && skips(target, s + 2) ? after[s + 2] + load(then[label_of(target, s + 2, blank)]) : C(-INF));
            now[s] = value;
            shares[s] = plugrad::exp(alpha[t * widest + s] + value + loss);
            if (s % 2 == 0) blanks += shares[s];
        }
        blanks = block_reduce(blanks, Sum(), shared);           // a barrier, too
        if (threadIdx.x == 0) store(out[t * step + blank], -scale * blanks);
        for (i64 s = 2 * (i64)threadIdx.x + 1; s < states; s += 2 * (i64)blockDim.x) {
            i64 other = next[s];
            if (other < 0) continue;
            C sum = shares[s];
            for (; other; other = -1 - next[other]) sum += shares[other];
            store(out[t * step + target[s / 2]], -scale * sum);
        }
        __syncthreads();
    }
}
