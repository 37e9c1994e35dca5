/* The element-wise post-ops. Each has a name, and the code that sets y = scale * f(y) for a run of n numbers, in whole
 * chunks. ELTWISE in stage/attributes.py has the names and the formulas in the order of this list. I8_MAP sets each
 * number x of y to an expression of x, alpha, beta and scale. The result has the same bits on every CPU if the
 * expression uses only +, -, *, /, sqrtf, fabsf, rintf and the functions of eltwise_body.h. */
#define I8_ELTWISES(OP)                                                                                                \
    OP(RELU, i8_relu_run(y, n, alpha, scale))                                                                          \
    OP(TANH, i8_tanh_run(y, n, scale))                                                                                 \
    OP(LOGISTIC, i8_any_logistic_run(y, n, scale))                                                                     \
    OP(ELU, I8_MAP(scale * (x < 0 ? alpha * i8_expm1_down(i8_negative(x)) : x)))                                       \
    OP(GELU_ERF, I8_MAP(scale * ((x < -14.5f ? -14.5f : x) * i8_normal_distribution(x))))                              \
    OP(GELU_TANH, i8_gelu_run(y, n, scale))                                                                            \
    OP(SWISH, i8_swish_run(y, n, alpha, scale))                                                                        \
    OP(HARDSWISH, I8_MAP(scale * i8_hardswish(x, alpha * x + beta)))                                                   \
    OP(CLIP, I8_MAP(scale * (x < alpha ? alpha : x > beta ? beta : x)))                                                \
    OP(ABS, I8_MAP(scale * fabsf(x)))                                                                                  \
    OP(SQUARE, I8_MAP(scale * (x * x)))                                                                                \
    OP(SQRT, I8_MAP(scale * sqrtf(x)))                                                                                 \
    OP(LINEAR, I8_MAP(scale * (alpha * x + beta)))                                                                     \
    OP(ROUND, I8_MAP(scale * rintf(x)))                                                                                \
    OP(EXP, I8_MAP(scale * i8_exp(x)))                                                                                 \
    OP(LOG, I8_MAP(scale * i8_any_log(x)))                                                                             \
    OP(POW, i8_pow_run(y, n, alpha, beta, scale))                                                                      \
    OP(MISH, I8_MAP(scale * i8_mish(x)))                                                                               \
    OP(SOFT_RELU, I8_MAP(scale * i8_soft_relu(x, alpha)))                                                              \
    OP(HARDSIGMOID, I8_MAP(scale * i8_hardsigmoid(alpha * x + beta)))                                                  \
    OP(CLIP_V2, I8_MAP(scale * (x <= alpha ? alpha : x >= beta ? beta : x)))
