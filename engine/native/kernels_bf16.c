/* Kernels over bfloat16. */
#include <math.h>

#include "ops.h"
#include "vec.h"

#define ELEM uint16_t
#define PAIR 2
#define NAME(x) x##_bf16
#define LOAD v_from_bf16
#define GET from_bf16
#define PUT to_bf16
#define MAC v_mac_bf16

SF_INLINE void STORE(uint16_t *p, vf x) {
    vh h = v_to_bf16(x);
    memcpy(p, &h, sizeof h);
}

#include "row_kernels.h"
#include "attend_kernels.h"

const sf_kernels sf_kernels_bf16 = {
    embed_bf16, norm_bf16, gated_bf16, rotate_bf16, store_bf16, attend_bf16, scratch_bf16,
};
