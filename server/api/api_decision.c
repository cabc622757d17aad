/* GET /tenants/{t}/decisions/{d}: one decision as the log has it, for whoever asks why a user saw an arm.
 *
 * Its lines are found by the index on decisions and stand in the answer as they are: what was decided with all that was
 * known then, each reward with its time, late ones too, and how the window ended. Of a decision that was open when the
 * log was compacted the summary's line is left; of one that was closed then, or whose user was erased, nothing. */
#include "api/api.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "spec/event.h"

struct story {
    uint64_t seq; /* of the line of the decision; 0: it is gone */
    char *user, *arm, *answer;
    struct ld_text decided, summary, rewards, expired, activated; /* lines, as JSON; empty: none */
    bool has_line, is_out_of_memory;
};

static void story_init(struct story *s)
{
    *s = (struct story){.seq = 0};
    ld_text_init(&s->decided);
    ld_text_init(&s->summary);
    ld_text_init(&s->rewards);
    ld_text_init(&s->expired);
    ld_text_init(&s->activated);
}

static void story_close(struct story *s)
{
    ld_text_close(&s->decided);
    ld_text_close(&s->summary);
    ld_text_close(&s->rewards);
    ld_text_close(&s->expired);
    ld_text_close(&s->activated);
    free(s->user);
    free(s->arm);
    free(s->answer);
}

static struct ld_text *place_of(struct story *s, int type)
{
    return type == KB_EV_DECIDED     ? &s->decided
           : type == KB_EV_SUMMARY   ? &s->summary
           : type == KB_EV_EXPIRED   ? &s->expired
           : type == KB_EV_ACTIVATED ? &s->activated
                                     : &s->rewards;
}

static void copy(struct story *s, char **to, const char *text)
{
    free(*to);
    *to = text != NULL ? strdup(text) : NULL;
    s->is_out_of_memory |= text != NULL && *to == NULL;
}

static int add_line(void *arg, const struct ld_row *row)
{
    struct story *s = arg;
    struct ld_text *t = place_of(s, row->type);
    s->has_line = true;
    if (row->type == KB_EV_DECIDED || row->type == KB_EV_SUMMARY) {
        s->seq = row->seq;
        copy(s, &s->user, row->user);
        copy(s, &s->arm, row->arm);
        copy(s, &s->answer, row->answer);
    }
    if (t->n > 0)
        ld_text_lit(t, ",");
    ld_text_raw(t, row->text, row->n_text);
    s->is_out_of_memory |= t->is_failed;
    return s->is_out_of_memory ? LD_STORE_NOMEM : 0;
}

/* The engine was asked before the log: one that it does not know is closed where the log says so, else it came in
 * between. */
static const char *state_of(const struct story *s, enum kb_decision_state state)
{
    const bool is_closed = state == KB_DECISION_UNKNOWN && (s->rewards.n > 0 || s->seq == 0);
    if (s->expired.n > 0)
        return "expired";
    if (is_closed)
        return s->seq == 0 ? "expired" : "rewarded";
    return state == KB_DECISION_DEFERRED && s->activated.n == 0 ? "deferred" : "open";
}

static void put_line(struct ld_text *t, const char *key, const struct ld_text *line)
{
    ld_text_key(t, key);
    if (line->n > 0)
        ld_text_raw(t, line->data, line->n);
    else
        ld_text_lit(t, "null");
}

static char *encode(const char *id, const struct story *s, enum kb_decision_state state, uint64_t version, size_t *n)
{
    struct ld_text t;
    ld_text_init(&t);
    ld_text_lit(&t, "{");
    ld_text_put_string(&t, "decision", id);
    ld_text_put_string(&t, "state", state_of(s, state));
    ld_text_put_string(&t, "user", s->user);
    ld_text_put_string(&t, "arm", s->arm);
    ld_text_key(&t, "version");
    if (version > 0)
        ld_text_count(&t, version);
    else
        ld_text_lit(&t, "null");
    put_line(&t, "decided", &s->decided);
    put_line(&t, "summary", &s->summary);
    put_line(&t, "activated", &s->activated);
    put_line(&t, "expired", &s->expired);
    ld_text_key(&t, "rewards");
    ld_text_lit(&t, "[");
    ld_text_raw(&t, s->rewards.n > 0 ? s->rewards.data : "", s->rewards.n);
    ld_text_lit(&t, "]");
    ld_text_key(&t, "answer");
    ld_text_lit(&t, s->answer != NULL ? s->answer : "null");
    ld_text_lit(&t, "}");
    return ld_text_take(&t, n);
}

static enum kb_decision_state ask_engine(struct ld_tenant *t, const char *id)
{
    const struct ld_settings *settings;
    const enum kb_decision_state state = kb_engine_decision_state(ld_tenant_read_lock(t, &settings), id);
    ld_tenant_read_unlock(t);
    return state;
}

bool api_decision(struct ld_call *c, struct ld_reply *out)
{
    char id[LD_PATH_REST_BYTES];
    struct story s;
    uint64_t version = 0;
    ld_call_rest(c, id);
    story_init(&s);
    const enum kb_decision_state state = ask_engine(c->tenant, id);
    int rc = ld_store_decision_lines(ld_tenant_store(c->tenant), id, add_line, &s);
    /* what a summary has of it does not say when it was made */
    if (rc == LD_STORE_OK && s.decided.n > 0)
        rc = ld_store_version_at(ld_tenant_store(c->tenant), s.seq, &version);
    if (rc != LD_STORE_OK)
        ld_problem_set(out->problem, 503,
                       rc == LD_STORE_NOMEM ? "no memory for the answer" : "the tenant's file cannot be read now");
    else if (!s.has_line)
        ld_problem_set_as(
            out->problem, LD_NO_DECISION,
            "the log has no decision of that id: there was none, or its line is gone with a compaction or "
            "with its user");
    else
        out->text = encode(id, &s, state, version, &out->n);
    story_close(&s);
    return true;
}
