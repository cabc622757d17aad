/* A neighbourhood of the graph as GET /tenants/{t}/graph/near shows it. Kernel values that were not computed are null.
 */
#include "json/json_out_near.h"

#include <string.h>

#include "json/json_util.h"

static void put_users(struct ld_text *t, const struct kb_near *near, const char *names)
{
    ld_text_key(t, "users");
    ld_text_lit(t, "[");
    for (size_t i = 0; i < near->ball.n; i++) {
        ld_text_item(t);
        ld_text_lit(t, "{");
        ld_text_put_string(t, "id", names);
        ld_text_put_count(t, "hops", near->ball.hops[i]);
        ld_text_put_number(t, "degree", near->degree[i]);
        ld_text_put_known(t, "kernel", near->kernel[i]);
        ld_text_lit(t, "}");
        names += strlen(names) + 1;
    }
    ld_text_lit(t, "]");
}

static void put_edges(struct ld_text *t, const struct kb_ball *b)
{
    ld_text_key(t, "edges");
    ld_text_lit(t, "[");
    for (size_t i = 0; i < b->n_edges; i++) {
        ld_text_item(t);
        ld_text_lit(t, "{");
        ld_text_put_count(t, "from", b->edge[i].from);
        ld_text_put_count(t, "to", b->edge[i].to);
        ld_text_put_number(t, "weight", b->edge[i].weight);
        ld_text_lit(t, "}");
    }
    ld_text_lit(t, "]");
}

char *ld_encode_near(const struct kb_near *near, const char *names, uint64_t hops, size_t *n)
{
    struct ld_text t;

    ld_text_init(&t);
    ld_text_lit(&t, "{");
    ld_text_put_string(&t, "user", names);
    ld_text_put_count(&t, "hops", hops);
    ld_text_put_bool(&t, "truncated", near->ball.is_truncated);
    put_users(&t, near, names);
    put_edges(&t, &near->ball);
    ld_text_lit(&t, "}");
    return ld_text_take(&t, n);
}
