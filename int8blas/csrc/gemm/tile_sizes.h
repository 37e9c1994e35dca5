/* Initializers of an i8_tiles with the functions of tile_body.h. I8_TILES and I8_FULL_TILES expand their arguments
 * before other macros paste them. */
#define I8_ROW_OF_3(t, mr) {t##_##mr##x1, t##_##mr##x2, t##_##mr##x3}
#define I8_TILES_8X3(t)                                                                                                \
    {{I8_ROW_OF_3(t, 1), I8_ROW_OF_3(t, 2), I8_ROW_OF_3(t, 3), I8_ROW_OF_3(t, 4), I8_ROW_OF_3(t, 5),                   \
      I8_ROW_OF_3(t, 6), I8_ROW_OF_3(t, 7), I8_ROW_OF_3(t, 8)}}
#define I8_TILES_6X1(t) {{I8_ROW_OF_3(t, 1), {t##_2x1}, {t##_3x1}, {t##_4x1}, {t##_5x1}, {t##_6x1}}}
#define I8_TILES_OF_A_PANEL(t) {{{t##_1x1}, {t##_2x1}, {t##_3x1}, {t##_4x1}, {t##_5x1}, {t##_6x1}}}
/* Take the full tile from `t`, and the tiles with one row less, one panel less, or both. Take smaller tiles from
 * `rest`. */
#define I8_FULL_TILES_8X3(t, rest)                                                                                     \
    {{I8_ROW_OF_3(rest, 1), I8_ROW_OF_3(rest, 2), I8_ROW_OF_3(rest, 3), I8_ROW_OF_3(rest, 4), I8_ROW_OF_3(rest, 5),    \
      I8_ROW_OF_3(rest, 6), {rest##_7x1, t##_7x2, t##_7x3}, {rest##_8x1, t##_8x2, t##_8x3}}}
#define I8_FULL_TILES_6X1(t, rest)                                                                                     \
    {{I8_ROW_OF_3(rest, 1), {rest##_2x1}, {rest##_3x1}, {rest##_4x1}, {t##_5x1}, {t##_6x1}}}
#if I8_LANES == 16
#define I8_TILES(t) I8_TILES_8X3(t)
#define I8_FULL_TILES(t, rest) I8_FULL_TILES_8X3(t, rest)
#else
#define I8_TILES(t) I8_TILES_6X1(t)
#define I8_INTERLEAVED_TILES(t) I8_TILES_OF_A_PANEL(t)
#define I8_FULL_TILES(t, rest) I8_FULL_TILES_6X1(t, rest)
#endif
