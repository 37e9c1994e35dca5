/* AMX: Sapphire Rapids and later. The table of kernels for AMX has the kernels of AVX512-VNNI, and a matrix unit for
 * large products (gemm/matrix_amx.c). */
#ifdef I8_AMX
#define I8_KERNELS avx512vnni
#define I8_WIDTH_NAME avx512
#define I8_MATRIX &i8_amx
#define I8_TUNING                                                                                                      \
    {.kc = 4096, .a_bytes = 512 << 10, .nc = 60, .thread_work = 1e6, .tiny_work = 3 << 16, .few_rows_limit = 12}
#endif
