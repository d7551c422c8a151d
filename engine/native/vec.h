/* Vectors of 16 lanes in the compiler's own notation: the same source for AVX-512, AVX2 and NEON. */
#ifndef SF_VEC_H
#define SF_VEC_H

#include <stdint.h>
#include <string.h>
#ifdef __AVX512F__
#include <immintrin.h>
#endif

#include "bf16.h"

#define SF_LANES 16

typedef float vf __attribute__((vector_size(64)));
typedef uint32_t vu __attribute__((vector_size(64)));
typedef int32_t vi __attribute__((vector_size(64)));
typedef uint16_t vh __attribute__((vector_size(32)));

SF_INLINE vf v_load(const void *p) { vf x; memcpy(&x, p, sizeof x); return x; }
SF_INLINE vu v_load_units(const void *p) { vu x; memcpy(&x, p, sizeof x); return x; }
SF_INLINE void v_store(void *p, vf x) { memcpy(p, &x, sizeof x); }
SF_INLINE vf v_all(float x) { return (vf){} + x; }
SF_INLINE vf v_pick(vi mask, vf yes, vf no) { return (vf)(((vi)yes & mask) | ((vi)no & ~mask)); }
SF_INLINE vf v_max(vf a, vf b) {
#ifdef __AVX512F__
    return (vf)_mm512_max_ps((__m512)a, (__m512)b);
#else
    return v_pick(a > b, a, b);
#endif
}

/* Keeps a loaded vector in its register, instead of loading it again for each use. */
#ifdef __AVX512F__
#define SF_KEEP(x) __asm__("" : "+v"(x))
#else
#define SF_KEEP(x) ((void)0)
#endif

/* Lanes in one fixed order, a tree: the same sum wherever it is taken. */
SF_INLINE float v_sum(vf x) {
#ifdef __AVX512F__
    return _mm512_reduce_add_ps((__m512)x);
#endif
    float a[SF_LANES];
    v_store(a, x);
    for (int n = SF_LANES / 2; n; n /= 2)
        for (int i = 0; i < n; i++) a[i] += a[i + n];
    return a[0];
}

SF_INLINE float v_highest(vf x) {
#ifdef __AVX512F__
    return _mm512_reduce_max_ps((__m512)x);
#endif
    float a[SF_LANES];
    v_store(a, x);
    for (int n = SF_LANES / 2; n; n /= 2)
        for (int i = 0; i < n; i++) a[i] = a[i] > a[i + n] ? a[i] : a[i + n];
    return a[0];
}

/* As bf16.h has it, by vectors. */
SF_INLINE vf v_from_bf16(const uint16_t *p) {
    vh h;
    memcpy(&h, p, sizeof h);
    return (vf)(__builtin_convertvector(h, vu) << 16);
}
SF_INLINE vh v_to_bf16(vf x) {
#if defined(__AVX512BF16__) && defined(__AVX512F__)
    return (vh)_mm512_cvtneps_pbh((__m512)x);
#else
    vu bits = (vu)x;
    vu rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    vu quiet = (bits >> 16) | 0x40u;
    vu nan = (vu)(x != x);
    return __builtin_convertvector((quiet & nan) | (rounded & ~nan), vh);
#endif
}

/* exp, to two units in the last place (coefficients of Cephes' expf). Where it would be no normal
   number it may be 0, of -infinity it is, above 88 it is that of 88; a NaN stays one. */
SF_INLINE vf v_exp(vf x) {
#ifdef __AVX512F__
    /* The first operand of these gives way to a NaN in the second. */
    __m512 y = _mm512_min_ps(_mm512_set1_ps(88.0f), (__m512)x);
    y = _mm512_max_ps(_mm512_set1_ps(-104.0f), y);
    __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(y, _mm512_set1_ps(1.44269504088896341f)), 8);
    __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375f), y);
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-2.12194440e-4f), r);
    __m512 p = _mm512_set1_ps(1.9875691500e-4f);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.3981999507e-3f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(8.3334519073e-3f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(4.1665795894e-2f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.6666665459e-1f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(5.0000001201e-1f));
    p = _mm512_fmadd_ps(p, _mm512_mul_ps(r, r), r);
    return (vf)_mm512_scalef_ps(_mm512_add_ps(p, _mm512_set1_ps(1.0f)), n);
#else
    const vf magic = v_all(12582912.0f);
    vf y = v_pick(x > v_all(88.0f), v_all(88.0f), x);
    y = v_pick(y < v_all(-87.0f), v_all(-87.0f), y);
    vf t = y * 1.44269504088896341f + magic;
    vf n = t - magic;
    vf r = (y - n * 0.693359375f) - n * -2.12194440e-4f;
    vf p = v_all(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    vi power = ((vi)t - (vi)magic + 127) << 23;
    return v_pick(x < v_all(-87.0f), v_all(0.0f), p * (vf)power);
#endif
}
SF_INLINE vf v_tanh(vf x) { return 1.0f - 2.0f / (1.0f + v_exp(2.0f * x)); }

/* acc + the products of what a unit of four bytes holds: two of bfloat16, or one float. */
SF_INLINE vf v_mac_bf16(vf acc, vu a, uint32_t b) {
#if defined(__AVX512BF16__) && defined(__AVX512F__)
    return (vf)_mm512_dpbf16_ps((__m512)acc, (__m512bh)a, (__m512bh)_mm512_set1_epi32((int)b));
#else
    float low = from_bf16((uint16_t)b), high = from_bf16((uint16_t)(b >> 16));
    acc += (vf)(a << 16) * low;
    return acc + (vf)(a & 0xffff0000u) * high;
#endif
}
SF_INLINE vf v_mac_f32(vf acc, vu a, uint32_t b) {
    float x;
    memcpy(&x, &b, sizeof x);
    return acc + (vf)a * x;
}

#endif
