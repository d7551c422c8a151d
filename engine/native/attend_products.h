/* The two products of attention, of few rows with what lies in the pool; one function for each
   number of rows and vectors, so that all sums stay in registers. Included by attend_kernels.h. */

#define UNROLL _Pragma("GCC unroll 16")

/* R rows of q against S vectors of slots, `depth` units deep. */
#define DEFINE_QK(R, S)                                                                         \
static void NAME(qk_##R##_##S)(const uint32_t *q, const uint32_t *const *strips,                \
                               const uint32_t *const *next, int slots, int depth, float scale,  \
                               float *scores, size_t ld, const int32_t *places) {               \
    vf acc[R][S];                                                                               \
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int s = 0; s < S; s++) acc[r][s] = v_all(0); \
    for (int d = 0; d < depth; d++) {                                                           \
        UNROLL for (int s = 0; s < S; s++) {                                                    \
            vu k = v_load_units(strips[s] + (size_t)d * (size_t)slots);                         \
            SF_KEEP(k);                                                                         \
            __builtin_prefetch(next[s] + (size_t)d * (size_t)slots, 0, 3);                      \
            UNROLL for (int r = 0; r < R; r++)                                                  \
                acc[r][s] = MAC(acc[r][s], k, q[r * depth + d]);                                \
        }                                                                                       \
    }                                                                                           \
    UNROLL for (int r = 0; r < R; r++)                                                          \
        UNROLL for (int s = 0; s < S; s++)                                                      \
            v_store(scores + (size_t)r * ld + places[s], acc[r][s] * scale);                    \
}

/* R rows of weights times S vectors of the values' columns, summed over blocks. */
#define DEFINE_PV(R, S)                                                                         \
static void NAME(pv_##R##_##S)(const uint32_t *weights, size_t ld,                              \
                               const uint32_t *const *values, const uint32_t *const *next,      \
                               int column, int blocks,                                          \
                               int depth, int dim, float *out, size_t ldo) {                    \
    vf acc[R][S];                                                                               \
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int s = 0; s < S; s++) acc[r][s] = v_all(0); \
    for (int b = 0; b < blocks; b++) {                                                          \
        const uint32_t *v = values[b] + column, *w = weights + (size_t)b * (size_t)depth;       \
        ptrdiff_t ahead = next[b] - values[b];                                                  \
        for (int u = 0; u < depth; u++, v += dim, w++) {                                        \
            UNROLL for (int s = 0; s < S; s++) {                                                \
                vu x = v_load_units(v + s * SF_LANES);                                          \
                SF_KEEP(x);                                                                     \
                __builtin_prefetch(v + s * SF_LANES + ahead, 0, 3);                             \
                UNROLL for (int r = 0; r < R; r++)                                              \
                    acc[r][s] = MAC(acc[r][s], x, w[(size_t)r * ld]);                           \
            }                                                                                   \
        }                                                                                       \
    }                                                                                           \
    UNROLL for (int r = 0; r < R; r++)                                                          \
        UNROLL for (int s = 0; s < S; s++)                                                      \
            v_store(out + (size_t)r * ldo + s * SF_LANES, acc[r][s]);                           \
}

#define DEFINE(R, S) DEFINE_QK(R, S) DEFINE_PV(R, S)
DEFINE(6, 4) DEFINE(6, 2) DEFINE(6, 1)
DEFINE(4, 4) DEFINE(4, 2) DEFINE(4, 1)
DEFINE(3, 8) DEFINE(3, 4) DEFINE(3, 2) DEFINE(3, 1)
DEFINE(2, 8) DEFINE(2, 4) DEFINE(2, 2) DEFINE(2, 1)
DEFINE(1, 8) DEFINE(1, 4) DEFINE(1, 2) DEFINE(1, 1)

typedef void (*NAME(qk))(const uint32_t *, const uint32_t *const *, const uint32_t *const *, int,
                         int, float, float *, size_t, const int32_t *);
typedef void (*NAME(pv))(const uint32_t *, size_t, const uint32_t *const *,
                         const uint32_t *const *, int, int, int, int, float *, size_t);

/* By rows (see group) and by vectors 1, 2, 4, 8. */
static const NAME(qk) NAME(qks)[7][4] = {
    [6] = {NAME(qk_6_1), NAME(qk_6_2), NAME(qk_6_4), NULL},
    [4] = {NAME(qk_4_1), NAME(qk_4_2), NAME(qk_4_4), NULL},
    [3] = {NAME(qk_3_1), NAME(qk_3_2), NAME(qk_3_4), NAME(qk_3_8)},
    [2] = {NAME(qk_2_1), NAME(qk_2_2), NAME(qk_2_4), NAME(qk_2_8)},
    [1] = {NAME(qk_1_1), NAME(qk_1_2), NAME(qk_1_4), NAME(qk_1_8)},
};
static const NAME(pv) NAME(pvs)[7][4] = {
    [6] = {NAME(pv_6_1), NAME(pv_6_2), NAME(pv_6_4), NULL},
    [4] = {NAME(pv_4_1), NAME(pv_4_2), NAME(pv_4_4), NULL},
    [3] = {NAME(pv_3_1), NAME(pv_3_2), NAME(pv_3_4), NAME(pv_3_8)},
    [2] = {NAME(pv_2_1), NAME(pv_2_2), NAME(pv_2_4), NAME(pv_2_8)},
    [1] = {NAME(pv_1_1), NAME(pv_1_2), NAME(pv_1_4), NAME(pv_1_8)},
};

/* How many of `left` rows, and vectors, the next kernel takes; *level: its column in the table. */
static int NAME(rows_of)(int left) {
    static const int sizes[] = {6, 4, 3, 2, 1};
    int i = 0;
    while (sizes[i] > left) i++;
    return sizes[i];
}
static int NAME(vectors_of)(int rows, int left, int *level) {
    int most = rows > 3 ? 2 : 3;
    while (1 << most > left) most--;
    *level = most;
    return 1 << most;
}
