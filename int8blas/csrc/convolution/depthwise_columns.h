/* Interleave the columns of a stretch, for the depthwise kernels. A column has 4 vectors in each group of
 * I8_DEPTHWISE_LINES lines. The including file defines I8_DEPTHWISE_INTERLEAVE(v, few), which interleaves the vectors
 * v[0] to v[I8_DEPTHWISE_LINES - 1], one of each line. */

/* Return whether the channels fit half of the kernel's vectors. */
I8_INLINE int i8_depthwise_few(const i8_depthwise_args *t) { return t->channels <= 2 * I8_LANES; }

/* Return the offset of vector v's weights in a group of 4 lines, if the channels are in order. */
#define I8_DEPTHWISE_FEW(v) ((v)*I8_LANES / I8_PANEL * t->panel_size + (v)*I8_LANES % I8_PANEL * 4)

I8_INLINE int i8_depthwise_groups(const i8_depthwise_args *t)
{
    return (t->lines + I8_DEPTHWISE_LINES - 1) / I8_DEPTHWISE_LINES;
}

/* Return the number of output lines that have their own copy of the weights. `together` may be less than the number of
 * copies in the first call, and greater in later calls with `is_prepared`. */
I8_INLINE int i8_depthwise_repeats(const i8_depthwise_args *t) { return (int)(t->panel_size / t->weights_step); }

/* Interleave the next columns of one group. The columns of line r begin at src[r], and are step[r] bytes apart. If
 * `few` is 1, permute the lanes of each loaded vector, and store two vectors with channels in order. Advance src. */
I8_INLINE void i8_depthwise_columns(const uint8_t **src, const ptrdiff_t *step, int columns, ptrdiff_t dst_step,
                                    uint8_t *dst, const int flips, const int few)
{
    const uint32_t flip = 0x80808080u;
    const int vectors = few ? 2 : 4;
    for (; columns > 0; --columns, dst += dst_step) {
        i8_vec v[4];
        I8_FOR(r, I8_DEPTHWISE_LINES) {
            v[r] = i8_load(src[r]);
            if (flips)
                v[r] = i8_xor(v[r], i8_broadcast(&flip));
            if (few)
                v[r] = i8_permute(v[r], i8_depthwise_order);
            src[r] += step[r];
        }
        I8_DEPTHWISE_INTERLEAVE(v, few);
        I8_FOR(q, vectors) i8_store(dst + q * 4 * I8_LANES, v[q]);
    }
}

enum { I8_PADDING, I8_WHOLE, I8_COPIED };

/* Interleave the lines of a group in columns [from, to). `kind` says how to read the columns: as padding, as whole
 * vectors, or channel by channel (a single column). */
I8_INLINE void i8_depthwise_span(const i8_depthwise_args *t, int group, int from, int to, const int kind, uint8_t *dst)
{
    const uint8_t *src[I8_DEPTHWISE_LINES];
    ptrdiff_t step[I8_DEPTHWISE_LINES];
    uint8_t copy[I8_DEPTHWISE_LINES][I8_DEPTHWISE_CHANNELS];
    const ptrdiff_t dst_step = i8_depthwise_groups(t) * 16 * I8_LANES;
    if (from >= to)
        return;
    for (int r = 0; r < I8_DEPTHWISE_LINES; ++r) {
        const int line = I8_DEPTHWISE_LINES * group + r;
        const int inside = kind != I8_PADDING && line < t->lines && t->line[line];
        src[r] = inside ? t->line[line] + from * t->column_step : t->padding;
        step[r] = inside ? t->column_step : 0;
        if (inside && kind == I8_COPIED)
            src[r] = (const uint8_t *)memcpy(copy[r], src[r], (size_t)t->channels);
    }
    dst += from * dst_step + group * 16 * I8_LANES;
    const int flips = t->flip != I8_SHARED_FLIP;
    if (flips && i8_depthwise_few(t))
        i8_depthwise_columns(src, step, to - from, dst_step, dst, 1, 1);
    else if (flips)
        i8_depthwise_columns(src, step, to - from, dst_step, dst, 1, 0);
    else if (i8_depthwise_few(t))
        i8_depthwise_columns(src, step, to - from, dst_step, dst, 0, 1);
    else
        i8_depthwise_columns(src, step, to - from, dst_step, dst, 0, 0);
}

/* Return the end of the columns that can be read as whole vectors without reading beyond the line. */
I8_INLINE int i8_depthwise_whole(const i8_depthwise_args *t)
{
    const ptrdiff_t missing = I8_DEPTHWISE_CHANNELS - t->channels, step = t->column_step;
    const ptrdiff_t few = missing <= 0 ? 0 : step <= 0 ? t->end : (missing + step - 1) / step;
    return t->end - few > t->first ? (int)(t->end - few) : t->first;
}

/* Interleave all columns of a stretch. */
static void i8_depthwise_interleave(const i8_depthwise_args *t)
{
    const int columns = (t->pixels - 1) * t->stride + (t->taps - 1) * t->dilation + 1, whole = i8_depthwise_whole(t);
    for (int group = 0; group < i8_depthwise_groups(t); ++group) {
        i8_depthwise_span(t, group, 0, t->first, I8_PADDING, t->interleaved);
        i8_depthwise_span(t, group, t->first, whole, I8_WHOLE, t->interleaved);
        for (int column = whole; column < t->end; ++column)
            i8_depthwise_span(t, group, column, column + 1, I8_COPIED, t->interleaved);
        i8_depthwise_span(t, group, t->end, columns, I8_PADDING, t->interleaved);
    }
}
