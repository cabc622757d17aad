/* A tenant's own log as decisions (decisions.h): its events one by one, as a fold has them, and a decision out of each
 * that has come to its reward.
 *
 *   decided + rewarded   a decision where the reward is told; under aggregation sum or last where the window closes or
 *                        the log ends, with what was in force then
 *   decided + expired    a decision when there is a default reward (of the tenant, or of the options)
 *   observed             a decision
 *
 * A decision with named slots has them all (ld_logged.more), and under `first` it is over when each has its reward; of
 * the candidates of the first slot those are left that no slot before has shown, since a line tells no others. Where
 * the line says that a slot was drawn from more or fewer of them, its propensity is not known. Of a slate without names
 * the first arm alone counts: the others have no propensity. Candidates are those that the line tells
 * (`among`), else the active arms of the catalogue as it stands, less those that are stopped. Under needs_candidates
 * decisions that were made among others are passed over: their number was another one, or the catalogue did not have
 * the arm. Without a catalogue, and before it, they are all arms that the log has there, where there are as many. Under
 * draws_only decisions whose route drew nothing are passed over.
 *
 * With a metric its values stand in place of the rewards, as experiments count them (docs/EXPERIMENTS.md): of a
 * decision whose window has closed, what the metric has come to by then, its default where nothing was told.
 *
 * Memory: what is kept of decisions that are open. */
#ifndef LD_OWN_LOG_H
#define LD_OWN_LOG_H

#include "evaluate/decisions.h"
#include "evaluate/own_catalogue.h"
#include "evaluate/own_open.h"

struct ld_metric_settings;
struct ld_settings;

/* Zeroed, but for `d` and the dimensions, a log of which nothing has been read. */
struct ld_own_log {
    struct ld_decisions *d;
    uint32_t context_dim, arm_dim; /* of the vectors in events */
    struct ld_own_opens open;
    struct ld_own_open *ended;               /* the one whose decision is in hand */
    const struct ld_metric_settings *metric; /* judged in place of rewards; NULL: these are */
    bool is_measured;                        /* the configuration in force has that metric as it is asked for */
    bool is_held;                            /* rewards wait for the window's end: aggregation sum or last */
    bool is_sum;
    bool has_metrics; /* each window has its line, also where the decision has had its reward */
    bool is_lent;     /* an arm was offered to one decision only: that one */
    uint32_t lent;
    struct ld_own_catalogue catalogue;
};

void ld_own_log_close(struct ld_own_log *s);

/* Before the first event of a pass: offered are the arms that were counted, which come before the catalogue's. */
void ld_own_log_begin(struct ld_own_log *s);

/* Whether a configuration has the metric, with the same range, default and aggregation. */
bool ld_own_log_measures(const struct ld_settings *s, const struct ld_metric_settings *wanted);

/* The next event: 1 with *out, 0 when no decision comes of it, -1 or LD_DECISIONS_BROKEN with d->why. Of rewards one
 * that is NaN is not told; of decisions a propensity. */
int ld_own_log_take(struct ld_own_log *s, const struct kb_event *ev, struct ld_logged *out);
/* Behind the last event, until it says 0: what is open comes to its end. *is_over: there was none left. */
int ld_own_log_end(struct ld_own_log *s, struct ld_logged *out, bool *is_over);

/* For who reads other lines between: before each line; and candidates of a decision from the catalogue. */
void ld_own_log_next(struct ld_own_log *s);
void ld_own_log_candidates(struct ld_own_log *s, uint32_t arm, struct ld_logged *out);

#endif
