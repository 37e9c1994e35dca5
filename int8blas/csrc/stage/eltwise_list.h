/* The element-wise post-ops. Each row has a name, a formula for readers, and the code that sets y = scale * f(from) for
 * a run of n numbers, in whole chunks. I8_MAP computes an expression of the number x, alpha, beta and scale. All CPUs
 * give equal bits if the expression uses only +, -, *, /, sqrtf, fabsf, rintf and the functions of eltwise_body.h. */
#define I8_ELTWISES(OP)                                                                                                \
    OP(RELU, "x if x >= 0 else alpha * x", i8_relu_run(y, from, n, alpha, scale))                                      \
    OP(TANH, "tanh(x)", i8_tanh_run(y, from, n, scale))                                                                \
    OP(LOGISTIC, "1 / (1 + exp(-x))", i8_any_logistic_run(y, from, n, scale))                                          \
    OP(ELU, "x if x > 0 else alpha * (exp(x) - 1)",                                                                    \
       I8_MAP(scale * (x < 0 ? alpha * i8_expm1_down(i8_negative(x)) : x)))                                            \
    OP(GELU_ERF, "x * (1 + erf(x / sqrt(2))) / 2", i8_any_gelu_erf_run(y, from, n, scale))                             \
    OP(GELU_TANH, "x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))) / 2", i8_gelu_run(y, from, n, scale))          \
    OP(SWISH, "x / (1 + exp(-alpha * x))", i8_swish_run(y, from, n, alpha, scale))                                     \
    OP(HARDSWISH, "x * min(max(alpha * x + beta, 0), 1)",                                                              \
       i8_limit_run(y, from, n, 0.0f, 1.0f, alpha, beta, scale, I8_LIMIT_SLOPE))                                       \
    OP(CLIP, "min(max(x, alpha), beta)", i8_limit_run(y, from, n, alpha, beta, 0.0f, 0.0f, scale, I8_LIMIT_X))         \
    OP(ABS, "|x|", I8_MAP(scale * fabsf(x)))                                                                           \
    OP(SQUARE, "x * x", I8_MAP(scale * (x * x)))                                                                       \
    OP(SQRT, "sqrt(x)", I8_MAP(scale * sqrtf(x)))                                                                      \
    OP(LINEAR, "alpha * x + beta", I8_MAP(scale * (alpha * x + beta)))                                                 \
    OP(ROUND, "x rounded half to even", I8_MAP(scale * rintf(x)))                                                      \
    OP(EXP, "exp(x)", i8_any_exp_run(y, from, n, scale))                                                               \
    OP(LOG, "log(x)", I8_MAP(scale * i8_any_log(x)))                                                                   \
    OP(POW, "alpha * x**beta", i8_pow_run(y, from, n, alpha, beta, scale))                                             \
    OP(MISH, "x * tanh(log(1 + exp(x)))", I8_MAP(scale * i8_mish(x)))                                                  \
    OP(SOFT_RELU, "log(1 + exp(alpha * x)) / alpha", I8_MAP(scale * i8_soft_relu(x, alpha)))                           \
    OP(HARDSIGMOID, "min(max(alpha * x + beta, 0), 1)",                                                                \
       i8_limit_run(y, from, n, 0.0f, 1.0f, alpha, beta, scale, I8_LIMIT_LINEAR))                                      \
    OP(CLIP_V2, "alpha if x <= alpha else beta if x >= beta else x",                                                   \
       I8_MAP(scale * (x <= alpha ? alpha : x >= beta ? beta : x)))
