/* Time of all matrix products of one model pass, against what the machine can do.

   Weights are distinct and cold, as in a real step: SmolLM2-135M's 30 layers and head, more than any
   cache. Prints, for each number of rows m, the median, least and 90th percentile of repetitions,
   and the share of two bounds measured by the same run: multiply-adds on registers alone, and
   reading the weights.

   cd engine/native && cc -std=gnu11 -O3 -march=native -I. bench/gemm.c gemm_*.c -pthread -o /tmp/gemm
   /tmp/gemm bf16|f32 THREADS REPETITIONS M... */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "gemm.h"
#include "gemm_simd.h"

enum { LAYERS = 30, KINDS = 5, HEAD = 4, WEIGHTS = LAYERS * HEAD + 1, MOST = 1000 };
static const int N[KINDS] = {960, 576, 3072, 576, 49152}, K[KINDS] = {576, 576, 576, 1536, 576};

typedef struct {
    int f32, threads, rows, closing;
    char *weights[WEIGHTS + 1];
    void *x, *residual, *y[KINDS];
    pthread_barrier_t start;
    int waiting, round; /* of the spinning barrier between products */
} bench;

typedef struct {
    bench *b;
    int thread;
} worker;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void meet(bench *b) {
    const int round = __atomic_load_n(&b->round, __ATOMIC_ACQUIRE);
    if (__atomic_add_fetch(&b->waiting, 1, __ATOMIC_ACQ_REL) == b->threads) {
        __atomic_store_n(&b->waiting, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&b->round, round + 1, __ATOMIC_RELEASE);
        return;
    }
    while (__atomic_load_n(&b->round, __ATOMIC_ACQUIRE) == round) {}
}

static size_t packed_size(const bench *b, int kind) {
    return b->f32 ? sf_packed_size_f32(N[kind], K[kind]) : sf_packed_size_bf16(N[kind], K[kind]);
}

static void product(bench *b, int index, int thread) {
    const int kind = index == WEIGHTS - 1 ? HEAD : index % HEAD, n = N[kind], k = K[kind];
    const int panel = sf_gemm_panel(), panels = (n + panel - 1) / panel;
    const int begin = panels * thread / b->threads * panel;
    const int end = panels * (thread + 1) / b->threads * panel;
    const void *residual = kind == 1 || kind == 3 ? b->residual : NULL;
    const int last = end < n ? end : n;
    if (b->f32)
        sf_gemm_f32(b->x, k, b->rows, b->weights[index], n, k, NULL, residual, n, b->y[kind], n,
                    begin, last);
    else
        sf_gemm_bf16(b->x, k, b->rows, b->weights[index], n, k, NULL, residual, n, b->y[kind], n,
                     kind == HEAD, begin, last);
}

static void pass(bench *b, int thread) {
    for (int i = 0; i < WEIGHTS; i++) {
        product(b, i, thread);
        meet(b);
    }
}

/* Reads the thread's share of the weights. */
static float read_weights(const bench *b, int thread) {
    const size_t floats = (size_t)(b->weights[WEIGHTS] - b->weights[0]) / sizeof(float);
    const size_t step = 4 * SF_LANES, part = floats / (size_t)b->threads / step * step;
    const float *p = (const float *)(const void *)b->weights[0] + (size_t)thread * part;
    sf_vec sums[4] = {sf_zero(), sf_zero(), sf_zero(), sf_zero()};
    for (size_t i = 0; i < part; i += step) {
        for (size_t line = 0; line < step; line += 16) __builtin_prefetch(p + i + line + 1024, 0, 3);
        SF_UNROLL
        for (int v = 0; v < 4; v++) sums[v] = sf_add(sums[v], sf_load(p + i + v * SF_LANES));
    }
    float out[SF_LANES];
    sf_store(out, sf_add(sf_add(sums[0], sums[1]), sf_add(sums[2], sums[3])));
    return out[0];
}

/* Everything that threads do together: a command each time all have arrived. */
static void together(bench *b, int thread) {
    if (b->rows) {
        pass(b, thread);
        return;
    }
    volatile float kept = read_weights(b, thread);
    (void)kept;
    meet(b);
}

static void *work(void *argument) {
    worker *w = argument;
    for (;;) {
        pthread_barrier_wait(&w->b->start);
        if (w->b->closing) return NULL;
        meet(w->b);
        together(w->b, w->thread);
    }
}

/* Seconds of one pass of `rows` rows, or of reading the weights when that is 0. */
static double timed(bench *b, int rows) {
    b->rows = rows;
    pthread_barrier_wait(&b->start);
    meet(b);
    const double begun = now();
    together(b, 0);
    return now() - begun;
}

/* Multiply-adds a second of one core, on registers. */
static double arithmetic(int f32) {
    enum { CHAINS = 12, ROUNDS = 4000000 };
    sf_vec sums[CHAINS];
    SF_UNROLL
    for (int i = 0; i < CHAINS; i++) sums[i] = sf_zero();
    double multiplies = (double)ROUNDS * CHAINS * SF_LANES;
    const double begun = now();
#if SF_PAIRS
    if (!f32) {
        const __m512bh one = (__m512bh)_mm512_set1_epi32(0x3f803f80);
        multiplies *= 2;
        for (int r = 0; r < ROUNDS; r++) {
            SF_UNROLL
            for (int i = 0; i < CHAINS; i++) {
                sums[i] = _mm512_dpbf16_ps(sums[i], one, one);
                __asm__ volatile("" : "+v"(sums[i]));
            }
        }
    } else
#endif
    {
        (void)f32;
        sf_vec one = sf_all(1.0f);
        for (int r = 0; r < ROUNDS; r++) {
            SF_UNROLL
            for (int i = 0; i < CHAINS; i++) {
                sums[i] = sf_fma(one, one, sums[i]);
#if defined(__x86_64__)
                __asm__ volatile("" : "+v"(sums[i]));
#else
                __asm__ volatile("" : "+w"(sums[i]));
#endif
            }
        }
    }
    const double seconds = now() - begun;
    float kept[CHAINS * SF_LANES];
    SF_UNROLL
    for (int i = 0; i < CHAINS; i++) sf_store(kept + i * SF_LANES, sums[i]);
    __asm__ volatile("" : : "r"(kept) : "memory");
    return multiplies / seconds;
}

static int order(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Zeroed memory in large pages where the system has them. */
static char *memory(size_t bytes) {
    const size_t page = (size_t)2 << 20;
    char *p = mmap(NULL, bytes + 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) exit(1);
    p += page - (size_t)p % page;
#ifdef MADV_HUGEPAGE
    madvise(p, bytes, MADV_HUGEPAGE);
#endif
    return memset(p, 0, bytes);
}

int main(int count, char **words) {
    static bench b;
    static double seconds[MOST];
    if (count < 5) return fprintf(stderr, "%s bf16|f32 THREADS REPETITIONS M...\n", words[0]), 2;
    b.f32 = !strcmp(words[1], "f32");
    b.threads = atoi(words[2]);
    const int repetitions = atoi(words[3]) < MOST ? atoi(words[3]) : MOST;
    size_t bytes = 0, rows = 1, size = b.f32 ? 4 : 2;
    double multiplies = 0;
    for (int i = 4; i < count; i++) rows = (size_t)atoi(words[i]) > rows ? (size_t)atoi(words[i]) : rows;
    for (int i = 0; i < WEIGHTS; i++) {
        const int kind = i == WEIGHTS - 1 ? HEAD : i % HEAD;
        bytes += packed_size(&b, kind);
        multiplies += (double)N[kind] * K[kind];
    }
    b.weights[0] = memory(bytes);
    for (int i = 0; i < WEIGHTS; i++)
        b.weights[i + 1] = b.weights[i] + packed_size(&b, i == WEIGHTS - 1 ? HEAD : i % HEAD);
    b.x = memory(rows * 1536 * size);
    b.residual = memory(rows * 576 * size);
    for (int kind = 0; kind < KINDS; kind++) b.y[kind] = memory(rows * (size_t)N[kind] * 4);
    pthread_barrier_init(&b.start, NULL, (unsigned)b.threads);
    for (int t = 1; t < b.threads; t++) {
        pthread_t id;
        worker *w = malloc(sizeof *w);
        *w = (worker){&b, t};
        if (pthread_create(&id, NULL, work, w)) return 1;
    }
    double fastest = 0;
    for (int r = 0; r < 9; r++) {
        const double rate = arithmetic(b.f32);
        fastest = rate > fastest ? rate : fastest;
        seconds[r] = timed(&b, 0);
    }
    qsort(seconds, 9, sizeof *seconds, order);
    const double reading = seconds[4], computing = multiplies / fastest / b.threads;
    printf("%s, threads %d: %.0f GF/s on registers (all cores), %.1f GB/s read, %.0f MB of weights\n",
           words[1], b.threads, 2e-9 * fastest * b.threads, 1e-9 * (double)bytes / reading,
           1e-6 * (double)bytes);
    for (int i = 4; i < count; i++) {
        const int m = atoi(words[i]);
        timed(&b, m);
        for (int r = 0; r < repetitions; r++) seconds[r] = timed(&b, m);
        qsort(seconds, (size_t)repetitions, sizeof *seconds, order);
        const double median = seconds[repetitions / 2];
        printf("m %4d: %7.2f ms (least %.2f, p90 %.2f), %5.1f GF/s, %4.1f GB/s; bounds: arithmetic "
               "%.2f ms (%.0f %%), memory %.2f ms (%.0f %%)\n",
               m, 1e3 * median, 1e3 * seconds[0], 1e3 * seconds[repetitions * 9 / 10],
               2e-9 * m * multiplies / median, 1e-9 * (double)bytes / median, 1e3 * m * computing,
               100 * m * computing / median, 1e3 * reading, 100 * reading / median);
    }
    b.closing = 1;
    pthread_barrier_wait(&b.start);
    return 0;
}
