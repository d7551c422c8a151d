/* Packed weights: panels of SF_PANEL rows of w, each panel step by step along k. A step holds, for
   each row of the panel, one float, or a pair of consecutive bf16 (even first). Rows beyond n and
   the odd element beyond k are zero. */
#include "gemm.h"
#include "gemm_simd.h"

static size_t panels(int n) { return ((size_t)n + SF_PANEL - 1) / SF_PANEL; }

int sf_gemm_panel(void) { return SF_PANEL; }

size_t sf_packed_size_bf16(int n, int k) {
    return panels(n) * (((size_t)k + 1) / 2) * SF_PANEL * 4;
}

size_t sf_packed_size_f32(int n, int k) { return panels(n) * (size_t)k * SF_PANEL * 4; }

void sf_pack_bf16(const uint16_t *w, int n, int k, void *packed) {
    uint16_t *out = packed;
    for (int first = 0; first < n; first += SF_PANEL)
        for (int j = 0; j < k; j += 2)
            for (int c = 0; c < SF_PANEL; c++) {
                const uint16_t *row = w + (size_t)(first + c) * (size_t)k + (size_t)j;
                *out++ = first + c < n ? row[0] : 0;
                *out++ = first + c < n && j + 1 < k ? row[1] : 0;
            }
}

void sf_pack_f32(const float *w, int n, int k, void *packed) {
    float *out = packed;
    for (int first = 0; first < n; first += SF_PANEL)
        for (int j = 0; j < k; j++)
            for (int c = 0; c < SF_PANEL; c++)
                *out++ = first + c < n ? w[(size_t)(first + c) * (size_t)k + (size_t)j] : 0.0f;
}
