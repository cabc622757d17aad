/* Promotion and rollback as changes of a configuration. The challenger and what was in force change places: the latter
 * becomes the challenger `previous`, or, where a promotion is taken back, gets the name that it had before. An older
 * `previous` goes. A guardrail is for a challenger that is one: when its baseline comes into force, it has done its
 * work. */
#include "types/promotion.h"

#include <string.h>

/* Puts challenger c in force; what was in force is called `name` from here on. */
static void swap(struct ld_settings *s, struct ld_challenger_settings *c, const char *name)
{
    const struct kb_spec former = s->spec;

    if (strcmp(s->guardrail.baseline, c->name) == 0)
        s->guardrail.baseline[0] = '\0';
    s->spec = c->spec;
    c->spec = former;
    strcpy(c->name, name);
}

static void drop(struct ld_settings *s, const char *name)
{
    struct ld_challenger_settings *c = ld_settings_challenger(s, name);

    if (c == NULL)
        return;
    const size_t i = (size_t)(c - s->challenger);
    memmove(c, c + 1, (s->n_challengers - i - 1) * sizeof *c);
    memset(&s->challenger[--s->n_challengers], 0, sizeof *c);
    if (strcmp(s->guardrail.baseline, name) == 0)
        s->guardrail.baseline[0] = '\0';
}

/* Asked for a second time, after an answer that got lost, it is done already. */
static bool is_done(const struct ld_settings *now, const struct ld_promotion *p)
{
    return p->challenger[0] != '\0' && strcmp(now->promotion.challenger, p->challenger) == 0 &&
           (now->promotion.reason == LD_PROMOTED_ON_REQUEST || now->promotion.reason == LD_PROMOTED_BY_GUARDRAIL) &&
           ld_settings_challenger((struct ld_settings *)(uintptr_t)now, p->challenger) == NULL;
}

static int promote(struct ld_settings *s, const struct ld_promotion *p, struct ld_problem *problem)
{
    if (ld_settings_challenger(s, p->challenger) == NULL) {
        ld_problem_set(problem, 409, "the configuration in force has no such challenger");
        ld_problem_add(problem, "/challenger", "there is no challenger '%.64s'", p->challenger);
        return -1;
    }
    if (strcmp(p->challenger, LD_CHALLENGER_PREVIOUS) != 0)
        drop(s, LD_CHALLENGER_PREVIOUS);
    swap(s, ld_settings_challenger(s, p->challenger), LD_CHALLENGER_PREVIOUS);
    strcpy(s->promotion.challenger, p->challenger);
    return 0;
}

/* The name may be another's by now: then `previous` stays it. */
static int roll_back(struct ld_settings *s, struct ld_problem *problem)
{
    struct ld_challenger_settings *c = ld_settings_challenger(s, LD_CHALLENGER_PREVIOUS);
    const char *name = s->promotion.challenger;

    if (c == NULL || name[0] == '\0' || s->promotion.reason == LD_PROMOTED_BY_ROLLBACK) {
        ld_problem_set(problem, 409, "there is no promotion to take back");
        return -1;
    }
    swap(s, c, ld_settings_challenger(s, name) == NULL ? name : LD_CHALLENGER_PREVIOUS);
    return 0;
}

int ld_promote(const struct ld_settings *now, uint64_t version, const struct ld_promotion *p, struct ld_settings *out,
               struct ld_problem *problem)
{
    if (is_done(now, p))
        return 1;
    if (p->version != 0 && p->version != version) {
        ld_problem_set(problem, 409, "the configuration has changed since it was looked at");
        ld_problem_add(problem, "/version", "is %llu by now", (unsigned long long)version);
        return -1;
    }
    *out = *now;
    const int rc = p->reason == LD_PROMOTED_BY_ROLLBACK ? roll_back(out, problem) : promote(out, p, problem);
    out->promotion.reason = p->reason;
    return rc;
}
