/* Taking one user out of the summary that a log may begin with (core/model/summary.h): the id, the points, the open
 * decisions, and what these have in the sums of arms and totals. Users behind the one who goes move up by one number.
 * The parts come in the order of the log: users before all that names them, sums behind all that counts into them.
 *
 * How often an arm was shown to a user, how many events of each type were theirs, and what they have in the sums of
 * routes is not known any more once the events have gone: that stays. It says nothing of who was counted. */
#include "task/redact.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "json/json_in.h"

/* The part's copy, which may be changed. */
static struct kb_ev_summary *copy_part(struct ld_doc *doc, struct kb_event *ev)
{
    struct kb_ev_summary *copy = ld_doc_alloc(doc, 1, sizeof *copy);

    if (copy == NULL)
        return NULL;
    *copy = *ev->as.summary;
    ev->as.summary = copy;
    return copy;
}

static uint32_t moved_up(const struct ld_redactor *r, uint32_t user)
{
    return user > r->number ? user - 1 : user;
}

/* What has gone of the arm. KB_ENOMEM. */
static enum kb_err find_gone(struct ld_redactor *r, uint32_t arm, struct ld_gone **gone)
{
    const size_t old = r->cap_gone;

    if (kb_grow((void **)&r->gone, &r->cap_gone, (size_t)arm + 1, 64, sizeof *r->gone) != 0)
        return KB_ENOMEM;
    if (r->cap_gone > old)
        memset(r->gone + old, 0, (r->cap_gone - old) * sizeof *r->gone);
    *gone = &r->gone[arm];
    return KB_OK;
}

/* ---- one function a part: *is_changed, where the line is to be written anew ----------------------------------- */

static enum kb_err redact_users(struct ld_redactor *r, struct ld_doc *doc, struct kb_event *ev, bool *is_changed)
{
    const struct kb_ev_summary *part = ev->as.summary;
    size_t at = 0;

    while (at < part->n_users && strcmp(part->users[at], r->user) != 0)
        at++;
    const uint64_t number = r->n_users + at;
    r->n_users += part->n_users;
    if (at == part->n_users)
        return KB_OK;
    struct kb_ev_summary *copy = copy_part(doc, ev);
    const char **users = ld_doc_alloc(doc, part->n_users, sizeof *users);
    double *squares = ld_doc_alloc(doc, part->n_users, sizeof *squares);
    if (copy == NULL || users == NULL || squares == NULL)
        return KB_ENOMEM;
    r->number = (uint32_t)number;
    r->square = part->squares[at];
    copy->n_users--;
    for (size_t i = 0; i < copy->n_users; i++) {
        users[i] = part->users[i < at ? i : i + 1];
        squares[i] = part->squares[i < at ? i : i + 1];
    }
    copy->users = users;
    copy->squares = squares;
    *is_changed = true;
    return KB_OK;
}

static enum kb_err redact_graph(struct ld_redactor *r, struct ld_doc *doc, struct kb_event *ev)
{
    const struct kb_ev_summary *part = ev->as.summary;
    struct kb_ev_summary *copy = copy_part(doc, ev);
    uint32_t *nodes = ld_doc_alloc(doc, part->n_nodes + 1, sizeof *nodes);
    struct kb_ev_link *links = ld_doc_alloc(doc, part->n_links + 1, sizeof *links);

    if (copy == NULL || nodes == NULL || links == NULL)
        return KB_ENOMEM;
    copy->nodes = nodes;
    copy->links = links;
    copy->n_nodes = copy->n_links = 0;
    for (size_t i = 0; i < part->n_nodes; i++)
        if (part->nodes[i] != r->number)
            nodes[copy->n_nodes++] = moved_up(r, part->nodes[i]);
    for (size_t i = 0; i < part->n_links; i++)
        if (part->links[i].u != r->number && part->links[i].v != r->number)
            links[copy->n_links++] = (struct kb_ev_link){moved_up(r, part->links[i].u), moved_up(r, part->links[i].v),
                                                         part->links[i].weight};
    return KB_OK;
}

/* Columns for up to n points, to be filled from the front. */
struct columns {
    uint32_t *user, *arm, *level;
    uint64_t *event;
    double *count, *sum, *x, *halvings;
};

static bool make_columns(struct ld_doc *doc, size_t n, size_t dim, struct columns *c)
{
    *c = (struct columns){.user = ld_doc_alloc(doc, n, sizeof *c->user),
                          .arm = ld_doc_alloc(doc, n, sizeof *c->arm),
                          .level = ld_doc_alloc(doc, n, sizeof *c->level),
                          .event = ld_doc_alloc(doc, n, sizeof *c->event),
                          .count = ld_doc_alloc(doc, n, sizeof *c->count),
                          .sum = ld_doc_alloc(doc, n, sizeof *c->sum),
                          .x = ld_doc_alloc(doc, n * dim + 1, sizeof *c->x),
                          .halvings = ld_doc_alloc(doc, n, sizeof *c->halvings)};
    return c->user != NULL && c->arm != NULL && c->level != NULL && c->event != NULL && c->count != NULL &&
           c->sum != NULL && c->x != NULL && c->halvings != NULL;
}

static void keep_point(const struct ld_redactor *r, const struct kb_ev_points *p, size_t i, size_t dim,
                       struct columns *c, size_t at)
{
    c->user[at] = moved_up(r, p->user[i]);
    c->arm[at] = p->arm[i];
    c->level[at] = p->level[i];
    c->event[at] = p->event[i];
    c->count[at] = p->count[i];
    c->sum[at] = p->sum[i];
    c->halvings[at] = p->halvings != NULL ? p->halvings[i] : 0;
    if (dim > 0)
        memcpy(c->x + at * dim, p->x + i * dim, dim * sizeof *c->x);
}

/* Sums that have been forgotten in part say nothing of the totals. Of the squares of several rewards at one point only
 * the least is known that they can come to (Cauchy and Schwarz): an arm's spread is then told as at least what it is.
 */
static enum kb_err note_point(struct ld_redactor *r, const struct kb_ev_points *p, size_t i)
{
    struct ld_gone *gone = NULL;

    r->n_events++;
    if (p->halvings != NULL)
        return KB_OK;
    if (find_gone(r, p->arm[i], &gone) != KB_OK)
        return KB_ENOMEM;
    gone->rewarded += (uint64_t)p->count[i];
    gone->reward_sum += p->sum[i];
    gone->square_sum += p->sum[i] * (p->sum[i] / fmax(p->count[i], 1));
    r->reward_sum += p->sum[i];
    r->n_learned += p->count[i];
    return KB_OK;
}

static enum kb_err redact_points(struct ld_redactor *r, struct ld_doc *doc, struct kb_event *ev, size_t dim)
{
    const struct kb_ev_points *p = &ev->as.summary->points;
    struct kb_ev_summary *copy = copy_part(doc, ev);
    struct columns c;
    size_t n = 0;

    if (copy == NULL || !make_columns(doc, p->n, dim, &c))
        return KB_ENOMEM;
    for (size_t i = 0; i < p->n; i++) {
        if (p->user[i] != r->number)
            keep_point(r, p, i, dim, &c, n++);
        else if (note_point(r, p, i) != KB_OK)
            return KB_ENOMEM;
    }
    copy->points = (struct kb_ev_points){.n = n,
                                         .user = c.user,
                                         .arm = c.arm,
                                         .level = c.level,
                                         .event = c.event,
                                         .count = c.count,
                                         .sum = c.sum,
                                         .x = c.x,
                                         .halvings = p->halvings != NULL ? c.halvings : NULL};
    if (n == 0)
        ev->type = KB_EV_REDACTED;
    return KB_OK;
}

static enum kb_err redact_decision(struct ld_redactor *r, struct kb_event *ev, bool *is_changed)
{
    const char *id = ev->as.summary->decision;

    *is_changed = strcmp(ev->as.summary->user, r->user) == 0;
    if (!*is_changed)
        return KB_OK;
    if (kb_ids_reserve(&r->decisions, 1, strlen(id) + 1) != KB_OK)
        return KB_ENOMEM;
    kb_ids_add(&r->decisions, id);
    r->n_events++;
    ev->type = KB_EV_REDACTED;
    return KB_OK;
}

static enum kb_err redact_assigned(const struct ld_redactor *r, struct ld_doc *doc, struct kb_event *ev)
{
    const struct kb_ev_assigned *a = &ev->as.summary->assigned;
    struct kb_ev_summary *copy = copy_part(doc, ev);
    uint32_t *user = ld_doc_alloc(doc, a->n + 1, sizeof *user), *arm = ld_doc_alloc(doc, a->n + 1, sizeof *arm);
    enum kb_route *route = ld_doc_alloc(doc, a->n + 1, sizeof *route);
    double *propensity = ld_doc_alloc(doc, a->n + 1, sizeof *propensity);
    int64_t *until_ms = ld_doc_alloc(doc, a->n + 1, sizeof *until_ms);
    size_t n = 0;

    if (copy == NULL || user == NULL || arm == NULL || route == NULL || propensity == NULL || until_ms == NULL)
        return KB_ENOMEM;
    for (size_t i = 0; i < a->n; i++) {
        if (a->user[i] == r->number)
            continue;
        user[n] = moved_up(r, a->user[i]);
        arm[n] = a->arm[i];
        route[n] = a->route[i];
        propensity[n] = a->propensity[i];
        until_ms[n++] = a->until_ms[i];
    }
    copy->assigned = (struct kb_ev_assigned){n, user, arm, route, propensity, until_ms};
    return KB_OK;
}

static enum kb_err redact_arms(struct ld_redactor *r, struct ld_doc *doc, struct kb_event *ev)
{
    const struct kb_ev_summary *part = ev->as.summary;
    struct kb_ev_summary *copy = copy_part(doc, ev);
    struct kb_ev_known_arm *arms = ld_doc_alloc(doc, part->n_arms + 1, sizeof *arms);

    if (copy == NULL || arms == NULL)
        return KB_ENOMEM;
    for (size_t i = 0; i < part->n_arms; i++) {
        const size_t arm = r->n_arms + i;
        const struct ld_gone gone = arm < r->cap_gone ? r->gone[arm] : (struct ld_gone){0};

        arms[i] = part->arms[i];
        arms[i].rewarded -= gone.rewarded < arms[i].rewarded ? gone.rewarded : arms[i].rewarded;
        arms[i].reward_sum -= gone.reward_sum;
        if (!isnan(arms[i].square_sum))
            arms[i].square_sum = fmax(arms[i].square_sum - gone.square_sum, 0);
    }
    copy->arms = arms;
    r->n_arms += part->n_arms;
    return KB_OK;
}

static enum kb_err redact_end(struct ld_redactor *r, struct ld_doc *doc, struct kb_event *ev)
{
    struct kb_ev_summary *copy = copy_part(doc, ev);

    if (copy == NULL)
        return KB_ENOMEM;
    copy->totals.reward_sum -= r->reward_sum;
    copy->totals.n_learned = copy->totals.n_learned > r->n_learned ? copy->totals.n_learned - r->n_learned : 0;
    copy->totals.square_sum = copy->totals.square_sum > r->square ? copy->totals.square_sum - r->square : 0;
    return KB_OK;
}

enum kb_err ld_redact_summary(struct ld_redactor *r, struct ld_doc *doc, struct kb_event *ev, size_t dim,
                              bool *is_changed)
{
    enum kb_err rc = KB_OK;

    if (ev->as.summary->part == KB_PART_USERS)
        return redact_users(r, doc, ev, is_changed);
    if (r->number == KB_ID_NONE || ev->as.summary->part == KB_PART_BEGIN)
        return KB_OK; /* the summary does not know the user */
    *is_changed = true;
    switch (ev->as.summary->part) {
    case KB_PART_GRAPH:
        return redact_graph(r, doc, ev);
    case KB_PART_POINTS:
        rc = redact_points(r, doc, ev, dim);
        break;
    case KB_PART_DECISION:
        rc = redact_decision(r, ev, is_changed);
        break;
    case KB_PART_ARMS:
        return redact_arms(r, doc, ev);
    case KB_PART_ASSIGNED:
        return redact_assigned(r, doc, ev);
    case KB_PART_END:
        return redact_end(r, doc, ev);
    default:
        break;
    }
    if (ev->type == KB_EV_REDACTED)
        *ev = (struct kb_event){.type = KB_EV_REDACTED, .seq = ev->seq, .at_ms = ev->at_ms, .by = r->by};
    return rc;
}
