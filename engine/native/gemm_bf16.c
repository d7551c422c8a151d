/* bfloat16 products with float sums: over pairs of k by vdpbf16ps where the CPU has it; elsewhere
   both sides are widened to float and multiply-added over k = 0, 1, 2, ... */
#include "gemm.h"
#include "gemm_drive.h"

SF_INLINE sf_vec load(const uint16_t *p) {
#if SF_PAIRS
    return _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16));
#else
    float wide[SF_LANES];
    for (int i = 0; i < SF_LANES; i++) wide[i] = from_bf16(p[i]);
    return sf_load(wide);
#endif
}

SF_INLINE void store(uint16_t *p, sf_vec v) {
#if SF_PAIRS
    const __m256bh narrow = _mm512_cvtneps_pbh(v);
    memcpy(p, &narrow, sizeof narrow);
#else
    float wide[SF_LANES];
    sf_store(wide, v);
    for (int i = 0; i < SF_LANES; i++) p[i] = to_bf16(wide[i]);
#endif
}

/* Adds bias and residual to a row's sums of one panel, rounds and writes them. */
SF_INLINE void finish_row(const sf_product *p, int row, int column, const float *sums) {
    const uint16_t *bias = p->bias, *residual = p->residual;
    const size_t at = (size_t)row * (size_t)p->ldy + (size_t)column;
    float *floats = (float *)p->y + at;
    uint16_t *halves = (uint16_t *)p->y + at;
    if (bias) bias += column;
    if (residual) residual += (size_t)row * (size_t)p->ldr + (size_t)column;
    if (p->n - column >= SF_PANEL) {
        SF_UNROLL
        for (int v = 0; v < SF_NV; v++) {
            sf_vec sum = sf_load(sums + v * SF_LANES);
            if (bias) sum = sf_add(sum, load(bias + v * SF_LANES));
            if (residual) sum = sf_add(sum, load(residual + v * SF_LANES));
            if (p->y_is_f32) sf_store(floats + v * SF_LANES, sum);
            else store(halves + v * SF_LANES, sum);
        }
        return;
    }
    float line[SF_PANEL];
    uint16_t narrow[SF_PANEL];
    const int columns = p->n - column;
    memcpy(line, sums, sizeof line);
    for (int c = 0; c < columns; c++) {
        if (bias) line[c] += from_bf16(bias[c]);
        if (residual) line[c] += from_bf16(residual[c]);
    }
    for (int v = 0; v < SF_NV; v++) store(narrow + v * SF_LANES, sf_load(line + v * SF_LANES));
    if (p->y_is_f32) memcpy(floats, line, (size_t)columns * sizeof *line);
    else memcpy(halves, narrow, (size_t)columns * sizeof *narrow);
}

#if SF_PAIRS

/* A pair of x in every lane; beyond k is zero. */
SF_INLINE __m512bh pair(const uint16_t *x) {
    int both;
    memcpy(&both, x, sizeof both);
    return (__m512bh)_mm512_set1_epi32(both);
}
SF_INLINE __m512bh last(const uint16_t *x) { return (__m512bh)_mm512_set1_epi32(*x); }

#define STEP(x_at)                                                                             \
    do {                                                                                       \
        __m512bh columns[SF_NV];                                                               \
        SF_UNROLL                                                                              \
        for (int v = 0; v < SF_NV; v++)                                                        \
            columns[v] = (__m512bh)_mm512_loadu_si512(panel + v * 64);                         \
        SF_UNROLL                                                                              \
        for (int r = 0; r < rows; r++) {                                                       \
            const __m512bh two = x_at(x + (size_t)r * ldx);                                    \
            SF_UNROLL                                                                          \
            for (int v = 0; v < SF_NV; v++)                                                    \
                sums[r][v] = _mm512_dpbf16_ps(sums[r][v], columns[v], two);                    \
        }                                                                                      \
    } while (0)

SF_INLINE void add_up(const int rows, const uint16_t *x, size_t ldx, int k, sf_place at,
                      sf_vec sums[SF_ROWS][SF_NV]) {
    const char *panel = at.panel;
    for (int j = 0; j < k / 2; j++, panel += SF_PANEL * 4, x += 2) {
        STEP(pair);
        sf_prefetch(&at);
    }
    if (k & 1) STEP(last);
}

#else

#define CHUNK 256 /* elements of a row widened at a time: SF_ROWS of them stay in the L1 cache */

SF_INLINE void add_up(const int rows, const uint16_t *x, size_t ldx, int k, sf_place at,
                      sf_vec sums[SF_ROWS][SF_NV]) {
    const char *panel = at.panel;
    float wide[SF_ROWS][CHUNK];
    for (int from = 0; from < k; from += CHUNK) {
        const int length = k - from < CHUNK ? k - from : CHUNK;
        SF_UNROLL
        for (int r = 0; r < rows; r++) {
            const uint16_t *values = x + (size_t)r * ldx + (size_t)from;
            for (int j = 0; j < length; j++) wide[r][j] = from_bf16(values[j]);
            if (length & 1) wide[r][length] = 0;
        }
        for (int j = 0; j < length; j += 2, panel += SF_PANEL * 4) {
            sf_vec columns[SF_NV];
            SF_UNROLL
            for (int v = 0; v < SF_NV; v++) columns[v] = sf_even(panel + v * SF_LANES * 4);
            SF_UNROLL
            for (int r = 0; r < rows; r++) {
                const sf_vec one = sf_all(wide[r][j]);
                SF_UNROLL
                for (int v = 0; v < SF_NV; v++) sums[r][v] = sf_fma(one, columns[v], sums[r][v]);
            }
            SF_UNROLL
            for (int v = 0; v < SF_NV; v++) columns[v] = sf_odd(panel + v * SF_LANES * 4);
            SF_UNROLL
            for (int r = 0; r < rows; r++) {
                const sf_vec one = sf_all(wide[r][j + 1]);
                SF_UNROLL
                for (int v = 0; v < SF_NV; v++) sums[r][v] = sf_fma(one, columns[v], sums[r][v]);
            }
            sf_prefetch(&at);
        }
    }
}

#endif

/* Adds the products of the place's steps to the sums of `rows` rows. */
SF_INLINE void tile(const int rows, const sf_product *p, sf_place at) {
    const size_t ldx = (size_t)p->ldx;
    const uint16_t *x = (const uint16_t *)p->x + (size_t)at.row * ldx + 2 * (size_t)at.begin;
    const int k = (2 * at.end < p->k ? 2 * at.end : p->k) - 2 * at.begin;
    sf_vec sums[SF_ROWS][SF_NV];
    sf_begin(rows, &at, sums);
    add_up(rows, x, ldx, k, at, sums);
    sf_keep(rows, &at, sums);
}

static void finish(const sf_product *p, int row, int rows, int column, const float *sums) {
    for (int r = 0; r < rows; r++) finish_row(p, row + r, column, sums + r * SF_PANEL);
}

#define TILE(rows)                                                                             \
    static void tile_##rows(const sf_product *p, sf_place at) { tile(rows, p, at); }
SF_EACH_TILE(TILE)

void sf_gemm_bf16(const uint16_t *x, int ldx, int m, const void *packed, int n, int k,
                  const uint16_t *bias, const uint16_t *residual, int ldr, void *y, int ldy,
                  int y_is_f32, int n_begin, int n_end) {
    static const sf_tile tiles[SF_ROWS] = SF_TILES;
    const sf_product p = {x, bias, residual, y, ldx, ldr, ldy, n, k, y_is_f32};
    sf_drive(&p, m, packed, (k + 1) / 2, sizeof(uint16_t), n_begin, n_end, tiles, finish);
}
