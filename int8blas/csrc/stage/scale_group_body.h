/* Add the scaled sums of one scale group to the sums of the groups before it, in f32. stage.h has formula and arguments
 * (i8_scale_group_args). */

/* Compute all rows of a panel, so that the values of its columns stay in registers. The constants `by_row` and `less`
 * say whether rows have scales, and which terms are subtracted from the sums. I8_LESS_VECTOR subtracts one vector,
 * perhaps zeros, from all rows. I8_LESS_BY_ROW subtracts the zero point of each row times the sums of the columns.
 * I8_LESS_TERMS subtracts the terms of ao and of bo from each row. I8_LESS_FAR subtracts both terms in 64 bits. */
enum { I8_LESS_VECTOR, I8_LESS_BY_ROW, I8_LESS_TERMS, I8_LESS_FAR, I8_LESS_KINDS };
I8_INLINE void i8_scale_group_panel(const i8_scale_group_args *t, int panel, const int less, const int by_row)
{
    const i8_floats scale = i8_floats_load(t->scale + panel * t->panel_step);
    const int j = panel * I8_CHUNK;
    int32_t x[I8_CHUNK] = {0}, col_sum[I8_CHUNK] = {0};
    uint32_t bo[I8_CHUNK];
    if (t->col_sum)
        memcpy(col_sum, t->col_sum + panel * t->panel_step, sizeof(col_sum));
    if (less == I8_LESS_VECTOR && t->col_sum)
        I8_EACH x[v] = (int32_t)((uint32_t)t->ao * (uint32_t)col_sum[v]);
    if (less == I8_LESS_TERMS)
        I8_EACH bo[v] = (uint32_t)t->bo[j + v];
    for (int i = 0; i < t->rows; ++i) {
        const int32_t *acc = t->acc + i * t->acc_row + j;
        float *y = t->y + i * t->y_row + j;
        i8_floats z;
        if (less == I8_LESS_VECTOR) {
            z = i8_floats_from_difference(acc, x);
        } else if (less == I8_LESS_BY_ROW) {
            z = i8_floats_from_less(acc, (int32_t)t->ao_rows[i], col_sum);
        } else if (less == I8_LESS_FAR) {
            const int64_t ao = t->ao_rows ? t->ao_rows[i] : t->ao, term = t->bo ? t->row_term[i] - t->far_size * ao : 0;
            float sums[I8_CHUNK];
            I8_EACH sums[v] = (float)(acc[v] - ao * col_sum[v] - (t->bo ? t->bo[j + v] * term : 0));
            z = i8_floats_load(sums);
        } else {
            const uint32_t ao = (uint32_t)(t->ao_rows ? t->ao_rows[i] : t->ao), term = (uint32_t)t->row_term[i];
            I8_EACH x[v] = (int32_t)(ao * (uint32_t)col_sum[v] + bo[v] * term);
            z = i8_floats_from_difference(acc, x);
        }
        z = i8_floats_mul(z, by_row ? i8_floats_mul(i8_floats_set(t->row_scale[i]), scale) : scale);
        i8_floats_store(y, i8_floats_add(i8_floats_load(y), z));
    }
}

#define I8_SCALE_GROUP(name, less, by_row)                                                                             \
    I8_NOINLINE void name(const i8_scale_group_args *t)                                                                \
    {                                                                                                                  \
        for (int panel = 0; panel < t->panels; ++panel)                                                                \
            i8_scale_group_panel(t, panel, less, by_row);                                                              \
    }
I8_SCALE_GROUP(i8_scale_group_vector, I8_LESS_VECTOR, 0)
I8_SCALE_GROUP(i8_scale_group_vector_scaled, I8_LESS_VECTOR, 1)
I8_SCALE_GROUP(i8_scale_group_by_row, I8_LESS_BY_ROW, 0)
I8_SCALE_GROUP(i8_scale_group_by_row_scaled, I8_LESS_BY_ROW, 1)
I8_SCALE_GROUP(i8_scale_group_terms, I8_LESS_TERMS, 0)
I8_SCALE_GROUP(i8_scale_group_terms_scaled, I8_LESS_TERMS, 1)
I8_SCALE_GROUP(i8_scale_group_far, I8_LESS_FAR, 0)
I8_SCALE_GROUP(i8_scale_group_far_scaled, I8_LESS_FAR, 1)
#undef I8_SCALE_GROUP

static void i8_add_scale_group(const i8_scale_group_args *t)
{
    static void (*const add[I8_LESS_KINDS][2])(const i8_scale_group_args *) = {
        [I8_LESS_VECTOR] = {i8_scale_group_vector, i8_scale_group_vector_scaled},
        [I8_LESS_BY_ROW] = {i8_scale_group_by_row, i8_scale_group_by_row_scaled},
        [I8_LESS_TERMS] = {i8_scale_group_terms, i8_scale_group_terms_scaled},
        [I8_LESS_FAR] = {i8_scale_group_far, i8_scale_group_far_scaled},
    };
    const int less = t->bo ? I8_LESS_TERMS : t->ao_rows ? I8_LESS_BY_ROW : I8_LESS_VECTOR;
    add[t->far_size ? I8_LESS_FAR : less][t->row_scale != NULL](t);
}
