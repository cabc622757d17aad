/* Series of tenants: how many there are, and what each one that is in memory has counted.
 *
 * A tenant that is not in memory has no series of its own; a scrape opens none. Of those in memory the first
 * `max_listed` in order of name are listed, about 20 lines each: where there are ten thousand, a scrape of them all
 * would be 20 MB. The rest is in the sums, and `tenants_unlisted` says how many they are; that one of them fails is
 * seen in `tenants_failing`, which knows all. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "task/challenger.h"
#include "api/api.h"
#include "api/metrics_text.h"
#include "tenants/registry.h"

/* The fields between name and routes are doubles: the table in put_listed reads them by offset. */
struct sample {
    char name[65];
    double decided, rewarded, observed, expired, late, unknown;
    double pending, learned, support, bytes, depth;
    double is_one_sided;
    double is_traffic_void;
    double is_failing;
    double file_bytes, log_events;
    double build_progress, clamped, waiting_bytes;
    double challenger_lag, challenger_bytes;
    double lag; /* behind a shared log */
    struct kb_route_stats routes[KB_ROUTE_N];
};

/* Grows by doubling; a failure is remembered and makes the whole scrape fail rather than look as if tenants were
 * gone. */
struct samples {
    struct sample *sample;
    size_t n, cap, max_listed;
    size_t n_unlisted, n_failing;
    bool is_failed, is_shared; /* the log, by several servers */
};

/* 1 when none is under way. */
static double progress_of(const struct kb_build_state *build)
{
    return build->is_open ? build->progress : 1;
}

/* Counters of one tenant, at one moment, under its read lock. The queue's depth and the failing flag are read after
 * the lock and may be a moment younger. */
static void take_sample(struct samples *all, struct sample *s, struct ld_tenant *t)
{
    struct kb_engine_counts c;
    struct kb_build_state build;
    struct ld_log_view log;
    const struct kb_engine *e = ld_tenant_read_lock(t, NULL);
    kb_engine_counts(e, &c);
    kb_engine_build_state(e, &build);
    ld_tenant_read_unlock(t);
    ld_tenant_log(t, &log);
    *s = (struct sample){.decided = (double)c.decided,
                         .rewarded = (double)c.rewarded,
                         .observed = (double)c.observed,
                         .expired = (double)c.expired,
                         .late = (double)c.late,
                         .unknown = (double)ld_tenant_unknown_rewards(t),
                         .pending = (double)c.pending,
                         .learned = (double)c.learned,
                         .support = (double)c.n_support,
                         .bytes = (double)c.bytes,
                         .depth = (double)ld_tenant_queue_depth(t),
                         .is_failing = ld_tenant_is_failing(t),
                         .file_bytes = (double)log.bytes,
                         .log_events = (double)(c.seq - log.summarized),
                         .build_progress = progress_of(&build),
                         .clamped = (double)c.clamped,
                         .is_one_sided = c.is_one_sided,
                         .is_traffic_void = ld_traffic_is_void(t),
                         .waiting_bytes = (double)ld_tenant_queue_bytes(t),
                         .challenger_lag = (double)ld_challengers_lag(t),
                         .challenger_bytes = (double)ld_challengers_bytes(t),
                         .lag = (double)log.lag_events};
    all->is_shared = log.is_shared;
    memcpy(s->routes, c.routes, sizeof s->routes);
    strncpy(s->name, ld_tenant_name(t), sizeof s->name - 1);
}

/* Called with the tenant held. Waits for the tenant's read lock, hence at most for one apply of its writer. */
static void add_sample(void *arg, struct ld_tenant *t)
{
    struct samples *all = arg;
    all->n_failing += ld_tenant_is_failing(t);
    if (all->n == all->max_listed) {
        all->n_unlisted++;
        return;
    }
    if (all->n == all->cap) {
        size_t cap = all->cap > 0 ? 2 * all->cap : 16;
        struct sample *grown = realloc(all->sample, cap * sizeof *grown);
        if (grown == NULL) {
            all->is_failed = true;
            return;
        }
        all->sample = grown;
        all->cap = cap;
    }
    take_sample(all, &all->sample[all->n++], t);
}

/* One metric after the other, each over all tenants, as the format wants its lines grouped. Counters of events
 * survive a restart, since they are part of the model that the log gives back. */
static void put_listed(struct ld_text *t, const struct samples *all)
{
    /* One row a series: name, type, help, and where the sample has its number. */
    static const struct {
        const char *name, *type, *help;
        size_t at;
    } series[] = {
        {"decisions_total", "counter", "Decisions recorded.", offsetof(struct sample, decided)},
        {"rewards_total", "counter", "Rewards learned from decisions.", offsetof(struct sample, rewarded)},
        {"observations_total", "counter", "Observations learned without a decision.",
         offsetof(struct sample, observed)},
        {"expired_total", "counter", "Decisions whose window closed.", offsetof(struct sample, expired)},
        {"late_rewards_total", "counter", "Rewards after their window.", offsetof(struct sample, late)},
        {"unknown_rewards_total", "counter", "Rewards that found no decision.", offsetof(struct sample, unknown)},
        {"pending_decisions", "gauge", "Open decisions.", offsetof(struct sample, pending)},
        {"learned_rewards", "gauge", "Rewards in the model.", offsetof(struct sample, learned)},
        {"one_sided_rewards", "gauge",
         "1: most decisions have no reward, no window teaches one (default_reward is null), and all that came are "
         "equal.",
         offsetof(struct sample, is_one_sided)},
        {"experiment_void", "gauge",
         "1: the arms were not shown as often as their propensities say, and no verdict of the experiment stands.",
         offsetof(struct sample, is_traffic_void)},
        {"dictionary_points", "gauge", "Points that represent the model.", offsetof(struct sample, support)},
        {"model_bytes", "gauge", "Memory of the model.", offsetof(struct sample, bytes)},
        {"file_bytes", "gauge", "The tenant's files: log, write-ahead log and snapshot.",
         offsetof(struct sample, file_bytes)},
        {"log_events", "gauge", "Events in the log, behind its summary if there is one.",
         offsetof(struct sample, log_events)},
        {"queue_depth", "gauge", "Changes waiting for the writer.", offsetof(struct sample, depth)},
        {"queue_bytes", "gauge", "Bytes of the bodies of those, and of the vectors that names in them became.",
         offsetof(struct sample, waiting_bytes)},
        {"model_clamps", "gauge",
         "Pivots and variances that rounding took below their floor, and that were lifted to it, in the model in "
         "force.",
         offsetof(struct sample, clamped)},
        {"challenger_lag_events", "gauge", "Events of the log that its challengers have not read yet.",
         offsetof(struct sample, challenger_lag)},
        {"challenger_bytes", "gauge", "Memory of its challengers.", offsetof(struct sample, challenger_bytes)},
        {"tenant_failing", "gauge", "1 when the last commit failed.", offsetof(struct sample, is_failing)},
        {"build_progress_ratio", "gauge", "How far work beside the writer is, from 0 to 1; 1 when there is none.",
         offsetof(struct sample, build_progress)},
        {"lag_events", "gauge", "Events of the shared log that the model does not have here.",
         offsetof(struct sample, lag)},
    };
    const size_t n = sizeof series / sizeof *series - !all->is_shared; /* the last is of a shared log */
    for (size_t k = 0; k < n; k++) {
        ld_metrics_put_head(t, series[k].name, series[k].type, series[k].help);
        for (size_t i = 0; i < all->n; i++) {
            /* memcpy instead of a cast: the table knows an offset, not a type. */
            double value;
            memcpy(&value, (const char *)&all->sample[i] + series[k].at, sizeof value);
            ld_metrics_put(t, "laplaced_%s{tenant=\"%s\"} %.17g\n", series[k].name, all->sample[i].name, value);
        }
    }
}

/* Routes that nobody had have no series: most tenants have the policy's alone. */
static void put_routes(struct ld_text *t, const struct samples *all)
{
    static const struct {
        const char *name, *type, *help;
    } series[] = {
        {"route_decisions_total", "counter", "Decisions, by the route that had drawn the arm."},
        {"route_repeats_total", "counter", "Those of them by an arm that stuck to its user."},
        {"route_rewards_total", "counter", "Those of them whose reward has come."},
        {"route_mean_reward", "gauge", "Mean of those rewards."},
    };
    for (size_t k = 0; k < sizeof series / sizeof *series; k++) {
        ld_metrics_put_head(t, series[k].name, series[k].type, series[k].help);
        for (size_t i = 0; i < all->n; i++)
            for (int route = 0; route < KB_ROUTE_N; route++) {
                const struct kb_route_stats *r = &all->sample[i].routes[route];
                const double n = (double)r->rewarded;
                const double value[] = {(double)r->decided, (double)r->repeated, n, r->reward_sum / n};
                if (r->decided > 0 && isfinite(value[k]))
                    ld_metrics_put(t, "laplaced_%s{tenant=\"%s\",route=\"%s\"} %.17g\n", series[k].name,
                                   all->sample[i].name, kb_word(&kb_route_words, route), value[k]);
            }
    }
}

static void put_gauge(struct ld_text *t, const char *name, const char *help, size_t value)
{
    ld_metrics_put_head(t, name, "gauge", help);
    ld_metrics_put(t, "laplaced_%s %zu\n", name, value);
}

/* Those that are not in memory are counted here and nowhere else. */
static void put_counts(struct ld_text *t, struct ld_tenants *tenants)
{
    struct ld_tenants_counts counts;
    ld_tenants_count(tenants, &counts);
    ld_metrics_put_head(t, "tenants", "gauge", "Tenants, by whether they are in memory.");
    for (int i = 0; i < LD_N_TENANT_STATES; i++)
        ld_metrics_put(t, "laplaced_tenants{state=\"%s\"} %zu\n", ld_tenant_state_name((enum ld_tenant_state)i),
                       counts.n[i]);
    put_gauge(t, "tenants_bytes", "Memory of the tenants that are open: models, connections, queues.", counts.bytes);
}

bool ld_metrics_put_tenants(struct ld_text *t, struct ld_tenants *tenants, size_t max_listed)
{
    struct samples all = {.max_listed = max_listed};
    put_counts(t, tenants);
    ld_tenants_each(tenants, add_sample, &all);
    put_gauge(t, "tenants_failing", "Tenants in memory whose last commit failed.", all.n_failing);
    put_gauge(t, "tenants_unlisted", "Tenants in memory without series of their own (--metrics-tenants).",
              all.n_unlisted);
    put_listed(t, &all);
    put_routes(t, &all);
    free(all.sample);
    return !all.is_failed;
}
