/* AMX: eight registers of 16 rows of 64 bytes, and a unit that multiplies them.
 *
 *   TDPBUSD     16 cycles, latency 52: 16 rows of A times 64 k of a panel of B; one cycle for each row of A
 *   TILELOADD   8 cycles from L1, 20 from L2; 50 and more if rows are not aligned to cache lines
 *   TILESTORED  16 cycles
 *   LDTILECFG   150 cycles: too long for each tile
 *
 * The cycles were measured on a Xeon with 2 MiB of L2 for each core. A tile of 32 rows and 2 panels has four registers
 * of sums. A step of the tile takes two loads of A, two loads of B and four TDPBUSD: 32 cycles of loads overlap with 64
 * cycles of products, and four independent sums hide the latency. A register of B has 16 groups of a packed panel. The
 * instructions are assembly, because the intrinsics do not tell the compiler that they read memory.
 */
#include "isa/names.h"

#ifdef I8_AMX
#define I8_TILE_LOAD(tile, p, stride)                                                                                  \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile : : "r"(p), "r"((ptrdiff_t)(stride)) : "memory")
#define I8_TILE_STORE(p, stride, tile)                                                                                 \
    __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" : : "r"(p), "r"((ptrdiff_t)(stride)) : "memory")
#define I8_TILE_ZERO(tile) __asm__ volatile("tilezero %%tmm" #tile : :)
#define I8_TILE_DOT(sums, a, b) __asm__ volatile("tdpbusd %%tmm" #b ", %%tmm" #a ", %%tmm" #sums : :)

#include "isa/vectors_avx512.h"
#include "stage/tile_output.h"

/* Configure registers 0 to 5 for sums and A, and registers 6 and 7 for B. */
static void i8_amx_enter(int unit_rows)
{
    const uint8_t rows = (uint8_t)unit_rows;
    const struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } shapes = {
        .palette = 1,
        .bytes = {64, 64, 64, 64, 64, 64, 64, 64},
        .rows = {rows, rows, rows, rows, rows, rows, 16, 16},
    };
    __asm__ volatile("ldtilecfg %0" : : "m"(shapes));
}

static void i8_amx_leave(void) { __asm__ volatile("tilerelease" : :); }

/* Multiply one step. Registers 0 and 1 hold the sums of the first 16 rows. Registers 2 and 3 hold the sums of the next
 * 16 rows. */
I8_INLINE void i8_amx_step(const uint8_t *a, ptrdiff_t a_row, const int8_t *b, ptrdiff_t b_panel, const int units,
                           const int panels)
{
    I8_TILE_LOAD(4, a, a_row);
    I8_TILE_LOAD(6, b, 64);
    I8_TILE_DOT(0, 4, 6);
    if (units > 1) {
        I8_TILE_LOAD(5, a + I8_MATRIX_ROWS * a_row, a_row);
        I8_TILE_DOT(2, 5, 6);
    }
    if (panels > 1) {
        I8_TILE_LOAD(7, b + b_panel, 64);
        I8_TILE_DOT(1, 4, 7);
        if (units > 1)
            I8_TILE_DOT(3, 5, 7);
    }
}

#define I8_AMX_START(tile, unit, panel)                                                                                \
    do {                                                                                                               \
        if (sums)                                                                                                      \
            I8_TILE_LOAD(tile, sums + (unit)*I8_MATRIX_ROWS * t->acc_row + (panel)*I8_PANEL, t->acc_row * 4);          \
        else if (t->col_init)                                                                                          \
            I8_TILE_LOAD(tile, t->col_init + (panel)*I8_PANEL, 0);                                                     \
        else                                                                                                           \
            I8_TILE_ZERO(tile);                                                                                        \
    } while (0)

/* Apply an operation to each register of sums. */
#define I8_AMX_EACH(operation)                                                                                         \
    do {                                                                                                               \
        operation(0, 0, 0);                                                                                            \
        if (panels > 1)                                                                                                \
            operation(1, 0, 1);                                                                                        \
        if (units > 1)                                                                                                 \
            operation(2, 1, 0);                                                                                        \
        if (units > 1 && panels > 1)                                                                                   \
            operation(3, 1, 1);                                                                                        \
    } while (0)

#define I8_AMX_STORE(tile, unit, panel)                                                                                \
    I8_TILE_STORE(dst + (unit)*I8_MATRIX_ROWS * dst_row + (panel)*I8_PANEL, dst_row * 4, tile)

/* Finish some rows of a tile: add the missing start values, then store the sums or apply the epilogue. */
I8_INLINE void i8_amx_finish_rows(const i8_tile_args *t, const int32_t *sums, const int32_t *acc_in, const int row,
                                  const int rows, const int panels)
{
    i8_vec acc[8][2];
    I8_FOR(i, rows) I8_FOR(p, panels) acc[i][p] = i8_load(sums + (row + i) * panels * I8_PANEL + p * I8_PANEL);
    if (acc_in)
        I8_FOR(i, rows) I8_FOR(p, panels)
            acc[i][p] = i8_add(acc[i][p], i8_load(acc_in + (row + i) * t->acc_row + p * I8_PANEL));
    if (t->row_init)
        I8_FOR(i, rows) {
            const i8_vec start = i8_broadcast(t->row_init + row + i);
            I8_FOR(p, panels) acc[i][p] = i8_add(acc[i][p], start);
        }
    if (t->output)
        i8_output_tile(t->output, row, 0, acc[0], 2, rows, panels);
    else
        I8_FOR(i, rows) I8_FOR(p, panels)
            i8_store_some(t->dst + (row + i) * t->dst_row + p * I8_PANEL, acc[i][p], t->cols - p * I8_PANEL);
}

I8_INLINE void i8_amx_finish(const i8_tile_args *t, const int32_t *sums, const int32_t *acc_in, const int panels)
{
    enum { ROWS = 8 };
    const int some = t->rows % ROWS;
    for (int row = 0; row < t->rows - some; row += ROWS)
        i8_amx_finish_rows(t, sums, acc_in, row, ROWS, panels);
    for (int row = t->rows - some; row < t->rows; ++row)
        i8_amx_finish_rows(t, sums, acc_in, row, 1, panels);
}

I8_NOINLINE void i8_amx_finish_1(const i8_tile_args *t, const int32_t *sums, const int32_t *acc_in)
{
    i8_amx_finish(t, sums, acc_in, 1);
}

I8_NOINLINE void i8_amx_finish_2(const i8_tile_args *t, const int32_t *sums, const int32_t *acc_in)
{
    i8_amx_finish(t, sums, acc_in, 2);
}

I8_INLINE void i8_amx_body(const i8_tile_args *t, const int units, const int panels)
{
    const int whole = t->rows == units * t->unit_rows;
    const int32_t *const sums = whole && !t->col_init ? t->acc_in : NULL;
    const uint8_t *segment = t->a.data, *a = segment;
    const int8_t *b = t->b.data;
    const ptrdiff_t a_row = t->a.row, a_step = t->a.group, b_panel = t->b.panel, ahead_step = t->ahead_step;
    const char *ahead = t->ahead;

    I8_AMX_EACH(I8_AMX_START);
    for (int64_t more = t->more_segments; more >= 0; --more, segment += t->a.segment, b += t->b.segment) {
        a = segment;
        for (int64_t groups = t->groups; groups > 0; groups -= I8_MATRIX_K / I8_GROUP) {
            if (ahead) {
                for (ptrdiff_t i = 0; i < ahead_step; i += 64)
                    I8_FOR(p, panels) I8_PREFETCH_L2(ahead + p * b_panel + i);
                ahead += ahead_step;
            }
            i8_amx_step(a, a_row, b, b_panel, units, panels);
            a += a_step;
            b += I8_MATRIX_TILE;
        }
    }
    if (t->b.tail)
        i8_amx_step(a, a_row, t->b.tail, I8_MATRIX_TILE, units, panels);

    int32_t memory[2 * 2 * I8_MATRIX_ROWS * I8_PANEL] __attribute__((aligned(64)));
    const int finishes =
        !whole || t->output || t->cols != panels * I8_PANEL || t->row_init || (t->acc_in && !sums);
    int32_t *const dst = finishes ? memory : t->dst;
    const ptrdiff_t dst_row = finishes ? panels * I8_PANEL : t->dst_row;
    I8_AMX_EACH(I8_AMX_STORE);
    if (finishes)
        (panels == 1 ? i8_amx_finish_1 : i8_amx_finish_2)(t, memory, sums ? NULL : t->acc_in);
}

static void i8_amx_1x1(const i8_tile_args *t) { i8_amx_body(t, 1, 1); }
static void i8_amx_1x2(const i8_tile_args *t) { i8_amx_body(t, 1, 2); }
static void i8_amx_2x1(const i8_tile_args *t) { i8_amx_body(t, 2, 1); }
static void i8_amx_2x2(const i8_tile_args *t) { i8_amx_body(t, 2, 2); }

/* Pack 16 rows with any strides, k up to 64: transpose the groups of a panel. */
static void i8_amx_pack_any(uint8_t *dst, int rows, int64_t k, const uint8_t *src, ptrdiff_t row_stride,
                            ptrdiff_t k_stride, uint8_t flip)
{
    uint8_t groups[I8_MATRIX_TILE];
    memset(groups, 0, sizeof groups);
    i8_packing_avx512.pack_panel(groups, I8_MATRIX_ROWS, rows, k, src, row_stride, k_stride, flip);
    i8_stage_avx512.transpose_store((char *)dst, I8_GROUP, I8_MATRIX_K, (const char *)groups, I8_GROUP * I8_MATRIX_ROWS,
                         I8_MATRIX_ROWS, I8_MATRIX_ROWS, I8_GROUP);
}

/* Pack rows that are contiguous in k. */
I8_INLINE void i8_amx_pack_rows(uint8_t *dst, ptrdiff_t step, const int rows, int64_t k, const uint8_t *src,
                                ptrdiff_t row_stride, uint8_t flip)
{
    const __m512i f = _mm512_set1_epi8((char)flip);
    for (; k >= I8_MATRIX_K; k -= I8_MATRIX_K, src += I8_MATRIX_K, dst += step)
        I8_FOR(i, rows)
            _mm512_store_si512(dst + i * I8_MATRIX_K, _mm512_xor_si512(_mm512_loadu_si512(src + i * row_stride), f));
    if (k > 0) {
        const __mmask64 rest = ((__mmask64)1 << k) - 1;
        const __m512i g = _mm512_maskz_mov_epi8(rest, f);
        I8_FOR(i, rows)
            _mm512_store_si512(dst + i * I8_MATRIX_K,
                               _mm512_xor_si512(_mm512_maskz_loadu_epi8(rest, src + i * row_stride), g));
    }
}

static void i8_amx_pack(uint8_t *dst, int rows, int64_t k, const uint8_t *src, ptrdiff_t row_stride, ptrdiff_t k_stride,
                        uint8_t flip)
{
    enum { ROWS = 8 };
    const ptrdiff_t step = (ptrdiff_t)(rows + I8_MATRIX_ROWS - 1) / I8_MATRIX_ROWS * I8_MATRIX_ROWS * I8_MATRIX_K;
    if (k_stride != 1) {
        for (int row = 0; row < rows; row += I8_MATRIX_ROWS)
            for (int64_t i = 0; i < k; i += I8_MATRIX_K)
                i8_amx_pack_any(dst + i / I8_MATRIX_K * step + row * I8_MATRIX_K,
                                rows - row < I8_MATRIX_ROWS ? rows - row : I8_MATRIX_ROWS,
                                k - i < I8_MATRIX_K ? k - i : I8_MATRIX_K, src + row * row_stride + i * k_stride,
                                row_stride, k_stride, flip);
        return;
    }
    /* The lines of all rows may be in one set of the L1 cache, so ROWS is at most the number of ways of the cache. */
    for (; rows >= ROWS; rows -= ROWS, src += ROWS * row_stride, dst += ROWS * I8_MATRIX_K)
        i8_amx_pack_rows(dst, step, ROWS, k, src, row_stride, flip);
    for (; rows > 0; --rows, src += row_stride, dst += I8_MATRIX_K)
        i8_amx_pack_rows(dst, step, 1, k, src, row_stride, flip);
}

static int64_t i8_amx_peak(int64_t iterations)
{
    i8_amx_enter(I8_MATRIX_ROWS);
    for (int64_t i = 0; i < iterations; ++i) {
        I8_TILE_DOT(0, 4, 6);
        I8_TILE_DOT(1, 4, 7);
        I8_TILE_DOT(2, 5, 6);
        I8_TILE_DOT(3, 5, 7);
    }
    i8_amx_leave();
    return iterations * 4 * I8_MATRIX_ROWS * I8_MATRIX_TILE;
}

const i8_matrix i8_amx = {
    .mr = 2 * I8_MATRIX_ROWS,
    .np = 2,
    .kc = 512,
    .a_bytes = 128 << 10,
    .b_bytes = 512 << 10,
    .thread_work = 6e6,
    .least_rows = 2,
    .least_k = 32,
    .dots_columns = 4,
    .tile = {{i8_amx_1x1, i8_amx_1x2}, {i8_amx_2x1, i8_amx_2x2}},
    .pack = i8_amx_pack,
    .enter = i8_amx_enter,
    .leave = i8_amx_leave,
    .peak = i8_amx_peak,
};
I8_TARGET_END
#endif
