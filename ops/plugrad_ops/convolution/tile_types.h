/* What functions over tiles are told; see tiles.h. */

#ifndef PG_TILE_TYPES_H
#define PG_TILE_TYPES_H

#include <stddef.h>

/* Places of a result: `width` of every `pitch` places in the image are wanted, `step` apart in a row of the result. */
typedef struct {
    ptrdiff_t depth, length;              /* products in a sum; places, of which a tile may need some more */
    ptrdiff_t pitch, width, step, row, channel;
    const ptrdiff_t *offsets;             /* of each product's element from its place */
} pg_grid;

/* Stretches of places that belong to one sum of `dots`. */
typedef struct { ptrdiff_t grad, image, n; } pg_stretch;

typedef void (*pg_rows_of)(const pg_grid *, const void *image, const void *packed, const void *bias, void *out,
                           ptrdiff_t first, ptrdiff_t last, ptrdiff_t begin, ptrdiff_t end);
typedef void (*pg_dots_of)(const pg_stretch *, ptrdiff_t n, const void *grad, ptrdiff_t channel, ptrdiff_t channels,
                           const void *image, const ptrdiff_t *offsets, ptrdiff_t taps, void *out, ptrdiff_t next, int first);
/* One tile of `rows`: `depth` products each; where not `first`, they are added to what `tile` holds. */
typedef void (*pg_tile_of)(int high, int wide, ptrdiff_t depth, const void *packed, const void *image,
                           const ptrdiff_t *offsets, const void *bias, void *tile, int first);
typedef struct { int lanes, high, wide; pg_rows_of rows; pg_dots_of dots; pg_tile_of tile; } pg_tiles;

#endif
