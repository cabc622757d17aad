/* What is told of a tenant's challengers: see challenger.h. */
#include <stdlib.h>
#include <string.h>

#include "json/json_out_challengers.h"
#include "model/engine_read.h"
#include "task/challenger.h"
#include "tenant/tenant.h"

/* The views in the configuration's order; a challenger that nobody has followed yet has read nothing. */
static void put_in_order(struct ld_challenger_view *views, size_t n, const struct ld_settings *settings,
                         struct ld_challenger_view *out)
{
    for (size_t i = 0; i < settings->n_challengers; i++) {
        out[i] = (struct ld_challenger_view){.settings = settings->challenger[i]};
        for (size_t k = 0; k < n; k++)
            if (ld_challenger_is_same(&views[k].settings, &settings->challenger[i]))
                out[i] = views[k];
    }
}

/* Behind the scores, so that no point is newer than they are only by a slice of the job. */
static bool add_histories(const struct ld_tenant *t, struct ld_challenger_view *views, size_t n,
                          struct ld_score_history **all)
{
    *all = calloc(LD_MAX_CHALLENGERS, sizeof **all);
    if (*all == NULL)
        return false;
    ld_challengers_histories(t, views, n, *all);
    for (size_t i = 0; i < n; i++)
        views[i].history = &(*all)[i];
    return true;
}

char *ld_challengers_text(struct ld_tenant *t, const struct ld_challengers_telling *how, size_t *n)
{
    struct ld_challenger_view *views = calloc((size_t)2 * LD_MAX_CHALLENGERS, sizeof *views),
                              *found = views + LD_MAX_CHALLENGERS;
    struct ld_score_history *histories = NULL;
    const struct ld_settings *settings;
    struct kb_engine_counts counts;
    char *text = NULL;

    if (views == NULL)
        return NULL;
    const size_t n_found = how->is_hurried ? ld_challengers_glance(t, found) : ld_challengers_view(t, found);
    kb_engine_counts(ld_tenant_read_lock(t, &settings), &counts);
    put_in_order(found, n_found, settings, views);
    const size_t n_views = settings->n_challengers;
    ld_tenant_read_unlock(t);
    if (!how->has_history || add_histories(t, views, n_views, &histories))
        text = ld_encode_challengers(views, n_views, how->node, counts.seq, counts.version, n);
    free(histories);
    free(views);
    return text;
}
