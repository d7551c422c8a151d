/* Attention over the pool. Included once per format, after row_kernels.h.

   The pool of a layer is [block][kv head][keys, values], in units of four bytes: PAIR elements.
   Keys lie across, [dim / PAIR][slots], so that 16 slots are one vector and no sum runs over lanes;
   values lie along, [slots / PAIR][dim]. With pairs, an odd block has one slot more than it uses,
   whose weight is 0. Vectors may be read beyond the end of a row, never used; behind the pool there
   is room for one.

   Scores of a row are summed over dim in its order, weights by position modulo 16, outputs by
   position: nothing depends on what is computed beside, on how the tokens came (in chunks or one
   by one), or on the number of threads. Rows before the last of a tile multiply what they must not
   see by 0. */

#define SLOTS(step) (((step)->block + PAIR - 1) / PAIR * PAIR)

static void NAME(store)(const sf_layer *a, const sf_step *step, int sequence, int row) {
    int dim = a->heads.dim, slots = SLOTS(step);
    int position = (int)step->positions[row], slot = position % step->block;
    int block = step->tables[(size_t)sequence * (size_t)step->table_width
                             + (size_t)(position / step->block)];
    size_t tile = (size_t)dim * (size_t)slots;
    ELEM *to = (ELEM *)a->pool + (size_t)block * (size_t)a->heads.kv_heads * 2 * tile;
    const ELEM *k = (const ELEM *)a->k + row * a->k_row, *v = (const ELEM *)a->v + row * a->v_row;
    for (int h = 0; h < a->heads.kv_heads; h++, to += 2 * tile) {
        const ELEM *key = k + h * a->k_head, *value = v + h * a->v_head;
        for (int d = 0; d < dim; d += PAIR)
            memcpy(to + (size_t)d * (size_t)slots + (size_t)slot * PAIR, key + d, 4);
        ELEM *values = to + tile + (size_t)(slot / PAIR) * (size_t)dim * PAIR + slot % PAIR;
        for (int d = 0; d < dim; d++) values[d * PAIR] = value[d];
    }
}

#include "attend_products.h"

/* Before anything is hidden: the cap of -infinity is a score like others. */
static void NAME(cap)(float *scores, int n, float softcap) {
    for (int i = 0; i < n; i += SF_LANES)
        v_store(scores + i, softcap * v_tanh(v_load(scores + i) / softcap));
}

/* Weights of n scores, of which [low, high) are seen; returns 1 / their sum. */
static float NAME(softmax)(float *scores, ELEM *weights, int n, int low, int high,
                           const float *sink) {
    for (int i = 0; i < low; i++) scores[i] = -INFINITY;
    for (int i = high; i < n; i++) scores[i] = -INFINITY;
    vf most = v_load(scores);
    for (int i = SF_LANES; i < n; i += SF_LANES) most = v_max(most, v_load(scores + i));
    float highest = v_highest(most);
    if (sink && *sink > highest) highest = *sink;
    vf sum = v_all(0);
    for (int i = 0; i < n; i += SF_LANES) {
        vf weight = v_exp(v_load(scores + i) - highest);
        sum += weight;
        STORE(weights + i, weight);
    }
    float total = v_sum(sum);
    if (sink) total += v_exp(v_all(*sink - highest))[0];
    return 1.0f / total;
}

/* What of the pool a tile reads, in slots counted from the first block that any of its rows sees.
   That block begins at a multiple of SF_LANES slots of the sequence. */
typedef struct {
    int first, blocks, slots, n, strips;
    size_t ld;
} NAME(range);

static NAME(range) NAME(range_of)(const sf_layer *a, const sf_step *step, int position, int rows) {
    NAME(range) r;
    r.slots = SLOTS(step);
    int oldest = a->window > 0 && position >= a->window ? position - a->window + 1 : 0;
    r.first = oldest / step->block;
    while (r.first * r.slots % SF_LANES) r.first--;
    r.blocks = (position + rows - 1) / step->block + 1 - r.first;
    r.n = (r.blocks * r.slots + SF_LANES - 1) / SF_LANES * SF_LANES;
    r.strips = r.blocks * ((r.slots + SF_LANES - 1) / SF_LANES);
    r.ld = (size_t)r.n + SF_LANES; /* the last vector of a block may be stored beyond its end */
    return r;
}

/* Where keys and values of a range lie; lists of another range's length for what is read ahead. */
static void NAME(find)(const sf_layer *a, const sf_step *step, const sf_tile *tile, int kv_head,
                       const NAME(range) *r, const uint32_t **strips, int most_strips,
                       const uint32_t **values, int most_blocks) {
    const int32_t *table = step->tables + (size_t)tile->sequence * (size_t)step->table_width;
    size_t half = (size_t)(a->heads.dim / PAIR) * (size_t)r->slots;
    int i = 0;
    for (int b = 0; b < most_blocks; b++) {
        int block = table[r->first + (b < r->blocks ? b : r->blocks - 1)];
        const uint32_t *keys = (const uint32_t *)a->pool
            + ((size_t)block * (size_t)a->heads.kv_heads + (size_t)kv_head) * 2 * half;
        values[b] = keys + half;
        for (int s = 0; s < r->slots && i < most_strips; s += SF_LANES) strips[i++] = keys + s;
    }
}

/* Bytes for a tile of `rows` query rows of one kv head, at the longest sequence of the step. */
static size_t NAME(scratch)(const sf_layer *a, const sf_step *step, int rows) {
    size_t m = (size_t)rows * (size_t)(a->heads.heads / a->heads.kv_heads);
    size_t blocks = (size_t)(step->longest / step->block) + 2 + SF_LANES;
    size_t slots = (size_t)SLOTS(step), ld = blocks * slots + 2 * SF_LANES;
    size_t strips = blocks * ((slots + SF_LANES - 1) / SF_LANES);
    size_t dim = (size_t)a->heads.dim + SF_LANES;
    return m * (ld * 8 + dim * 8 + 4) + strips * 20 + blocks * 16 + 64;
}

static int NAME(attend)(const sf_layer *a, const sf_step *step, const sf_tile *tile, int kv_head,
                        const sf_tile *next, int next_head, sf_threads *threads, int thread) {
    int group = a->heads.heads / a->heads.kv_heads, dim = a->heads.dim, depth = dim / PAIR;
    int m = tile->count * group, position = (int)step->positions[tile->row];
    NAME(range) r = NAME(range_of)(a, step, position, tile->count);
    size_t ldo = (size_t)(dim + SF_LANES - 1) / SF_LANES * SF_LANES;
    char *memory = sf_scratch(threads, thread, NAME(scratch)(a, step, tile->count));
    if (!memory) return -1;
    const uint32_t **strips = (const uint32_t **)memory, **values = strips + r.strips;
    const uint32_t **strips_ahead = values + r.blocks, **values_ahead = strips_ahead + r.strips;
    float *scores = (float *)(values_ahead + r.blocks);
    uint32_t *weights = (uint32_t *)(scores + (size_t)m * r.ld);
    float *out = (float *)(weights + (size_t)m * r.ld);
    uint32_t *q = (uint32_t *)(out + (size_t)m * ldo);
    int32_t *places = (int32_t *)(q + (size_t)m * (size_t)depth);

    NAME(find)(a, step, tile, kv_head, &r, strips, r.strips, values, r.blocks);
    if (next) {
        NAME(range) s = NAME(range_of)(a, step, (int)step->positions[next->row], next->count);
        NAME(find)(a, step, next, next_head, &s, strips_ahead, r.strips, values_ahead, r.blocks);
    } else {
        strips_ahead = strips;
        values_ahead = values;
    }
    for (int b = 0, i = 0; b < r.blocks; b++)
        for (int s = 0; s < r.slots; s += SF_LANES) places[i++] = b * r.slots + s;
    for (int i = 0; i < m; i++) {
        const ELEM *from = (const ELEM *)a->q + (tile->row + i / group) * a->q_row
                         + (kv_head * group + i % group) * a->q_head;
        memcpy(q + (size_t)i * (size_t)depth, from, (size_t)dim * sizeof(ELEM));
    }
    for (int i = 0, rows; i < m; i += rows) {
        rows = NAME(rows_of)(m - i);
        for (int s = 0, many, level; s < r.strips; s += many) {
            many = NAME(vectors_of)(rows > 3 ? rows : 4, r.strips - s, &level);
            NAME(qks)[rows][level](q + (size_t)i * (size_t)depth, strips + s, strips_ahead + s,
                                   r.slots, depth, a->scale, scores + (size_t)i * r.ld, r.ld,
                                   places + s);
        }
    }
    float inverse[m];
    for (int i = 0; i < m; i++) {
        float *row = scores + (size_t)i * r.ld;
        int own = position + i / group, begun = r.first * step->block;
        int oldest = a->window > 0 && own >= a->window ? own - a->window + 1 : 0;
        /* Slots of this row's own block and of its oldest one, and those that no position has. */
        int high = (own - begun) / step->block * r.slots + (own - begun) % step->block + 1;
        int low = oldest <= begun ? 0 : (oldest - begun) / step->block * r.slots
                                        + (oldest - begun) % step->block;
        if (a->softcap > 0.0f) NAME(cap)(row, r.n, a->softcap);
        if (r.slots != step->block)
            for (int b = 0; b < r.blocks; b++) row[b * r.slots + step->block] = -INFINITY;
        const float *sink = a->sinks ? a->sinks + kv_head * group + i % group : NULL;
        inverse[i] = NAME(softmax)(row, (ELEM *)(weights + (size_t)i * r.ld), r.n, low, high, sink);
    }
    for (int i = 0, rows; i < m; i += rows) {
        rows = NAME(rows_of)(m - i);
        for (int c = 0, many, level; c < dim; c += many * SF_LANES) {
            many = NAME(vectors_of)(rows, (dim - c + SF_LANES - 1) / SF_LANES, &level);
            NAME(pvs)[rows][level](weights + (size_t)i * r.ld, r.ld, values, values_ahead, c,
                                   r.blocks, r.slots / PAIR, dim, out + (size_t)i * ldo + c, ldo);
        }
    }
    for (int i = 0; i < m; i++) {
        ELEM *to = (ELEM *)a->out + (tile->row + i / group) * a->out_row
                 + (kv_head * group + i % group) * dim;
        const float *from = out + (size_t)i * ldo;
        int d = 0;
        for (; d + SF_LANES <= dim; d += SF_LANES) STORE(to + d, v_load(from + d) * inverse[i]);
        for (; d < dim; d++) to[d] = PUT(from[d] * inverse[i]);
    }
    return 0;
}
