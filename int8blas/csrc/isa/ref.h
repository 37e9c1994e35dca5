/* Portable C for every other CPU, and the reference: gemm/gemm_ref.c and convolution/convolution_ref.c. */
#define I8_WIDTH_NAME ref
#define I8_TUNING                                                                                                      \
    {.kc = 512, .a_bytes = 64 << 10, .nc = 32, .thread_work = 2e5, .tiny_work = 1 << 16}
