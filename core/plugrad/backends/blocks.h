/* Memory of large arrays, kept when they go and used for the next ones.

   (a) Fresh memory costs more than what is computed into it: the system clears each page when it is first touched.
   (b) A block's size is rounded up to one of eight steps in each doubling, so that arrays of nearly one size share
       blocks. Where no block of a step waits, one of up to twice the size will do: otherwise a program keeps the most
       that it ever had of each size, twice what it has at any time.
   (c) What is kept is bounded: beyond the limit, blocks that have waited longest go back to the system first. And where
       no block will do, so many of them go that all memory together exceeds by no more than a quarter what was in use
       at any time: the largest first, since those that have waited longest are the next to be asked for in a program
       that repeats its steps.
   (d) Large blocks are mapped one by one: among the program's other memory they would leave gaps that nothing fits, and
       what goes back would not reach the system. Their data begin at different places of a page, for caches in which
       those at one place compete. From 2 MiB on they ask for huge pages, as NumPy does from 4: a copy that transposes
       took twice as long in processes whose pages happened to lie far apart.
   (e) The caller holds the GIL. */

#ifndef PLUGRAD_BLOCKS_H
#define PLUGRAD_BLOCKS_H

#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef _WIN32
#include <malloc.h>
#else
#include <sys/mman.h>
#if !defined(MAP_ANONYMOUS) && defined(MAP_ANON)
#define MAP_ANONYMOUS MAP_ANON
#endif
#endif

enum { PG_STEPS = 8, PG_CLASSES = 64 * PG_STEPS, PG_ALIGNMENT = 64 };

/* From these sizes on memory is mapped, with room before the data for an offset of less than a page, and in huge pages. */
enum { PG_MAPPED_FROM = 1 << 18, PG_HUGE_FROM = 1 << 21 };
enum { PG_OFFSETS = 7, PG_APART = 9 * PG_ALIGNMENT, PG_ROOM = PG_OFFSETS * PG_APART };
#define PG_TRACE_DOMAIN 389047u /* NumPy's, under which it also reports that a block was freed */

typedef struct pg_block {
    size_t size;                           /* without this header */
    int step;
    int offset;                            /* of this header, in mapped memory */
    struct pg_block *above, *below;        /* of the same step, the last freed above */
    struct pg_block *newer, *older;        /* of all that wait */
} pg_block;

typedef union {
    pg_block block;
    char room[128];                        /* keeps the data aligned */
} pg_header;

typedef struct {
    pg_block *top[PG_CLASSES], *newest, *oldest;
    size_t limit, held, held_blocks, used, most, used_blocks, obtained;
} pg_store_type;

static pg_store_type pg_store;

/* The step of a size, which becomes the size of the step's blocks. */
static int pg_step(size_t *size)
{
    const int low = 63 - __builtin_clzll((unsigned long long)(*size | 4096)) - 3;
    const size_t unit = (size_t)1 << low, units = (*size + unit - 1) / unit;
    *size = units * unit;
    return low * PG_STEPS + (int)(units - PG_STEPS);
}

static void pg_unlink(pg_block *b)
{
    if (b->above) b->above->below = b->below; else pg_store.top[b->step] = b->below;
    if (b->below) b->below->above = b->above;
    if (b->newer) b->newer->older = b->older; else pg_store.newest = b->older;
    if (b->older) b->older->newer = b->newer; else pg_store.oldest = b->newer;
    pg_store.held -= b->size;
    pg_store.held_blocks--;
}

static void pg_release(pg_block *b)
{
#ifdef _WIN32
    _aligned_free(b);
#else
    if (b->size < PG_MAPPED_FROM)
        free(b);
    else
        munmap((char *)b - b->offset, b->size + sizeof(pg_header) + PG_ROOM);
#endif
}

/* Give what waits back to the system until at most `limit` bytes are left: what has waited longest first. */
static void pg_trim(size_t limit)
{
    while (pg_store.held > limit) {
        pg_block *b = pg_store.oldest;
        pg_unlink(b);
        pg_release(b);
    }
}

/* The same, the largest first. */
static void pg_trim_largest(size_t limit)
{
    int step = PG_CLASSES - 1;
    while (pg_store.held > limit) {
        pg_block *b;
        while (!pg_store.top[step])
            step--;
        b = pg_store.top[step];
        pg_unlink(b);
        pg_release(b);
    }
}

static pg_block *pg_obtain(size_t size)
{
    const size_t whole = size + sizeof(pg_header);
    void *found = NULL;
#ifdef _WIN32
    found = _aligned_malloc(whole, PG_ALIGNMENT);
#else
    if (size >= PG_MAPPED_FROM) {
        static unsigned turn;
        const int offset = (int)(turn++ % PG_OFFSETS) * PG_APART;
        found = mmap(NULL, whole + PG_ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (found == MAP_FAILED)
            return NULL;
#ifdef MADV_HUGEPAGE
        if (size >= PG_HUGE_FROM)
            madvise(found, whole + PG_ROOM, MADV_HUGEPAGE);
#endif
        found = (char *)found + offset;
        ((pg_block *)found)->offset = offset;
    } else if (posix_memalign(&found, PG_ALIGNMENT, whole)) {
        found = NULL;
    }
#endif
    return (pg_block *)found;
}

static void *pg_take(size_t size)
{
    const int step = pg_step(&size);
    pg_block *b = NULL;
    int larger;
    for (larger = 0; larger <= PG_STEPS && !b; larger++)
        b = pg_store.top[step + larger];
    if (b) {
        pg_unlink(b);
    } else {
        const size_t most = pg_store.used + size > pg_store.most ? pg_store.used + size : pg_store.most;
        pg_trim_largest(most + most / 4 - pg_store.used - size);
        b = pg_obtain(size);
        if (!b) {
            pg_trim(0);
            b = pg_obtain(size);
        }
        if (!b)
            return NULL;
        pg_store.obtained++;
        b->size = size;
        b->step = step;
    }
    pg_store.used += b->size;
    pg_store.used_blocks++;
    if (pg_store.used > pg_store.most)
        pg_store.most = pg_store.used;
    return (pg_header *)b + 1;
}

static void pg_give(void *data)
{
    pg_block *b = (pg_block *)((pg_header *)data - 1);
    pg_store.used -= b->size;
    pg_store.used_blocks--;
    if (b->size > pg_store.limit) {
        pg_release(b);
        return;
    }
    b->above = NULL;
    b->below = pg_store.top[b->step];
    if (b->below) b->below->above = b;
    pg_store.top[b->step] = b;
    b->newer = NULL;
    b->older = pg_store.newest;
    if (b->older) b->older->newer = b; else pg_store.oldest = b;
    pg_store.newest = b;
    pg_store.held += b->size;
    pg_store.held_blocks++;
    pg_trim(pg_store.limit);
}

/* ---- as NumPy wants it: an array whose memory came from here gives it back by these ---- */

static void *pg_malloc(void *context, size_t size)
{
    (void)context;
    return pg_take(size);
}

static void *pg_calloc(void *context, size_t n, size_t size)
{
    void *data = NULL;
    (void)context;
    if (!size || n <= SIZE_MAX / size) {
        data = pg_take(n * size);
        if (data)
            memset(data, 0, n * size);
    }
    return data;
}

static void pg_free(void *context, void *data, size_t size)
{
    (void)context;
    (void)size; /* of the array as it is now */
    if (data)
        pg_give(data);
}

static void *pg_realloc(void *context, void *data, size_t size)
{
    void *moved = pg_take(size);
    if (moved && data) {
        const size_t before = ((pg_header *)data - 1)->block.size;
        memcpy(moved, data, before < size ? before : size);
        pg_free(context, data, 0);
    }
    return moved;
}
#endif
