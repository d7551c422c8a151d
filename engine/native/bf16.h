/* bfloat16: the upper half of a float. */
#ifndef SF_BF16_H
#define SF_BF16_H

#include <stdint.h>
#include <string.h>

#define SF_INLINE static inline __attribute__((always_inline))

SF_INLINE float from_bf16(uint16_t h) {
    uint32_t bits = (uint32_t)h << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Rounded to nearest, ties to even; a NaN stays one. */
SF_INLINE uint16_t to_bf16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((bits >> 16) | 0x40u);
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

#endif
