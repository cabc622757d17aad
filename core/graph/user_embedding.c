/* Mean embeddings of users by random Fourier features (user_embedding.h)  [RR, Alg. 1], [LK, baselines].
 *
 *   letter   shape      meaning
 *   D, dim              features, coordinates of a vector
 *   l, s                lengthscale of the vectors' RBF, bandwidth of the RBF between embeddings
 *   w_j, b_j  dim, 1    frequency and phase of feature j
 *   mu_u      D         mean of the features of what user u was shown and rewarded for
 *
 * Draws. With p = j (dim + 1): w_jd = normal(seed, KB_STREAM_FEATURES, p + d) / l for d < dim, and b_j = 2 pi times
 * uniform(seed, KB_STREAM_FEATURES, 2 (p + dim)). A normal of index i consumes the words 2i and 2i + 1, so no word
 * serves twice. Nothing but the seed goes in: two refreshes of one length scale have the same features, and a user's
 * embedding moves only by what was learned in between.
 *
 * Scales. l = 0: the median distance among the history's vectors; s = 0: that among the embeddings, both over an even
 * sample of at most 512 (kb_median_distance). Users who saw the same things in another order differ by rounding alone;
 * a median below LEAST_BANDWIDTH would blow that up to a difference of tastes, so s stays above it.
 *
 * Who has fewer than min_observations has no embedding and stands alone, as [LK, baselines] has it.
 * Deviation: beyond KB_EMBEDDED_MAX users so do those of the fewest observations, since G is held whole
 * (test: of_too_many_users_the_most_observed_are_embedded).
 *
 * Numerics: sums run over the rows in the history's order, by loops of ours and not by BLAS, so a fold that stops at
 * the same event has the same bits. |mu_u| <= sqrt(2), hence G >= exp(-4 / s^2) > 0 for any s above 0.1.
 *
 * Cost: rows D (2 dim flops and a cosine): 0.1 s for 10,000 rows of 10 coordinates and D = 256. */
#include "graph/user_embedding.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/ids.h"
#include "base/rng.h"
#include "vector/vec_kernel.h"

#define LEAST_BANDWIDTH 1e-6
#define LEAST_LENGTHSCALE 1e-12 /* frequencies stay numbers */
#define TWO_PI 6.283185307179586476925

void kb_user_embedding_close(struct kb_user_embedding *m)
{
    kb_free(m->user);
    kb_free(m->mean);
    *m = (struct kb_user_embedding){0};
}

/* --- who is embedded ------------------------------------------------------------------------------------- */

/* A user with the number of observations. */
struct candidate {
    double count;
    uint32_t user;
};

/* The users of a history: places by interned index, and what is counted for each. */
struct census {
    size_t n_users;
    double *count;   /* [n_users] observations */
    uint32_t *place; /* [n_users] KB_ID_NONE = not embedded */
};

static void census_close(struct census *c)
{
    kb_free(c->count);
    kb_free(c->place);
}

/* Observations of every user; nobody has a place yet. */
static enum kb_err census_open(struct census *c, const struct kb_history *h)
{
    *c = (struct census){0};
    for (size_t row = 0; row < h->n; row++)
        if (h->user[row] >= c->n_users)
            c->n_users = (size_t)h->user[row] + 1;
    c->count = kb_array(c->n_users + 1, 1, sizeof *c->count);
    c->place = kb_array(c->n_users + 1, 1, sizeof *c->place);
    if (c->count == NULL || c->place == NULL)
        return KB_ENOMEM;
    for (size_t u = 0; u < c->n_users; u++)
        c->place[u] = KB_ID_NONE;
    for (size_t row = 0; row < h->n; row++)
        c->count[h->user[row]] += kb_history_count(h, row);
    return KB_OK;
}

/* Most observations first, ties by index: a total order, so the sort's own habits do not matter. */
static int compare_candidates(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->count != y->count)
        return x->count < y->count ? 1 : -1;
    return x->user < y->user ? -1 : x->user > y->user;
}

/* Ascending places let a user be found by halving and make the digest a function of who is in, not of the sort. Beyond
 * the limit a sort tells who goes; below it, which is every tenant of a size for this kernel, nothing is sorted.
 * Gives places, by ascending index, to the users who have seen enough; *n of them. */
static enum kb_err choose_users(struct census *c, double least, size_t *n)
{
    struct candidate *list = kb_array(c->n_users + 1, 1, sizeof *list);
    size_t n_list = 0;
    uint32_t next = 0;
    if (list == NULL)
        return KB_ENOMEM;
    for (size_t u = 0; u < c->n_users; u++)
        if (c->count[u] >= least)
            list[n_list++] = (struct candidate){c->count[u], (uint32_t)u};
    if (n_list > KB_EMBEDDED_MAX) {
        qsort(list, n_list, sizeof *list, compare_candidates);
        n_list = KB_EMBEDDED_MAX;
    }
    for (size_t i = 0; i < n_list; i++)
        c->place[list[i].user] = 0; /* chosen; the place itself needs the order of indices */
    for (size_t u = 0; u < c->n_users; u++)
        if (c->place[u] != KB_ID_NONE)
            c->place[u] = next++;
    kb_free(list);
    *n = n_list;
    return KB_OK;
}

/* --- features ----------------------------------------------------------------------------------------------- */

/* Rows of dim frequencies and a phase, n_features of them. Index and word numbers are those of the file header: they
 * are part of what a snapshot's embeddings mean, so changing them is changing the model. */
static void draw_features(uint64_t seed, double lengthscale, size_t dim, size_t n_features, double *w)
{
    for (size_t j = 0; j < n_features; j++) {
        size_t p = j * (dim + 1);
        for (size_t d = 0; d < dim; d++)
            w[p + d] = kb_rng_normal(seed, KB_STREAM_FEATURES, p + d) / lengthscale;
        w[p + dim] = TWO_PI * kb_rng_uniform(seed, KB_STREAM_FEATURES, 2 * (p + dim));
    }
}

/* sum += weight phi(x). Nearly all of the time of a refresh goes here, half of it into cosines; a refresh runs beside
 * readers and stands next to a rebuild of the posterior, so plain loops will do. */
static void add_features(const double *w, size_t dim, size_t n_features, const double *x, double weight, double *sum)
{
    double scale = weight * sqrt(2.0 / (double)n_features);
    for (size_t j = 0; j < n_features; j++) {
        const double *row = w + j * (dim + 1);
        double angle = row[dim];
        for (size_t d = 0; d < dim; d++)
            angle += row[d] * x[d];
        sum[j] += scale * cos(angle);
    }
}

/* mu of everybody who has a place: one pass over the rows in their order, then the division. The count of a user is the
 * sum of his rows' counts, so that mu is a mean over observations and not over distinct points. */
static void fill_means(struct kb_user_embedding *m, const struct census *c, const double *w, size_t dim,
                       const struct kb_history *h)
{
    for (size_t row = 0; row < h->n; row++) {
        uint32_t place = c->place[h->user[row]];
        if (place != KB_ID_NONE)
            add_features(w, dim, m->n_features, h->x + row * h->dim, kb_history_count(h, row),
                         m->mean + (size_t)place * m->n_features);
    }
    for (size_t i = 0; i < m->n; i++)
        for (size_t j = 0; j < m->n_features; j++)
            m->mean[i * m->n_features + j] /= c->count[m->user[i]];
}

/* The value that was given, or the median distance of n vectors: 1 where there are not two that differ. */
static enum kb_err scale_or_median(double given, size_t n, size_t dim, const double *x, size_t stride, double *out)
{
    *out = given;
    return given > 0 ? KB_OK : kb_median_distance(n, dim, x, stride, out);
}

/* Memory of *m for those with a place, their indices in it. */
static enum kb_err open_places(struct kb_user_embedding *m, const struct census *c, size_t n, size_t n_features)
{
    m->user = kb_array(n + 1, 1, sizeof *m->user);
    m->mean = kb_array(n + 1, n_features, sizeof *m->mean);
    if (m->user == NULL || m->mean == NULL)
        return KB_ENOMEM;
    m->n = n;
    m->n_features = n_features;
    for (size_t u = 0; u < c->n_users; u++)
        if (c->place[u] != KB_ID_NONE)
            m->user[c->place[u]] = (uint32_t)u;
    return KB_OK;
}

enum kb_err kb_user_embedding_learn(struct kb_user_embedding *m, const struct kb_user_kernel_spec *spec, uint64_t seed,
                                    size_t dim, const struct kb_history *h)
{
    struct census c;
    double *w = NULL, lengthscale;
    size_t n = 0;
    enum kb_err rc;
    assert(m->n == 0 && m->user == NULL && dim > 0 && dim <= h->dim);
    KB_TRY(census_open(&c, h));
    KB_TRY(choose_users(&c, (double)spec->min_observations, &n));
    KB_TRY(open_places(m, &c, n, spec->n_features));
    KB_TRY(scale_or_median(spec->lengthscale, h->n, dim, h->x, h->dim, &lengthscale));
    w = kb_array(spec->n_features, dim + 1, sizeof *w);
    if (w == NULL) {
        rc = KB_ENOMEM;
        goto out;
    }
    draw_features(seed, fmax(lengthscale, LEAST_LENGTHSCALE), dim, spec->n_features, w);
    fill_means(m, &c, w, dim, h);
    KB_TRY(scale_or_median(spec->bandwidth, n, m->n_features, m->mean, m->n_features, &m->bandwidth));
    m->bandwidth = fmax(m->bandwidth, LEAST_BANDWIDTH);
out:
    kb_free(w);
    census_close(&c);
    return rc;
}

/* --- values -------------------------------------------------------------------------------------------------- */

/* Halving: at most eleven steps, once for a row of the kernel and once for an anchor. */
uint32_t kb_user_embedding_find(const struct kb_user_embedding *m, uint32_t user)
{
    size_t lo = 0, hi = m->n;
    while (lo < hi) {
        size_t middle = lo + (hi - lo) / 2;
        if (m->user[middle] < user)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo < m->n && m->user[lo] == user ? (uint32_t)lo : KB_ID_NONE;
}

/* Squared differences are summed (vec_kernel.c), so G_uu is exactly 1 and G_uv = G_vu to the bit. */
void kb_user_embedding_gram(const struct kb_user_embedding *m, double *g)
{
    struct kb_vec_kernel_spec rbf = {.type = KB_VEC_RBF, .lengthscale = m->bandwidth, .degree = 1};
    for (size_t j = 0; j < m->n; j++) {
        double *column = g + j * m->n;
        for (size_t i = 0; i < m->n; i++)
            column[i] = 1.0;
        kb_vec_kernel_scale(&rbf, m->n_features, m->mean, m->n_features, m->n, m->mean + j * m->n_features, column);
    }
}

/* --- digest and snapshots ---------------------------------------------------------------------------------- */

/* Bits of all that G is computed from. */
uint64_t kb_user_embedding_digest(const struct kb_user_embedding *m, uint64_t h)
{
    h = kb_hash_double(kb_hash_u64(h, m->n), m->bandwidth);
    h = kb_hash_array(h, m->user, m->n * sizeof *m->user);
    return kb_hash_array(h, m->mean, m->n * m->n_features * sizeof *m->mean);
}

/* Embeddings and not G: 2 kB a user at 256 features, and G follows from them to the bit. */
void kb_user_embedding_save(const struct kb_user_embedding *m, struct kb_writer *w)
{
    kb_put_u64(w, m->n);
    kb_put_double(w, m->bandwidth);
    kb_put_u32s(w, m->user, m->n);
    kb_put_doubles(w, m->mean, m->n * m->n_features);
}

/* What the other functions rely on: ascending users, an s that learning gives once there is anybody, finite means. */
static bool is_sound(const struct kb_user_embedding *m)
{
    for (size_t i = 1; i < m->n; i++)
        if (m->user[i] <= m->user[i - 1])
            return false;
    for (size_t i = 0; i < m->n * m->n_features; i++)
        if (!isfinite(m->mean[i]))
            return false;
    return m->n == 0 || (m->bandwidth >= LEAST_BANDWIDTH && isfinite(m->bandwidth) && m->user[m->n - 1] != KB_ID_NONE);
}

/* The count is bounded by what is left of the snapshot, so nothing is allocated for a lie. */
enum kb_err kb_user_embedding_load(struct kb_user_embedding *m, size_t n_features, struct kb_reader *r)
{
    size_t left = (r->n - r->pos) / sizeof(double) / n_features;
    size_t n = kb_get_count(r, left < KB_EMBEDDED_MAX ? left : KB_EMBEDDED_MAX);
    enum kb_err rc = r->rc;
    struct census nobody = {0};
    assert(m->n == 0 && m->user == NULL);
    KB_TRY(rc);
    KB_TRY(open_places(m, &nobody, n, n_features));
    m->bandwidth = kb_get_double(r);
    kb_get_u32s(r, m->user, n);
    kb_get_doubles(r, m->mean, n * n_features);
    KB_TRY(r->rc);
    rc = is_sound(m) ? KB_OK : KB_ECORRUPT;
out:
    return rc;
}
