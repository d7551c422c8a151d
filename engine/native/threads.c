#include "threads.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#if defined(__x86_64__) || defined(__i386__)
#define PAUSE() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define PAUSE() __asm__ volatile("yield")
#else
#define PAUSE() ((void)0)
#endif

/* Rounds of waiting before a thread sleeps: some ten microseconds, about one operator of a step. */
#define SPINS 2000

struct worker {
    sf_threads *threads;
    int index;
    pthread_t id;
};

struct sf_threads {
    int count;
    struct worker *workers;
    void **scratch;
    size_t *scratch_size;
    sf_work work;
    void *argument;
    /* What is to be done: number of the work << 32 | chunks << 16 | next chunk. A chunk is taken by
       exchanging the whole, and work and argument are read after that: they stay until all chunks
       are done. Whoever comes late finds another number or no chunk, and takes nothing. */
    _Atomic uint64_t state;
    _Atomic int done;
    _Atomic int sleepers;
    _Atomic int caller_sleeps;
    int closing;
    pthread_mutex_t lock;
    pthread_cond_t more, finished;
};

/* Take and do one chunk; whether there was one. */
static int take(sf_threads *t, int thread) {
    uint64_t seen = atomic_load(&t->state);
    for (;;) {
        int chunks = (int)(seen >> 16 & 0xffff), next = (int)(seen & 0xffff);
        if (next >= chunks) return 0;
        if (!atomic_compare_exchange_weak(&t->state, &seen, seen + 1)) continue;
        t->work(t->argument, next, thread);
        if (atomic_fetch_add(&t->done, 1) + 1 == chunks && atomic_load(&t->caller_sleeps)) {
            pthread_mutex_lock(&t->lock);
            pthread_cond_signal(&t->finished);
            pthread_mutex_unlock(&t->lock);
        }
        return 1;
    }
}

static int waiting(sf_threads *t) {
    uint64_t seen = atomic_load(&t->state);
    return (seen & 0xffff) < (seen >> 16 & 0xffff);
}

static void *main_of_worker(void *argument) {
    struct worker *worker = argument;
    sf_threads *t = worker->threads;
    for (;;) {
        while (take(t, worker->index)) {}
        int spins = 0;
        while (!waiting(t) && spins < SPINS) {
            PAUSE();
            spins++;
        }
        if (spins < SPINS) continue;
        pthread_mutex_lock(&t->lock);
        atomic_fetch_add(&t->sleepers, 1);
        while (!waiting(t) && !t->closing) pthread_cond_wait(&t->more, &t->lock);
        atomic_fetch_sub(&t->sleepers, 1);
        int closing = t->closing;
        pthread_mutex_unlock(&t->lock);
        if (closing) return NULL;
    }
}

void sf_parallel(sf_threads *t, int chunks, sf_work work, void *argument) {
    if (t->count == 1 || chunks == 1) {
        for (int chunk = 0; chunk < chunks; chunk++) work(argument, chunk, 0);
        return;
    }
    t->work = work;
    t->argument = argument;
    atomic_store(&t->done, 0);
    uint64_t number = (atomic_load(&t->state) >> 32) + 1;
    atomic_store(&t->state, number << 32 | (uint64_t)chunks << 16);
    if (atomic_load(&t->sleepers)) {
        pthread_mutex_lock(&t->lock);
        pthread_cond_broadcast(&t->more);
        pthread_mutex_unlock(&t->lock);
    }
    while (take(t, 0)) {}
    for (int spins = 0; atomic_load(&t->done) < chunks && spins < SPINS; spins++) PAUSE();
    if (atomic_load(&t->done) >= chunks) return;
    pthread_mutex_lock(&t->lock);
    atomic_store(&t->caller_sleeps, 1);
    while (atomic_load(&t->done) < chunks) pthread_cond_wait(&t->finished, &t->lock);
    atomic_store(&t->caller_sleeps, 0);
    pthread_mutex_unlock(&t->lock);
}

sf_threads *sf_threads_new(int count) {
    sf_threads *t = calloc(1, sizeof *t);
    if (!t) return NULL;
    t->workers = calloc((size_t)count, sizeof *t->workers);
    t->scratch = calloc((size_t)count, sizeof *t->scratch);
    t->scratch_size = calloc((size_t)count, sizeof *t->scratch_size);
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->more, NULL);
    pthread_cond_init(&t->finished, NULL);
    t->count = 1;
    int made = t->workers && t->scratch && t->scratch_size;
    for (int i = 1; made && i < count; i++) {
        struct worker *worker = &t->workers[i];
        *worker = (struct worker){t, i, 0};
        if (pthread_create(&worker->id, NULL, main_of_worker, worker)) made = 0;
        else t->count = i + 1;
    }
    if (made) return t;
    sf_threads_free(t);
    return NULL;
}

void sf_threads_free(sf_threads *t) {
    if (!t) return;
    pthread_mutex_lock(&t->lock);
    t->closing = 1;
    pthread_cond_broadcast(&t->more);
    pthread_mutex_unlock(&t->lock);
    for (int i = 1; i < t->count; i++) pthread_join(t->workers[i].id, NULL);
    for (int i = 0; t->scratch && i < t->count; i++) free(t->scratch[i]);
    pthread_mutex_destroy(&t->lock);
    pthread_cond_destroy(&t->more);
    pthread_cond_destroy(&t->finished);
    free(t->workers);
    free(t->scratch);
    free(t->scratch_size);
    free(t);
}

int sf_threads_count(const sf_threads *t) { return t->count; }

void *sf_scratch(sf_threads *t, int thread, size_t bytes) {
    if (t->scratch_size[thread] < bytes) {
        free(t->scratch[thread]);
        t->scratch_size[thread] = 0;
        t->scratch[thread] = aligned_alloc(64, (bytes + 63) / 64 * 64);
        if (t->scratch[thread]) t->scratch_size[thread] = bytes;
    }
    return t->scratch[thread];
}
