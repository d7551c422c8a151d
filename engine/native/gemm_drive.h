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
#define SF_STEP_BYTES (SF_PANEL * 4)
/* Steps of a panel that two small tiles go over in turn before the next: 18 kB fit the L1 cache
   together with the same amount that is on its way. */
#define SF_PART (18 * 1024 / SF_STEP_BYTES)

typedef struct {
    const void *x, *bias, *residual;
    void *y;
    int ldx, ldr, ldy, n, k, y_is_f32;
} sf_product;

/* Where a tile is, and what it prefetches as it goes. */
typedef struct {
    int row, column;
    int begin, end;       /* steps of k */
    const char *panel;    /* at step `begin` */
    const char *ahead;    /* from here it prefetches, SF_LINES times a step, `stride` bytes apart: */
    size_t stride;        /* evenly, because memory delivers evenly, and without branches */
    float *sums;          /* of the steps before, then of these too: SF_PANEL a row */
} sf_place;

typedef void (*sf_tile)(const sf_product *p, sf_place at);
/* Adds bias and residual to complete sums, rounds and writes them. */
typedef void (*sf_finish)(const sf_product *p, int row, int rows, int column, const float *sums);

/* Runs `tiles[r - 1]` for tiles of r rows over the panels that hold columns [n_begin, n_end).
   `steps` is the packed length of k. The tiles of a block share the work of prefetching the next
   panel, which therefore arrives from memory while this one is used; a lone tile prefetches its
   own panel just ahead. Prefetching goes on beyond the end of `packed`: see gemm.h. */
SF_INLINE void sf_drive(const sf_product *p, int m, const char *packed, int steps, int x_size,
                        int n_begin, int n_end, const sf_tile tiles[SF_ROWS],
                        sf_finish finish) {
    _Alignas(64) float sums[2 * SF_ROWS * SF_PANEL];
    const size_t panel_bytes = (size_t)steps * SF_STEP_BYTES;
    int block = (int)(SF_BLOCK_BYTES / ((size_t)p->k * (size_t)x_size)) / SF_ROWS * SF_ROWS;
    if (block < SF_ROWS * 4) block = SF_ROWS * 4;
    for (int first = 0; first < m; first += block) {
        const int rows = m - first < block ? m - first : block;
        const int count = (rows + SF_ROWS - 1) / SF_ROWS;
        /* Tiles of few rows wait for the L2 cache: two of them share what is in the L1 cache. */
        const int part = count == 2 && rows <= SF_SHARED_ROWS ? SF_PART : steps;
        const size_t stride = (64 + (size_t)count - 1) / (size_t)count;
        const size_t lead = count == 1 ? SF_AHEAD : (size_t)part * SF_STEP_BYTES;
        for (int column = n_begin; column < n_end; column += SF_PANEL) {
            const char *panel = packed + (size_t)(column / SF_PANEL) * panel_bytes;
            for (int begin = 0; begin < steps; begin += part) {
                const int end = steps - begin < part ? steps : begin + part;
                const char *at = panel + (size_t)begin * SF_STEP_BYTES, *ahead = at + lead;
                for (int i = 0, row = 0; i < count; i++) {
                    /* Even tiles: nine rows are five and four, not eight and one. */
                    const int r = rows / count + (i < rows % count);
                    const sf_place place = {first + row, column, begin, end, at, ahead, stride,
                                            part < steps ? sums + row * SF_PANEL : sums};
                    tiles[r - 1](p, place);
                    if (end == steps) finish(p, first + row, r, column, place.sums);
                    ahead += (size_t)(end - begin) * SF_LINES * stride;
                    row += r;
                }
            }
        }
    }
}

SF_INLINE void sf_prefetch(sf_place *at) {
    SF_UNROLL
    for (int i = 0; i < SF_LINES; i++, at->ahead += at->stride) __builtin_prefetch(at->ahead, 0, 3);
}

/* A tile's sums as they are before its steps. */
SF_INLINE void sf_begin(const int rows, const sf_place *at, sf_vec sums[SF_ROWS][SF_NV]) {
    SF_UNROLL
    for (int r = 0; r < rows; r++) {
        SF_UNROLL
        for (int v = 0; v < SF_NV; v++)
            sums[r][v] = at->begin ? sf_load(at->sums + r * SF_PANEL + v * SF_LANES) : sf_zero();
    }
}

/* Puts them down after its steps: exactly as they are. */
SF_INLINE void sf_keep(const int rows, const sf_place *at, sf_vec sums[SF_ROWS][SF_NV]) {
    SF_UNROLL
    for (int r = 0; r < rows; r++) {
        SF_UNROLL
        for (int v = 0; v < SF_NV; v++)
            sf_store(at->sums + r * SF_PANEL + v * SF_LANES, sums[r][v]);
    }
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
