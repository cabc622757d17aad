/* One challenger: see follower.h. */
#include "task/follower.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tenant/fold.h"

void ld_follower_drop(struct ld_follower *f)
{
    ld_shadow_free(f->shadow);
    f->shadow = NULL;
    ld_scores_close(&f->scores);
    f->cursor = 0;
    f->context_dim = f->arm_dim = 0;
    f->is_in_summary = false;
}

void ld_follower_free(struct ld_follower *f)
{
    ld_follower_drop(f);
    free(f);
}

/* What a line says of the tenant's configuration, or NULL; *version: its number. */
static const struct ld_settings *line_settings(const struct kb_event *ev, uint64_t *version)
{
    const struct ld_settings *settings = ld_line_settings(ev);

    if (settings != NULL)
        *version = ev->type == KB_EV_CONFIGURED ? ev->as.configured.version : ev->as.summary->version;
    return settings;
}

/* Dimensions change only before anything was decided, and those of arms with an empty catalogue: until they are those
 * of the challenger, there is nothing for it. */
static bool is_for(const struct ld_follower *f, const struct kb_event *ev)
{
    const struct kb_spec *spec = &f->settings.spec;

    if (ev->type == KB_EV_ARMS)
        return f->arm_dim == spec->arm_dim;
    return ev->type == KB_EV_GRAPH || (f->arm_dim == spec->arm_dim && f->context_dim == spec->context_dim);
}

enum kb_err ld_follower_feed(struct ld_follower *f, const struct kb_event *ev, struct kb_errmsg *msg)
{
    uint64_t version = 0;
    const struct ld_settings *settings = line_settings(ev, &version);
    /* What the policy in force has drawn: neither a baseline nor an arm that stuck is its doing. */
    const bool is_scored =
        ev->type == KB_EV_DECIDED && ev->as.decided.route == KB_ROUTE_POLICY && ld_scores_wants(&f->scores);
    const bool is_compared = is_scored || (ev->type == KB_EV_DECIDED && ev->as.decided.route == KB_ROUTE_STOPPED &&
                                           ld_scores_wants(&f->scores));

    if (settings != NULL) {
        f->context_dim = settings->spec.context_dim;
        f->arm_dim = settings->spec.arm_dim;
    }
    double share = 0;
    const double p = is_compared /* before it is fed: the future stays unknown */
                         ? ld_shadow_probability(f->shadow, ev, ld_scores_is_guarded(&f->scores) ? &share : NULL)
                         : 0;
    const enum kb_err rc = is_for(f, ev) ? ld_shadow_feed(f->shadow, ev, msg) : KB_OK;
    if (rc != KB_OK)
        return rc;
    if (settings != NULL)
        ld_scores_configure(&f->scores, settings, version, f->settings.name);
    if (is_compared)
        ld_scores_compare(&f->scores, p);
    if (is_scored)
        ld_scores_decide(&f->scores, ev, p, share);
    ld_scores_follow(&f->scores, ev);
    f->is_in_summary = ev->type == KB_EV_SUMMARY && ev->as.summary->part != KB_PART_END;
    f->cursor = ev->seq;
    return KB_OK;
}

bool ld_follower_has_lost(const struct ld_follower *f, const struct kb_event *ev)
{
    return f->cursor > 0 && (f->cursor + 1 != ev->seq || (ev->type == KB_EV_SUMMARY && !f->is_in_summary));
}

bool ld_follower_has_begun(const struct ld_follower *f)
{
    return f->shadow != NULL && ld_shadow_counts(f->shadow).n_read > 0;
}

size_t ld_follower_bytes(const struct ld_follower *f)
{
    return sizeof *f + ld_scores_bytes(&f->scores) +
           (ld_follower_has_begun(f) ? kb_engine_bytes(ld_shadow_engine(f->shadow)) : 0);
}

void ld_follower_view(const struct ld_follower *f, struct ld_challenger_view *out)
{
    struct kb_engine_counts counts = {0};

    if (ld_follower_has_begun(f))
        kb_engine_counts(ld_shadow_engine(f->shadow), &counts);
    *out = (struct ld_challenger_view){.settings = f->settings,
                                       .seq = f->cursor,
                                       .n_learned = counts.learned,
                                       .bytes = ld_follower_bytes(f),
                                       .scores = f->scores.told};
    (void)snprintf(out->why, sizeof out->why, "%.255s", f->why.text);
}
