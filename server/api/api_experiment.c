/* Experiments: what has been proved so far. */
#include <stdlib.h>

#include "api/api.h"
#include "book/experiment.h"
#include "json/json_out_experiment.h"
#include "tenant/books.h"

/* GET /tenants/{t}/experiment. The view is taken under the books' mutex, for which the writer waits: some microseconds
 * an arm. It is written behind it. */
bool api_experiment_get(struct ld_call *c, struct ld_reply *out)
{
    struct ld_experiment_view *view = malloc(sizeof *view);
    struct ld_books *books = ld_tenant_books(c->tenant);
    uint64_t seq;
    if (view == NULL)
        return true;
    const void *book = ld_books_lock(books, &ld_experiment_book, &seq);
    if (book != NULL) {
        ld_experiment_look(book, view);
        ld_books_unlock(books);
        out->text = ld_encode_experiment(view, &out->n);
    } else {
        ld_problem_set(out->problem, 503, "the experiment is being counted from the log: try again");
    }
    free(view);
    return true;
}

bool ld_traffic_is_void(struct ld_tenant *t)
{
    return atomic_load(&ld_tenant_books(t)->is_alarmed); /* no other book has an alarm */
}
