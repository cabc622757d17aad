/* Values of a kernel between the points of a tile and a group of others, for one width of vectors: vec_many.c includes
 * this file once for each, with NAME, TARGET and LANES.
 *
 *   tile    LANES points side by side, a vector for each coordinate
 *   group   GROUP points that meet the tile together: an exponential is a chain of some thirty operations, each of
 *           which waits for the one before, and so there are others to do meanwhile
 *   list    the coordinates that are not 0, where they are few (vec_sparse.h): no others are laid out or met
 *
 * Operation by operation what vec_kernel.c and exponential.h do for a pair: the same bits. */
typedef double NAME(vector) __attribute__((vector_size(LANES * sizeof(double))));
typedef long long NAME(mask) __attribute__((vector_size(LANES * sizeof(double))));
/* A vector where it stands in an array of doubles. */
typedef double NAME(stretch) __attribute__((vector_size(LANES * sizeof(double)), aligned(sizeof(double)), may_alias));

struct NAME(tile) {
    NAME(vector) at[TILE_DIM];
};

/* Lanes without a point have the last one's coordinates: what comes of them is not looked at. list: NULL, all. */
TARGET static void NAME(lay_out)(struct NAME(tile) * tile, size_t dim, const double *x, size_t stride, size_t n,
                                 const struct kb_coordinates *list)
{
    for (size_t i = 0; i < LANES; i++) {
        const double *point = x + (i < n ? i : n - 1) * stride;
        double *lane = (double *)tile->at + i;
        for (size_t d = 0; list == NULL && d < dim; d++)
            lane[d * LANES] = point[d];
        for (size_t j = 0; list != NULL && j < list->end[3]; j++)
            lane[list->at[j] * LANES] = point[list->at[j]];
    }
}

TARGET KB_INLINE NAME(vector) NAME(term)(bool is_product, NAME(vector) x, double y)
{
    return is_product ? x * y : (y - x) * (y - x);
}

/* |x - y|^2 or x.y, in the order of sums that pairs have. */
TARGET KB_INLINE NAME(vector) NAME(meet)(bool is_product, const struct NAME(tile) * tile, size_t dim, const double *y)
{
    NAME(vector) s[4] = {0};
    size_t d = 0;
    for (; d + 4 <= dim; d += 4)
#pragma GCC unroll 4
        for (size_t i = 0; i < 4; i++)
            s[i] += NAME(term)(is_product, tile->at[d + i], y[d + i]);
    for (; d < dim; d++)
        s[0] += NAME(term)(is_product, tile->at[d], y[d]);
    return (s[0] + s[1]) + (s[2] + s[3]);
}

/* The same for a group of points, over the coordinates of a list alone. */
TARGET KB_INLINE void NAME(meet_listed)(bool is_product, const struct NAME(tile) * tile,
                                        const struct kb_coordinates *list, const double *const *y, NAME(vector) * t)
{
    NAME(vector) s[4][GROUP];
    size_t k = 0;
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; i++) {
        NAME(vector) sum[GROUP] = {0};
        for (; k < list->end[i]; k++) {
            const size_t d = list->at[k];
#pragma GCC unroll 4
            for (size_t j = 0; j < GROUP; j++)
                sum[j] += NAME(term)(is_product, tile->at[d], y[j][d]);
        }
#pragma GCC unroll 4
        for (size_t j = 0; j < GROUP; j++)
            s[i][j] = sum[j];
    }
#pragma GCC unroll 4
    for (size_t j = 0; j < GROUP; j++)
        t[j] = (s[0][j] + s[1][j]) + (s[2][j] + s[3][j]);
}

/* x = exp(x), x <= 0. */
TARGET KB_INLINE void NAME(exponentials)(NAME(vector) * x)
{
    NAME(vector) r[GROUP], q[GROUP];
    NAME(mask) power[GROUP];
#pragma GCC unroll 4
    for (size_t j = 0; j < GROUP; j++) {
        const NAME(vector) shifted = x[j] * KB_EXP_LOG2E + KB_EXP_TO_INTEGER, k = shifted - KB_EXP_TO_INTEGER;
        power[j] = ((NAME(mask))shifted + 1023) << 52;
        r[j] = (x[j] - k * KB_EXP_LN2) + k * KB_EXP_LN2_LESS;
        q[j] = kb_exp_term[0] + (NAME(vector)){0};
    }
#pragma GCC unroll 16
    for (size_t d = 1; d < KB_EXP_TERMS; d++)
#pragma GCC unroll 4
        for (size_t j = 0; j < GROUP; j++)
            q[j] = q[j] * r[j] + kb_exp_term[d];
#pragma GCC unroll 4
    for (size_t j = 0; j < GROUP; j++) {
        const NAME(vector) value = (NAME(vector))power[j] * (1.0 + (r[j] + r[j] * r[j] * q[j]));
        x[j] = (NAME(vector))((NAME(mask))value & (x[j] >= KB_EXP_LEAST));
    }
}

TARGET KB_INLINE void NAME(rbf)(double lengthscale, NAME(vector) * t)
{
    const double factor = -0.5 / (lengthscale * lengthscale);
#pragma GCC unroll 4
    for (size_t j = 0; j < GROUP; j++)
        t[j] *= factor;
    NAME(exponentials)(t);
}

TARGET KB_INLINE void NAME(matern)(const struct kb_vec_kernel_spec *k, NAME(vector) * t)
{
    const struct kb_matern m = kb_matern_of(k->type);
    NAME(vector) s[GROUP];
#pragma GCC unroll 4
    for (size_t j = 0; j < GROUP; j++) {
        for (size_t i = 0; i < LANES; i++)
            s[j][i] = sqrt(t[j][i]);
        s[j] = m.root * s[j] / k->lengthscale;
        t[j] = -s[j];
    }
    NAME(exponentials)(t);
#pragma GCC unroll 4
    for (size_t j = 0; j < GROUP; j++)
        t[j] = (1.0 + s[j] * (m.linear + s[j] * m.quadratic)) * t[j];
}

/* (t + offset)^degree. */
TARGET KB_INLINE void NAME(polynomial)(const struct kb_vec_kernel_spec *k, NAME(vector) * t)
{
    for (size_t j = 0; j < GROUP; j++) {
        const NAME(vector) base = t[j] + k->offset;
        t[j] = base;
        for (int d = 1; d < k->degree; d++)
            t[j] *= base;
    }
}

/* out[i + c ld] *= k(x_i, y_c), c < GROUP and < n_c, for the n points of a tile. list: NULL, all coordinates. */
TARGET static void NAME(scale_group)(const struct kb_vec_kernel_spec *k, const struct NAME(tile) * tile, size_t dim,
                                     const struct kb_coordinates *list, size_t n, const double *const *y, size_t n_c,
                                     double *out, size_t ld)
{
    NAME(vector) t[GROUP];
    const double *point[GROUP];
    const bool is_product = is_of_products(k);
#pragma GCC unroll 4
    for (size_t j = 0; j < GROUP; j++)
        point[j] = y[j < n_c ? j : n_c - 1];
    if (list != NULL && is_product)
        NAME(meet_listed)(true, tile, list, point, t);
    else if (list != NULL)
        NAME(meet_listed)(false, tile, list, point, t);
#pragma GCC unroll 4
    for (size_t j = 0; list == NULL && j < GROUP; j++)
        t[j] = is_product ? NAME(meet)(true, tile, dim, point[j]) : NAME(meet)(false, tile, dim, point[j]);
    if (k->type == KB_VEC_RBF)
        NAME(rbf)(k->lengthscale, t);
    else if (k->type == KB_VEC_POLYNOMIAL)
        NAME(polynomial)(k, t);
    else if (k->type != KB_VEC_LINEAR)
        NAME(matern)(k, t);
    if (n == LANES && n_c >= GROUP) {
#pragma GCC unroll 4
        for (size_t j = 0; j < GROUP; j++)
            *(NAME(stretch) *)(out + j * ld) *= t[j];
        return;
    }
    for (size_t j = 0; j < GROUP && j < n_c; j++)
        if (n == LANES)
            *(NAME(stretch) *)(out + j * ld) *= t[j];
        else
            for (size_t i = 0; i < n; i++)
                out[i + j * ld] *= t[j][i];
}

/* marks: of all candidates; NULL: all coordinates count. */
TARGET static void NAME(scale_many)(const struct kb_vec_kernel_spec *k, size_t dim, const struct kb_vec_points *points,
                                    const struct kb_marks *marks, const double *const *y, size_t n_c, double *out,
                                    size_t ld)
{
    struct NAME(tile) tile;
    struct kb_coordinates few;
    for (size_t first = 0; first < points->n; first += LANES) {
        const size_t width = points->n - first < LANES ? points->n - first : LANES;
        const bool has_list = marks != NULL && list_few(is_of_products(k), points, first, width, marks, dim, &few);
        const struct kb_coordinates *list = has_list ? &few : NULL;
        NAME(lay_out)(&tile, dim, points->x + first * points->stride, points->stride, width, list);
        for (size_t c = 0; c < n_c; c += GROUP)
            NAME(scale_group)(k, &tile, dim, list, width, y + c, n_c - c, out + first + c * ld, ld);
    }
}

#undef NAME
#undef TARGET
#undef LANES
