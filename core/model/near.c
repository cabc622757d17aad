/* A neighbourhood taken out of an engine (near.h).
 *
 * It is that of the graph which the model in force rests on: while another one is being built in, the old one, as for
 * decisions. Its kernel is another kernel of the same values (kb_user_kernel_new_like), so diagonal entries that are
 * solved here are known to the model from then on, and those that the model knows are not solved again. */
#include "model/near.h"

#include <math.h>

#include "base/alloc.h"
#include "model/engine_state.h"

static const struct kb_user_kernel *kernel_of(const struct kb_engine *e)
{
    return kb_posterior_kernel(e->posterior)->user;
}

bool kb_near_is_solved(const struct kb_engine *e)
{
    return !kb_user_kernel_has_pairs(kernel_of(e));
}

/* One who has no friends is a ball by himself. */
static enum kb_err find_ball(const struct kb_engine *e, struct kb_user u, uint32_t hops, size_t limit,
                             struct kb_ball *out)
{
    if (u.node != KB_ID_NONE)
        return kb_ball_find(e->graph.graph, u.node, hops, limit, out);
    *out =
        (struct kb_ball){.n = 1, .node = kb_array(1, 1, sizeof *out->node), .hops = kb_array(1, 1, sizeof *out->hops)};
    if (out->node != NULL && out->hops != NULL)
        return KB_OK;
    kb_ball_close(out);
    return KB_ENOMEM;
}

static void name_users(const struct kb_engine *e, struct kb_user first, struct kb_near *out)
{
    for (size_t i = 0; i < out->ball.n; i++) {
        const uint32_t node = out->ball.node[i];
        out->user[i] = i == 0 ? first : (struct kb_user){.index = e->graph.user_of[node], .node = node};
        out->degree[i] = first.node != KB_ID_NONE ? kb_graph_degree(e->graph.graph, node) : 0;
        out->kernel[i] = (double)NAN;
    }
}

enum kb_err kb_near_look(const struct kb_engine *e, const char *user, uint32_t hops, size_t limit, struct kb_near *out)
{
    const struct kb_user first = kb_engine_user_at(e, kb_ids_find(&e->users, user));
    const struct kb_user_kernel *kernel = kernel_of(e);
    enum kb_err rc;

    *out = (struct kb_near){.graph = NULL};
    KB_TRY(find_ball(e, first, hops, limit, &out->ball));
    out->user = kb_array(out->ball.n, 1, sizeof *out->user);
    out->degree = kb_array(out->ball.n, 1, sizeof *out->degree);
    out->kernel = kb_array(out->ball.n, 1, sizeof *out->kernel);
    rc = out->user != NULL && out->degree != NULL && out->kernel != NULL ? KB_OK : KB_ENOMEM;
    KB_TRY(rc);
    name_users(e, first, out);
    if (kb_user_kernel_has_pairs(kernel)) {
        for (size_t i = 0; i < out->ball.n; i++)
            out->kernel[i] = kb_user_kernel_pair(kernel, first, out->user[i]);
        return KB_OK;
    }
    KB_TRY(kb_user_kernel_new_like(&out->own, kernel));
    out->graph = kb_graph_ref_hold(e->graph_ref);
    return KB_OK;
out:
    kb_near_close(out);
    return rc;
}

enum kb_err kb_near_finish(struct kb_near *n, bool (*goes_on)(void *arg), void *arg)
{
    if (n->own == NULL)
        return KB_OK;
    return kb_user_kernel_values(n->own, n->user[0], n->user, n->ball.n, goes_on, arg, n->kernel);
}

/* The kernel before the graph that it solves on. */
void kb_near_close(struct kb_near *n)
{
    kb_user_kernel_free(n->own);
    kb_graph_ref_release(n->graph);
    kb_ball_close(&n->ball);
    kb_free(n->user);
    kb_free(n->degree);
    kb_free(n->kernel);
    *n = (struct kb_near){.graph = NULL};
}
