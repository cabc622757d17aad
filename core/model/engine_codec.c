/* Snapshot body of an engine and back (schema/snapshot.md states it field by field).
 *
 * Bits of the posterior's factors are kept as they are, since a fold that goes on from them must end where the live
 * model ends. What is a pure function of the rest (graph inverse, user columns) is computed again on load. */
#include "model/engine_impl.h"

#include <string.h>

#include "base/alloc.h"
#include "model/engine_read.h"
#include "model/engine_write.h"

#define ENGINE_FORMAT 9u

static void put_vec_kernel(struct kb_writer *w, const struct kb_vec_kernel_spec *k)
{
    kb_put_u64(w, (uint64_t)k->type);
    kb_put_double(w, k->lengthscale);
    kb_put_u64(w, k->is_median);
    kb_put_u64(w, (uint64_t)k->degree);
    kb_put_double(w, k->offset);
}

static void get_vec_kernel(struct kb_reader *r, struct kb_vec_kernel_spec *k)
{
    k->type = (enum kb_vec_kernel_type)kb_get_u64(r);
    k->lengthscale = kb_get_double(r);
    k->is_median = kb_get_u64(r) != 0;
    k->degree = (int)kb_get_u64(r);
    k->offset = kb_get_double(r);
}

static void put_routing(struct kb_writer *w, const struct kb_routing_spec *s)
{
    kb_put_double(w, s->holdout);
    kb_put_u64(w, (uint64_t)s->baseline);
    kb_put_str(w, s->arm);
    kb_put_str(w, s->salt);
    kb_put_u64(w, (uint64_t)s->sticky_ms);
    kb_put_u64(w, s->is_stopped);
}

/* Into a buffer of cap bytes, which is zero. */
static void get_text(struct kb_reader *r, char *out, size_t cap)
{
    size_t n = 0;
    const char *text = kb_get_str(r, &n);

    if (n >= cap)
        r->rc = KB_ECORRUPT;
    else if (text != NULL)
        memcpy(out, text, n);
}

static void get_routing(struct kb_reader *r, struct kb_routing_spec *s)
{
    s->holdout = kb_get_double(r);
    s->baseline = (enum kb_baseline)kb_get_u64(r);
    get_text(r, s->arm, sizeof s->arm);
    get_text(r, s->salt, sizeof s->salt);
    s->sticky_ms = (int64_t)kb_get_u64(r);
    s->is_stopped = kb_get_u64(r) != 0;
}

static void put_spec(struct kb_writer *w, const struct kb_spec *s)
{
    kb_put_bytes(w, s->algorithm, sizeof s->algorithm);
    kb_put_u64(w, (uint64_t)s->context_dim << 32 | s->arm_dim);
    kb_put_u64(w, (uint64_t)s->user_kernel.type);
    kb_put_double(w, s->user_kernel.rho);
    kb_put_double(w, s->user_kernel.population);
    kb_put_u64(w, s->user_kernel.is_normalized);
    kb_put_double(w, s->user_kernel.tolerance);
    kb_put_double(w, s->user_kernel.power);
    kb_put_double(w, s->user_kernel.tau);
    kb_put_u64(w, s->user_kernel.n_vectors);
    kb_put_double(w, s->user_kernel.lengthscale);
    kb_put_double(w, s->user_kernel.bandwidth);
    kb_put_u64(w, s->user_kernel.n_features);
    kb_put_u64(w, s->user_kernel.refresh);
    kb_put_u64(w, s->user_kernel.min_observations);
    put_vec_kernel(w, &s->context_kernel);
    put_vec_kernel(w, &s->arm_kernel);
    kb_put_u64(w, (uint64_t)s->repr.type);
    kb_put_double(w, s->repr.lambda);
    kb_put_double(w, s->repr.mu);
    kb_put_double(w, s->repr.gamma);
    kb_put_double(w, s->repr.epsilon);
    kb_put_double(w, s->repr.threshold);
    kb_put_double(w, s->repr.q);
    kb_put_double(w, s->repr.batch_ratio);
    kb_put_u64(w, s->repr.max_dictionary);
    kb_put_u64(w, s->repr.exact_limit);
    kb_put_u64(w, (uint64_t)s->conf.type);
    kb_put_double(w, s->conf.beta);
    kb_put_double(w, s->conf.norm_bound);
    kb_put_double(w, s->conf.noise);
    kb_put_double(w, s->conf.delta);
    kb_put_u64(w, (uint64_t)s->conf.form);
    kb_put_u64(w, s->conf.is_mixture);
    kb_put_u64(w, (uint64_t)s->conf.score);
    kb_put_u64(w, (uint64_t)s->rule.type);
    kb_put_double(w, s->rule.epsilon);
    kb_put_double(w, s->rule.scale);
    kb_put_u64(w, (uint64_t)s->forgetting.type);
    kb_put_double(w, s->forgetting.discount);
    kb_put_double(w, s->forgetting.half_life_s);
    kb_put_u64(w, (uint64_t)s->aggregation);
    kb_put_u64(w, s->has_default_reward);
    kb_put_double(w, s->default_reward);
    kb_put_u64(w, (uint64_t)s->reward_window_ms);
    kb_put_u64(w, s->seed);
    put_routing(w, &s->routing);
}

static void get_spec(struct kb_reader *r, struct kb_spec *s)
{
    memset(s, 0, sizeof *s);
    kb_get_bytes(r, s->algorithm, sizeof s->algorithm);
    s->algorithm[sizeof s->algorithm - 1] = '\0';
    const uint64_t dims = kb_get_u64(r);
    s->context_dim = (uint32_t)(dims >> 32);
    s->arm_dim = (uint32_t)dims;
    s->user_kernel.type = (enum kb_user_kernel_type)kb_get_u64(r);
    s->user_kernel.rho = kb_get_double(r);
    s->user_kernel.population = kb_get_double(r);
    s->user_kernel.is_normalized = kb_get_u64(r) != 0;
    s->user_kernel.tolerance = kb_get_double(r);
    s->user_kernel.power = kb_get_double(r);
    s->user_kernel.tau = kb_get_double(r);
    s->user_kernel.n_vectors = (size_t)kb_get_u64(r);
    s->user_kernel.lengthscale = kb_get_double(r);
    s->user_kernel.bandwidth = kb_get_double(r);
    s->user_kernel.n_features = (size_t)kb_get_u64(r);
    s->user_kernel.refresh = (size_t)kb_get_u64(r);
    s->user_kernel.min_observations = (size_t)kb_get_u64(r);
    get_vec_kernel(r, &s->context_kernel);
    get_vec_kernel(r, &s->arm_kernel);
    s->repr.type = (enum kb_repr_type)kb_get_u64(r);
    s->repr.lambda = kb_get_double(r);
    s->repr.mu = kb_get_double(r);
    s->repr.gamma = kb_get_double(r);
    s->repr.epsilon = kb_get_double(r);
    s->repr.threshold = kb_get_double(r);
    s->repr.q = kb_get_double(r);
    s->repr.batch_ratio = kb_get_double(r);
    s->repr.max_dictionary = (size_t)kb_get_u64(r);
    s->repr.exact_limit = (size_t)kb_get_u64(r);
    s->conf.type = (enum kb_conf_type)kb_get_u64(r);
    s->conf.beta = kb_get_double(r);
    s->conf.norm_bound = kb_get_double(r);
    s->conf.noise = kb_get_double(r);
    s->conf.delta = kb_get_double(r);
    s->conf.form = (enum kb_sketch_form)kb_get_u64(r);
    s->conf.is_mixture = kb_get_u64(r) != 0;
    s->conf.score = (enum kb_score)kb_get_u64(r);
    s->rule.type = (enum kb_rule_type)kb_get_u64(r);
    s->rule.epsilon = kb_get_double(r);
    s->rule.scale = kb_get_double(r);
    s->forgetting.type = (enum kb_forgetting_type)kb_get_u64(r);
    s->forgetting.discount = kb_get_double(r);
    s->forgetting.half_life_s = kb_get_double(r);
    s->aggregation = (enum kb_aggregation)kb_get_u64(r);
    s->has_default_reward = kb_get_u64(r) != 0;
    s->default_reward = kb_get_double(r);
    s->reward_window_ms = (int64_t)kb_get_u64(r);
    s->seed = kb_get_u64(r);
    get_routing(r, &s->routing);
}

void kb_engine_put_ids(const struct kb_ids *ids, struct kb_writer *w)
{
    kb_put_u64(w, ids->n);
    kb_put_u64(w, ids->n_bytes);
    for (size_t i = 0; i < ids->n; i++)
        kb_put_str(w, kb_ids_str(ids, (uint32_t)i));
}

static enum kb_err get_ids(struct kb_reader *r, struct kb_ids *ids)
{
    const size_t n = kb_get_count(r, (r->n - r->pos) / sizeof(uint64_t)), n_bytes = kb_get_count(r, r->n + n);
    char id[KB_ID_MAX_BYTES + 1];
    enum kb_err rc = kb_ids_reserve(ids, n, n_bytes);

    for (size_t i = 0; i < n && rc == KB_OK; i++) {
        size_t len = 0;
        const char *text = kb_get_str(r, &len);

        if (text == NULL || len > KB_ID_MAX_BYTES || ids->n_bytes + len + 1 > n_bytes)
            return KB_ECORRUPT;
        memcpy(id, text, len);
        id[len] = '\0';
        if (kb_ids_add(ids, id) != i || strlen(id) != len)
            return KB_ECORRUPT;
    }
    return rc != KB_OK ? rc : r->rc;
}

void kb_engine_put_head(const struct kb_engine *e, struct kb_writer *w)
{
    kb_put_u64(w, ENGINE_FORMAT);
    kb_put_u64(w, e->seq);
    kb_put_u64(w, e->version);
    put_spec(w, &e->configured);
    put_spec(w, &e->spec);
}

static void put_routes(const struct kb_engine *e, struct kb_writer *w)
{
    for (size_t i = 0; i < KB_ROUTE_N; i++) {
        const struct kb_route_stats *s = &e->routes[i];

        kb_put_u64(w, s->decided);
        kb_put_u64(w, s->repeated);
        kb_put_u64(w, s->rewarded);
        kb_put_double(w, s->reward_sum);
        kb_put_double(w, s->square_sum);
    }
}

static void get_routes(struct kb_reader *r, struct kb_engine *e)
{
    for (size_t i = 0; i < KB_ROUTE_N; i++) {
        struct kb_route_stats *s = &e->routes[i];

        s->decided = kb_get_u64(r);
        s->repeated = kb_get_u64(r);
        s->rewarded = kb_get_u64(r);
        s->reward_sum = kb_get_double(r);
        s->square_sum = kb_get_double(r);
    }
}

void kb_engine_put_tail(const struct kb_engine *e, struct kb_writer *w)
{
    kb_decay_save(&e->decay, w);
    kb_pending_save(&e->pending, kb_engine_dim(e), w);
    kb_put_u64(w, e->n_decided);
    kb_put_u64(w, e->n_rewarded);
    kb_put_u64(w, e->n_observed);
    kb_put_u64(w, e->n_expired);
    kb_put_u64(w, e->n_late);
    kb_put_u64(w, e->reset_rows);
    kb_put_double(w, e->reset_count);
    kb_put_double(w, e->reward_sum);
    put_routes(e, w);
    kb_posterior_save(e->posterior, w);
}

enum kb_err kb_engine_save(const struct kb_engine *e, struct kb_writer *w)
{
    if (e->build != NULL || e->draft != NULL || e->posterior == NULL)
        return KB_EBUSY;
    kb_engine_put_head(e, w);
    kb_engine_put_ids(&e->users, w);
    kb_engine_put_ids(&e->arm_ids, w);
    kb_arms_save(&e->arms, e->spec.arm_dim, w);
    kb_user_graph_save(&e->graph, w);
    kb_history_save(&e->history, w);
    kb_assignments_save(&e->assignments, w);
    kb_engine_put_tail(e, w);
    return w->rc;
}

/* Nodes of users from the loaded graph. */
static enum kb_err link_nodes(struct kb_engine *e)
{
    if (kb_grow((void **)&e->node_of, &e->cap_nodes, e->users.n + 1, 64, sizeof *e->node_of) != 0)
        return KB_ENOMEM;
    kb_free(e->square_of); /* not saved: who needs them folds the log */
    e->square_of = kb_array(e->cap_nodes, 1, sizeof *e->square_of);
    e->cap_squares = e->square_of != NULL ? e->cap_nodes : 0;
    if (e->square_of == NULL)
        return KB_ENOMEM;
    for (size_t i = 0; i < e->cap_nodes; i++)
        e->node_of[i] = KB_ID_NONE;
    for (size_t i = 0; i < e->graph.n; i++)
        e->node_of[e->graph.user_of[i]] = (uint32_t)i;
    return KB_OK;
}

static enum kb_err load_graph(struct kb_engine *e, struct kb_reader *r)
{
    enum kb_err rc = kb_user_graph_load(&e->graph, e->users.n, r);

    if (rc != KB_OK || e->graph.graph == NULL) {
        kb_user_graph_close(&e->graph); /* what is not held by a reference is nobody's to free */
        return rc;
    }
    e->graph_ref = kb_graph_ref_new(&e->graph);
    if (e->graph_ref == NULL) {
        kb_user_graph_close(&e->graph);
        return KB_ENOMEM;
    }
    e->graph = e->graph_ref->graph;
    return KB_OK;
}

static enum kb_err load_state(struct kb_engine *e, struct kb_reader *r)
{
    enum kb_err rc = KB_OK;

    e->seq = kb_get_u64(r);
    e->version = kb_get_u64(r);
    get_spec(r, &e->configured);
    get_spec(r, &e->spec);
    KB_TRY(r->rc);
    if (kb_spec_check(&e->configured, NULL) != KB_OK || kb_spec_check(&e->spec, NULL) != KB_OK)
        return KB_ECORRUPT;
    KB_TRY(get_ids(r, &e->users));
    KB_TRY(get_ids(r, &e->arm_ids));
    KB_TRY(kb_arms_load(&e->arms, e->spec.arm_dim, e->arm_ids.n, r));
    KB_TRY(load_graph(e, r));
    KB_TRY(link_nodes(e));
    kb_history_init(&e->history, kb_engine_dim(e), e->key);
    KB_TRY(kb_history_load(&e->history, r));
    KB_TRY(kb_assignments_load(&e->assignments, e->users.n, e->arm_ids.n, r));
    KB_TRY(kb_decay_load(&e->decay, r));
    KB_TRY(kb_pending_load(&e->pending, kb_engine_dim(e), r));
    e->n_decided = kb_get_u64(r);
    e->n_rewarded = kb_get_u64(r);
    e->n_observed = kb_get_u64(r);
    e->n_expired = kb_get_u64(r);
    e->n_late = kb_get_u64(r);
    e->reset_rows = (size_t)kb_get_u64(r);
    e->reset_count = kb_get_double(r);
    e->reward_sum = kb_get_double(r);
    get_routes(r, e);
    rc = r->rc == KB_OK && !kb_engine_is_state_sound(e) ? KB_ECORRUPT : r->rc;
out:
    return rc;
}

enum kb_err kb_engine_load(struct kb_engine *e, const void *data, size_t n)
{
    struct kb_reader r;
    enum kb_err rc = KB_OK;

    kb_reader_init(&r, data, n);
    if (kb_get_u64(&r) != ENGINE_FORMAT)
        return r.rc != KB_OK ? KB_ECORRUPT : KB_EVERSION;
    KB_TRY(load_state(e, &r));
    KB_TRY(kb_posterior_new(&e->posterior, &e->spec, kb_engine_coming_graph(e, &e->spec), e->key));
    KB_TRY(kb_posterior_fit_scratch(e->posterior, &e->scratch, 0));
    KB_TRY(kb_posterior_load(e->posterior, &r, &e->scratch));
    if (r.pos != r.n || !kb_engine_is_posterior_sound(e))
        rc = KB_ECORRUPT;
    e->is_configured = true;
out:
    return rc;
}
