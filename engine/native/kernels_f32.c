/* Kernels over floats. */
#include <math.h>

#include "ops.h"
#include "vec.h"

#define ELEM float
#define PAIR 1
#define NAME(x) x##_f32
#define LOAD v_load
#define GET(x) (x)
#define PUT(x) (x)
#define MAC v_mac_f32

SF_INLINE void STORE(float *p, vf x) { v_store(p, x); }

#include "row_kernels.h"
#include "attend_kernels.h"

const sf_kernels sf_kernels_f32 = {
    embed_f32, norm_f32, gated_f32, rotate_f32, store_f32, attend_f32, scratch_f32,
};
