/* Snapshot body of an engine and back (schema/snapshot.md states it field by field).
 *
 * Bits of the posterior's factors are kept as they are, since a fold that goes on from them must end where the live
 * model ends. What is a pure function of the rest (graph inverse, user columns) is computed again on load. */
#include "model/engine_codec.h"

#include <string.h>

#include "base/alloc.h"
#include "model/engine_read.h"
#include "model/engine_write.h"
#include "spec/fields.h"

/* Of all but the specifications, which tell of another table of fields by themselves. */
#define ENGINE_FORMAT 15u

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
    kb_spec_save(&e->configured, w);
    kb_spec_save(&e->spec, w);
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
    kb_put_u64(w, e->n_unlearned);
    kb_put_u64(w, e->n_compared);
    kb_put_double(w, e->match_sum);
    put_routes(e, w);
    kb_reward_sums_save(&e->sums, w);
    kb_put_u64(w, e->n_tunings);
    for (size_t i = 0; i < e->n_tunings; i++)
        kb_tuning_save(&e->tuning[i], w);
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

static bool is_spec_sound(const struct kb_spec *spec)
{
    return kb_spec_check(spec, NULL) == KB_OK && kb_scales_check(spec, spec->scale, spec->n_scaled, NULL) == KB_OK;
}

static enum kb_err load_state(struct kb_engine *e, struct kb_reader *r)
{
    enum kb_err rc = KB_OK;

    e->seq = kb_get_u64(r);
    e->version = kb_get_u64(r);
    KB_TRY(kb_spec_load(&e->configured, r));
    KB_TRY(kb_spec_load(&e->spec, r));
    if (!is_spec_sound(&e->configured) || !is_spec_sound(&e->spec))
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
    KB_TRY(kb_pending_load(&e->pending, kb_engine_dim(e), e->users.n, r));
    e->n_decided = kb_get_u64(r);
    e->n_rewarded = kb_get_u64(r);
    e->n_observed = kb_get_u64(r);
    e->n_expired = kb_get_u64(r);
    e->n_late = kb_get_u64(r);
    e->reset_rows = (size_t)kb_get_u64(r);
    e->reset_count = kb_get_double(r);
    e->reward_sum = kb_get_double(r);
    e->n_unlearned = kb_get_u64(r);
    e->n_compared = kb_get_u64(r);
    e->match_sum = kb_get_double(r);
    get_routes(r, e);
    KB_TRY(kb_reward_sums_load(&e->sums, r));
    e->n_tunings = kb_get_count(r, KB_MOST_TUNINGS);
    for (size_t i = 0; i < e->n_tunings; i++) {
        kb_tuning_load(&e->tuning[i], r);
        if (r->rc == KB_OK && kb_tuning_check(&e->tuning[i], NULL) != KB_OK)
            return KB_ECORRUPT;
    }
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
