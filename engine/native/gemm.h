/* Matrix products with weights that are packed once.

   y[m][n] = sum_k x[m][k] * w[n][k] + bias[n] + residual[m][n]; row strides ldx, ldy, ldr in
   elements. Sums are float; each is accumulated over k in one fixed order that depends on neither m
   nor the thread count, so that a row's result is bit-identical in any batch. bias and residual may
   be NULL; both are added in float, before the result is rounded to bfloat16 (which uint16_t
   holds). The residual may be y itself. Only columns [n_begin, n_end) are computed: threads split
   them at multiples of sf_gemm_panel() columns. m, n, k >= 1, of any size. -0.0, NaN and infinity
   follow IEEE; vdpbf16ps takes denormals for zero.

   For speed:
   - Put the packed weights of a model into one buffer, in the order in which a step uses them,
     aligned to 2 MiB with madvise(MADV_HUGEPAGE) before it is first written. A call prefetches past
     the end of its panels: then what it prefetches is what the next call reads, at full speed from
     its first line. (Prefetching is only a hint: nothing need be mapped there.)
   - Give a thread one stretch of panels for all m, the next thread the next: more rows are nearly
     free until the arithmetic takes longer than reading the weights.
   - x is read again for every panel: keep its rows dense (ldx near k). It needs no alignment. */
#ifndef SF_GEMM_H
#define SF_GEMM_H

#include <stddef.h>
#include <stdint.h>

int sf_gemm_panel(void);

/* Bytes of the packed weight w[n][k]; the buffer must be aligned to 64 bytes. */
size_t sf_packed_size_bf16(int n, int k);
void sf_pack_bf16(const uint16_t *w, int n, int k, void *packed);
/* y holds floats when y_is_f32, else bfloat16. */
void sf_gemm_bf16(const uint16_t *x, int ldx, int m, const void *packed, int n, int k,
                  const uint16_t *bias, const uint16_t *residual, int ldr,
                  void *y, int ldy, int y_is_f32, int n_begin, int n_end);

size_t sf_packed_size_f32(int n, int k);
void sf_pack_f32(const float *w, int n, int k, void *packed);
void sf_gemm_f32(const float *x, int ldx, int m, const void *packed, int n, int k,
                 const float *bias, const float *residual, int ldr,
                 float *y, int ldy, int n_begin, int n_end);

#endif
