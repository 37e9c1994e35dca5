/* The post-ops in f32, on runs of whole chunks: for the output stage (stage_body.h) and for chains of element-wise
 * functions (chain_body.h). Which one it is is asked once for a run. */
#include "eltwise_body.h"

/* y = f(y), for each x of y. */
#define I8_MAP(expression)                                                                                             \
    do {                                                                                                               \
        for (int64_t i = 0; i < n; i += I8_CHUNK)                                                                      \
            I8_EACH                                                                                                    \
            {                                                                                                          \
                const float x = y[i + v];                                                                              \
                y[i + v] = (expression);                                                                               \
            }                                                                                                          \
    } while (0)

static void i8_eltwise(const i8_post_op *op, float *y, int64_t n)
{
    const float alpha = op->alpha, beta = op->beta, scale = op->scale;
    switch (op->kind) {
    case I8_RELU:
        if (alpha == 0 && scale == 1)
            I8_MAP(x < 0 ? 0.0f : x);
        else if (alpha == 0) /* and not alpha * x, which is -0, or NaN */
            I8_MAP(scale * (x < 0 ? 0.0f : x));
        else
            I8_MAP(scale * (x < 0 ? alpha * x : x));
        break;
    case I8_TANH: I8_MAP(scale * i8_tanh(x)); break;
    case I8_LOGISTIC: I8_MAP(scale * i8_logistic(x)); break;
    case I8_ELU: I8_MAP(scale * (x > 0 ? x : alpha * (i8_exp(x) - 1.0f))); break;
    case I8_GELU_ERF: I8_MAP(scale * ((x < -14.0f ? -14.0f : x) * i8_normal_distribution(x))); break;
    case I8_GELU_TANH:
        I8_MAP(scale * (0.5f * (x < -14.0f ? -14.0f : x) *
                        (1.0f + i8_tanh(0.7978845608028654f * (x + 0.044715f * (x * x * x))))));
        break;
    case I8_SWISH: I8_MAP(scale * (x * i8_logistic(alpha * x))); break;
    case I8_HARDSWISH:
        I8_MAP(scale * (x * (alpha * x + beta < 0 ? 0.0f : alpha * x + beta > 1.0f ? 1.0f : alpha * x + beta)));
        break;
    case I8_CLIP: I8_MAP(scale * (x < alpha ? alpha : x > beta ? beta : x)); break;
    case I8_ABS: I8_MAP(scale * fabsf(x)); break;
    case I8_SQUARE: I8_MAP(scale * (x * x)); break;
    case I8_SQRT: I8_MAP(scale * sqrtf(x)); break;
    case I8_LINEAR: I8_MAP(scale * (alpha * x + beta)); break;
    case I8_ROUND: I8_MAP(scale * rintf(x)); break;
    default: break;
    }
}
#undef I8_MAP

/* y = f(y, z), for each x of y and w of z. */
#define I8_MAP(expression)                                                                                             \
    do {                                                                                                               \
        for (int64_t i = 0; i < n; i += I8_CHUNK)                                                                      \
            I8_EACH                                                                                                    \
            {                                                                                                          \
                const float x = y[i + v], w = z[i + v];                                                                \
                y[i + v] = (expression);                                                                               \
            }                                                                                                          \
    } while (0)

static void i8_with_operand(const i8_post_op *op, float *restrict y, const float *restrict z, int64_t n)
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
    default: break;
    }
}
#undef I8_MAP

/* Any of them; z is the operand of those that have one. */
static void i8_apply(const i8_post_op *op, float *y, const float *z, int64_t n)
{
    if (op->kind < I8_RELU)
        i8_with_operand(op, y, z, n);
    else
        i8_eltwise(op, y, n);
}
