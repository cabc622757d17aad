/* Bodies of operations on a tenant -> structs, see json_in.h: /compact, /repair, /promote, /rollback and /replay. */
#include "json/json_in.h"

#include <string.h>

#include "json/json_rows.h"

#define AT(type, member) .at = offsetof(type, member)

/* How many of the last events stay must be said: it is what is lost otherwise. */
int ld_decode_compact(struct ld_doc *doc, uint64_t *keep_events, struct ld_problem *p)
{
    static const struct ld_row rows[] = {[LD_COMPACT_KEEP_EVENTS] = {.kind = LD_ROW_COUNT}};
    return ld_decode_body(doc, &ld_compact_rules, rows, keep_events, p);
}

int ld_decode_repair(struct ld_doc *doc, struct ld_repair *out, struct ld_problem *p)
{
    static const struct ld_row rows[] = {
        [LD_REPAIR_ACTION] = {.kind = LD_ROW_CHOICE, AT(struct ld_repair, action)},
        [LD_REPAIR_SEQ] = {.kind = LD_ROW_COUNT, AT(struct ld_repair, seq)},
    };
    *out = (struct ld_repair){.action = LD_REPAIR_LIFT};
    return ld_decode_body(doc, &ld_repair_rules, rows, out, p);
}

static void read_challenger(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule, void *base)
{
    const char *name = ld_in_text(in, v, rule);
    if (name != NULL)
        strcpy(((struct ld_promotion *)base)->challenger, name);
}

int ld_decode_promotion(struct ld_doc *doc, struct ld_promotion *out, struct ld_problem *p)
{
    static const struct ld_row promotion[] = {
        [LD_PROMOTE_CHALLENGER] = {.kind = LD_ROW_OWN, .own = read_challenger},
        [LD_PROMOTE_VERSION] = {.kind = LD_ROW_COUNT, AT(struct ld_promotion, version)},
    };
    static const struct ld_row rollback[] = {
        [LD_ROLLBACK_VERSION] = {.kind = LD_ROW_COUNT, AT(struct ld_promotion, version)},
    };
    if (out->reason == LD_PROMOTED_BY_ROLLBACK)
        return ld_decode_body(doc, &ld_rollback_rules, rollback, out, p);
    return ld_decode_body(doc, &ld_promote_rules, promotion, out, p);
}

struct replay_reading {
    struct ld_replay_head *out;
    struct ld_problem refusal; /* of a configuration that the schema takes; told when nothing else is wrong */
};

static void read_replay(struct ld_in *in, size_t i, const struct ld_value *v, void *arg)
{
    struct replay_reading *r = arg;
    const struct ld_rule *rule = &ld_replay_rules.rule[i];
    if (i == LD_REPLAY_TYPE) {
        (void)ld_in_choice(in, v, rule);
    } else if (i == LD_REPLAY_CONFIGURATION) {
        const bool was_fine = in->p->status == 0;
        ld_in_settings(in, v, &r->out->settings);
        if (was_fine && in->p->status == 422) {
            r->refusal = *in->p;
            ld_problem_init(in->p);
        }
    } else if (i == LD_REPLAY_LOG) {
        const char *log = ld_in_choice(in, v, rule);
        r->out->is_own = log != NULL && strcmp(log, "own") == 0;
    } else {
        r->out->commit = ld_in_text(in, v, rule);
    }
}

int ld_decode_replay(struct ld_doc *doc, bool is_ndjson, struct ld_replay_head *out, struct ld_problem *p)
{
    struct replay_reading r = {.out = out};
    struct ld_in in;
    ld_in_init(&in, doc, p);
    *out = (struct ld_replay_head){.commit = NULL};
    size_t here = is_ndjson ? ld_in_item(&in, &doc->root, 0) : in.n_path;
    (void)ld_in_members(&in, is_ndjson ? doc->item : &doc->root, &ld_replay_rules, read_replay, &r);
    ld_in_leave(&in, here);
    if (p->status == 0 && r.refusal.status != 0)
        *p = r.refusal;
    return ld_in_done(&in);
}
