/* Changes of a tenant's user graph that are large: made beside the writer, one after the other, in the order in which
 * they came. Part of tenant_impl.h. */
#ifndef LD_GRAPH_CHANGE_H
#define LD_GRAPH_CHANGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct ld_op;
struct ld_tenant;

enum ld_graph_stage {
    LD_GRAPH_RESTS,
    LD_GRAPH_MAKING, /* the job has the first op */
    LD_GRAPH_MADE    /* it has come back; a long row goes into the file, a piece in each turn */
};

/* The writer's own, but for what the job writes while it runs. */
struct ld_graph_changes {
    enum ld_graph_stage stage;
    struct ld_op *first, *last; /* in order; the first is being made */
    atomic_size_t n, n_read;    /* in the line; and whose bodies are being read */
    _Atomic double progress;    /* of what is done for the first */
    atomic_bool is_writing;
    /* The job's results, and the draft in the op's event: */
    enum kb_err rc;
    struct kb_errmsg msg;
    uint32_t engine_epoch; /* of the engine that it was made for */
    char *text;            /* of the row, but for its head, where it is long; NULL: it is not, or is written */
    size_t n_text, n_written;
};

#endif
