/* The users around one, as the model in force sees them: the part of its graph, and its user kernel between the one and
 * each of them. In two steps, so that nobody waits for the long one: `look` copies what it takes, `finish` solves. */
#ifndef KB_NEAR_H
#define KB_NEAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "graph/ball.h"

struct kb_engine;
struct kb_graph_ref;
struct kb_user_kernel;

struct kb_near {
    struct kb_ball ball;
    struct kb_user *user; /* [ball.n]; one whom no event has named has no index */
    double *degree;       /* [ball.n] sum of the weights of all his edges, as the graph has them */
    double *kernel;       /* [ball.n] NaN: not computed */
    /* Until `finish`: */
    struct kb_graph_ref *graph;
    struct kb_user_kernel *own;
};

/* At most `limit` >= 1 users within `hops` edges. Whom the graph does not know is by himself. Under the readers' lock.
 * KB_ENOMEM: nothing to close. O(limit^2 log n). */
enum kb_err kb_near_look(const struct kb_engine *e, const char *user, uint32_t hops, size_t limit, struct kb_near *out);
/* The rest of `kernel`, as far as goes_on lets it (kb_user_kernel_values); without any lock. KB_ENOMEM, KB_ENOTPD. */
enum kb_err kb_near_finish(struct kb_near *n, bool (*goes_on)(void *arg), void *arg);
void kb_near_close(struct kb_near *n);

/* Whether `finish` may have systems to solve: the model rests on a graph that is too large to be inverted. Under the
 * readers' lock. O(1). */
bool kb_near_is_solved(const struct kb_engine *e);

#endif
