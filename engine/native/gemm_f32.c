/* fp32 products: y = x w' + bias + residual, float multiply-adds over k = 0, 1, 2, ... */
#include "gemm.h"
#include "gemm_drive.h"

/* Adds bias and residual to a row's sums of one panel and writes them. */
SF_INLINE void finish_row(const sf_product *p, int row, int column, const float *sums) {
    const float *bias = p->bias, *residual = p->residual;
    float *y = (float *)p->y + (size_t)row * (size_t)p->ldy + column;
    if (bias) bias += column;
    if (residual) residual += (size_t)row * (size_t)p->ldr + (size_t)column;
    if (p->n - column >= SF_PANEL) {
        SF_UNROLL
        for (int v = 0; v < SF_NV; v++) {
            sf_vec sum = sf_load(sums + v * SF_LANES);
            if (bias) sum = sf_add(sum, sf_load(bias + v * SF_LANES));
            if (residual) sum = sf_add(sum, sf_load(residual + v * SF_LANES));
            sf_store(y + v * SF_LANES, sum);
        }
        return;
    }
    for (int c = 0; c < p->n - column; c++) {
        float sum = sums[c];
        if (bias) sum += bias[c];
        if (residual) sum += residual[c];
        y[c] = sum;
    }
}

/* Adds the products of the place's steps to the sums of `rows` rows. */
SF_INLINE void tile(const int rows, const sf_product *p, sf_place at) {
    const float *w = (const float *)at.panel;
    const size_t ldx = (size_t)p->ldx;
    const float *x = (const float *)p->x + (size_t)at.row * ldx + at.begin;
    sf_vec sums[SF_ROWS][SF_NV];
    sf_begin(rows, &at, sums);
    for (int j = at.begin; j < at.end; j++, w += SF_PANEL, x++) {
        sf_vec columns[SF_NV];
        SF_UNROLL
        for (int v = 0; v < SF_NV; v++) columns[v] = sf_load(w + v * SF_LANES);
        SF_UNROLL
        for (int r = 0; r < rows; r++) {
            const sf_vec one = sf_all(x[(size_t)r * ldx]);
            SF_UNROLL
            for (int v = 0; v < SF_NV; v++) sums[r][v] = sf_fma(one, columns[v], sums[r][v]);
        }
        sf_prefetch(&at);
    }
    sf_keep(rows, &at, sums);
}

static void finish(const sf_product *p, int row, int rows, int column, const float *sums) {
    for (int r = 0; r < rows; r++) finish_row(p, row + r, column, sums + r * SF_PANEL);
}

#define TILE(rows)                                                                             \
    static void tile_##rows(const sf_product *p, sf_place at) { tile(rows, p, at); }
SF_EACH_TILE(TILE)

void sf_gemm_f32(const float *x, int ldx, int m, const void *packed, int n, int k,
                 const float *bias, const float *residual, int ldr, float *y, int ldy, int n_begin,
                 int n_end) {
    static const sf_tile tiles[SF_ROWS] = SF_TILES;
    const sf_product p = {x, bias, residual, y, ldx, ldr, ldy, n, k, 1};
    sf_drive(&p, m, packed, k, sizeof(float), n_begin, n_end, tiles, finish);
}
