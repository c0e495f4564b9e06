/* Copies of rows of images. */

#ifndef PG_RUNS_H
#define PG_RUNS_H

#include <stddef.h>
#include <string.h>

/* Some dozen bytes, a multiple of four, for which a call of memcpy is too much. */
static inline void pg_copy_bytes(char *restrict to, const char *restrict from, ptrdiff_t bytes)
{
    ptrdiff_t at = 0;
    for (; at + 16 <= bytes; at += 16) memcpy(to + at, from + at, 16);
    if (at == bytes) return;
    if (at) memcpy(to + bytes - 16, from + bytes - 16, 16);   /* overlaps the block before */
    else for (; at < bytes; at += 4) memcpy(to + at, from + at, 4);
}

#endif
