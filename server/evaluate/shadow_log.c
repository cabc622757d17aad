/* Another's log into a shadow: what each event of it becomes there (shadow.h). Cost: the engine's. */
#include "evaluate/shadow_impl.h"

#include "model/engine_write.h"

/* Dimensions are the log's from here on. */
static enum kb_err check_dims(const struct ld_shadow *s, const struct kb_spec *log, struct kb_errmsg *msg)
{
    if (s->asked.context_dim != 0 && s->asked.context_dim != log->context_dim)
        return kb_fail(KB_EINVAL, msg, "/configuration/context_dim", "expected %u as the shadow has, or 0 there",
                       s->asked.context_dim);
    if (s->asked.arm_dim != 0 && s->asked.arm_dim != log->arm_dim)
        return kb_fail(KB_EINVAL, msg, "/configuration/arm_dim", "expected %u as the shadow has, or 0 there",
                       s->asked.arm_dim);
    return KB_OK;
}

/* How rewards are booked, from here on. Where that is another way than before, it is an event. */
static enum kb_err take_books(struct ld_shadow *s, const struct kb_spec *from, int64_t at_ms, struct kb_errmsg *msg)
{
    struct kb_spec spec = s->spec;
    struct kb_engine_counts counts;
    enum kb_err rc = KB_OK;

    kb_spec_take_books(&spec, from);
    KB_TRY(kb_spec_check(&spec, msg));
    if (s->has_begun && kb_spec_digest(&spec, 0) != kb_spec_digest(&s->spec, 0)) {
        kb_engine_counts(s->engine, &counts);
        const struct kb_event own = {
            .type = KB_EV_CONFIGURED, .at_ms = at_ms, .as.configured = {.spec = &spec, .version = counts.version + 1}};
        KB_TRY(ld_shadow_learn(s, &own, msg));
    }
    s->spec = spec;
    KB_TRY(ld_shadow_begin(s, at_ms, msg));
out:
    return rc;
}

/* Of a configuration of the log nothing else is looked at. */
static enum kb_err take_configured(struct ld_shadow *s, const struct kb_event *ev, struct kb_errmsg *msg)
{
    enum kb_err rc = check_dims(s, ev->as.configured.spec, msg);

    KB_TRY(rc);
    KB_TRY(take_books(s, ev->as.configured.spec, ev->at_ms, msg));
    s->context_dim = ev->as.configured.spec->context_dim;
    s->arm_dim = ev->as.configured.spec->arm_dim;
out:
    return rc;
}

/* Vectors of a summary are joined and stand for several events each, so none can be left out. */
static enum kb_err check_summary(const struct ld_shadow *s, const struct kb_ev_summary *part, struct kb_errmsg *msg)
{
    if (part->part != KB_PART_BEGIN)
        return KB_OK;
    if (s->has_begun)
        return kb_fail(KB_EINVAL, msg, "/part", "a summary stands at the beginning of a log, and begins once");
    if (s->asked.context_dim != part->spec->context_dim || s->asked.arm_dim != part->spec->arm_dim)
        return kb_fail(KB_EINVAL, msg, "/configuration",
                       "a log that begins with a summary wants its dimensions, "
                       "context_dim %u and arm_dim %u",
                       part->spec->context_dim, part->spec->arm_dim);
    return KB_OK;
}

/* The configuration in it is replaced, with what resets had made of it; behind the last part comes a reset. */
static enum kb_err take_summary(struct ld_shadow *s, struct kb_event ev, struct kb_errmsg *msg)
{
    struct kb_ev_summary part = *ev.as.summary;
    struct kb_event next = {.type = KB_EV_NONE};
    enum kb_err rc = check_summary(s, &part, msg);

    KB_TRY(rc);
    ev.as.summary = &part;
    if (part.part == KB_PART_BEGIN) {
        kb_spec_take_books(&s->spec, part.spec);
        part.spec = &s->spec;
        part.repr = s->spec.repr.type;
        part.context_lengthscale = s->spec.context_kernel.lengthscale;
        part.arm_lengthscale = s->spec.arm_kernel.lengthscale;
        part.in_force = NULL; /* it has found out nothing of its own yet */
        part.n_tunings = 0;
    }
    if (part.part == KB_PART_END) /* nor has it changed, whatever the tenant's model has */
        part.totals.decay.n_changes = part.totals.decay.last_change = 0;
    KB_TRY(ld_shadow_commit(s, ev, msg));
    s->has_begun = true;
    if (part.part != KB_PART_END)
        goto out;
    KB_TRY(kb_engine_rebuild(s->engine, s->commit.seq + 1, &next));
    next.at_ms = ev.at_ms;
    if (next.type != KB_EV_NONE)
        KB_TRY(ld_shadow_commit(s, next, msg));
    KB_TRY(ld_shadow_finish(s, ev.at_ms, msg));
out:
    return rc;
}

/* Slices of a log hold what is said of decisions that they do not. */
static bool is_about_a_decision(const struct kb_event *ev)
{
    return ev->type == KB_EV_REWARDED || ev->type == KB_EV_EXPIRED || ev->type == KB_EV_ACTIVATED;
}

static enum kb_err take(struct ld_shadow *s, const struct kb_event *ev, struct kb_errmsg *msg)
{
    struct kb_event own = *ev;
    enum kb_err rc;

    switch (ev->type) {
    case KB_EV_CONFIGURED:
        return take_configured(s, ev, msg);
    case KB_EV_SUMMARY:
        return take_summary(s, own, msg);
    case KB_EV_DICTIONARY:
    case KB_EV_TUNED:
    case KB_EV_CHANGED: /* of a model that is not its own */
    case KB_EV_REDACTED:
    case KB_EV_MEASURED: /* metrics are the tenant's, whose objective alone is learned */
        s->n_passed++;
        return KB_OK;
    case KB_EV_FORGOTTEN: /* where there is nothing yet, there is nothing to forget */
        if (s->has_begun)
            break;
        s->n_passed++;
        return KB_OK;
    case KB_EV_DECIDED:
        own.as.decided.level = 0;
        break;
    default:
        break;
    }
    rc = ld_shadow_learn(s, &own, msg);
    if (rc != KB_ENOTFOUND || !is_about_a_decision(ev))
        return rc;
    s->n_passed++;
    return KB_OK;
}

enum kb_err ld_shadow_feed(struct ld_shadow *s, const struct kb_event *ev, struct kb_errmsg *msg)
{
    enum kb_err rc = atomic_load(&s->is_cancelled) ? KB_ECANCELLED : take(s, ev, msg);

    if (rc == KB_OK) {
        s->n_read++;
        s->cursor = ev->seq;
        s->at_ms = ev->at_ms;
    }
    return rc;
}

enum kb_err ld_shadow_take_own_books(struct ld_shadow *s, struct kb_errmsg *msg)
{
    return take_books(s, &s->asked, s->at_ms, msg);
}

/* ---- lines ------------------------------------------------------------------------------------------------- */

enum kb_err ld_shadow_expect(const struct ld_shadow *s, const struct kb_event *ev, struct kb_errmsg *msg)
{
    if (s->n_read == 0 || ev->seq == s->cursor + 1)
        return KB_OK;
    return kb_fail(KB_EINVAL, msg, "/seq", "expected %llu", (unsigned long long)s->cursor + 1);
}

static enum kb_err take_line(void *to, struct ld_line *line, struct kb_errmsg *msg)
{
    const enum kb_err rc = ld_shadow_expect(to, &line->ev, msg);

    return rc == KB_OK ? ld_shadow_feed(to, &line->ev, msg) : rc;
}

struct ld_sink ld_shadow_sink(struct ld_shadow *s)
{
    return (struct ld_sink){.take = take_line, .to = s, .context_dim = &s->context_dim, .arm_dim = &s->arm_dim};
}
