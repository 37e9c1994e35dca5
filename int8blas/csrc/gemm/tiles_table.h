/* The functions of tile_body.h as an i8_tiles, through one more macro, so that names are put together first. */
#define I8_ROW_OF_3(t, mr) {t##_##mr##x1, t##_##mr##x2, t##_##mr##x3}
#define I8_TILES_8X3(t)                                                                                                \
    {{I8_ROW_OF_3(t, 1), I8_ROW_OF_3(t, 2), I8_ROW_OF_3(t, 3), I8_ROW_OF_3(t, 4), I8_ROW_OF_3(t, 5),                   \
      I8_ROW_OF_3(t, 6), I8_ROW_OF_3(t, 7), I8_ROW_OF_3(t, 8)}}
#define I8_TILES_6X1(t) {{I8_ROW_OF_3(t, 1), {t##_2x1}, {t##_3x1}, {t##_4x1}, {t##_5x1}, {t##_6x1}}}
#if I8_LANES == 16
#define I8_TILES(t) I8_TILES_8X3(t)
#else
#define I8_TILES(t) I8_TILES_6X1(t)
#endif
