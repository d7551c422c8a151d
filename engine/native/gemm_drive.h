/* How a product is cut into tiles; the same for both types. A tile is 1..SF_ROWS rows of x times
   one packed panel of SF_PANEL weight rows (columns of y), over all of k. */
#ifndef SF_GEMM_DRIVE_H
#define SF_GEMM_DRIVE_H

#include <stddef.h>

#include "gemm_simd.h"

/* Rows per block: a block of x stays in the L2 cache while every panel passes over it. */
#define SF_BLOCK_BYTES (384 * 1024)
/* How far ahead of a single tile its own panel is prefetched: memory's latency times its rate. */
#define SF_AHEAD 8192

typedef struct {
    const void *x, *bias, *residual;
    void *y;
    int ldx, ldr, ldy, n, k, y_is_f32;
} sf_product;

/* What a tile prefetches as it goes, from `at` onwards: `lines` cache lines at a step of k, `then`
   at the next step, and so on in turn. Evenly spread, because memory delivers evenly. */
typedef struct {
    const char *at;
    int lines, then;
} sf_ahead;

typedef void (*sf_tile)(const sf_product *p, int row, int column, const char *panel, sf_ahead ahead);

/* Runs `tiles[r - 1]` for tiles of r rows over the panels that hold columns [n_begin, n_end).
   `steps` is the packed length of k. The tiles of a block share the work of prefetching the next
   panel, which therefore arrives from memory while this one is used; a lone tile prefetches its
   own panel just ahead. Reading past the end of `packed` only prefetches: see gemm.h. */
SF_INLINE void sf_drive(const sf_product *p, int m, const char *packed, int steps, int x_size,
                        int n_begin, int n_end, const sf_tile tiles[SF_ROWS]) {
    const size_t panel_bytes = (size_t)steps * SF_PANEL * 4;
    int block = (int)(SF_BLOCK_BYTES / ((size_t)p->k * (size_t)x_size)) / SF_ROWS * SF_ROWS;
    if (block < SF_ROWS * 4) block = SF_ROWS * 4;
    for (int first = 0; first < m; first += block) {
        const int rows = m - first < block ? m - first : block;
        const int count = (rows + SF_ROWS - 1) / SF_ROWS;
        for (int column = n_begin; column < n_end; column += SF_PANEL) {
            const char *panel = packed + (size_t)(column / SF_PANEL) * panel_bytes;
            const char *next = count == 1 ? panel + SF_AHEAD : panel + panel_bytes;
            int row = first;
            for (int i = 0; i < count; i++) {
                /* Even tiles: nine rows are five and four, not eight and one. */
                const int r = rows / count + (i < rows % count);
                const int lines = 2 * SF_LINES / count + (i < 2 * SF_LINES % count);
                tiles[r - 1](p, row, column, panel, (sf_ahead){next, (lines + 1) / 2, lines / 2});
                next += (size_t)steps * 32 * (size_t)lines;
                row += r;
            }
        }
    }
}

SF_INLINE void sf_prefetch(sf_ahead *ahead) {
    const int lines = ahead->lines;
    for (int i = 0; i < lines; i++, ahead->at += 64) __builtin_prefetch(ahead->at, 0, 3);
    ahead->lines = ahead->then;
    ahead->then = lines;
}

/* The tiles of 1..SF_ROWS rows, one function each so that their loops unroll: SF_EACH_TILE(TILE)
   defines them by TILE(rows), SF_TILES lists them. */
#if SF_ROWS == 8
#define SF_EACH_TILE(T) T(1) T(2) T(3) T(4) T(5) T(6) T(7) T(8)
#define SF_TILES {tile_1, tile_2, tile_3, tile_4, tile_5, tile_6, tile_7, tile_8}
#elif SF_ROWS == 5
#define SF_EACH_TILE(T) T(1) T(2) T(3) T(4) T(5)
#define SF_TILES {tile_1, tile_2, tile_3, tile_4, tile_5}
#else
#define SF_EACH_TILE(T) T(1) T(2)
#define SF_TILES {tile_1, tile_2}
#endif

#endif
