/* Runs a program for one step, and attention alone. */
#include "ops.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "gemm.h"

/* Chunks of an operator, a few for each thread: some threads are slower, or late. */
#define CHUNKS 8

typedef struct {
    const sf_program *program;
    const sf_op *op;
    const sf_step *step;
    const sf_kernels *kernels;
    const sf_layer *layer;
    const sf_tile *tiles;
    sf_threads *threads;
    int count, chunks; /* of tiles, rows or panels */
    int rows;          /* of the buffers at this point of the program */
    _Atomic int failed;
} job;

static int first_of(const job *j, int chunk) {
    return (int)((int64_t)j->count * chunk / j->chunks);
}

static void share(job *j, int count, int most, sf_work work) {
    j->count = count;
    j->chunks = sf_threads_count(j->threads) == 1 ? 1 : count < most ? count : most;
    sf_parallel(j->threads, j->chunks, work, j);
}

static char *at(const job *j, int buffer) { return (char *)j->program->data[buffer]; }

static void rows_of_op(void *argument, int chunk, int thread) {
    (void)thread;
    job *j = argument;
    const sf_op *op = j->op;
    for (int row = first_of(j, chunk); row < first_of(j, chunk + 1); row++) switch (op->kind) {
        case SF_EMBED: j->kernels->embed(j->program, op, j->step, row); break;
        case SF_NORM: j->kernels->norm(j->program, op, row); break;
        case SF_GATED: j->kernels->gated(j->program, op, row); break;
        case SF_ROTATE: j->kernels->rotate(j->program, op, j->step, row); break;
        case SF_GATHER: {
            size_t bytes = (size_t)j->program->widths[op->in] * (j->program->bf16 ? 2 : 4);
            memcpy(at(j, op->out) + (size_t)row * bytes,
                   at(j, op->in) + (size_t)j->step->wanted[row] * bytes, bytes);
        }
    }
}

static int panels(int n) { return (n + sf_gemm_panel() - 1) / sf_gemm_panel(); }

/* Chunks of a product: two for each thread. A panel is fetched while the one before it is used, so
   the first of a chunk is waited for, and many small chunks are slower than one thread. */
static int products(const sf_threads *threads) {
    return sf_threads_count(threads) == 1 ? 1 : 2 * sf_threads_count(threads);
}

/* Columns [begin, end) of all rows: by those who computed them, for a vocabulary is long. */
static void capped(const sf_op *op, float *logits, int rows, int begin, int end) {
    for (int row = 0; row < rows; row++, logits += op->n)
        for (int i = begin; i < end; i++) logits[i] = op->softcap * tanhf(logits[i] / op->softcap);
}

static void panels_of_linear(void *argument, int chunk, int thread) {
    (void)thread;
    job *j = argument;
    const sf_op *op = j->op;
    int panel = sf_gemm_panel();
    int begin = first_of(j, chunk) * panel, end = first_of(j, chunk + 1) * panel;
    if (end > op->n) end = op->n;
    int head = op->kind == SF_HEAD;
    void *out = head ? (void *)j->step->logits : at(j, op->out);
    int ldx = j->program->widths[op->in], ldy = head ? op->n : j->program->widths[op->out];
    const void *residual = op->residual < 0 ? NULL : at(j, op->residual);
    int ldr = op->residual < 0 ? 0 : j->program->widths[op->residual];
    if (j->program->bf16)
        sf_gemm_bf16((const uint16_t *)at(j, op->in), ldx, j->rows, op->weight, op->n, op->k,
                     op->second, residual, ldr, out, ldy, head, begin, end);
    else
        sf_gemm_f32((const float *)at(j, op->in), ldx, j->rows, op->weight, op->n, op->k,
                    op->second, residual, ldr, out, ldy, begin, end);
    if (op->softcap > 0.0f) capped(op, out, j->rows, begin, end);
}

typedef struct {
    const void *x, *packed, *bias;
    void *y;
    int m, n, k, bf16, count, chunks;
} product;

static void panels_of_product(void *argument, int chunk, int thread) {
    (void)thread;
    const product *p = argument;
    int panel = sf_gemm_panel();
    int begin = (int)((int64_t)p->count * chunk / p->chunks) * panel;
    int end = (int)((int64_t)p->count * (chunk + 1) / p->chunks) * panel;
    if (end > p->n) end = p->n;
    if (p->bf16)
        sf_gemm_bf16(p->x, p->k, p->m, p->packed, p->n, p->k, p->bias, NULL, 0, p->y, p->n, 0,
                     begin, end);
    else
        sf_gemm_f32(p->x, p->k, p->m, p->packed, p->n, p->k, p->bias, NULL, 0, p->y, p->n,
                    begin, end);
}

void sf_linear(const void *x, int m, const void *packed, int n, int k, const void *bias, void *y,
               int bf16, sf_threads *threads) {
    int count = panels(n), most = products(threads);
    product p = {x, packed, bias, y, m, n, k, bf16, count, count < most ? count : most};
    sf_parallel(threads, p.chunks, panels_of_product, &p);
}

static int sequence_of(const sf_step *step, int row) {
    int low = 0, high = step->sequences - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (step->firsts[middle] <= row) low = middle;
        else high = middle - 1;
    }
    return low;
}

static void stored_rows(void *argument, int chunk, int thread) {
    (void)thread;
    job *j = argument;
    int end = first_of(j, chunk + 1), row = first_of(j, chunk);
    int sequence = sequence_of(j->step, row);
    for (; row < end; row++) {
        while (j->step->firsts[sequence + 1] <= row) sequence++;
        j->kernels->store(j->layer, j->step, sequence, row);
    }
}

/* Tiles are counted once for each kv head; the heads of a tile follow each other. */
static void attended_tiles(void *argument, int chunk, int thread) {
    job *j = argument;
    int kv_heads = j->layer->heads.kv_heads, end = first_of(j, chunk + 1);
    for (int i = first_of(j, chunk); i < end; i++) {
        const sf_tile *tile = &j->tiles[i / kv_heads], *next = NULL;
        /* Rows of a prompt read what the rows before them brought into the cache. */
        if (i + 1 < end && tile->count == 1) next = &j->tiles[(i + 1) / kv_heads];
        if (j->kernels->attend(j->layer, j->step, tile, i % kv_heads, next, (i + 1) % kv_heads,
                               j->threads, thread))
            atomic_store(&j->failed, 1);
    }
}

/* Rows of one sequence that share the reading of keys: as many as two kernels take. */
static int rows_of_tile(const sf_heads *heads) {
    int group = heads->heads / heads->kv_heads;
    return group >= 12 ? 1 : 12 / group;
}

static sf_tile *tiles_of(const sf_step *step, const sf_heads *heads, int *count) {
    sf_tile *tiles = malloc(sizeof *tiles * (size_t)step->rows);
    int most = rows_of_tile(heads), n = 0;
    if (!tiles) return NULL;
    for (int s = 0; s < step->sequences; s++) {
        int end = step->firsts[s + 1];
        for (int row = step->firsts[s]; row < end; row += most)
            tiles[n++] = (sf_tile){s, row, end - row < most ? end - row : most};
    }
    *count = n;
    return tiles;
}

static void attention(job *j, int tiles) {
    share(j, j->step->rows, 4 * CHUNKS, stored_rows);
    share(j, tiles * j->layer->heads.kv_heads, 8 * CHUNKS, attended_tiles);
}

int sf_attend(const sf_layer *layer, const sf_step *step, int bf16, sf_threads *threads) {
    int count;
    sf_tile *tiles = tiles_of(step, &layer->heads, &count);
    if (!tiles) return -1;
    job j = {.step = step, .layer = layer, .tiles = tiles, .threads = threads,
             .kernels = bf16 ? &sf_kernels_bf16 : &sf_kernels_f32};
    attention(&j, count);
    free(tiles);
    return j.failed ? -1 : 0;
}

static void attend_op(job *j, int tiles) {
    const sf_op *op = j->op;
    const sf_heads *h = &j->program->heads;
    size_t size = j->program->bf16 ? 2 : 4;
    const char *q = at(j, op->in), *k = q + (size_t)(h->heads * h->dim) * size;
    int64_t width = j->program->widths[op->in];
    sf_layer layer = {
        .q = q, .k = k, .v = k + (size_t)(h->kv_heads * h->dim) * size, .out = at(j, op->out),
        .q_row = width, .q_head = h->dim, .k_row = width, .k_head = h->dim,
        .v_row = width, .v_head = h->dim, .out_row = j->program->widths[op->out],
        .pool = j->step->pool[op->layer], .sinks = op->second, .scale = op->scale,
        .softcap = op->softcap, .window = op->window, .heads = *h,
    };
    j->layer = &layer;
    attention(j, tiles);
    j->layer = NULL;
}

int sf_run(const sf_program *program, const sf_step *step, sf_threads *threads) {
    int tiles;
    job j = {.program = program, .step = step, .threads = threads, .rows = step->rows,
             .kernels = program->bf16 ? &sf_kernels_bf16 : &sf_kernels_f32};
    sf_tile *list = tiles_of(step, &program->heads, &tiles);
    if (!list) return -1;
    j.tiles = list;
    for (int i = 0; i < program->count && j.rows && !j.failed; i++) {
        const sf_op *op = j.op = &program->ops[i];
        switch (op->kind) {
            case SF_ATTEND: attend_op(&j, tiles); break;
            case SF_LINEAR:
            case SF_HEAD:
                share(&j, panels(op->n), products(threads), panels_of_linear);
                break;
            case SF_GATHER:
                j.rows = step->sampled; /* and on */
                share(&j, j.rows, CHUNKS, rows_of_op);
                break;
            default: share(&j, j.rows, CHUNKS, rows_of_op);
        }
    }
    free(list);
    return j.failed ? -1 : 0;
}
