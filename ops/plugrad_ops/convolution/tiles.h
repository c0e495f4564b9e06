/* Tiles of a convolution, for several instruction sets.

   (a) Two kinds of tile. `rows`: so many output channels times so many neighbouring places of the image, each lane of a
       vector another place. `dots`: so many output channels times so many taps, each lane a part of the sum over all
       places. Both keep their sums in registers and read the image where it lies, a tap being an offset into it.
   (b) The file includes itself once per instruction set and element type; which set is used is found out at run time.
   (c) Products are fused with sums where the machine can, as in any BLAS: the bits depend on the instruction set. A sum
       over channels and taps is cut into pieces of DEPTH, which keeps rounding errors and what the cache must hold small.
   (d) Without vectors in the language (MSVC) there are no tiles: PG_SETS is 0. */

#ifndef PG_TILES_H
#define PG_TILES_H

#include "tile_types.h"
#include "runs.h"

#define PG_DEPTH 512
#define PG_ACROSS 4   /* tiles side by side that use one piece of the kernel while it is in the cache */
#define PG_RUNS 52    /* one more than a tile has lanes, at least */

typedef struct { ptrdiff_t from, to, n; } pg_run;

/* What of the places from `first` on, n of them, is wanted and where it goes. */
static int pg_runs(const pg_grid *grid, ptrdiff_t first, ptrdiff_t n, pg_run *runs)
{
    ptrdiff_t line = first / grid->pitch, x = first - line * grid->pitch, at = 0;
    int found = 0;
    for (; at < n; line++, x = 0) {
        ptrdiff_t rest = grid->pitch - x, wanted = grid->width - x;
        if (rest > n - at) rest = n - at;
        if (wanted > rest) wanted = rest;
        if (wanted > 0) {
            runs[found].from = at;
            runs[found].to = line * grid->row + x * grid->step;
            runs[found++].n = wanted;
        }
        at += rest;
    }
    return found;
}

#if !defined(__GNUC__)
#define PG_SETS 0
static const pg_tiles pg_sets[1][2];
static int pg_best_set(void) { return -1; }
#else

#define PG_JOIN_(a, b, c) a##_##b##_##c
#define PG_JOIN(a, b, c) PG_JOIN_(a, b, c)
#define PG_NAME(name) PG_JOIN(name, PG_SET, PG_T)
#define PG_UNROLLED _Pragma("GCC unroll 8")

/* What every machine has. */
#define PG_SET plain
#define PG_TARGET
#define PG_BYTES 16
#define PG_HIGH 4
#define PG_WIDE 2
#define PG_T float
#if defined(__aarch64__)
#include <arm_neon.h>
#define PG_FMA(a, b, c) ((PG_NAME(vec))vfmaq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b)))
#else
#define PG_FMA(a, b, c) ((a) * (b) + (c))
#endif
#include "tiles.h"
#undef PG_T
#undef PG_FMA
#define PG_T double
#if defined(__aarch64__)
#define PG_FMA(a, b, c) ((PG_NAME(vec))vfmaq_f64((float64x2_t)(c), (float64x2_t)(a), (float64x2_t)(b)))
#else
#define PG_FMA(a, b, c) ((a) * (b) + (c))
#endif
#include "tiles.h"
#undef PG_T
#undef PG_FMA
#undef PG_SET
#undef PG_TARGET
#undef PG_BYTES
#undef PG_HIGH
#undef PG_WIDE

#if defined(__x86_64__)
#include <immintrin.h>

#define PG_SET avx2
#define PG_TARGET __attribute__((target("avx2,fma")))
#define PG_BYTES 32
#define PG_HIGH 4
#define PG_WIDE 3
#define PG_T float
#define PG_FMA(a, b, c) ((PG_NAME(vec))_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#include "tiles.h"
#undef PG_T
#undef PG_FMA
#define PG_T double
#define PG_FMA(a, b, c) ((PG_NAME(vec))_mm256_fmadd_pd((__m256d)(a), (__m256d)(b), (__m256d)(c)))
#include "tiles.h"
#undef PG_T
#undef PG_FMA
#undef PG_SET
#undef PG_TARGET
#undef PG_BYTES
#undef PG_HIGH
#undef PG_WIDE

#define PG_SET avx512
#define PG_TARGET __attribute__((target("avx512f,avx2,fma")))
#define PG_BYTES 64
#define PG_HIGH 8
#define PG_WIDE 3
#define PG_T float
#define PG_FMA(a, b, c) ((PG_NAME(vec))_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#include "tiles.h"
#undef PG_T
#undef PG_FMA
#define PG_T double
#define PG_FMA(a, b, c) ((PG_NAME(vec))_mm512_fmadd_pd((__m512d)(a), (__m512d)(b), (__m512d)(c)))
#include "tiles.h"
#undef PG_T
#undef PG_FMA
#undef PG_SET
#undef PG_TARGET
#undef PG_BYTES
#undef PG_HIGH
#undef PG_WIDE
#define PG_SETS 3
#else
#define PG_SETS 1
#endif

#define PG_TILES(set, T, bytes, high, wide) \
    {(bytes) / (int)sizeof(T), high, wide, pg_rows_##set##_##T, pg_dots_##set##_##T, pg_tile_##set##_##T}
#define PG_BOTH(set, bytes, high, wide) {PG_TILES(set, float, bytes, high, wide), PG_TILES(set, double, bytes, high, wide)}
static const pg_tiles pg_sets[PG_SETS][2] = {
    PG_BOTH(plain, 16, 4, 2),
#if PG_SETS > 1
    PG_BOTH(avx2, 32, 4, 3),
    PG_BOTH(avx512, 64, 8, 3),
#endif
};

static int pg_best_set(void)
{
#if PG_SETS > 1
    if (__builtin_cpu_supports("avx512f")) return 2;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return 1;
#endif
    return 0;
}
#endif

#else  /* ---- one instruction set, one element type ------------------------------------------------------------- */

#define VEC PG_NAME(vec)
#define MEMORY PG_NAME(memory)
#define LANES ((int)(PG_BYTES / sizeof(PG_T)))
#define PG_LOAD(p) ((VEC)*(const MEMORY *)(p))
#define PG_STORE(p, v) (*(MEMORY *)(p) = (MEMORY)(v))
#define PG_BODY static inline __attribute__((always_inline)) PG_TARGET void

typedef PG_T VEC __attribute__((vector_size(PG_BYTES)));
typedef PG_T MEMORY __attribute__((vector_size(PG_BYTES), aligned(sizeof(PG_T)), may_alias));

/* `high` channels times `wide` vectors of places; `tile` has rows of PG_WIDE vectors. */
PG_BODY PG_NAME(rows_tile)(const int high, const int wide, ptrdiff_t depth, const PG_T *packed, const PG_T *image,
                           const ptrdiff_t *offsets, const PG_T *bias, PG_T *tile, int first)
{
    VEC sums[PG_HIGH][PG_WIDE];
    PG_UNROLLED for (int m = 0; m < high; m++)
        PG_UNROLLED for (int v = 0; v < wide; v++) sums[m][v] = (VEC){0};
    for (ptrdiff_t k = 0; k < depth; k++, packed += high) {
        const PG_T *from = image + offsets[k];
        VEC seen[PG_WIDE];
        PG_UNROLLED for (int v = 0; v < wide; v++) seen[v] = PG_LOAD(from + v * LANES);
        PG_UNROLLED for (int m = 0; m < high; m++) {
            const VEC weight = packed[m] - (VEC){0};
            PG_UNROLLED for (int v = 0; v < wide; v++) sums[m][v] = PG_FMA(weight, seen[v], sums[m][v]);
        }
    }
    PG_UNROLLED for (int m = 0; m < high; m++) {
        const VEC added = (first && bias ? bias[m] : 0) - (VEC){0};
        PG_UNROLLED for (int v = 0; v < wide; v++) {
            PG_T *to = tile + (m * PG_WIDE + v) * LANES;
            PG_STORE(to, sums[m][v] + (first ? added : PG_LOAD(to)));
        }
    }
}

#define PG_CASE(m, v) case 10 * m + v: PG_NAME(rows_tile)(m, v, depth, packed, image, offsets, bias, tile, first); break;
static PG_TARGET void PG_NAME(pg_tile)(int high, int wide, ptrdiff_t depth, const void *packed, const void *image,
                                       const ptrdiff_t *offsets, const void *bias, void *tile, int first)
{
    switch (10 * high + wide) {
#if PG_HIGH > 4
    PG_CASE(8, 1) PG_CASE(8, 2)
#if PG_WIDE > 2
    PG_CASE(8, 3)
#endif
#endif
    PG_CASE(4, 1) PG_CASE(4, 2) PG_CASE(2, 1) PG_CASE(2, 2) PG_CASE(1, 1) PG_CASE(1, 2)
#if PG_WIDE > 2
    PG_CASE(4, 3) PG_CASE(2, 3) PG_CASE(1, 3)
#endif
    }
}
#undef PG_CASE

/* The channels from `begin` to `end` at the places from `first` to `last`, of which `first` is a multiple of a tile's. */
static PG_TARGET void PG_NAME(pg_rows)(const pg_grid *grid, const void *of, const void *kernel, const void *added,
                                       void *result, ptrdiff_t first, ptrdiff_t last, ptrdiff_t begin, ptrdiff_t end)
{
    const PG_T *image = of, *packed = kernel, *bias = added;
    PG_T *out = result;
    PG_T tile[PG_HIGH * PG_WIDE * (PG_BYTES / sizeof(PG_T))] __attribute__((aligned(64)));
    const ptrdiff_t across = PG_WIDE * LANES;
    for (ptrdiff_t q = first; q < last; q += PG_ACROSS * across) {
        pg_run runs[PG_ACROSS][PG_RUNS];
        int found[PG_ACROSS], wide[PG_ACROSS], n = 0;
        for (ptrdiff_t at = q; at < last && n < PG_ACROSS; at += across, n++) {
            const ptrdiff_t rest = last - at < across ? last - at : across;
            found[n] = pg_runs(grid, at, rest, runs[n]);
            wide[n] = (int)((rest + LANES - 1) / LANES);
        }
        for (ptrdiff_t m = begin; m < end;) {
            int high = PG_HIGH;
            while (high > end - m) high /= 2;
            for (int t = 0; t < n; t++) {
                ptrdiff_t k = 0;
                do {
                    const ptrdiff_t depth = grid->depth - k < PG_DEPTH ? grid->depth - k : PG_DEPTH;
                    PG_NAME(pg_tile)(high, wide[t], depth, packed + m * grid->depth + k * high, image + q + t * across,
                                        grid->offsets + k, bias ? bias + m : bias, tile, k == 0);
                    k += PG_DEPTH;
                } while (k < grid->depth);
                for (int i = 0; i < high; i++) {
                    const PG_T *from = tile + i * across;
                    PG_T *to = out + (m + i) * grid->channel;
                    for (const pg_run *run = runs[t]; run < runs[t] + found[t]; run++)
                        if (grid->step == 1)
                            pg_copy_bytes((char *)(to + run->to), (const char *)(from + run->from), run->n * sizeof(PG_T));
                        else
                            for (ptrdiff_t x = 0; x < run->n; x++) to[run->to + x * grid->step] = from[run->from + x];
                }
            }
            m += high;
        }
    }
}

static inline PG_TARGET PG_T PG_NAME(lanes)(VEC v)
{
    PG_T part[PG_BYTES / sizeof(PG_T)] __attribute__((aligned(64)));
    PG_STORE(part, v);
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++) part[i] += part[i + half];
    return part[0];
}

/* `high` channels times `taps` elements seen. */
PG_BODY PG_NAME(dots_tile)(const int high, const int taps, const pg_stretch *stretches, ptrdiff_t n, const PG_T *grad,
                           ptrdiff_t channel, const PG_T *image, const ptrdiff_t *offsets, PG_T *out, ptrdiff_t next, int first)
{
    VEC sums[PG_HIGH == 8 ? 4 : 2][6];
    PG_UNROLLED for (int m = 0; m < high; m++)
        PG_UNROLLED for (int t = 0; t < taps; t++) sums[m][t] = (VEC){0};
    for (; n > 0; n--, stretches++) {
        const PG_T *g = grad + stretches->grad, *x = image + stretches->image;
        for (const PG_T *end = g + stretches->n; g < end; g += LANES, x += LANES) {
            VEC grads[PG_HIGH == 8 ? 4 : 2];
            PG_UNROLLED for (int m = 0; m < high; m++) grads[m] = PG_LOAD(g + m * channel);
            PG_UNROLLED for (int t = 0; t < taps; t++) {
                const VEC seen = PG_LOAD(x + offsets[t]);
                PG_UNROLLED for (int m = 0; m < high; m++) sums[m][t] = PG_FMA(grads[m], seen, sums[m][t]);
            }
        }
    }
    PG_UNROLLED for (int m = 0; m < high; m++)
        PG_UNROLLED for (int t = 0; t < taps; t++) {
            const PG_T sum = PG_NAME(lanes)(sums[m][t]);
            out[m * next + t] = first ? sum : out[m * next + t] + sum;
        }
}

#define PG_CASE(m, t) \
    case 10 * m + t: PG_NAME(dots_tile)(m, t, stretches, n, g, channel, image, at, out, next, first); break;
static PG_TARGET void PG_NAME(pg_dots)(const pg_stretch *stretches, ptrdiff_t n, const void *grad, ptrdiff_t channel,
                                       ptrdiff_t channels, const void *of, const ptrdiff_t *offsets, ptrdiff_t taps,
                                       void *result, ptrdiff_t next, int first)
{
    const PG_T *image = of;
    for (ptrdiff_t m = 0; m < channels;) {
        const PG_T *g = (const PG_T *)grad + m * channel;
        int high = PG_HIGH == 8 ? 4 : 2;
        while (high > channels - m) high /= 2;
        for (ptrdiff_t t = 0; t < taps;) {
            const int seen = taps - t >= 6 ? 6 : taps - t >= 3 ? 3 : 1;
            const ptrdiff_t *at = offsets + t;
            PG_T *out = (PG_T *)result + m * next + t;
            switch (10 * high + seen) {
#if PG_HIGH == 8
            PG_CASE(4, 6) PG_CASE(4, 3) PG_CASE(4, 1)
#endif
            PG_CASE(2, 6) PG_CASE(2, 3) PG_CASE(2, 1) PG_CASE(1, 6) PG_CASE(1, 3) PG_CASE(1, 1)
            }
            t += seen;
        }
        m += high;
    }
}
#undef PG_CASE

#undef VEC
#undef MEMORY
#undef LANES
#undef PG_LOAD
#undef PG_STORE
#undef PG_BODY
#endif
