/* Find sums above a threshold (i8_above_args in neighbors.h). The compiler vectorizes these simple loops for the width
 * of the including file.
 *
 * Nearly all sums are below the threshold, so the kernel first finds the largest of I8_ABOVE_GROUP sums with vectors.
 * If the largest sum is above the threshold, the kernel writes items one by one, without a branch. A larger
 * I8_ABOVE_GROUP makes finding the largest sum faster, but writing the items slower. */
enum { I8_ABOVE_GROUP = 128 };

/* Return the s32 value that the kernel compares with the threshold. I8_COSINE has no such value. */
I8_INLINE int32_t i8_above_key(const i8_above_args *t, const int64_t j, const int metric)
{
    if (metric == I8_INNER)
        return t->sums[j];
    return (int32_t)(2u * (uint32_t)t->sums[j] - (uint32_t)t->squares[j]);
}

I8_INLINE int i8_is_above(const i8_above_args *t, const int64_t j, const int metric)
{
    if (metric == I8_COSINE)
        return (float)t->sums[j] >= t->limit * t->lengths[j];
    return i8_above_key(t, j, metric) > t->threshold;
}

/* Return whether any sum of a whole group is above the limit, for I8_COSINE. */
I8_INLINE int i8_any_above(const i8_above_args *t, const int64_t first)
{
    int any = 0;
    for (int v = 0; v < I8_ABOVE_GROUP; ++v)
        any |= i8_is_above(t, first + v, I8_COSINE);
    return any;
}

/* Return the largest key of `count` sums. */
I8_INLINE int32_t i8_largest_key(const i8_above_args *t, const int64_t first, const int count, const int metric)
{
    int32_t largest = INT32_MIN;
    for (int v = 0; v < count; ++v) {
        const int32_t key = i8_above_key(t, first + v, metric);
        largest = key > largest ? key : largest;
    }
    return largest;
}

I8_INLINE int64_t i8_above(const i8_above_args *args, const int metric)
{
    i8_above_args own = *args;
    const i8_above_args *t = &own;
    int64_t n = 0, j = 0;
    while (j < t->count) {
        const int64_t rest = t->count - j, end = j + (rest < I8_ABOVE_GROUP ? rest : I8_ABOVE_GROUP);
        const int whole = rest >= I8_ABOVE_GROUP;
        int32_t largest = INT32_MIN;
        if (metric == I8_COSINE && whole && !i8_any_above(t, j)) {
            j = end;
            continue;
        }
        if (metric != I8_COSINE && (whole || t->single)) {
            largest = whole ? i8_largest_key(t, j, I8_ABOVE_GROUP, metric) : i8_largest_key(t, j, (int)rest, metric);
            if (largest <= t->threshold) {
                j = end;
                continue;
            }
            if (t->single)
                own.threshold = largest - 1; /* only the largest keys exceed this threshold */
        }
        for (; j < end; ++j) {
            const uint32_t rank = metric == I8_COSINE ? 0 : (uint32_t)INT32_MAX - (uint32_t)i8_above_key(t, j, metric);
            t->found[n] = (uint64_t)rank << 32 | (uint32_t)(t->first + j);
            n += i8_is_above(t, j, metric);
        }
        if (metric != I8_COSINE && t->single)
            own.threshold = largest;
    }
    return n;
}

static int64_t i8_above_inner(const i8_above_args *t) { return i8_above(t, I8_INNER); }
static int64_t i8_above_sqeuclidean(const i8_above_args *t) { return i8_above(t, I8_SQEUCLIDEAN); }
static int64_t i8_above_cosine(const i8_above_args *t) { return i8_above(t, I8_COSINE); }
