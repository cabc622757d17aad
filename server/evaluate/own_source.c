/* See own_source.h. Lines are read some thousands at a time, so that the write-ahead log is not kept for the length of
 * a pass. Cost: a fold of the log each pass, 10 us a line. */
#include "evaluate/own_source.h"

#include <math.h>

#include "evaluate/own_log.h"
#include "store/store.h"
#include "tenant/fold.h"

#define SLICE_LINES 8192u
#define TOLD_LINES 256u /* between two reports of how far it is */

struct pass {
    struct ld_own_source *x;
    const struct ld_decisions_pass *pass;
    struct ld_own_log own;
    uint32_t context_dim, arm_dim; /* of the next line */
    bool has_ended;                /* by what is told in base.why, or by the pass itself */
};

static int look(void *arg, const struct ld_row *row, struct ld_problem *fault)
{
    struct pass *p = arg;
    struct ld_own_source *x = p->x;

    (void)fault;
    if (row->seq > x->last)
        return 1;
    if (x->at != NULL && row->seq % TOLD_LINES == 0)
        x->at(x->arg, row->seq);
    if (x->is_over == NULL || !x->is_over(x->arg))
        return 0;
    (void)ld_fail(&x->base.why, "%s", kb_strerror((int)KB_ECANCELLED));
    p->has_ended = true;
    return LD_STORE_STOPPED;
}

/* Whether a decision that was made then is one of those asked for. */
static bool is_within(const struct ld_own_source *x, const struct kb_event *ev)
{
    const bool is_after = x->from.kind == LD_SPAN_EVENT  ? ev->seq >= x->from.seq
                          : x->from.kind == LD_SPAN_TIME ? ev->at_ms >= x->from.at_ms
                                                         : true;
    const bool is_before = x->to.kind == LD_SPAN_EVENT  ? ev->seq < x->to.seq
                           : x->to.kind == LD_SPAN_TIME ? ev->at_ms < x->to.at_ms
                                                        : true;

    return is_after && is_before;
}

/* A decision that was read as `rc` says. 0, or not: the pass is over. */
static int give(struct pass *p, struct ld_logged *ev, int rc)
{
    struct ld_decisions *d = &p->x->base;

    rc = ld_decisions_judge(d, ev, rc);
    if (rc == 1)
        rc = p->pass->decision(p->pass->arg, ev) == 0 ? 0 : LD_DECISIONS_BROKEN;
    p->has_ended = rc == LD_DECISIONS_BROKEN;
    return p->has_ended ? -1 : 0;
}

static int take_event(struct pass *p, const struct kb_event *ev)
{
    struct ld_decisions *d = &p->x->base;
    struct ld_logged out = {.propensity = (double)NAN};

    d->line = (size_t)ev->seq;
    ld_own_log_next(&p->own);
    if ((ev->type == KB_EV_DECIDED || ev->type == KB_EV_OBSERVED) && !is_within(p->x, ev))
        return 0;
    if (ev->type == KB_EV_GRAPH && p->pass->graph != NULL && p->pass->graph(p->pass->arg, ev, &d->why) != 0) {
        p->has_ended = true;
        return -1;
    }
    p->own.context_dim = p->context_dim;
    p->own.arm_dim = p->arm_dim;
    return give(p, &out, ld_own_log_take(&p->own, ev, &out));
}

static enum kb_err take(void *arg, struct ld_line *line, struct kb_errmsg *msg)
{
    struct pass *p = arg;
    const struct ld_settings *settings = ld_line_settings(&line->ev);

    (void)msg;
    if (settings != NULL) {
        p->context_dim = settings->spec.context_dim;
        p->arm_dim = settings->spec.arm_dim;
        p->own.is_measured = p->x->metric != NULL && ld_own_log_measures(settings, p->x->metric);
    }
    return take_event(p, &line->ev) == 0 ? KB_OK : KB_ECANCELLED;
}

static int read_log(struct pass *p, struct ld_fold *fold)
{
    struct ld_own_source *x = p->x;
    uint64_t before;
    int rc = 0;

    do {
        before = fold->seq;
        rc = ld_fold_store(fold, x->store, before, SLICE_LINES);
    } while (rc == 0 && fold->seq > before && fold->seq < x->last);
    if (rc == 0 || rc == 1)
        return 0;
    if (!p->has_ended) {
        ld_fold_say(fold, &x->base.why);
    }
    return -1;
}

static int end_log(struct pass *p)
{
    bool is_over = false;

    while (!is_over && !p->has_ended) {
        struct ld_logged out = {.propensity = (double)NAN};

        ld_own_log_next(&p->own);
        const int rc = ld_own_log_end(&p->own, &out, &is_over);
        if (!is_over)
            (void)give(p, &out, rc);
    }
    return p->has_ended ? -1 : 0;
}

static int pass_over(struct ld_decisions *d, const struct ld_decisions_pass *pass)
{
    struct ld_own_source *x = (struct ld_own_source *)d;
    struct pass p = {.x = x, .pass = pass, .own = {.d = d, .metric = x->metric}};
    struct ld_fold fold;

    ld_fold_init(
        &fold,
        (struct ld_sink){
            .take = take, .to = &p, .before = look, .watch = &p, .context_dim = &p.context_dim, .arm_dim = &p.arm_dim});
    ld_decisions_begin(d);
    ld_own_log_begin(&p.own);
    int rc = read_log(&p, &fold);
    if (rc == 0)
        rc = end_log(&p);
    ld_own_log_close(&p.own);
    return rc;
}

int ld_own_source_init(struct ld_own_source *x, const struct ld_decisions_options *o)
{
    const int rc = ld_decisions_init(&x->base, o);

    x->base.pass = pass_over;
    x->base.format = "ndjson";
    return rc;
}
