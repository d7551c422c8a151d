/* What is done row by row. Included once per format, with ELEM, NAME(x), LOAD, STORE, GET and PUT.
   A row is computed the same way whichever rows are beside it. */

/* Columns at and behind `at` as floats, zero where the row has ended. */
SF_INLINE vf NAME(load_tail)(const ELEM *row, int at, int n) {
    ELEM padded[SF_LANES] = {0};
    memcpy(padded, row + at, (size_t)(n - at) * sizeof(ELEM));
    return LOAD(padded);
}

static void NAME(embed)(const sf_program *p, const sf_op *op, const sf_step *step, int row) {
    const ELEM *from = (const ELEM *)op->weight + (size_t)step->ids[row] * (size_t)op->n;
    ELEM *to = (ELEM *)p->data[op->out] + (size_t)row * (size_t)p->widths[op->out];
    if (op->scale == 1.0f) {
        memcpy(to, from, (size_t)op->n * sizeof(ELEM));
        return;
    }
    for (int i = 0; i < op->n; i++) to[i] = PUT(GET(from[i]) * op->scale);
}

/* 1 / the root of the mean square of n columns. */
static float NAME(inverse_rms)(const ELEM *in, int n, float eps) {
    vf sum[4] = {{0}};
    int i = 0;
    for (; i + 4 * SF_LANES <= n; i += 4 * SF_LANES)
        for (int j = 0; j < 4; j++) {
            vf x = LOAD(in + i + j * SF_LANES);
            sum[j] += x * x;
        }
    for (; i < n; i += SF_LANES) {
        vf x = i + SF_LANES <= n ? LOAD(in + i) : NAME(load_tail)(in, i, n);
        sum[0] += x * x;
    }
    return 1.0f / sqrtf(v_sum((sum[0] + sum[1]) + (sum[2] + sum[3])) / (float)n + eps);
}

static void NAME(normed)(const ELEM *in, const ELEM *weight, const ELEM *residual, ELEM *out,
                         int n, float eps, float offset) {
    float scale = NAME(inverse_rms)(in, n, eps);
    int i = 0;
    if (!residual && offset == 0.0f)
        for (; i + SF_LANES <= n; i += SF_LANES)
            STORE(out + i, LOAD(in + i) * scale * LOAD(weight + i));
    for (; i < n; i++) {
        float x = GET(in[i]) * scale * (GET(weight[i]) + offset);
        if (residual) x = GET(PUT(x)) + GET(residual[i]);
        out[i] = PUT(x);
    }
}

static void NAME(norm)(const sf_program *p, const sf_op *op, int row) {
    const ELEM *in = (const ELEM *)p->data[op->in] + (size_t)row * (size_t)p->widths[op->in];
    ELEM *out = (ELEM *)p->data[op->out] + (size_t)row * (size_t)p->widths[op->out];
    const ELEM *residual = op->residual < 0 ? NULL :
        (const ELEM *)p->data[op->residual] + (size_t)row * (size_t)p->widths[op->residual];
    NAME(normed)(in, op->weight, residual, out, op->n, op->eps, op->offset);
}

SF_INLINE vf NAME(act)(int act, vf x) {
    if (act == SF_SILU) return x / (1.0f + v_exp(-x));
    if (act == SF_GELU_TANH)
        return 0.5f * x * (1.0f + v_tanh(0.7978845608028654f * (x + 0.044715f * x * x * x)));
    float a[SF_LANES];
    v_store(a, x);
    for (int i = 0; i < SF_LANES; i++) a[i] = 0.5f * a[i] * (1.0f + erff(a[i] * 0.70710678f));
    return v_load(a);
}

static void NAME(gated)(const sf_program *p, const sf_op *op, int row) {
    const ELEM *gate = (const ELEM *)p->data[op->in] + (size_t)row * (size_t)p->widths[op->in];
    const ELEM *up = gate + op->n;
    ELEM *out = (ELEM *)p->data[op->out] + (size_t)row * (size_t)p->widths[op->out];
    int i = 0, n = op->n;
    for (; i + SF_LANES <= n; i += SF_LANES)
        STORE(out + i, NAME(act)(op->act, LOAD(gate + i)) * LOAD(up + i));
    if (i == n) return;
    ELEM padded[SF_LANES];
    STORE(padded, NAME(act)(op->act, NAME(load_tail)(gate, i, n)) * NAME(load_tail)(up, i, n));
    memcpy(out + i, padded, (size_t)(n - i) * sizeof(ELEM));
}

/* x[:rotary] as pairs (x[i], x[i + rotary / 2]), each turned by its angle. */
static void NAME(turn)(ELEM *x, const float *cosines, const float *sines, int rotary) {
    int half = rotary / 2, i = 0;
    for (; i + SF_LANES <= half; i += SF_LANES) {
        vf a = LOAD(x + i), b = LOAD(x + half + i);
        vf c = v_load(cosines + i), s = v_load(sines + i);
        STORE(x + i, a * c - b * s);
        STORE(x + half + i, b * c + a * s);
    }
    for (; i < half; i++) {
        float a = GET(x[i]), b = GET(x[half + i]);
        x[i] = PUT(a * cosines[i] - b * sines[i]);
        x[half + i] = PUT(b * cosines[i] + a * sines[i]);
    }
}

static void NAME(rotate)(const sf_program *p, const sf_op *op, const sf_step *step, int row) {
    const sf_heads *h = &p->heads;
    ELEM *x = (ELEM *)p->data[op->in] + (size_t)row * (size_t)p->widths[op->in];
    size_t angle = (size_t)step->positions[row] * (size_t)(h->rotary / 2);
    for (int head = 0; head < h->heads + h->kv_heads; head++, x += h->dim) {
        const ELEM *weight = head < h->heads ? op->weight : op->second;
        if (weight) NAME(normed)(x, weight, NULL, x, h->dim, op->eps, op->offset);
        NAME(turn)(x, step->cosines + angle, step->sines + angle, h->rotary);
    }
}
