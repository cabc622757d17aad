/* What the model thinks of some users and arms, without a decision and without a line in the log.
 *
 * Each user is a decision's question that is not routed: arms that are stopped or not for everybody count as well. All
 * are asked under one hold of the lock for decisions, so that the answer is of one model; it takes no longer than a
 * decision among as many candidates. What users have to be solved before, in a large graph, is solved ahead, one hold
 * each. What a feature changes is the mean less the mean without it, whatever the kernel. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "json/json_out.h"
#include "tenant/readers.h"
#include "tenant/tenant_state.h"

/* Whether there are so many arms: else told in p. */
static bool is_bounded(const struct ld_tenant *t, const struct ld_ask *ask, struct ld_problem *p)
{
    const size_t named = ask->query.n_candidates, n = named > 0 ? named : kb_engine_active_arms(t->engine);

    if (n == 0) {
        ld_problem_add(p, "/arms", "the catalogue has no active arm: name arms, or fill it by PUT /tenants/%s/arms",
                       t->name);
    } else if (n > LD_MOST_CELLS / ask->n_users) {
        ld_problem_add(p, named > 0 ? "/users" : "/arms", "%zu users with %zu arms are more than %zu cells",
                       ask->n_users, n, LD_MOST_CELLS);
        ld_problem_limit(p, "cells", (double)LD_MOST_CELLS);
    }
    if (ask->n_neighbours > 0 && (named != 1 || ask->n_users != 1))
        ld_problem_add(p, "/neighbours", "expected one user and one arm beside it");
    if (ask->n_features > 0 && (named != 1 || ask->n_users != 1))
        ld_problem_add(p, "/features", "expected one user and one arm beside it");
    else if (ask->n_features > 0 && !ask->has_named)
        ld_problem_add(p, "/features",
                       "expected an object of named features as context or as the arm's features beside it");
    return p->status == 0;
}

/* The engine knows arms as candidates. */
static void refuse(enum kb_err rc, struct kb_errmsg *msg, struct ld_problem *p)
{
    static const char candidates[] = "/candidates", arms[] = "/arms";
    char rest[sizeof msg->pointer];

    if (strncmp(msg->pointer, candidates, sizeof candidates - 1) == 0) {
        strcpy(rest, msg->pointer + sizeof candidates - 1);
        strcat(strcpy(msg->pointer, arms), rest);
    }
    ld_problem_from_core(p, rc, msg->text[0] != '\0' ? msg : NULL);
}

/* Row i of each matrix. */
static void keep(const struct kb_decision *d, size_t i, double *const value[4])
{
    const double *const of[] = {d->mean, d->sd, d->lower, d->upper};

    for (size_t k = 0; k < 4; k++)
        memcpy(value[k] + i * d->n, of[k], d->n * sizeof(double));
}

/* Largest change first; of equal ones the context's, by name. */
static int by_change(const void *a, const void *b)
{
    const struct ld_without *l = a, *r = b;
    const double x = fabs(l->change), y = fabs(r->change);

    if (x != y)
        return x < y ? 1 : -1;
    return l->is_of_arm != r->is_of_arm ? l->is_of_arm - r->is_of_arm : strcmp(l->name, r->name);
}

/* What each feature of the one user and arm changes in the mean: the question is asked again without it. */
static enum kb_err leave_out(struct ld_tenant *t, const struct ld_ask *ask, const struct kb_query *query, double mean,
                             struct kb_scratch *scratch, struct kb_errmsg *msg)
{
    enum kb_err rc = KB_OK;

    for (size_t i = 0; rc == KB_OK && i < ask->n_without; i++) {
        struct ld_without *w = &ask->without[i];
        struct kb_candidate arm = query->candidates[0];
        struct kb_query q = *query;
        struct kb_decision d;

        if (w->is_of_arm)
            arm.features = w->x;
        else
            q.context = w->x;
        q.candidates = &arm;
        rc = kb_engine_decide(t->engine, &q, scratch, &d, msg);
        w->change = rc == KB_OK ? mean - d.mean[0] : 0;
    }
    qsort(ask->without, ask->n_without, sizeof *ask->without, by_change);
    return rc;
}

/* Under the lock. */
static enum kb_err ask_all(struct ld_tenant *t, const struct ld_ask *ask, struct kb_scratch *scratch,
                           double *const value[4], struct ld_text *out, struct kb_errmsg *msg)
{
    struct kb_query query = ask->query;
    struct kb_decision d = {.n = 0};
    struct ld_taught taught = {.engine = t->engine};
    enum kb_err rc;

    query.is_unrouted = true;
    KB_TRY(kb_engine_fit_scratch(t->engine, scratch, query.n_candidates, 0));
    for (size_t i = 0; i < ask->n_users; i++) {
        query.user = ask->users[i];
        KB_TRY(kb_engine_decide(t->engine, &query, scratch, &d, msg));
        keep(&d, i, value);
    }
    if (ask->n_neighbours > 0)
        KB_TRY(kb_teachers_find(t->engine, &query, &d, 0, (size_t)ask->n_neighbours, scratch, &taught.by));
    if (ask->n_features > 0) {
        KB_TRY(leave_out(t, ask, &query, value[0][0], scratch, msg));
        KB_TRY(kb_engine_decide(t->engine, &query, scratch, &d, msg)); /* its arrays are the last one's */
    }
    taught.arm = d.arm[0];
    const size_t n_shown = ask->n_features < ask->n_without ? (size_t)ask->n_features : ask->n_without;
    const struct ld_moved moved = {d.arm[0], value[0][0], ask->without, n_shown, ask->n_without - n_shown};
    ld_put_posterior(out, ask->users, ask->n_users, &d, value, ask->n_neighbours > 0 ? &taught : NULL,
                     ask->n_features > 0 ? &moved : NULL);
out:
    return rc;
}

double ld_tenant_neighbours_work(struct ld_tenant *t)
{
    pthread_rwlock_rdlock(&t->readers->deciding);
    const double work = kb_teachers_work(t->engine);
    pthread_rwlock_unlock(&t->readers->deciding);
    return work;
}

static enum kb_err meet(struct ld_tenant *t, const char *user, struct kb_scratch *scratch)
{
    pthread_rwlock_rdlock(&t->readers->deciding);
    const enum kb_err rc = kb_engine_fit_scratch(t->engine, scratch, 1, 0);
    if (rc == KB_OK)
        kb_engine_meet(t->engine, user, scratch);
    pthread_rwlock_unlock(&t->readers->deciding);
    return rc;
}

/* False: the dimensions are others by now. */
static bool ask_at_once(struct ld_tenant *t, const struct ld_ask *ask, uint32_t dims_epoch, struct kb_scratch *scratch,
                        double *const value[4], struct ld_text *out, struct ld_problem *p)
{
    struct kb_errmsg msg = {.text = ""};
    enum kb_err rc = KB_OK;

    for (size_t i = 0; rc == KB_OK && i < ask->n_users; i++)
        rc = meet(t, ask->users[i], scratch);
    pthread_rwlock_rdlock(&t->readers->deciding);
    const bool is_current = dims_epoch == t->dims_epoch;
    if (rc == KB_OK && is_current && is_bounded(t, ask, p))
        rc = ask_all(t, ask, scratch, value, out, &msg);
    pthread_rwlock_unlock(&t->readers->deciding);
    if (rc != KB_OK)
        refuse(rc, &msg, p);
    return is_current;
}

int ld_tenant_ask(struct ld_tenant *t, const struct ld_ask *ask, uint32_t dims_epoch, struct ld_text *out,
                  struct ld_problem *p)
{
    struct kb_scratch *scratch = ld_tenant_take_scratch(t);
    double *all = calloc(4 * LD_MOST_CELLS, sizeof *all);
    bool is_current = true;

    if (scratch != NULL && all != NULL) {
        double *const value[] = {all, all + LD_MOST_CELLS, all + 2 * LD_MOST_CELLS, all + 3 * LD_MOST_CELLS};

        is_current = ask_at_once(t, ask, dims_epoch, scratch, value, out, p);
    } else {
        ld_problem_set(p, 503, "out of memory");
    }
    free(all);
    ld_tenant_give_scratch(t, scratch);
    return p->status != 0 ? -1 : !is_current;
}
