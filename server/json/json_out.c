/* Answers of the hot path and of the lists: structs -> JSON text. Written straight as text: building a tree
 * first costs three times as much (a /select answer of 20 arms: 9 us instead of 27). Schemas: openapi.yaml.
 *
 * Members are written in the order in which the contract lists them. Functions check nothing on the way: a text
 * that could not be finished is NULL at the end (text.h).
 *
 * Nothing here takes a lock: who passes an engine holds the tenant's read lock, or is its writer, until the text is
 * done. The text is then independent of the engine. Cost: some 700 instructions for each number that is not whole
 * (number.cc), a copy for the rest. */
#include "json/json_out.h"

#include "graph/graph.h"
#include "json/json_util.h"
#include "base/text.h"

/* --- /select ----------------------------------------------------------------------------------------- */

/* Candidate i with everything that was computed of it. All numbers are as the decision used them; mean and sd in the
 * units of the reward. */
static void put_ranked(struct ld_text *t, const struct kb_decision *d, size_t i)
{
    ld_text_item(t);
    ld_text_lit(t, "{");
    ld_text_put_string(t, "arm", d->arm[i]);
    if (!d->is_unasked) {
        ld_text_put_number(t, "mean", d->mean[i]);
        ld_text_put_number(t, "sd", d->sd[i]);
        ld_text_put_number(t, "lower", d->lower[i]);
        ld_text_put_number(t, "upper", d->upper[i]);
        ld_text_put_number(t, "score", d->score[i]);
    }
    ld_text_put_number(t, "propensity", d->propensity[i]);
    ld_text_lit(t, "}");
}

static void put_model(struct ld_text *t, const struct kb_decision *d)
{
    ld_text_key(t, "model");
    ld_text_lit(t, "{");
    ld_text_put_count(t, "events", d->n_learned);
    ld_text_put_count(t, "dictionary", d->n_support);
    ld_text_lit(t, "}}");
}

/* Each user's term, and what the others add: with `prior` they sum to the mean. */
static void put_taught(struct ld_text *t, const struct ld_taught *taught)
{
    const struct kb_teachers *by = &taught->by;

    ld_text_key(t, "neighbours");
    ld_text_lit(t, "{");
    ld_text_put_string(t, "arm", taught->arm);
    ld_text_put_number(t, "mean", by->mean);
    ld_text_put_number(t, "prior", by->prior);
    ld_text_key(t, "terms");
    ld_text_lit(t, "[");
    for (size_t i = 0; i < by->n; i++) {
        const struct kb_teacher *one = &by->of[i];
        ld_text_item(t);
        ld_text_lit(t, "{");
        ld_text_put_string(t, "user", kb_engine_user(taught->engine, one->user));
        ld_text_put_number(t, "term", one->term);
        ld_text_put_number(t, "rewards", one->count);
        ld_text_put_number(t, "mean_reward", one->sum / one->count);
        ld_text_lit(t, "}");
    }
    ld_text_lit(t, "]");
    ld_text_key(t, "others");
    ld_text_lit(t, "{");
    ld_text_put_count(t, "users", by->n_others);
    ld_text_put_number(t, "term", by->others);
    ld_text_lit(t, "}");
    ld_text_put_bool(t, "tells_users_apart", by->tells_users);
    ld_text_lit(t, "}");
}

static void put_shown(struct ld_text *t, const struct kb_decision *d, size_t top)
{
    ld_text_put_string(t, "arm", d->arm[d->chosen]);
    ld_text_put_number(t, "propensity", d->propensity[d->chosen]);
    if (d->route != KB_ROUTE_POLICY)
        ld_text_put_string(t, "route", kb_word(&kb_route_words, (int)d->route));
    ld_text_key(t, "ranking");
    ld_text_lit(t, "[");
    for (size_t i = 0; i < d->n && i < top; i++)
        put_ranked(t, d, d->order[i]);
    ld_text_lit(t, "]");
}

/* What stands before the slots is the first one's: who knows none reads a decision. */
void ld_put_slot(struct ld_text *t, const char *decision, const char *slot, size_t i, const struct kb_decision *d,
                 size_t top)
{
    if (i == 0) {
        ld_text_lit(t, "{");
        ld_text_put_string(t, "decision", decision);
        put_shown(t, d, top);
        ld_text_key(t, "slots");
        ld_text_lit(t, "[");
    }
    ld_text_item(t);
    ld_text_lit(t, "{");
    ld_text_put_string(t, "id", slot);
    put_shown(t, d, top);
    ld_text_lit(t, "}");
}

void ld_put_slots_end(struct ld_text *t, const struct kb_decision *last)
{
    ld_text_lit(t, "]");
    put_model(t, last);
}

/* The kept answer of a named decision is this very text, so a retry gets it byte by byte. The ranking begins with the
 * arm drawn, whatever its score: d->order has it first. `events` and `dictionary` say from how much the model spoke. */
char *ld_encode_select(const char *decision, const struct kb_decision *d, size_t top, const struct ld_taught *taught,
                       size_t *n)
{
    struct ld_text t;
    ld_text_init(&t);
    ld_text_lit(&t, "{");
    ld_text_put_string(&t, "decision", decision);
    put_shown(&t, d, top);
    if (taught != NULL)
        put_taught(&t, taught);
    put_model(&t, d);
    return ld_text_take(&t, n);
}

char *ld_encode_unrecorded(const char *decision, const char *answer, size_t n_answer, size_t *n)
{
    struct ld_text t;
    ld_text_init(&t);
    ld_text_lit(&t, "{");
    ld_text_put_string(&t, "decision", decision);
    const size_t n_named = t.n;
    ld_text_close(&t);
    ld_text_init(&t);
    ld_text_lit(&t, "{\"recorded\":false,\"decision\":\"\"");
    if (n_named < n_answer)
        ld_text_raw(&t, answer + n_named, n_answer - n_named);
    return ld_text_take(&t, n);
}

/* --- /tenants/{t}/posterior ---------------------------------------------------------------------------- */

static void put_matrix(struct ld_text *t, const char *name, const double *x, size_t n_rows, size_t n)
{
    ld_text_key(t, name);
    ld_text_lit(t, "[");
    for (size_t i = 0; i < n_rows; i++) {
        ld_text_item(t);
        ld_text_vector(t, x + i * n, n);
    }
    ld_text_lit(t, "]");
}

static void put_moved(struct ld_text *t, const struct ld_moved *moved)
{
    ld_text_key(t, "features");
    ld_text_lit(t, "{");
    ld_text_put_string(t, "arm", moved->arm);
    ld_text_put_number(t, "mean", moved->mean);
    ld_text_key(t, "changes");
    ld_text_lit(t, "[");
    for (size_t i = 0; i < moved->n; i++) {
        ld_text_item(t);
        ld_text_lit(t, "{");
        ld_text_put_string(t, "of", moved->by[i].is_of_arm ? "arm" : "context");
        ld_text_put_string(t, "feature", moved->by[i].name);
        ld_text_put_number(t, "change", moved->by[i].change);
        ld_text_lit(t, "}");
    }
    ld_text_lit(t, "]");
    ld_text_put_count(t, "others", moved->n_others);
    ld_text_lit(t, "}");
}

void ld_put_posterior(struct ld_text *t, const char *const *users, size_t n_users, const struct kb_decision *d,
                      double *const value[4], const struct ld_taught *taught, const struct ld_moved *moved)
{
    static const char *const names[] = {"mean", "sd", "lower", "upper"};

    ld_text_lit(t, "{");
    ld_text_key(t, "users");
    ld_text_strings(t, users, n_users);
    ld_text_key(t, "arms");
    ld_text_strings(t, d->arm, d->n);
    for (size_t i = 0; i < 4; i++)
        put_matrix(t, names[i], value[i], n_users, d->n);
    if (taught != NULL)
        put_taught(t, taught);
    if (moved != NULL)
        put_moved(t, moved);
    put_model(t, d);
}

/* --- /reward ----------------------------------------------------------------------------------------- */

/* A duplicate says so besides `applied`: false, so that it cannot be taken for a refusal. A result without a detail of
 * its own gets the status's title. */
static void put_reward(struct ld_text *t, const struct ld_reward_result *r)
{
    ld_text_lit(t, "{");
    ld_text_put_bool(t, "applied", r->status == 200);
    if (r->status == LD_DUPLICATE) {
        ld_text_put_bool(t, "duplicate", true);
    } else if (r->status != 200) {
        ld_text_put_string(t, "type", ld_problem_type(r->status, r->type));
        ld_text_put_count(t, "status", (uint64_t)r->status);
        ld_text_put_string(t, "detail", r->detail != NULL ? r->detail : ld_status_title(r->status));
    }
    if (r->decisions != NULL) {
        ld_text_key(t, "decisions");
        ld_text_lit(t, "[");
        for (size_t i = 0; i < r->n_decisions; i++) {
            ld_text_item(t);
            ld_text_string(t, r->decisions[i]);
        }
        ld_text_lit(t, "]");
    }
    ld_text_lit(t, "}");
}

char *ld_encode_reward(const struct ld_reward_result *r, size_t *n)
{
    struct ld_text t;
    ld_text_init(&t);
    put_reward(&t, r);
    return ld_text_take(&t, n);
}

/* In the order of the request. */
char *ld_encode_rewards(const struct ld_reward_result *r, size_t n_results, size_t *n)
{
    struct ld_text t;
    ld_text_init(&t);
    ld_text_lit(&t, "[");
    for (size_t i = 0; i < n_results; i++) {
        ld_text_item(&t);
        put_reward(&t, &r[i]);
    }
    ld_text_lit(&t, "]");
    return ld_text_take(&t, n);
}

/* --- graph and catalogue ------------------------------------------------------------------------------ */

/* Counted when the graph was made; degrees are sums of the weights of a user's edges. A tenant without a graph has
 * zeros throughout. The answer to GET, PUT and PATCH alike. O(1). */
char *ld_encode_graph_summary(const struct kb_engine *e, size_t *n)
{
    const struct kb_graph *g = kb_engine_graph(e);
    size_t n_users = g != NULL ? kb_graph_n_nodes(g) : 0;
    const struct kb_degrees d = g != NULL ? kb_graph_degrees(g) : (struct kb_degrees){0};
    struct ld_text t;
    ld_text_init(&t);
    ld_text_lit(&t, "{");
    ld_text_put_count(&t, "users", n_users);
    ld_text_put_count(&t, "edges", g != NULL ? kb_graph_n_edges(g) : 0);
    ld_text_put_count(&t, "components", g != NULL ? kb_graph_n_components(g) : 0);
    ld_text_key(&t, "degree");
    ld_text_lit(&t, "{");
    ld_text_put_number(&t, "min", d.min);
    ld_text_put_number(&t, "mean", d.mean);
    ld_text_put_number(&t, "max", d.max);
    ld_text_lit(&t, "}}");
    return ld_text_take(&t, n);
}

/* In order of first appearance in the log, which is the engine's order; arms that were only ever candidates are left
 * out. Features are left out where there are none, so that the answer can be sent back as the body of a PUT. */
size_t ld_put_arms(const struct kb_engine *e, size_t from, size_t most, struct ld_text *t)
{
    const struct kb_spec *spec = kb_engine_spec(e);
    const size_t n_arms = kb_engine_n_arms(e), end = n_arms - from > most ? from + most : n_arms;

    if (from == 0)
        ld_text_lit(t, "{\"arms\":[");
    for (size_t i = from; i < end; i++) {
        const struct kb_arm_view arm = kb_engine_arm(e, i);
        /* Arms that were removed, or only observed, keep their statistics and are not shown here. */
        if (!arm.is_in_catalogue)
            continue;
        ld_text_item(t);
        ld_text_arm(
            t, &(struct kb_ev_arm){arm.id, arm.features, arm.is_active, arm.is_stopped, arm.eligibility, arm.value},
            spec->arm_dim);
    }
    if (end < n_arms)
        return end;
    ld_text_lit(t, "]}");
    return SIZE_MAX;
}

/* Sizes after the change that is being answered. The catalogue itself can be large and has just been sent. */
char *ld_encode_arms_summary(const struct kb_engine *e, size_t *n)
{
    struct kb_engine_counts counts;
    struct ld_text t;
    kb_engine_counts(e, &counts);
    ld_text_init(&t);
    ld_text_lit(&t, "{");
    ld_text_put_count(&t, "arms", counts.arms);
    ld_text_put_count(&t, "active", counts.active_arms);
    if (counts.stopped_arms > 0)
        ld_text_put_count(&t, "stopped", counts.stopped_arms);
    ld_text_lit(&t, "}");
    return ld_text_take(&t, n);
}
