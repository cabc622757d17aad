/* What GET /tenants?stats=1 shows of each tenant that is in memory: one look at its experiment, one at its challengers
 * as their job has left them, and one row of its file. Nothing is waited for but those who read the same. */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "book/experiment.h"
#include "json/json_out_challengers.h"
#include "json/json_out_experiment.h"
#include "task/challenger.h"
#include "tenant/books.h"

static void look_at_experiment(struct ld_tenant *t, struct ld_experiment_view *view, struct ld_overview *out)
{
    struct ld_books *books = ld_tenant_books(t);
    uint64_t seq;
    const void *book = ld_books_lock(books, &ld_experiment_book, &seq);
    if (book == NULL) /* none, or it is being counted */
        return;
    ld_experiment_look(book, view);
    ld_books_unlock(books);
    out->has_experiment = view->state == LD_EXPERIMENT_RUNS;
    out->is_void = out->has_experiment && view->is_void;
    if (out->has_experiment)
        ld_say_experiment(view, out->sentence);
}

static void look_at_challengers(struct ld_tenant *t, struct ld_challenger_view *views, struct ld_overview *out)
{
    out->n_challengers = ld_challengers_glance(t, views);
    for (size_t i = 0; i < out->n_challengers; i++) {
        struct ld_challenger_glance *c = &out->challenger[i];
        strcpy(c->name, views[i].settings.name);
        c->seq = views[i].seq;
        c->is_stopped = views[i].why[0] != '\0';
        c->is_proved = views[i].scores.guard.verdict == LD_GUARD_BETTER;
        c->difference = kb_snips_difference(&views[i].scores.sums, LD_CHALLENGERS_LEVEL);
    }
}

struct ld_overview *ld_overview_of(struct ld_tenant *t)
{
    struct ld_overview *out = calloc(1, sizeof *out);
    struct ld_experiment_view *experiment = malloc(sizeof *experiment);
    struct ld_challenger_view *views = calloc(LD_MAX_CHALLENGERS, sizeof *views);
    const bool has_memory = out != NULL && experiment != NULL && views != NULL;
    if (has_memory) {
        look_at_experiment(t, experiment, out);
        look_at_challengers(t, views, out);
        out->unknown = ld_tenant_unknown_rewards(t);
        if (ld_store_last_at(ld_tenant_store(t), &out->last_ms) != LD_STORE_OK)
            out->last_ms = -1;
    } else {
        free(out);
    }
    free(experiment);
    free(views);
    return has_memory ? out : NULL;
}
