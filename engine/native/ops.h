/* A model as a flat list of operators over buffers, and one step of it. Python fills these
   structures (engine/native/records.py has the same fields). */
#ifndef SF_OPS_H
#define SF_OPS_H

#include <stddef.h>
#include <stdint.h>

#include "threads.h"

enum sf_kind {
    SF_EMBED,   /* out[row] = weight[ids[row]] * scale */
    SF_NORM,    /* out = in / rms(in) * (weight + offset) (+ residual) */
    SF_LINEAR,  /* out = in weight^T + second (+ residual) */
    SF_ROTATE,  /* heads of in: norms weight (queries) and second (keys) if any, rotation, store */
    SF_ATTEND,  /* out = attention of the queries in `in` over the pool of `layer` */
    SF_GATED,   /* out = act(in[:n]) * in[n:2n] */
    SF_GATHER,  /* out[i] = in[rows[i]]; what follows works on those rows */
    SF_HEAD,    /* logits = in weight^T + second, as floats; softcapped if softcap > 0 */
};

enum sf_act { SF_SILU, SF_GELU_TANH, SF_GELU };

typedef struct {
    int32_t kind, act;
    int32_t in, out, residual; /* buffers; residual -1: none */
    int32_t n, k;              /* columns of out and of in */
    int32_t layer, window;     /* window 0: all positions */
    float eps, scale, softcap, offset;
    const void *weight;
    const void *second; /* bias of a linear, key norm of a rotation, sinks (floats) of attention */
} sf_op;

/* Heads of the queries, then of the keys, then of the values lie side by side in a row. */
typedef struct {
    int32_t heads, kv_heads, dim, rotary; /* rotary: how many of dim are rotated */
} sf_heads;

typedef struct {
    int32_t bf16; /* 1: all elements are bfloat16, 0: floats */
    int32_t count;
    sf_heads heads;
    const sf_op *ops;
    void **data;           /* of the buffers: [rows][width] */
    const int32_t *widths;
} sf_program;

/* T rows of S sequences, each at positions that ascend by one. */
typedef struct {
    int32_t rows, sequences;
    int32_t block, table_width, sampled;
    int32_t longest;           /* the highest position + 1 */
    const int64_t *ids;        /* [rows] */
    const int64_t *positions;  /* [rows] */
    const int32_t *firsts;     /* [sequences + 1] row of each */
    const int32_t *tables;     /* [sequences][table_width] blocks */
    const int64_t *wanted;     /* [sampled] rows whose logits are wanted */
    void *const *pool;         /* [layers], see attend_kernels.h */
    const float *cosines, *sines; /* [positions][rotary / 2] */
    float *logits;             /* [sampled][vocabulary] */
} sf_step;

/* Queries, keys and values of one layer; strides in elements. */
typedef struct {
    const void *q, *k, *v;
    void *out;
    int64_t q_row, q_head, k_row, k_head, v_row, v_head, out_row;
    void *pool;
    const float *sinks;
    float scale, softcap;
    int32_t window;
    sf_heads heads;
} sf_layer;

/* Rows of one sequence that are attended together. */
typedef struct {
    int32_t sequence, row, count;
} sf_tile;

typedef struct {
    void (*embed)(const sf_program *, const sf_op *, const sf_step *, int row);
    void (*norm)(const sf_program *, const sf_op *, int row);
    void (*gated)(const sf_program *, const sf_op *, int row);
    void (*rotate)(const sf_program *, const sf_op *, const sf_step *, int row);
    void (*store)(const sf_layer *, const sf_step *, int sequence, int row);
    /* One tile and kv head; the keys and values of the next one, if any, are fetched meanwhile. */
    int (*attend)(const sf_layer *, const sf_step *, const sf_tile *, int kv_head,
                  const sf_tile *next, int next_head, sf_threads *, int thread);
    size_t (*scratch)(const sf_layer *, const sf_step *, int rows);
} sf_kernels;

extern const sf_kernels sf_kernels_bf16, sf_kernels_f32;

/* All return 0, or -1 when there is no memory. */
int sf_run(const sf_program *program, const sf_step *step, sf_threads *threads);
int sf_attend(const sf_layer *layer, const sf_step *step, int bf16, sf_threads *threads);

/* y[m][n] = x[m][k] times a packed weight, + bias unless it is NULL. */
void sf_linear(const void *x, int m, const void *packed, int n, int k, const void *bias, void *y,
               int bf16, sf_threads *threads);

#endif
