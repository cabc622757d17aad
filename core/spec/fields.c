/* The table of fields, and what walks it: see fields.h.
 *
 * Rows stand in the order in which the digest takes them, and kb_spec_check tells faults: the rows of a group together,
 * but for three whole numbers of the users' kernel, which come behind all kernels, and the share of the holdout.
 *
 * Positive parameters are confined to [1e-12, 1e12] rather than (0, inf): beyond that a pivot of the order of lambda is
 * below the rounding of the kernel values and the factorisation carries no information. What a type does not read is
 * checked as all else: a configuration that is kept must be one that could be used. */
#include "spec/fields.h"

#include <string.h>

#include "base/hash.h"
#include "base/magnitude.h"

#define TEN_YEARS_MS (INT64_C(10) * 366 * 24 * 3600 * 1000)

/* --- the table ------------------------------------------------------------------------------------------- */

/* clang-format off */
/* Ranges. */
#define FROM(least, most) .lo = (double)(least), .hi = (double)(most)
#define POSITIVE FROM(KB_LEAST_SCALE, KB_MOST_SCALE)
#define NOT_NEGATIVE FROM(0, KB_MOST_SCALE)
#define INSIDE_UNIT FROM(0, 1), .is_open = true

/* Which models read it. */
#define READ_BY(member, types) .reader_type = offsetof(struct kb_spec, member), .readers = (types)
#define USER(name) READ_BY(user_kernel.type, KB_TYPE_BIT(KB_USER_##name))
#define REPR(name) READ_BY(repr.type, KB_TYPE_BIT(KB_REPR_##name))
#define SUMS READ_BY(repr.type, KB_TYPE_BIT(KB_REPR_BY_ARM) | KB_TYPE_BIT(KB_REPR_BY_COMPONENT))
#define PRIORS SUMS, .is_of_scaled = true
#define ALL READ_BY(user_kernel.type, ~0u)
#define NONE .readers = 0
#define BOOK .is_book = true
#define LATE .is_late = true
#define LEARNED(name, from) .learned = KB_LEARNED_##name, .start = (from)

/* Rows: pointer, member, usual value (0 where none stands here), range, readers. */
#define MEMBER(name) .offset = offsetof(struct kb_spec, name), .size = sizeof(((struct kb_spec *)0)->name)
#define ROW(json, kind, turn, member, ...) {json, KB_FIELD_##kind, KB_TURN_##turn, MEMBER(member), __VA_ARGS__}
#define TEXT(json, member, readers) ROW(json, TEXT, N, member, readers)
#define CHOICE(json, member, set, end, ...)                                                                            \
    ROW(json, CHOICE, TYPES, member, FROM(0, (end)-1), .expected = "unknown type", .words = &kb_##set##_words,         \
        __VA_ARGS__)
#define FLAG(json, member, ...) ROW(json, FLAG, TYPES, member, FROM(0, 1), __VA_ARGS__)
#define SIZE(json, turn, member, value, range, ...) ROW(json, SIZE, turn, member, .usual = (value), range, __VA_ARGS__)
#define REAL(json, member, value, range, ...) ROW(json, REAL, REALS, member, .usual = (value), range, __VA_ARGS__)

/* Both kernels on vectors have the same. */
#define VECTOR_KERNEL(kernel, ...)                                                                                    \
    CHOICE("/" #kernel "/type", kernel.type, vec_kernel, KB_VEC_N, ALL),                                              \
    ROW("/" #kernel "/lengthscale", LENGTHSCALE, REALS, kernel.lengthscale, .usual = 1, POSITIVE,                     \
        .flag = offsetof(struct kb_spec, kernel.is_median), __VA_ARGS__,                                              \
        READ_BY(kernel.type, KB_STATIONARY_KERNELS)),                                                                 \
    ROW("/" #kernel "/degree", INT, LATER, kernel.degree, .usual = 2, FROM(1, 8),                                     \
        READ_BY(kernel.type, KB_TYPE_BIT(KB_VEC_POLYNOMIAL))),                                                        \
    REAL("/" #kernel "/offset", kernel.offset, 1, NOT_NEGATIVE,                                                       \
         READ_BY(kernel.type, KB_TYPE_BIT(KB_VEC_POLYNOMIAL)))

const struct kb_field kb_fields[] = {
    TEXT("/algorithm", algorithm, NONE),
    ROW("/context_dim", DIMENSION, COUNTS, context_dim, FROM(0, 4096), ALL),
    ROW("/arm_dim", DIMENSION, COUNTS, arm_dim, FROM(0, 4096), ALL),

    CHOICE("/user_kernel/type", user_kernel.type, user_kernel, KB_USER_N, ALL),
    REAL("/user_kernel/rho", user_kernel.rho, 0.1, POSITIVE, LEARNED(RHO, 0.3), USER(LAPLACIAN)),
    REAL("/user_kernel/population", user_kernel.population, 0, NOT_NEGATIVE, USER(LAPLACIAN)),
    FLAG("/user_kernel/normalize", user_kernel.is_normalized, READ_BY(user_kernel.type, KB_GRAPH_KERNELS)),
    REAL("/user_kernel/tolerance", user_kernel.tolerance, 1e-4, FROM(0, 0.1), USER(LAPLACIAN)),
    REAL("/user_kernel/power", user_kernel.power, 1, FROM(KB_LEAST_SCALE, 4), USER(LAPLACIAN)),
    REAL("/user_kernel/tau", user_kernel.tau, 1, POSITIVE, USER(HEAT)),
    /* as many eigenvectors as a dense graph can have */
    SIZE("/user_kernel/k", COUNTS, user_kernel.n_vectors, 8, FROM(1, 2048), USER(SPECTRAL_RBF)),
    REAL("/user_kernel/lengthscale", user_kernel.lengthscale, 0, NOT_NEGATIVE,
         READ_BY(user_kernel.type, KB_TYPE_BIT(KB_USER_SPECTRAL_RBF) | KB_TYPE_BIT(KB_USER_MMD))),
    REAL("/user_kernel/bandwidth", user_kernel.bandwidth, 0, NOT_NEGATIVE, USER(MMD)),

    VECTOR_KERNEL(context_kernel, LEARNED(LENGTHSCALE, 1)),
    VECTOR_KERNEL(arm_kernel, .learned = 0),

    SIZE("/user_kernel/features", LATER, user_kernel.n_features, 256, FROM(1, 4096), USER(MMD)),
    SIZE("/user_kernel/refresh", LATER, user_kernel.refresh, 200, FROM(1, 1000000), NONE),
    SIZE("/user_kernel/min_observations", LATER, user_kernel.min_observations, 5, FROM(1, 1000000), USER(MMD)),

    CHOICE("/representation/type", repr.type, repr, KB_REPR_N, ALL),
    REAL("/representation/lambda", repr.lambda, 1, POSITIVE, LEARNED(NOISE, 0.25), ALL),
    REAL("/representation/mu", repr.mu, 1, POSITIVE, REPR(KORS)),
    REAL("/representation/gamma", repr.gamma, 1, POSITIVE, REPR(KORS)),
    REAL("/representation/epsilon", repr.epsilon, 0.5, INSIDE_UNIT, REPR(KORS)),
    REAL("/representation/threshold", repr.threshold, 0.01, INSIDE_UNIT,
         READ_BY(repr.type, KB_TYPE_BIT(KB_REPR_THRESHOLD) | KB_TYPE_BIT(KB_REPR_BY_COMPONENT))),
    REAL("/representation/q", repr.q, 5, POSITIVE,
         READ_BY(repr.type, KB_TYPE_BIT(KB_REPR_BKB) | KB_TYPE_BIT(KB_REPR_BBKB))),
    REAL("/representation/batch_ratio", repr.batch_ratio, 10, FROM(1, KB_MOST_SCALE), REPR(BBKB)),
    SIZE("/representation/max_dictionary", COUNTS, repr.max_dictionary, 1024, FROM(1, 4096),
         READ_BY(repr.type, ~(KB_TYPE_BIT(KB_REPR_EXACT) | KB_TYPE_BIT(KB_REPR_BY_ARM)))),
    /* of an exact model the engine's, not the posterior's */
    SIZE("/representation/exact_limit", COUNTS, repr.exact_limit, 4096, FROM(1, 16384), REPR(BY_ARM)),

    REAL("/prior/mean", prior.mean, 0, FROM(-KB_MOST_MAGNITUDE, KB_MOST_MAGNITUDE), LEARNED(MEAN, 0), PRIORS),
    REAL("/prior/arm", prior.arm, 0.05, NOT_NEGATIVE, LEARNED(ARM, 0.05), PRIORS),
    REAL("/prior/feature", prior.feature, 0.05, NOT_NEGATIVE, LEARNED(FEATURE, 0.05), REPR(BY_COMPONENT)),
    REAL("/prior/user", prior.user, 0.02, NOT_NEGATIVE, LEARNED(USER, 0.02), SUMS),
    REAL("/prior/context", prior.context, 0.2, NOT_NEGATIVE, LEARNED(CONTEXT, 0.2), SUMS),
    REAL("/prior/linear", prior.linear, 0.2, NOT_NEGATIVE, LEARNED(LINEAR, 0.2), SUMS),
    FLAG("/tune", is_tuned, NONE, LATE),

    /* of these a model reads what sums it keeps for them: kb_spec_same_model */
    CHOICE("/confidence/type", conf.type, conf, KB_CONF_N, NONE),
    REAL("/confidence/beta", conf.beta, 0, NOT_NEGATIVE, NONE),
    REAL("/confidence/norm_bound", conf.norm_bound, 0, NOT_NEGATIVE, NONE),
    REAL("/confidence/noise", conf.noise, 0.1, POSITIVE, NONE),
    REAL("/confidence/delta", conf.delta, 0.01, INSIDE_UNIT, NONE),
    CHOICE("/confidence/form", conf.form, sketch_form, KB_SKETCH_N, NONE),
    FLAG("/confidence/mixture", conf.is_mixture, ALL),
    CHOICE("/confidence/score", conf.score, score, KB_SCORE_N, NONE),

    CHOICE("/rule/type", rule.type, rule, KB_RULE_N, NONE),
    REAL("/rule/epsilon", rule.epsilon, 0, FROM(0, 1), NONE),
    REAL("/rule/scale", rule.scale, 1, POSITIVE, NONE),
    REAL("/rule/gamma_scale", rule.gamma_scale, 10, NOT_NEGATIVE, LATE),
    REAL("/rule/gamma_exponent", rule.gamma_exponent, 0.5, FROM(0, 1), LATE),
    ROW("/rule/weights", WEIGHTS, N, rule.split, FROM(0, KB_SPLIT_ARMS), LATE), /* so many arms */

    CHOICE("/aggregation", aggregation, aggregation, KB_AGG_N, BOOK),
    CHOICE("/forgetting/type", forgetting.type, forgetting, KB_FORGET_N, NONE),
    REAL("/forgetting/discount", forgetting.discount, 0.999, INSIDE_UNIT, NONE),
    FLAG("/forgetting/detect_changes", forgetting.detects_changes, NONE, LATE),
    REAL("/routing/holdout/share", routing.holdout, 0, FROM(0, 1), BOOK),
    REAL("/forgetting/half_life_s", forgetting.half_life_s, 86400, FROM(0.001, 1e9), NONE),
    /* 0: no news is no reward */
    ROW("/default_reward", REWARD, N, default_reward, .flag = offsetof(struct kb_spec, has_default_reward), BOOK),
    ROW("/reward_window_s", MS, COUNTS, reward_window_ms, .usual = 3600 * 1000, FROM(1, TEN_YEARS_MS),
        .expected = "expected more than 0 and at most ten years", BOOK),
    ROW("/routing/holdout/baseline", CHOICE, ROUTING, routing.baseline, FROM(0, KB_BASELINE_N - 1),
        .expected = "expected an arm, or the rule uniform or first", BOOK),
    TEXT("/routing/holdout/baseline/arm", routing.arm, BOOK),
    TEXT("/routing/holdout/salt", routing.salt, BOOK),
    ROW("/routing/sticky/ttl_s", MS, ROUTING, routing.sticky_ms, FROM(0, TEN_YEARS_MS),
        .expected = "expected at most 3.16224e+08", BOOK),
    FLAG("/routing/stopped", routing.is_stopped, BOOK),
    FLAG("/routing/apprentice", routing.is_apprentice, BOOK, LATE),
    CHOICE("/pending", pending, pending, KB_PENDING_N, ALL, LATE),
    FLAG("/learn", learns, .usual = 1, BOOK, LATE),
    FLAG("/metrics", has_metrics, BOOK, LATE),
    ROW("/seed", SEED, COUNTS, seed, .usual = 1, FROM(0, (UINT64_C(1) << 53) - 1),
        .expected = "expected an integer below 2^53", NONE),
};

#define EACH_FIELD(f) const struct kb_field *f = kb_fields; f < kb_fields + kb_n_fields; f++
/* clang-format on */

const size_t kb_n_fields = sizeof kb_fields / sizeof *kb_fields;

/* --- values ---------------------------------------------------------------------------------------------- */

static bool is_real(const struct kb_field *f)
{
    return f->kind >= KB_FIELD_REAL;
}

/* Whether a row has a whole number, which of a row of two members is the flag. */
static bool is_whole(const struct kb_field *f)
{
    return f->kind != KB_FIELD_TEXT && f->kind != KB_FIELD_WEIGHTS && f->kind != KB_FIELD_REAL;
}

static uint64_t whole_of(const struct kb_field *f, const struct kb_spec *spec)
{
    const char *at = (const char *)spec + (is_real(f) ? f->flag : f->offset);
    uint32_t narrow;
    uint64_t wide;

    if (is_real(f) || f->size == sizeof(bool))
        return *(const bool *)at;
    if (f->size == sizeof narrow) {
        memcpy(&narrow, at, sizeof narrow);
        return f->kind == KB_FIELD_INT ? (uint64_t)(int)narrow : narrow; /* enumerations have no sign */
    }
    memcpy(&wide, at, sizeof wide);
    return wide;
}

static void set_whole(const struct kb_field *f, struct kb_spec *spec, uint64_t wide)
{
    char *at = (char *)spec + (is_real(f) ? f->flag : f->offset);
    const uint32_t narrow = (uint32_t)wide;

    if (is_real(f) || f->size == sizeof(bool))
        *(bool *)at = wide != 0;
    else
        memcpy(at, f->size == sizeof narrow ? (const void *)&narrow : &wide, f->size);
}

static const struct kb_split *weights_of(const struct kb_field *f, const struct kb_spec *spec)
{
    return (const struct kb_split *)(const void *)((const char *)spec + f->offset);
}

static double real_of(const struct kb_field *f, const struct kb_spec *spec)
{
    double x;
    memcpy(&x, (const char *)spec + f->offset, sizeof x);
    return x;
}

static void set_real(const struct kb_field *f, struct kb_spec *spec, double x)
{
    memcpy((char *)spec + f->offset, &x, sizeof x);
}

/* --- walks ----------------------------------------------------------------------------------------------- */

void kb_spec_init(struct kb_spec *spec)
{
    memset(spec, 0, sizeof *spec);
    for (EACH_FIELD(f)) {
        if (is_real(f))
            set_real(f, spec, f->usual);
        else if (is_whole(f))
            set_whole(f, spec, (uint64_t)f->usual);
    }
    spec->has_default_reward = true;
}

void kb_spec_learn(struct kb_spec *spec, unsigned bits)
{
    for (EACH_FIELD(f)) {
        if ((f->learned & bits) == 0)
            continue;
        set_real(f, spec, f->start);
        if (f->kind == KB_FIELD_LENGTHSCALE)
            set_whole(f, spec, false);
        spec->learned |= f->learned;
    }
}

void kb_spec_unlearn(struct kb_spec *spec, unsigned bits)
{
    for (EACH_FIELD(f))
        if ((f->learned & bits & spec->learned) != 0)
            set_real(f, spec, f->usual);
    spec->learned &= ~bits;
}

/* NaN fails every comparison and so is outside of every range; whole numbers in range are doubles. */
enum kb_err kb_fields_check(const struct kb_spec *spec, enum kb_field_turn turn, struct kb_errmsg *msg)
{
    for (EACH_FIELD(f)) {
        if (f->turn != turn)
            continue;
        const double x = is_real(f)               ? real_of(f, spec)
                         : f->kind == KB_FIELD_MS ? (double)(int64_t)whole_of(f, spec)
                                                  : (double)whole_of(f, spec);
        if (f->is_open ? x > f->lo && x < f->hi : x >= f->lo && x <= f->hi)
            continue;
        if (f->expected != NULL)
            return kb_fail(KB_EINVAL, msg, f->pointer, "%s", f->expected);
        if (is_real(f))
            return kb_fail(KB_EINVAL, msg, f->pointer, "expected a number %s %g and %s %g",
                           f->is_open ? ">" : ">=", f->lo, f->is_open ? "<" : "<=", f->hi);
        return kb_fail(KB_EINVAL, msg, f->pointer, "expected %.0f to %.0f", f->lo, f->hi);
    }
    return KB_OK;
}

/* Those of the kernels on vectors, or all others. */
static uint64_t hash_whole(uint64_t h, const struct kb_spec *spec, bool of_vectors)
{
    const size_t begin = offsetof(struct kb_spec, context_kernel), n = 2 * sizeof spec->context_kernel;

    for (EACH_FIELD(f))
        if (is_whole(f) && !f->is_late && (f->offset - begin < n) == of_vectors)
            h = kb_hash_u64(h, whole_of(f, spec));
    return h;
}

/* Whether a model of the kind of `spec` reads it. */
static bool is_read(const struct kb_field *f, const struct kb_spec *spec)
{
    int type;
    memcpy(&type, (const char *)spec + f->reader_type, sizeof type);
    return (f->readers >> type & 1) != 0 || (f->is_of_scaled && kb_spec_is_scaled(spec));
}

bool kb_field_is_silent(const struct kb_field *f, const struct kb_spec *spec)
{
    const size_t begin = offsetof(struct kb_spec, prior);
    return f->offset - begin < sizeof spec->prior && !is_read(f, spec) && real_of(f, spec) == f->usual &&
           (f->learned & spec->learned) == 0;
}

/* Of a field that came late: nothing where it is usual, else its name and its bits. */
static uint64_t hash_late(uint64_t h, const struct kb_field *f, const struct kb_spec *spec)
{
    if (f->kind == KB_FIELD_WEIGHTS)
        return weights_of(f, spec)->n == 0 ? h : kb_split_digest(weights_of(f, spec), kb_hash_str(h, f->pointer));
    const double x = is_real(f) ? real_of(f, spec) : (double)whole_of(f, spec);

    return x == f->usual ? h : kb_hash_double(kb_hash_str(h, f->pointer), x);
}

/* Texts; whole numbers; doubles by their bits; the whole numbers of vector kernels; a default reward that counts; what
 * came late and is not usual. */
uint64_t kb_spec_digest(const struct kb_spec *spec, uint64_t h)
{
    for (EACH_FIELD(f))
        if (f->kind == KB_FIELD_TEXT)
            h = kb_hash_str(h, (const char *)spec + f->offset);
    h = hash_whole(h, spec, false);
    for (EACH_FIELD(f))
        if (is_real(f) && !f->is_late && f->kind != KB_FIELD_REWARD && !kb_field_is_silent(f, spec))
            h = kb_hash_double(h, real_of(f, spec));
    h = hash_whole(h, spec, true);
    h = spec->has_default_reward ? kb_hash_double(h, spec->default_reward) : h;
    for (EACH_FIELD(f))
        h = f->is_late ? hash_late(h, f, spec) : h;
    h = spec->n_scaled > 0 ? kb_hash_array(h, spec->scale, spec->n_scaled * sizeof *spec->scale) : h;
    h = spec->spaces.n > 0 ? kb_split_digest(&spec->spaces, kb_hash_str(h, "spaces")) : h;
    return spec->learned != 0 ? kb_hash_u64(kb_hash_str(h, "learned"), spec->learned) : h;
}

void kb_spec_keep_learned(struct kb_spec *to, const struct kb_spec *from)
{
    for (EACH_FIELD(f))
        if ((f->learned & to->learned) != 0)
            set_real(f, to, real_of(f, from));
    if (!kb_split_is_same(&to->spaces, &from->spaces))
        return;
    if (kb_spec_finds_spaces(to) ? from->n_scaled == to->spaces.n
                                 : kb_spec_finds_context_scales(to) && from->n_scaled == to->context_dim)
        kb_spec_put_scales(to, from->scale, from->n_scaled);
}

bool kb_spec_finds_context_scales(const struct kb_spec *spec)
{
    return spec->repr.type == KB_REPR_BY_ARM && spec->is_tuned && (spec->learned & KB_LEARNED_LENGTHSCALE) != 0 &&
           spec->context_dim <= KB_MOST_SCALED && spec->spaces.n == 0;
}

bool kb_spec_finds_spaces(const struct kb_spec *spec)
{
    return spec->repr.type == KB_REPR_BY_ARM && spec->is_tuned && (spec->learned & KB_LEARNED_LENGTHSCALE) != 0 &&
           spec->context_kernel.type == KB_VEC_RBF && spec->context_dim <= KB_MOST_SPACED_DIM && spec->spaces.n > 0;
}

size_t kb_spec_expand_scales(const struct kb_spec *spec, double *out)
{
    size_t n = 0;

    for (uint32_t i = 0; i < spec->n_scaled; i++)
        for (double left = spec->spaces.n > 0 ? spec->spaces.weight[i] : 1; left > 0 && n < spec->context_dim; left--)
            out[n++] = spec->scale[i];
    for (; spec->n_scaled > 0 && n < spec->context_dim; n++)
        out[n] = 1;
    return n;
}

void kb_spec_put_scales(struct kb_spec *spec, const double *scale, size_t n)
{
    spec->n_scaled = (uint32_t)n;
    memset(spec->scale, 0, sizeof spec->scale);
    if (n > 0)
        memcpy(spec->scale, scale, n * sizeof *scale);
}

/* Those past the last are 0. */
static bool has_same_scales(const struct kb_spec *a, const struct kb_spec *b)
{
    return a->n_scaled == b->n_scaled && memcmp(a->scale, b->scale, a->n_scaled * sizeof *a->scale) == 0 &&
           kb_split_is_same(&a->spaces, &b->spaces);
}

bool kb_spec_same_model(const struct kb_spec *a, const struct kb_spec *b)
{
    const bool has_spectrum = kb_spec_reads_spectrum(a);

    for (EACH_FIELD(f))
        if (f->readers != 0 && is_read(f, a) &&
            ((f->learned & (a->learned ^ b->learned)) != 0 || (is_whole(f) && whole_of(f, a) != whole_of(f, b)) ||
             (is_real(f) && real_of(f, a) != real_of(f, b))))
            return false;
    return has_spectrum == kb_spec_reads_spectrum(b) && (!has_spectrum || a->conf.score == b->conf.score) &&
           kb_rule_reads_levels(a->rule.type) == kb_rule_reads_levels(b->rule.type) && has_same_scales(a, b) &&
           kb_spec_is_scaled(a) == kb_spec_is_scaled(b);
}

void kb_spec_take_books(struct kb_spec *to, const struct kb_spec *from)
{
    for (EACH_FIELD(f)) {
        if (!f->is_book)
            continue;
        memcpy((char *)to + f->offset, (const char *)from + f->offset, f->size);
        if (f->kind == KB_FIELD_REWARD)
            set_whole(f, to, whole_of(f, from));
    }
}

/* --- snapshots -------------------------------------------------------------------------------------------- */

/* Of names, kinds and order: another table makes another one. */
static uint64_t layout(void)
{
    uint64_t h = KB_HASH_INIT;
    for (EACH_FIELD(f))
        h = kb_hash_u64(kb_hash_str(h, f->pointer), (uint64_t)f->kind);
    return kb_hash_str(h, "scale, spaces");
}

void kb_spec_save(const struct kb_spec *spec, struct kb_writer *w)
{
    kb_put_u64(w, layout());
    kb_put_u64(w, spec->learned);
    kb_put_u64(w, spec->n_scaled);
    kb_put_doubles(w, spec->scale, spec->n_scaled);
    kb_split_save(&spec->spaces, w);
    for (EACH_FIELD(f)) {
        if (f->kind == KB_FIELD_TEXT)
            kb_put_str(w, (const char *)spec + f->offset);
        if (f->kind == KB_FIELD_WEIGHTS)
            kb_split_save(weights_of(f, spec), w);
        if (is_whole(f))
            kb_put_u64(w, whole_of(f, spec));
        if (is_real(f))
            kb_put_double(w, real_of(f, spec));
    }
}

enum kb_err kb_spec_load(struct kb_spec *spec, struct kb_reader *r)
{
    memset(spec, 0, sizeof *spec);
    if (kb_get_u64(r) != layout())
        return r->rc != KB_OK ? r->rc : KB_EVERSION;
    spec->learned = (uint32_t)kb_get_u64(r) & KB_LEARNED_ALL;
    spec->n_scaled = (uint32_t)kb_get_count(r, KB_MOST_SCALED);
    kb_get_doubles(r, spec->scale, spec->n_scaled);
    if (kb_split_load(&spec->spaces, r) != KB_OK)
        return r->rc;
    for (EACH_FIELD(f)) {
        if (f->kind == KB_FIELD_TEXT) {
            size_t n = 0;
            const char *text = kb_get_str(r, &n);
            if (n >= f->size)
                return KB_ECORRUPT;
            if (text != NULL)
                memcpy((char *)spec + f->offset, text, n);
        }
        if (f->kind == KB_FIELD_WEIGHTS && kb_split_load((void *)((char *)spec + f->offset), r) != KB_OK)
            return r->rc;
        if (is_whole(f))
            set_whole(f, spec, kb_get_u64(r));
        if (is_real(f))
            set_real(f, spec, kb_get_double(r));
    }
    return r->rc;
}
