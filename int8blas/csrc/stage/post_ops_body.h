/* The post-ops in f32, on runs of whole chunks, for the epilogue (stage_body.h) and for chains of element-wise
 * operators (fused_body.h). The function of a post-op is selected once for each run. */
#include "stage/eltwise_runs.h"

/* Set each number of y to an expression of x, the corresponding number of `from`. Local arrays tell GCC that a chunk of
 * y overlaps no other array. Without local arrays, GCC would compute single numbers if y is `from`. */
#define I8_MAP(expression)                                                                                             \
    do {                                                                                                               \
        for (int64_t i = 0; i < n; i += I8_CHUNK) {                                                                    \
            float x_[I8_CHUNK], y_[I8_CHUNK];                                                                          \
            i8_floats_store(x_, i8_floats_load(from + i));                                                             \
            I8_EACH                                                                                                    \
            {                                                                                                          \
                const float x = x_[v];                                                                                 \
                y_[v] = (expression);                                                                                  \
            }                                                                                                          \
            i8_floats_store(y + i, i8_floats_load(y_));                                                                \
        }                                                                                                              \
    } while (0)

/* Set y = scale * t for the numbers x of `from`. With I8_LIMIT_X, t = min(max(x, low), high). With the other kinds, t =
 * min(max(alpha * x + beta, low), high). With I8_LIMIT_SLOPE (hardswish), y = scale * (x * t), which is 0 if t is 0,
 * even for infinite x. NaN stays NaN, because a minimum or maximum with NaN is the second operand. */
enum { I8_LIMIT_X, I8_LIMIT_LINEAR, I8_LIMIT_SLOPE };
I8_INLINE void i8_limit_run(float *y, const float *from, int64_t n, float low, float high, float alpha, float beta,
                            float scale, const int kind)
{
    const i8_floats least = i8_floats_set(low), most = i8_floats_set(high);
    for (int64_t i = 0; i < n; i += I8_CHUNK) {
        float x[I8_CHUNK], t[I8_CHUNK];
        i8_floats_store(x, i8_floats_load(from + i));
        I8_EACH t[v] = kind == I8_LIMIT_X ? x[v] : alpha * x[v] + beta;
        i8_floats_store(t, i8_floats_min(most, i8_floats_max(least, i8_floats_load(t))));
        if (kind == I8_LIMIT_SLOPE)
            I8_EACH t[v] = t[v] == 0 ? copysignf(0.0f, x[v]) : x[v] * t[v];
        I8_EACH t[v] = scale * t[v];
        i8_floats_store(y + i, i8_floats_load(t));
    }
}

/* Return factor * x, or factor * x * x with `squared`. */
I8_INLINE i8_floats i8_product_of(const float *x, i8_floats factor, const int squared)
{
    const i8_floats y = i8_floats_load(x), product = i8_floats_mul(y, factor);
    return squared ? i8_floats_mul(product, y) : product;
}

/* Return whether alpha * x, or alpha * x * x with `squared`, is below a limit for any of n numbers x. Runs with a
 * number below the limit are rare, and need the longer of two functions. For numbers from the limit on, both functions
 * give equal bits. Four minima shorten the chain of dependent operations. If a product is NaN, the minimum is least[k].
 * */
I8_INLINE int i8_any_below(const float *x, int64_t n, float alpha, float limit, const int squared)
{
    const i8_floats factor = i8_floats_set(alpha), start = i8_floats_set(limit);
    i8_floats least[4] = {start, start, start, start};
    float lanes[I8_CHUNK];
    int64_t i = 0;
    int found = 0;
    for (; i + 4 * I8_CHUNK <= n; i += 4 * I8_CHUNK)
        I8_FOR(k, 4) least[k] = i8_floats_min(i8_product_of(x + i + k * I8_CHUNK, factor, squared), least[k]);
    for (; i < n; i += I8_CHUNK)
        least[0] = i8_floats_min(i8_product_of(x + i, factor, squared), least[0]);
    i8_floats_store(lanes, i8_floats_min(i8_floats_min(least[0], least[1]), i8_floats_min(least[2], least[3])));
    I8_EACH found |= lanes[v] < limit;
    return found;
}

static void i8_relu_run(float *y, const float *from, int64_t n, float alpha, float scale)
{
    if (alpha == 0 && scale == 1)
        I8_MAP(x < 0 ? 0.0f : x);
    else if (alpha == 0) /* alpha * x could be -0 or NaN */
        I8_MAP(scale * (x < 0 ? 0.0f : x));
    else
        I8_MAP(scale * (x < 0 ? alpha * x : x));
}

static void i8_any_exp_run(float *y, const float *from, int64_t n, float scale)
{
    if (i8_any_below(from, n, -1.0f, -(I8_FAR * I8_FAR), 1))
        I8_MAP(scale * i8_exp(x));
    else
        i8_exp_run(y, from, n, scale);
}

static void i8_any_gelu_erf_run(float *y, const float *from, int64_t n, float scale)
{
    if (i8_any_below(from, n, -0.5f, I8_FAR, 1))
        I8_MAP(scale * ((x < -14.5f ? -14.5f : x) * i8_normal_distribution(x)));
    else
        i8_gelu_erf_run(y, from, n, scale);
}

static void i8_any_logistic_run(float *y, const float *from, int64_t n, float scale)
{
    if (i8_any_below(from, n, 1.0f, I8_FAR, 0))
        I8_MAP(scale * i8_times_logistic(1.0f, x));
    else
        i8_logistic_run(y, from, n, scale);
}

I8_NOINLINE void i8_gelu_run(float *y, const float *from, int64_t n, float scale)
{
    if (i8_any_below(from, n, 1.0f, -9.9f, 0)) /* for x = -9.9, -2u is 85 */
        I8_MAP(scale * i8_times_logistic(x, i8_gelu_argument(x)));
    else
        i8_logistic_abreast(y, from, n, 1.0f, scale, I8_LOGISTIC_OF_GELU);
}

I8_NOINLINE void i8_swish_run(float *y, const float *from, int64_t n, float alpha, float scale)
{
    if (alpha == 0) /* alpha * x would be NaN for infinite x */
        I8_MAP(scale * (x * 0.5f));
    else if (i8_any_below(from, n, alpha, I8_FAR, 0))
        I8_MAP(scale * i8_times_logistic(x, alpha * x));
    else
        i8_logistic_abreast(y, from, n, alpha, scale, I8_LOGISTIC_OF_ALPHA);
}

I8_NOINLINE void i8_pow_run(float *y, const float *from, int64_t n, float alpha, float beta, float scale)
{
    const int whole = rintf(beta) == beta, odd = whole && fabsf(beta) < 16777216.0f && ((int)beta & 1);
    if (beta == 0) /* the result is 1, also for NaN */
        for (int64_t i = 0; i < n; ++i)
            y[i] = scale * alpha;
    else if (odd)
        I8_MAP(scale * (alpha * i8_pow(x, beta, 1, 1)));
    else if (whole)
        I8_MAP(scale * (alpha * i8_pow(x, beta, 1, 0)));
    else
        I8_MAP(scale * (alpha * i8_pow(x, beta, 0, 0)));
}

static void i8_eltwise(const i8_post_op *op, float *y, const float *from, int64_t n)
{
    const float alpha = op->alpha, beta = op->beta, scale = op->scale;
    switch (op->kind) {
#define I8_ELTWISE_CASE(name, formula, code)                                                                           \
    case I8_##name: code; break;
        I8_ELTWISES(I8_ELTWISE_CASE)
#undef I8_ELTWISE_CASE
    default: break;
    }
}
#undef I8_MAP

/* Set each number of y to an expression of x and w, the corresponding numbers of `from` and z. The next chunk of z
 * begins z_step numbers after the previous chunk. If z_step is 0, all chunks use the same chunk of z. */
#define I8_MAP(expression)                                                                                             \
    do {                                                                                                               \
        for (int64_t i = 0; i < n; i += I8_CHUNK, z += z_step) {                                                       \
            float x_[I8_CHUNK], w_[I8_CHUNK], y_[I8_CHUNK];                                                            \
            i8_floats_store(x_, i8_floats_load(from + i));                                                             \
            i8_floats_store(w_, i8_floats_load(z));                                                                    \
            I8_EACH                                                                                                    \
            {                                                                                                          \
                const float x = x_[v], w = w_[v];                                                                      \
                y_[v] = (expression);                                                                                  \
            }                                                                                                          \
            i8_floats_store(y + i, i8_floats_load(y_));                                                                \
        }                                                                                                              \
    } while (0)

static void i8_with_operand(const i8_post_op *op, float *y, const float *from, const float *z, int64_t z_step,
                            int64_t n)
{
    const float alpha = op->alpha, scale = op->scale;
    switch (op->kind) {
    case I8_SUM: I8_MAP(x + scale * (w - alpha)); break;
    case I8_PRELU: I8_MAP(x < 0 ? w * x : x); break;
    case I8_ADD: I8_MAP(x + w); break;
    case I8_SUB: I8_MAP(x - w); break;
    case I8_MUL: I8_MAP(x * w); break;
    case I8_DIV: I8_MAP(x / w); break;
    case I8_MIN: I8_MAP(w < x ? w : x); break;
    case I8_MAX: I8_MAP(w > x ? w : x); break;
    case I8_GE: I8_MAP(x >= w ? 1.0f : 0.0f); break;
    case I8_GT: I8_MAP(x > w ? 1.0f : 0.0f); break;
    case I8_LE: I8_MAP(x <= w ? 1.0f : 0.0f); break;
    case I8_LT: I8_MAP(x < w ? 1.0f : 0.0f); break;
    case I8_EQ: I8_MAP(x == w ? 1.0f : 0.0f); break;
    case I8_NE: I8_MAP(x != w ? 1.0f : 0.0f); break;
    case I8_SHIFT: I8_MAP((x == x ? x : 0.0f) + w); break;
    default: break;
    }
}
#undef I8_MAP

/* Apply a post-op to the numbers of `from`, and store the results in y, which may be `from`. z is the operand of the
 * post-op, if it has one. */
static void i8_apply(const i8_post_op *op, float *y, const float *from, const float *z, int64_t z_step, int64_t n)
{
    if (op->kind < I8_ELTWISE)
        i8_with_operand(op, y, from, z, z_step, n);
    else
        i8_eltwise(op, y, from, n);
}
