/* Portable C for every other CPU, and the reference: gemm/gemm_ref.c and convolution/convolution_ref.c. */
#define I8_WIDTH_NAME ref
/* Block sizes make little difference: 64 x 2048 x 64 takes 1146 us with kc = 128, 1103 us with 512 and 1105 us with
 * 2048; a_bytes from 16 KiB to 256 KiB and nc from 8 to 128 change times by less than 1 % (Zen 5). thread_work and
 * tiny_work are smaller than with vectors, because a multiply-add takes longer. */
#define I8_TUNING                                                                                                      \
    {.kc = 512, .a_bytes = 64 << 10, .nc = 32, .thread_work = 2e5, .tiny_work = 1 << 16}
