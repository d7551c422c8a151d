/* Threads that share out the chunks of one piece of work. */
#ifndef SF_THREADS_H
#define SF_THREADS_H

#include <stddef.h>

/* chunk counts from 0, thread from 0, which is the caller. */
typedef void (*sf_work)(void *argument, int chunk, int thread);

typedef struct sf_threads sf_threads;

/* count >= 1 threads, the caller of sf_parallel among them; NULL when the system has no more. */
sf_threads *sf_threads_new(int count);
void sf_threads_free(sf_threads *threads);
int sf_threads_count(const sf_threads *threads);

/* Do all chunks (at most 65535) and return. One caller at a time. Chunks are taken one by one, so a
   thread that lost its core delays the others by its chunk alone. */
void sf_parallel(sf_threads *threads, int chunks, sf_work work, void *argument);

/* Scratch memory of a thread, aligned to 64 bytes and kept; NULL when there is none left. */
void *sf_scratch(sf_threads *threads, int thread, size_t bytes);

#endif
