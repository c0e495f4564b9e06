// Reading, writing and adding at positions.
//
// (a) One description serves all (`Index`): an element of the index has coordinates. Each coordinate moves through the
//     tensor, through the values and through the arrays of indices, and each of those moves through the tensor once more.
// (b) Indices were looked at before (`outside`). Where they were not, one that lies outside reads zeros and writes nothing.
// (c) Elements that must be told apart have a *key*, where the arrays of indices lead, and an *order*, their number in C
//     order. Slices lead to different places, so they take no part in either.
// (d) Only integers are ever updated atomically, and only by maximum, so the same input gives the same bits.
// (e) Of the elements that meet at one place the last one stays. It is told by a claim: one per key, which the elements raise
//     (`claim`), or, where keys are many times as many as elements, one per element, made by sorting (`claim_sorted`).
//
// Macros: UNIT, an integer type (or `Wide`) of the size of what is moved; T, the type of an element where elements are
// added; I, the type in which elements are counted.

enum { MAX_ARRAYS = 8 };

struct Index {
    i64 ndim, arrays;
    i64 shape[MAX_DIMS];                    // of the index, innermost dimension first
    i64 tensor[MAX_DIMS], values[MAX_DIMS];         // strides in bytes
    i64 key[MAX_DIMS], order[MAX_DIMS];
    i64 along[MAX_ARRAYS][MAX_DIMS];        // strides of the arrays of indices, in elements
    i64 step[MAX_ARRAYS], bound[MAX_ARRAYS], weight[MAX_ARRAYS];    // tensor bytes, length and key of each
    const i64 *at[MAX_ARRAYS];
};

struct alignas(16) Wide { u64 low, high; };

struct Spot {                               // where an element is
    i64 tensor, values, key, order;
    bool inside;
};

PLUGRAD_FN Spot find(const Index &x, I i) {
    Spot spot = {0, 0, 0, 0, true};
    i64 place[MAX_ARRAYS];
#pragma unroll
    for (int a = 0; a < MAX_ARRAYS; ++a) place[a] = 0;
#pragma unroll
    for (int d = 0; d < MAX_DIMS; ++d) {
        if (d >= x.ndim) break;
        const I n = (I)x.shape[d], rest = d + 1 < x.ndim ? i / n : I(0);
        const i64 along = i - rest * n;
        spot.tensor += along * x.tensor[d];
        spot.values += along * x.values[d];
        spot.key += along * x.key[d];
        spot.order += along * x.order[d];
#pragma unroll
        for (int a = 0; a < MAX_ARRAYS; ++a)
            if (a < x.arrays) place[a] += along * x.along[a][d];
        i = rest;
    }
#pragma unroll
    for (int a = 0; a < MAX_ARRAYS; ++a) {
        if (a >= x.arrays) break;
        i64 index = x.at[a][place[a]];
        if (index < 0) index += x.bound[a];
        if (index < 0 || index >= x.bound[a]) spot.inside = false;
        spot.tensor += index * x.step[a];
        spot.key += index * x.weight[a];
    }
    return spot;
}

#define ELEMENTS(i, count) \
    I i = (I)blockIdx.x * (I)blockDim.x + (I)threadIdx.x; i < (I)count; i += (I)gridDim.x * (I)blockDim.x

// ---- looking at indices ---------------------------------------------------------------------------------------------

// found = count - (the first index that is less than `low` or not less than `high`); it was 0.
extern "C" __global__ void outside(u64 *found, const i64 *indices, i64 low, i64 high, i64 count) {
    for (ELEMENTS(i, count)) {
        const i64 index = indices[i];
        if (index < low || index >= high) atomicMax(found, (u64)(count - i));
    }
}

// ---- reading and writing --------------------------------------------------------------------------------------------

extern "C" __global__ void gather(char *out, const char *tensor, i64 count, Index x) {
    for (ELEMENTS(i, count)) {
        const Spot spot = find(x, i);
        UNIT value = {};
        if (spot.inside) value = *(const UNIT *)(tensor + spot.tensor);
        *(UNIT *)(out + spot.values) = value;
    }
}

// claims[key] = the last of the elements that lead there; it was -1. `x` has the dimensions of keys only.
extern "C" __global__ void claim(I *claims, i64 count, Index x) {
    for (ELEMENTS(i, count)) {
        const Spot spot = find(x, i);
        if (spot.inside) atomicMax(claims + spot.key, (I)spot.order);
    }
}

// The same, each for an element: its own order if it is the last one with its key, else -1. See `keys` for `sorted`, `order`.
extern "C" __global__ void claim_sorted(I *claims, const i64 *sorted, const i64 *order, i64 count) {
    for (ELEMENTS(i, count)) {
        const bool last = i + 1 == (I)count || sorted[i + 1] != sorted[i];
        claims[order[i]] = last ? (I)order[i] : I(-1);
    }
}

enum { UNCLAIMED, BY_KEY, BY_ORDER };       // what a claim is for; as in cuda.py

PLUGRAD_FN bool stays(const Spot &spot, const I *claims, i64 claimed) {
    return spot.inside && (claimed == UNCLAIMED || claims[claimed == BY_KEY ? spot.key : spot.order] == (I)spot.order);
}

extern "C" __global__ void scatter(
    char *tensor, const char *values, const I *claims, i64 claimed, i64 count, Index x
) {
    for (ELEMENTS(i, count)) {
        const Spot spot = find(x, i);
        if (stays(spot, claims, claimed))
            *(UNIT *)(tensor + spot.tensor) = *(const UNIT *)(values + spot.values);
    }
}

extern "C" __global__ void is_last(bool *out, const I *claims, i64 claimed, i64 count, Index x) {
    for (ELEMENTS(i, count)) {
        const Spot spot = find(x, i);
        out[i] = stays(spot, claims, claimed);
    }
}

// ---- combining ------------------------------------------------------------------------------------------------------

// What two elements make, and what changes none; the launcher says what else than a sum. Expressions see NumPy's max, min.
#ifndef COMBINE
#define COMBINE(a, b) ((a) + (b))
#define START 0
#endif

namespace plugrad {
template <class C> PLUGRAD_FN C combined(C a, C b) { return (C)COMBINE(a, b); }
template <class C> PLUGRAD_FN C start() { return (C)(START); }
}

// Elements that lie outside get the largest key.
extern "C" __global__ void keys(i64 *out, i64 count, Index x) {
    for (ELEMENTS(i, count)) {
        const Spot spot = find(x, i);
        out[i] = spot.inside ? spot.key : highest<i64>();
    }
}

enum { LANES = 32, SHARES = 8 };            // columns of runs in a block, threads that share each

// `x` has the dimensions of the keys, `columns` the others. Elements are sorted by key, those of one key by number: `order`.
// A block has blockDim.x columns of blockDim.z runs, LANES together; a run is worked on where it begins.
// What is there already takes part if it is to be `kept`.
extern "C" __global__ void combine_runs(
    T *tensor, const T *values, const i64 *sorted, const i64 *order, i64 count, i64 width, bool kept, Index x, Index columns
) {
    typedef compute_t<T> C;
    __shared__ C shared[SHARES][LANES];
    const int share = threadIdx.y, lane = threadIdx.x + blockDim.x * threadIdx.z;
    for (i64 first = (i64)blockIdx.x * blockDim.z; first < count; first += (i64)gridDim.x * blockDim.z)
        for (i64 left = (i64)blockIdx.y * blockDim.x; left < width; left += (i64)gridDim.y * blockDim.x) {
            const i64 begin = first + threadIdx.z, column = left + threadIdx.x;
            const bool works = begin < count && column < width && (begin == 0 || sorted[begin - 1] != sorted[begin]) &&
                               sorted[begin] != highest<i64>();
            C sum = plugrad::start<C>();
            i64 to = 0;
            if (works) {
                const Spot here = find(columns, (I)column);
                const i64 key = sorted[begin];
                to = here.tensor + find(x, (I)order[begin]).tensor;
                for (i64 j = begin + share; j < count && sorted[j] == key; j += SHARES)
                    sum = plugrad::combined<C>(sum, load(*shifted(values, here.values + find(x, (I)order[j]).values)));
            }
            shared[share][lane] = sum;
            __syncthreads();
            if (works && share == 0) {
                for (int other = 1; other < SHARES; ++other) sum = plugrad::combined<C>(sum, shared[other][lane]);
                T *element = shifted(tensor, to);
                store(*element, kept ? plugrad::combined<C>(sum, load(*element)) : sum);
            }
            __syncthreads();
        }
}
