/* Logs and snapshots of which every line and every checksum is right, and the content is not what a fold can have left:
 * each is refused with an error of the fold, and none of them reaches an assertion (docs/decisions/0053). */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "model/engine_state.h"
#include "posterior/exact.h"
#include "kbt.h"
#include "kbt_log.h"
#include "base/magnitude.h"
#include "model/summary.h"
#include "model/engine_background.h"
#include "model/engine_read.h"
#include "model/engine_write.h"

static struct kbt_log tenant;

static enum kb_err try_live(struct kb_event ev)
{
    struct kb_errmsg msg = {.text = ""};

    return kbt_log_live(&tenant, ev, &msg);
}

static void live(struct kb_event ev)
{
    ck_assert_int_eq(try_live(ev), KB_OK);
}

static struct kb_spec spec_of(enum kb_repr_type repr, enum kb_forgetting_type type)
{
    struct kb_spec spec;

    ck_assert_int_eq(kb_spec_preset(&spec, "gp-ucb", 1, 1), KB_OK);
    spec.repr.type = repr;
    spec.user_kernel.type = KB_USER_LAPLACIAN;
    spec.aggregation = KB_AGG_LAST;
    spec.forgetting.type = type;
    spec.forgetting.discount = 0.5;
    spec.forgetting.half_life_s = 0.001;
    return spec;
}

static void observe(const char *user, const char *arm, double x, double reward)
{
    const double context[1] = {x}, features[1] = {-x};

    tenant.now_ms++;
    live((struct kb_event){
        .type = KB_EV_OBSERVED,
        .as.observed = {
            .user = user, .context = context, .arm = {arm, features}, .reward = reward, .propensity = NAN}});
}

static void decide(const char *id, int64_t until_ms)
{
    const double context[1] = {0.5}, features[1] = {0.25};
    const struct kb_ev_slot slot = {"a0", features};

    live((struct kb_event){.type = KB_EV_DECIDED,
                           .as.decided = {.decision = id,
                                          .user = "u0",
                                          .context = context,
                                          .slots = &slot,
                                          .n_slots = 1,
                                          .propensity = 0.5,
                                          .mean = NAN,
                                          .assigned_until_ms = until_ms,
                                          .expires_at_ms = INT64_MAX}});
}

/* Something of everything. */
static void open_tenant(enum kb_repr_type repr, enum kb_forgetting_type type)
{
    const struct kb_spec spec = spec_of(repr, type);
    const double features[2] = {0.25, 2};
    const struct kb_ev_arm arms[2] = {{.id = "a0", .features = features, .is_active = true},
                                      {.id = "a1", .features = features + 1, .is_active = true}};
    const struct kb_ev_edge edges[2] = {{"u0", "u1", 1}, {"u1", "u2", 2}};

    kbt_log_open(&tenant);
    live(kbt_configured(&spec, 1));
    live((struct kb_event){.type = KB_EV_ARMS, .as.arms = {.is_replace = true, .put = arms, .n_put = 2}});
    live((struct kb_event){.type = KB_EV_GRAPH, .as.graph = {.is_replace = true, .add = edges, .n_add = 2}});
    for (int i = 0; i < 6; i++)
        observe(i % 2 == 0 ? "u0" : "u1", i % 3 == 0 ? "a0" : "a1", 0.5 * i, 1);
    decide("d0", 5000);
    decide("d1", 0);
    live(kbt_rewarded("d1", 0.75));
}

static void close_tenant(void)
{
    kbt_log_close(&tenant);
}

/* ---- snapshots ------------------------------------------------------------------------------------------- */

static struct kb_pending_slot *rewarded_slot(struct kb_engine *e)
{
    return kb_pending_find(&e->pending, "d1")->slot;
}

#define CHANGES(X)                                                                                                     \
    X(row_user, e->history.user[1] = 1000)                                                                             \
    X(row_user_most, e->history.user[1] = UINT32_MAX - 1)                                                              \
    X(row_arm, e->history.arm[1] = 1000)                                                                               \
    X(row_level, e->history.level[1] = 1000)                                                                           \
    X(row_event_ahead, e->history.first_seq[e->history.n - 1] = UINT64_MAX)                                            \
    X(row_event_falls, e->history.first_seq[1] = e->history.first_seq[2] + 1)                                          \
    X(row_event_none, e->history.first_seq[0] = 0)                                                                     \
    X(row_count_negative, e->history.count[1] = -1)                                                                    \
    X(row_count_huge, e->history.count[1] = 1e300)                                                                     \
    X(row_sum_huge, e->history.sum[1] = 1e300)                                                                         \
    X(row_x_huge, e->history.x[1] = 1e300)                                                                             \
    X(row_halvings_ahead, e->history.halvings[1] = 1e300)                                                              \
    X(row_halvings_negative, e->history.halvings[1] = -1)                                                              \
    X(unit_behind, e->history.unit = -1e300)                                                                           \
    X(unit_ahead, e->history.unit += 1)                                                                                \
    X(posterior_unit_ahead, e->posterior->unit = e->history.unit + 1)                                                  \
    X(halvings_huge, e->decay.base = 1e300)                                                                            \
    X(steps_huge, e->decay.steps = UINT64_MAX)                                                                         \
    X(times_far_apart, (e->decay.first_ms = INT64_MIN, e->decay.last_ms = INT64_MAX))                                  \
    X(decision_user, kb_pending_find(&e->pending, "d0")->user = 1000)                                                  \
    X(decision_arm, kb_pending_find(&e->pending, "d0")->slot->arm = 1000)                                              \
    X(decision_route, kb_pending_find(&e->pending, "d0")->route = KB_ROUTE_STICKY)                                     \
    X(decision_x_nan, kb_pending_find(&e->pending, "d0")->x[0] = NAN)                                                  \
    X(decision_reward, rewarded_slot(e)->reward = 1e300)                                                               \
    X(decision_halvings, rewarded_slot(e)->halvings = 1e300)                                                           \
    X(arm_without_features, e->arms.arm[1].parts.features = NULL)                                                      \
    X(arm_features_nan, e->arms.arm[1].parts.features[0] = NAN)                                                        \
    X(arm_sum_nan, e->arms.arm[1].reward_sum = NAN)                                                                    \
    X(arm_active_out_of_catalogue, e->arms.arm[1].is_in_catalogue = false)                                             \
    X(assigned_propensity, e->assignments.of[0].propensity = NAN)                                                      \
    X(assigned_route, e->assignments.of[0].route = KB_ROUTE_STICKY)                                                    \
    X(support_user, e->posterior->support.user[0].index = 1000)                                                        \
    X(support_arm, e->posterior->support.arm[0] = 1000)                                                                \
    X(support_level, e->posterior->support.level[0] = 1000)                                                            \
    X(support_x_huge, e->posterior->support.x[0] = 1e300)                                                              \
    X(evidence_huge, e->posterior->evidence.energy[0] = DBL_MAX)                                                       \
    X(other_dimensions, e->configured.arm_dim = 3)                                                                     \
    X(total_nan, e->reward_sum = NAN)                                                                                  \
    X(route_total_nan, e->routes[0].reward_sum = NAN)                                                                  \
    X(reset_count_nan, e->reset_count = NAN)                                                                           \
    X(more_open_than_decided, e->n_decided = 1)                                                                        \
    X(seq_none, e->seq = 0)                                                                                            \
    X(seq_most, e->seq = UINT64_MAX)

#define CHANGE_FUNCTION(name, what)                                                                                    \
    static void change_##name(struct kb_engine *e)                                                                     \
    {                                                                                                                  \
        what;                                                                                                          \
    }
CHANGES(CHANGE_FUNCTION)

#define CHANGE_ROW(name, what) {#name, change_##name},
static const struct {
    const char *name;
    void (*change)(struct kb_engine *e);
} changes[] = {CHANGES(CHANGE_ROW)};

/* The code with which a snapshot of e is read. */
static enum kb_err reload(const struct kb_engine *e)
{
    struct kb_engine *copy = NULL;
    struct kb_writer w;

    kb_writer_init(&w);
    ck_assert_int_eq(kb_engine_save(e, &w), KB_OK);
    ck_assert_int_eq(kb_engine_new(&copy, kbt_key), KB_OK);
    const enum kb_err rc = kb_engine_load(copy, w.data, w.n);
    kb_engine_free(copy);
    kb_writer_close(&w);
    return rc;
}

START_TEST(a_snapshot_whose_parts_do_not_fit_is_refused)
{
    const enum kb_repr_type reprs[] = {KB_REPR_EXACT, KB_REPR_THRESHOLD};
    const enum kb_repr_type repr = reprs[_i % 2];
    const size_t row = (size_t)_i / 2;

    open_tenant(repr, KB_FORGET_HALF_LIFE);
    ck_assert_int_eq(reload(tenant.live), KB_OK);
    struct kb_engine *e = kbt_log_fold(&tenant, NULL, 0, false);
    double *kept = e->arms.arm[1].parts.features;
    changes[row].change(e);
    ck_assert_msg(reload(e) == KB_ECORRUPT, "%s was believed", changes[row].name);
    e->arms.arm[1].parts.features = kept;
    kb_engine_free(e);
    close_tenant();
}
END_TEST

START_TEST(ids_of_a_snapshot_stand_once)
{
    open_tenant(KB_REPR_EXACT, KB_FORGET_NONE);
    struct kb_engine *e = kbt_log_fold(&tenant, NULL, 0, false);

    e->users.bytes[e->users.offset[1] + 1] = '0'; /* u1 is u0 once more */
    ck_assert_int_eq(reload(e), KB_ECORRUPT);
    kb_engine_free(e);
    close_tenant();
}
END_TEST

/* ---- summaries: what cannot be told by one part alone ------------------------------------------------------ */

/* A summary of one user, one arm, and a row or none. */
struct small {
    struct kb_spec spec;
    double halvings, count, sum, x[2], slot_halvings, square;
    uint64_t event, first, version, arm_decided, arm_rewarded; /* first: the event that the summary begins with */
    size_t n_points, n_slots;
    struct kb_ev_totals totals;
};

static struct small small_of(enum kb_repr_type repr, enum kb_forgetting_type type)
{
    struct small s = {.spec = spec_of(repr, type), .count = 1, .sum = 0.5, .x = {0.5, 0.25}, .event = 3, .n_points = 1};

    s.first = 7;
    s.version = 1;
    s.totals.decay = (struct kb_decay){.base = 2, .has_begun = true};
    s.totals.n_learned = 1;
    return s;
}

static enum kb_err fold_part(struct kb_engine *e, const struct kb_ev_summary *part, uint64_t *seq)
{
    return kb_engine_fold(e, &(struct kb_event){.type = KB_EV_SUMMARY, .seq = (*seq)++, .as.summary = part}, NULL);
}

static enum kb_err fold_small(struct kb_engine *e, const struct small *s, uint64_t *seq)
{
    static const char *const users[1] = {"u"};
    static const uint32_t zero[1] = {0};
    const struct kb_ev_known_arm arm = {.id = "a",
                                        .features = s->x + 1,
                                        .is_in_catalogue = true,
                                        .is_active = true,
                                        .decided = s->arm_decided,
                                        .rewarded = s->arm_rewarded};
    const struct kb_ev_open_slot slot = {
        .arm = "a", .has_reward = true, .reward = 0.5, .halvings = s->slot_halvings, .x = s->x};
    const struct kb_ev_summary parts[] = {
        {.part = KB_PART_BEGIN,
         .spec = &s->spec,
         .version = s->version,
         .repr = s->spec.repr.type,
         .context_lengthscale = 1,
         .arm_lengthscale = 1},
        {.part = KB_PART_USERS, .users = users, .squares = &s->square, .n_users = 1},
        {.part = KB_PART_ARMS, .arms = &arm, .n_arms = 1},
        {.part = KB_PART_POINTS,
         .points = {s->n_points, zero, zero, zero, &s->event, &s->count, &s->sum, s->x, &s->halvings}},
        {.part = KB_PART_DECISION,
         .decision = "d",
         .user = "u",
         .expires_at_ms = INT64_MAX,
         .slots = &slot,
         .n_slots = s->n_slots},
        {.part = KB_PART_END, .totals = s->totals}};
    enum kb_err rc = KB_OK;

    for (size_t i = 0; rc == KB_OK && i < sizeof parts / sizeof *parts; i++)
        if ((parts[i].part != KB_PART_POINTS || s->n_points > 0) &&
            (parts[i].part != KB_PART_DECISION || s->n_slots > 0))
            rc = fold_part(e, &parts[i], seq);
    return rc;
}

static enum kb_err try_small(const struct small *s)
{
    struct kb_engine *e = NULL;
    uint64_t seq = s->first;

    ck_assert_int_eq(kb_engine_new(&e, kbt_key), KB_OK);
    const enum kb_err rc = fold_small(e, s, &seq);
    kb_engine_free(e);
    return rc;
}

/* What a line can hold: with one more the next summary, or the next event, could not be read back. */
#define MOST ((UINT64_C(1) << 53) - 1)

START_TEST(a_summary_whose_parts_do_not_fit_is_refused)
{
    const struct small good = small_of(KB_REPR_EXACT, KB_FORGET_DISCOUNT);
    struct small s = good;

    s.n_slots = s.totals.decided = 1;
    ck_assert_int_eq(try_small(&s), KB_OK);
#define CASE(change)                                                                                                   \
    s = good;                                                                                                          \
    s.n_slots = s.totals.decided = 1;                                                                                  \
    change;                                                                                                            \
    ck_assert_msg(try_small(&s) < 0, "%s was believed", #change)
    CASE(s.totals.decided = 0);
    CASE(s.event = 1000);
    CASE(s.event = UINT64_MAX);
    CASE(s.halvings = 3);
    CASE(s.halvings = 1e300);
    CASE(s.slot_halvings = 3);
    CASE(s.slot_halvings = 1e300);
    CASE(s.slot_halvings = NAN);
    CASE(s.count = 1e300);
    CASE(s.sum = 1e300);
    CASE(s.sum = 1e76);
    CASE(s.x[0] = 1e300);
    CASE(s.square = 1e305);
    CASE(s.totals.decay.base = 1e16);
    CASE(s.totals.decay.steps = UINT64_MAX);
    CASE((s.totals.decay.steps = UINT64_C(1) << 53, s.spec.forgetting.discount = 5e-324));
    CASE(s.totals.n_learned = NAN);
    CASE(s.totals.n_learned = 1e300);
    CASE(s.totals.reward_sum = 1e300);
    CASE(s.totals.square_sum = NAN);
    CASE(s.totals.routes[0].reward_sum = NAN);
    CASE(s.totals.reset_count = NAN);
    CASE(s.first = MOST);
    CASE(s.version = MOST);
    CASE(s.arm_decided = MOST);
    CASE(s.arm_rewarded = MOST);
    CASE(s.totals.decided = MOST);
    CASE(s.totals.rewarded = MOST);
    CASE(s.totals.observed = MOST);
    CASE(s.totals.expired = MOST);
    CASE(s.totals.late = MOST);
    CASE(s.totals.reset_rows = MOST);
    CASE(s.totals.routes[0].decided = MOST);
    CASE(s.totals.routes[KB_ROUTE_N - 1].repeated = MOST);
    CASE(s.totals.routes[1].rewarded = MOST);
    CASE(s.totals.decay.steps = MOST);
#undef CASE
    s = good; /* as a number it will do, but not to the fourth power of its square */
    s.spec.context_kernel = (struct kb_vec_kernel_spec){.type = KB_VEC_POLYNOMIAL, .lengthscale = 1, .degree = 4};
    s.x[0] = 1e6;
    ck_assert_int_eq(try_small(&s), KB_OK);
    s.x[0] = 1e10;
    ck_assert_int_eq(try_small(&s), KB_EUNSUPPORTED);
}
END_TEST

START_TEST(a_configuration_counts_on_from_numbers_that_lines_can_hold)
{
    const struct kb_spec spec = spec_of(KB_REPR_EXACT, KB_FORGET_NONE);

    kbt_log_open(&tenant);
    ck_assert_int_eq(try_live(kbt_configured(&spec, MOST)), KB_ERANGE);
    ck_assert_int_eq(try_live(kbt_configured(&spec, KB_MOST_NUMBER + 1)), KB_ERANGE);
    ck_assert_int_eq(try_live(kbt_configured(&spec, KB_MOST_NUMBER)), KB_OK);
    ck_assert_int_eq(try_live(kbt_configured(&spec, KB_MOST_NUMBER + 2)), KB_ERANGE);
    ck_assert_int_eq(try_live(kbt_configured(&spec, KB_MOST_NUMBER + 1)), KB_OK);
    close_tenant();
}
END_TEST

START_TEST(a_snapshot_whose_kernel_cannot_measure_its_rows_is_refused)
{
    open_tenant(KB_REPR_EXACT, KB_FORGET_NONE);
    struct kb_engine *e = kbt_log_fold(&tenant, NULL, 0, false);

    e->spec.context_kernel.type = e->configured.context_kernel.type = KB_VEC_POLYNOMIAL;
    e->spec.context_kernel.degree = e->configured.context_kernel.degree = 4;
    ck_assert_int_eq(reload(e), KB_OK);
    e->history.x[0] = 1e10;
    ck_assert_int_eq(reload(e), KB_ECORRUPT);
    kb_engine_free(e);
    close_tenant();
}
END_TEST

START_TEST(values_in_force_are_such_as_a_configuration_may_have)
{
    const double bad[] = {5e-324, 1e-13, 1e13, DBL_MAX};
    const struct kb_spec spec = spec_of(KB_REPR_EXACT, KB_FORGET_NONE);

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct kb_ev_summary part = {
            .part = KB_PART_BEGIN, .spec = &spec, .version = 1, .context_lengthscale = bad[i], .arm_lengthscale = 1};
        struct kb_engine *e = NULL;
        uint64_t seq = 7;

        ck_assert_int_eq(kb_engine_new(&e, kbt_key), KB_OK);
        ck_assert_int_eq(fold_part(e, &part, &seq), KB_EINVAL);
        part.context_lengthscale = 1;
        part.repr = KB_REPR_N;
        ck_assert_int_eq(fold_part(e, &part, &seq), KB_EINVAL);
        kb_engine_free(e);
    }
}
END_TEST

/* Scales of namespaces fill coordinates by their blocks: as many as there are namespaces, or none. */
START_TEST(scales_that_are_not_the_models_are_refused)
{
    const struct {
        uint32_t dim, n_scaled;
        double scale;
    } bad[] = {{2048, 1, 1}, {2, 1, 1}, {2, 2, 0}, {2, 2, NAN}};

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct kbt_log log;
        struct kb_spec spec;
        struct kb_engine *copy = NULL;
        struct kb_writer w;

        kbt_log_open(&log);
        ck_assert_int_eq(kb_spec_preset(&spec, "laplaced-by-arm", bad[i].dim, 0), KB_OK);
        ck_assert_int_eq(kbt_log_live(&log, kbt_configured(&spec, 1), NULL), KB_OK);
        log.live->spec.n_scaled = bad[i].n_scaled;
        for (uint32_t k = 0; k < bad[i].n_scaled; k++)
            log.live->spec.scale[k] = bad[i].scale;
        kb_writer_init(&w);
        ck_assert_int_eq(kb_engine_save(log.live, &w), KB_OK);
        ck_assert_int_eq(kb_engine_new(&copy, kbt_key), KB_OK);
        ck_assert_int_eq(kb_engine_load(copy, w.data, w.n), KB_ECORRUPT);
        kb_engine_free(copy);
        kb_writer_close(&w);
        log.live->spec.n_scaled = 0;
        kbt_log_close(&log);
    }
}
END_TEST

/* Vectors of mostly zeros are met by marks of what is not zero (vec_sparse.h), which are no part of a snapshot. */
START_TEST(sparse_candidates_are_the_same_behind_a_snapshot)
{
    enum { DIM = 128, N = 24 };
    static double features[N][DIM];
    const char *const preset = (const char *const[]){"lin-ucb", "gp-ucb", "ek-ucb"}[_i];
    struct kbt_log log;
    struct kb_spec spec;
    struct kb_candidate c[N];
    char id[N][8];
    struct kb_decision got[2];
    struct kb_scratch *s[2];

    kbt_log_open(&log);
    ck_assert_int_eq(kb_spec_preset(&spec, preset, 0, DIM), KB_OK);
    spec.arm_kernel.is_median = false;
    ck_assert_int_eq(kbt_log_live(&log, kbt_configured(&spec, 1), NULL), KB_OK);
    for (int i = 0; i < N; i++) {
        features[i][(7 * i) % DIM] = 1;
        features[i][(11 * i + 3) % DIM] = 0.5;
        snprintf(id[i], sizeof id[i], "a%02d", i % 100);
        c[i] = (struct kb_candidate){id[i], features[i]};
        ck_assert_int_eq(
            kbt_log_live(
                &log,
                (struct kb_event){
                    .type = KB_EV_OBSERVED,
                    .as.observed = {.user = "u", .arm = {id[i], features[i]}, .reward = i % 3, .propensity = NAN}},
                NULL),
            KB_OK);
    }
    struct kb_engine *engine[2] = {log.live, kbt_log_reload(log.live)};
    for (int k = 0; k < 2; k++) {
        const struct kb_query q = {.user = "u", .candidates = c, .n_candidates = N, .key = 5, .now_ms = log.now_ms};
        ck_assert_int_eq(kb_engine_scratch_new(&s[k]), KB_OK);
        ck_assert_int_eq(kb_engine_fit_scratch(engine[k], s[k], N, 0), KB_OK);
        ck_assert_int_eq(kb_engine_decide(engine[k], &q, s[k], &got[k], NULL), KB_OK);
    }
    for (int i = 0; i < N; i++)
        ck_assert_msg(got[0].mean[i] == got[1].mean[i] && got[0].sd[i] == got[1].sd[i], "%s: %g %g, reloaded %g %g",
                      got[0].arm[i], got[0].mean[i], got[0].sd[i], got[1].mean[i], got[1].sd[i]);
    for (int k = 0; k < 2; k++)
        kb_engine_scratch_free(s[k]);
    kb_engine_free(engine[1]);
    kbt_log_close(&log);
}
END_TEST

/* Halvings have passed and nothing is left: the empty posterior knows of none, and catches up when it learns. */
START_TEST(halvings_without_rows_are_caught_up_with)
{
    const enum kb_repr_type reprs[] = {KB_REPR_EXACT, KB_REPR_THRESHOLD};
    struct small s = small_of(reprs[_i], KB_FORGET_NONE);
    struct kb_engine *e = NULL;
    uint64_t seq = 7;

    s.n_points = 0;
    ck_assert_int_eq(kb_engine_new(&e, kbt_key), KB_OK);
    ck_assert_int_eq(fold_small(e, &s, &seq), KB_OK);
    for (int i = 0; i < 3; i++) {
        const double x[2] = {i, -i};
        const struct kb_event observed = {.type = KB_EV_OBSERVED,
                                          .seq = seq++,
                                          .as.observed = {.user = "u", .context = x, .arm = {"a", x + 1}, .reward = 1}};
        const struct kb_ev_atom atom = {observed.seq, 1};
        const struct kb_event admitted = {
            .type = KB_EV_DICTIONARY, .seq = seq, .as.dictionary = {.atoms = &atom, .n_atoms = 1}};

        ck_assert_int_eq(kb_engine_fold(e, &observed, NULL), KB_OK);
        if (_i == 1) {
            ck_assert_int_eq(kb_engine_fold(e, &admitted, NULL), KB_OK);
            seq++;
        }
    }
    ck_assert_double_eq(kb_posterior_unit(e->posterior), e->history.unit);
    ck_assert_uint_eq(kb_posterior_n_support(e->posterior), 3);
    kb_engine_free(e);
}
END_TEST

/* There is a summary, and no reset behind it: nothing to save. */
START_TEST(a_model_without_a_posterior_is_not_saved)
{
    const struct small s = small_of(KB_REPR_EXACT, KB_FORGET_DISCOUNT);
    struct kb_snapshot *snapshot = NULL;
    struct kb_engine *e = NULL;
    struct kb_writer w;
    uint64_t seq = 7;

    ck_assert_int_eq(kb_engine_new(&e, kbt_key), KB_OK);
    ck_assert_int_eq(fold_small(e, &s, &seq), KB_OK);
    kb_writer_init(&w);
    ck_assert_int_eq(kb_engine_save(e, &w), KB_EBUSY);
    ck_assert_int_eq(kb_engine_take_snapshot(e, &snapshot), KB_EBUSY);
    kb_writer_close(&w);
    kb_engine_free(e);
}
END_TEST

/* 1e20 + 1 is 1e20: corrections take off more than there is. */
START_TEST(squares_that_rounding_made_negative_can_be_told)
{
    const struct kb_spec spec = spec_of(KB_REPR_EXACT, KB_FORGET_NONE);
    struct kb_summarizer *s = NULL;
    struct kb_engine *e = NULL;
    struct kb_event part;
    uint64_t seq = 100;

    kbt_log_open(&tenant);
    live(kbt_configured(&spec, 1));
    decide("d0", 0);
    decide("d1", 0);
    live(kbt_rewarded("d0", 1e10));
    live(kbt_rewarded("d1", 1));
    live(kbt_rewarded("d0", 0));
    live(kbt_rewarded("d1", 0));
    ck_assert_double_lt(tenant.live->square_of[0], 0);
    ck_assert_int_eq(kb_summarizer_new(&s, tenant.live), KB_OK);
    ck_assert_int_eq(kb_engine_new(&e, kbt_key), KB_OK);
    while (kb_summarizer_next(s, &part)) {
        part.seq = seq++;
        ck_assert_int_eq(kb_engine_fold(e, &part, NULL), KB_OK);
    }
    kb_summarizer_free(s);
    kb_engine_free(e);
    close_tenant();
}
END_TEST

/* ---- corrections, resets, quiet folds ---------------------------------------------------------------------- */

/* So much time passes that the point has no weight left, a rebuild leaves it out, and then its reward is corrected. */
START_TEST(a_correction_of_what_is_forgotten_is_taken)
{
    struct kb_spec spec = spec_of(KB_REPR_EXACT, KB_FORGET_HALF_LIFE);
    const bool is_diagonal = _i == 1;
    struct kb_event reset;

    if (is_diagonal) {
        spec.context_dim = spec.arm_dim = 0;
        spec.user_kernel.type = KB_USER_IDENTITY;
        spec.context_kernel.type = KB_VEC_ONES;
        spec.arm_kernel.type = KB_VEC_DELTA;
    }
    kbt_log_open(&tenant);
    live(kbt_configured(&spec, 1));
    decide("d", 0);
    live(kbt_rewarded("d", 0.5));
    tenant.now_ms += 1000;
    observe("u9", "a9", 2, 1);
    ck_assert_int_eq(kb_engine_rebuild(tenant.live, tenant.n + 1, &reset), KB_OK);
    live(reset);
    ck_assert_uint_eq(kb_posterior_n_support(tenant.live->posterior), 1);
    live(kbt_rewarded("d", 0.75));
    tenant.now_ms += 5;
    observe("u9", "a9", 2, 1);
    struct kb_evidence evidence;
    ck_assert_int_eq(kb_posterior_evidence(tenant.live->posterior, &tenant.live->scratch, &evidence), KB_OK);
    ck_assert(isfinite(evidence.energy[0]) && isfinite(evidence.log_det[0]));
    struct kb_engine *e = kbt_log_fold(&tenant, NULL, 0, false);
    ck_assert_uint_eq(kb_engine_digest(e), kb_engine_digest(tenant.live));
    kb_engine_free(e);
    close_tenant();
}
END_TEST

/* Each setting of forgetting counts on from where the one before it ended, so that times which jump add up. */
START_TEST(halvings_beyond_all_weights_are_refused)
{
    struct kb_spec spec = spec_of(_i == 0 ? KB_REPR_EXACT : KB_REPR_KORS, KB_FORGET_HALF_LIFE);
    const double x[2] = {0.5, 0.25};
    struct kb_event ev = {.type = KB_EV_OBSERVED,
                          .as.observed = {.user = "u", .context = x, .arm = {"a", x + 1}, .reward = 1}};
    enum kb_err rc = KB_OK;
    uint64_t version = 1;

    kbt_log_open(&tenant);
    while (rc == KB_OK && version < 100) {
        spec.forgetting.half_life_s = version % 2 == 0 ? 0.001 : 0.0011;
        live(kbt_configured(&spec, version++));
        for (tenant.now_ms = 0; rc == KB_OK && tenant.now_ms <= INT64_C(1) << 48; tenant.now_ms += INT64_C(1) << 47)
            rc = try_live(ev);
    }
    ck_assert_int_eq(rc, KB_ERANGE);
    ck_assert_uint_gt(tenant.n, 2);
    ck_assert_int_eq(reload(tenant.live), KB_OK);
    close_tenant();
}
END_TEST

/* An exact model has outgrown its limit, and a dictionary that keeps no spectrum is in force when a rule is asked for
 * that reads one of a dictionary and none of an exact model. */
START_TEST(a_rule_that_reads_a_spectrum_waits_for_one)
{
    struct kb_spec spec = spec_of(KB_REPR_EXACT, KB_FORGET_NONE);
    const double x[2] = {0.5, 0.25};
    const struct kb_candidate arm = {"a0", x + 1};
    const struct kb_query q = {.user = "u0", .context = x, .candidates = &arm, .n_candidates = 1, .key = 7};
    struct kb_decision d;

    spec.repr.exact_limit = 3;
    spec.aggregation = KB_AGG_FIRST;
    kbt_log_open(&tenant);
    live(kbt_configured(&spec, 1));
    for (int i = 0; i < 8; i++)
        observe("u0", "a0", i, 1);
    ck_assert(kb_posterior_is_sketch(tenant.live->posterior));
    spec.conf.type = KB_CONF_AMM;
    live(kbt_configured(&spec, 2));
    ck_assert_int_eq(kb_engine_fit_scratch(tenant.live, &tenant.live->scratch, 1, 0), KB_OK);
    ck_assert_int_eq(kb_engine_decide(tenant.live, &q, &tenant.live->scratch, &d, NULL), KB_OK);
    ck_assert_uint_eq(d.n, 1);
    ck_assert_int_eq(reload(tenant.live), KB_OK);
    close_tenant();
}
END_TEST

/* Kernel values whose share of a millionth is no number any more. */
START_TEST(points_next_to_nothing_enter_no_dictionary)
{
    const enum kb_repr_type reprs[] = {KB_REPR_KORS, KB_REPR_THRESHOLD, KB_REPR_BKB, KB_REPR_BBKB};
    struct kb_spec spec = spec_of(reprs[_i], KB_FORGET_NONE);
    const struct kb_ev_atom atom = {2, 1};

    spec.user_kernel.type = KB_USER_ONES;
    spec.context_kernel = (struct kb_vec_kernel_spec){.type = KB_VEC_LINEAR, .lengthscale = 1, .degree = 1};
    spec.arm_kernel.type = KB_VEC_ONES;
    kbt_log_open(&tenant);
    live(kbt_configured(&spec, 1));
    for (int i = 1; i < 9; i++)
        observe("u0", "a0", i * 1e-160, 1);
    for (int i = 0; i < 2; i++)
        live((struct kb_event){.type = KB_EV_DICTIONARY, .as.dictionary = {.atoms = &atom, .n_atoms = 1}});
    observe("u0", "a0", 1e-160, 1);
    struct kb_engine *e = kbt_log_fold(&tenant, NULL, 0, false);
    ck_assert_uint_eq(kb_engine_digest(e), kb_engine_digest(tenant.live));
    kb_engine_free(e);
    close_tenant();
}
END_TEST

START_TEST(resets_and_admissions_that_no_draw_can_make_are_refused)
{
    const double chances[] = {0, -1, 2, NAN, 5e-324, 1e-300};
    const struct kb_spec spec = spec_of(KB_REPR_KORS, KB_FORGET_NONE);
    struct kb_ev_atom atom = {0, 1};

    kbt_log_open(&tenant);
    live(kbt_configured(&spec, 1));
    observe("u0", "a0", 0.5, 1);
    observe("u0", "a0", 0.75, 1);
    atom.event = 2;
    struct kb_event reset = {.type = KB_EV_DICTIONARY,
                             .as.dictionary = {.is_reset = true,
                                               .repr = KB_REPR_KORS,
                                               .context_lengthscale = 1,
                                               .arm_lengthscale = 1,
                                               .has_evidence = true,
                                               .atoms = &atom,
                                               .n_atoms = 1}};
    struct kb_event admitted = {.type = KB_EV_DICTIONARY, .as.dictionary = {.atoms = &atom, .n_atoms = 1}};
    for (size_t i = 0; i < sizeof chances / sizeof *chances; i++) {
        atom.probability = chances[i];
        ck_assert_int_eq(try_live(reset), KB_EINVAL);
        ck_assert_int_eq(try_live(admitted), KB_EINVAL);
    }
    atom.probability = 0.5;
    live(reset);
    for (size_t k = 0; k < KB_N_MIXTURE; k++) {
        reset.as.dictionary.energy[k] = 1e305;
        ck_assert_int_eq(try_live(reset), KB_ERANGE);
        reset.as.dictionary.energy[k] = NAN;
        ck_assert_int_eq(try_live(reset), KB_ERANGE);
        reset.as.dictionary.energy[k] = 0;
        reset.as.dictionary.log_det[k] = INFINITY;
        ck_assert_int_eq(try_live(reset), KB_ERANGE);
        reset.as.dictionary.log_det[k] = 0;
    }
    reset.as.dictionary.square = -INFINITY;
    ck_assert_int_eq(try_live(reset), KB_ERANGE);
    reset.as.dictionary.square = 0;
    reset.as.dictionary.repr = KB_REPR_N;
    ck_assert_int_eq(try_live(reset), KB_EINVAL);
    close_tenant();
}
END_TEST

/* The number of the last reset comes from a column beside the lines. */
START_TEST(a_quiet_fold_up_to_what_is_no_reset_ends_there)
{
    open_tenant(KB_REPR_EXACT, KB_FORGET_DISCOUNT);
    for (uint64_t until = 2; until <= tenant.n; until++) {
        struct kb_engine *e = NULL;
        enum kb_err rc = KB_OK;
        size_t i = 0;

        ck_assert_int_eq(kb_engine_new(&e, kbt_key), KB_OK);
        kb_engine_fold_quietly_until(e, until);
        while (rc == KB_OK && i < tenant.n)
            rc = kb_engine_fold(e, &tenant.event[i++], NULL);
        ck_assert_int_eq(rc, KB_EINVAL);
        ck_assert_uint_eq(i, until);
        kb_engine_free(e);
    }
    close_tenant();
}
END_TEST

int main(void)
{
    return KBT_RUN_TIMES(
        "hostile", 120, {a_snapshot_whose_parts_do_not_fit_is_refused, 2 * (sizeof changes / sizeof *changes)},
        {ids_of_a_snapshot_stand_once, 1}, {a_summary_whose_parts_do_not_fit_is_refused, 1},
        {a_configuration_counts_on_from_numbers_that_lines_can_hold, 1},
        {a_snapshot_whose_kernel_cannot_measure_its_rows_is_refused, 1},
        {values_in_force_are_such_as_a_configuration_may_have, 1}, {scales_that_are_not_the_models_are_refused, 1},
        {sparse_candidates_are_the_same_behind_a_snapshot, 3}, {halvings_without_rows_are_caught_up_with, 2},
        {a_model_without_a_posterior_is_not_saved, 1}, {squares_that_rounding_made_negative_can_be_told, 1},
        {a_correction_of_what_is_forgotten_is_taken, 2}, {halvings_beyond_all_weights_are_refused, 2},
        {a_rule_that_reads_a_spectrum_waits_for_one, 1}, {points_next_to_nothing_enter_no_dictionary, 4},
        {resets_and_admissions_that_no_draw_can_make_are_refused, 1},
        {a_quiet_fold_up_to_what_is_no_reset_ends_there, 1});
}
