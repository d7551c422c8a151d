/* The float vector of this build and the tile shape that suits it, chosen from the compiler's
   macros: AVX512F, AVX2 with FMA, AArch64 NEON, or 16-byte vectors of the compiler.

   SF_LANES  floats in a vector
   SF_NV     vectors across a panel: SF_PANEL = SF_NV * SF_LANES columns of weights
   SF_ROWS   rows of x in the largest tile; SF_ROWS * SF_NV accumulators fit the registers
   SF_SHARED_ROWS  up to here, rows in two tiles are so few that arithmetic outruns the L2 cache
   SF_PAIRS  1 if two bf16 products are one instruction (vdpbf16ps); else bf16 is widened to float

   A multiply-add is fused or not by the variant alone, never by where a row falls in a tile: do not
   compile with -ffast-math, and on machines without FMA intrinsics here pass -ffp-contract=off. */
#ifndef SF_GEMM_SIMD_H
#define SF_GEMM_SIMD_H

#include <stdint.h>
#include <string.h>

#include "bf16.h"

#if defined(__AVX512F__)

#include <immintrin.h>
#define SF_LANES 16
#define SF_NV 3
#define SF_ROWS 8
#define SF_SHARED_ROWS 12
typedef __m512 sf_vec;
static inline sf_vec sf_zero(void) { return _mm512_setzero_ps(); }
static inline sf_vec sf_load(const float *p) { return _mm512_loadu_ps(p); }
static inline void sf_store(float *p, sf_vec v) { _mm512_storeu_ps(p, v); }
static inline sf_vec sf_all(float f) { return _mm512_set1_ps(f); }
static inline sf_vec sf_add(sf_vec a, sf_vec b) { return _mm512_add_ps(a, b); }
static inline sf_vec sf_fma(sf_vec a, sf_vec b, sf_vec c) { return _mm512_fmadd_ps(a, b, c); }
/* Sixteen (even, odd) pairs of bf16 -> the even ones, the odd ones, as floats. */
static inline sf_vec sf_even(const void *p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(p), 16));
}
static inline sf_vec sf_odd(const void *p) {
    return _mm512_castsi512_ps(
        _mm512_and_si512(_mm512_loadu_si512(p), _mm512_set1_epi32((int)0xffff0000u)));
}

#elif defined(__AVX2__) && defined(__FMA__)

#include <immintrin.h>
#define SF_LANES 8
#define SF_NV 2
#define SF_ROWS 5 /* six would spill: widening bf16 takes registers */
typedef __m256 sf_vec;
static inline sf_vec sf_zero(void) { return _mm256_setzero_ps(); }
static inline sf_vec sf_load(const float *p) { return _mm256_loadu_ps(p); }
static inline void sf_store(float *p, sf_vec v) { _mm256_storeu_ps(p, v); }
static inline sf_vec sf_all(float f) { return _mm256_set1_ps(f); }
static inline sf_vec sf_add(sf_vec a, sf_vec b) { return _mm256_add_ps(a, b); }
static inline sf_vec sf_fma(sf_vec a, sf_vec b, sf_vec c) { return _mm256_fmadd_ps(a, b, c); }
static inline sf_vec sf_even(const void *p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_loadu_si256((const __m256i *)p), 16));
}
static inline sf_vec sf_odd(const void *p) {
    return _mm256_castsi256_ps(_mm256_and_si256(_mm256_loadu_si256((const __m256i *)p),
                                                _mm256_set1_epi32((int)0xffff0000u)));
}

#else

#define SF_LANES 4
#define SF_NV 4
#if defined(__aarch64__)
#define SF_ROWS 5
#else
#define SF_ROWS 2
#endif
typedef float sf_vec __attribute__((vector_size(16)));
typedef uint32_t sf_words __attribute__((vector_size(16)));
static inline sf_vec sf_zero(void) { return (sf_vec){0}; }
static inline sf_vec sf_load(const float *p) {
    sf_vec v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline void sf_store(float *p, sf_vec v) { memcpy(p, &v, sizeof v); }
static inline sf_vec sf_all(float f) { return (sf_vec){f, f, f, f}; }
static inline sf_vec sf_add(sf_vec a, sf_vec b) { return a + b; }
#if defined(__aarch64__)
#include <arm_neon.h>
static inline sf_vec sf_fma(sf_vec a, sf_vec b, sf_vec c) {
    return (sf_vec)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}
#else
static inline sf_vec sf_fma(sf_vec a, sf_vec b, sf_vec c) { return a * b + c; }
#endif
static inline sf_words sf_words_at(const void *p) {
    sf_words w;
    memcpy(&w, p, sizeof w);
    return w;
}
static inline sf_vec sf_even(const void *p) { return (sf_vec)(sf_words_at(p) << 16); }
static inline sf_vec sf_odd(const void *p) { return (sf_vec)(sf_words_at(p) & 0xffff0000u); }

#endif

#if defined(__AVX512BF16__) && defined(__AVX512F__)
#define SF_PAIRS 1
#else
#define SF_PAIRS 0
#endif

#ifndef SF_SHARED_ROWS
#define SF_SHARED_ROWS 0
#endif
#define SF_PANEL (SF_NV * SF_LANES)
#define SF_LINES (SF_PANEL * 4 / 64) /* cache lines of packed weights a step of k (a pair, in bf16) */

#if defined(__clang__)
#define SF_UNROLL _Pragma("clang loop unroll(full)")
#else
#define SF_UNROLL _Pragma("GCC unroll 16")
#endif

#endif
