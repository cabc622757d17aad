/* POST /tenants/{t}/posterior: what the model thinks of users and arms. Nothing is decided and nothing recorded; the
 * numbers are those that /select explains. */
#include "api/api.h"

#include "base/text.h"

/* As a decision among as many candidates. */
static bool charge(struct ld_call *c, const struct ld_ask *ask, struct ld_problem *p)
{
    struct ld_size size;
    ld_tenant_size(c->tenant, &size);
    const size_t n = ask->query.n_candidates > 0 ? ask->query.n_candidates : size.active_arms;
    const size_t most = LD_MOST_CELLS / ask->n_users;
    const size_t cells = ask->n_users * (n < 1 ? 1 : n < most ? n : most) + ask->n_without;
    double besides;
    return ld_call_price_neighbours(c, ask->n_neighbours, &besides, p) &&
           ld_charge(c, ld_price_decision(&size, cells, 1) + besides, p);
}

#define TRIES 3 /* while the dimensions of its vectors change under way */

/* 0 with the text, -1 with *p, or 1: once more. */
static int ask(struct ld_call *c, struct ld_doc *doc, bool *is_paid, struct ld_text *text, struct ld_problem *p)
{
    struct ld_ask asked;
    uint32_t context_dim, arm_dim;
    const uint32_t epoch = ld_tenant_dims(c->tenant, doc, &context_dim, &arm_dim);
    if (ld_decode_posterior(doc, context_dim, arm_dim, &asked, p) != 0 || (!*is_paid && !charge(c, &asked, p)))
        return -1;
    *is_paid = true;
    return ld_tenant_ask(c->tenant, &asked, epoch, text, p);
}

char *ld_call_ask(struct ld_call *c, struct ld_doc *doc, size_t *n, struct ld_problem *p)
{
    struct ld_text text;
    bool is_paid = false;
    int rc = 1;
    ld_text_init(&text);
    ld_doc_bound(doc, c->server->limits.magnitude);
    for (int tries = 0; rc > 0 && tries < TRIES; tries++)
        rc = ask(c, doc, &is_paid, &text, p);
    if (rc == 0)
        return ld_text_take(&text, n);
    if (rc > 0)
        ld_problem_set(p, 503, "the configuration changes all the time: try again");
    ld_text_close(&text);
    return NULL;
}

bool api_posterior(struct ld_call *c, struct ld_reply *out)
{
    struct ld_doc *doc = NULL;
    if (ld_call_parse(c, &doc, out->problem) == 0)
        out->text = ld_call_ask(c, doc, &out->n, out->problem);
    ld_doc_free(doc);
    return true;
}
