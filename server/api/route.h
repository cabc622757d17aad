/* The routes: one const table of method, path, body, role and handler. */
#ifndef LD_ROUTE_H
#define LD_ROUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tenant/tenant.h"
#include "types/roles.h"

struct ld_call;
struct ld_reply;

/* What a route takes as its body, and which of the options caps it. */
enum ld_body {
    LD_BODY_NONE,    /* a body is read and ignored */
    LD_BODY_JSON,    /* --max-body */
    LD_BODY_MERGE,   /* the same, or a merge patch */
    LD_BODY_OBSERVE, /* JSON, or NDJSON up to --max-observe-body */
    LD_BODY_BULK,    /* JSON or NDJSON, --max-bulk-body */
    LD_BODY_PATCH,   /* JSON only, --max-bulk-body */
    LD_BODY_LOG,     /* NDJSON in a file, --max-import-body */
    LD_BODY_DATABASE /* a tenant's file, likewise */
};

/* Where a handler runs. */
enum ld_place {
    LD_IN_SERVING,  /* the thread that serves HTTP; bodies that are long, on the pool */
    LD_ON_POOL,     /* it waits for the disk, or computes for long */
    LD_AS_TRANSFER, /* it may take minutes (LD_TRANSFERS) */
};

/* What answering a route takes: its price (call.h). */
enum ld_work {
    LD_WORK_TOLD,    /* the handler asks, who knows what is in the body or the query */
    LD_WORK_REQUEST, /* small */
    LD_WORK_MODEL,   /* of the order of a factorisation */
    LD_WORK_LOOK,    /* reads much and computes little */
    LD_WORK_COPY,    /* reads the whole log */
    LD_WORK_FOLD     /* folds it */
};

/* The tenant that is in memory before the handler is called; 404 where there is none. */
enum ld_route_tenant {
    LD_TENANT_NOT_OPENED, /* none, or one that is not needed there */
    LD_TENANT_OF_PATH,
    LD_TENANT_OR_NEW,    /* of the path; it need not be there */
    LD_TENANT_OF_HEADER, /* Laplaced-Tenant, else the key's, else --default-tenant */
    LD_TENANT_TO_REPLACE /* the same, and not opened */
};

/* Name of the tenant in the path, cut to one byte more than a valid name may have. */
#define LD_PATH_TENANT_BYTES 66

/* What holds for all paths below a root, whose protocol is not ours (flag_door.c, rank_door.c). */
struct ld_door {
    const char *root;
    const char *key_header; /* its clients may send their key there */
    /* In `admit`, before anything is refused. True: it has answered. */
    bool (*enter)(struct ld_call *c);
};

struct ld_route {
    const char *method;
    const char *path; /* {t}, {p}, {f}, {i} stand for one segment: the tenant's name, a problem's, a file's, an event's
                         id; {v} for a version of another protocol; {u}, {k}, {d}, {e}, at the end, for the rest: the id
                         of a user, a key, a decision, an evaluation */
    enum ld_body body;
    enum ld_role role; /* that the caller's key must have */
    enum ld_place place;
    enum ld_route_tenant opens;
    enum ld_work work; /* for the tenant, which pays for it */
    /* True: dispatch sends *out. False: the call was passed on (call.h). NULL: an op of the type below is queued. */
    bool (*handle)(struct ld_call *c, struct ld_reply *out);
    enum ld_op_type op;
    const struct ld_task_kind *task; /* of LD_OP_TASK */
    /* Fills that op, for which the doc is parsed already. False with *p. NULL: there is nothing to fill in. */
    bool (*fill)(struct ld_call *c, struct ld_op *op, struct ld_problem *p);
    const struct ld_door *door; /* NULL: the protocol is ours */
};

extern const struct ld_route ld_routes[];
extern const size_t ld_n_routes;

extern const struct ld_door ld_flag_door, ld_rank_door;
extern const struct ld_door *const ld_doors[];
extern const size_t ld_n_doors;

/* Of a path that has no route of that method; NULL: none. */
const struct ld_door *ld_door_of(const char *path);

/* A parameter of a route's query: a whole number from min to max, `preset` where it is left out; or a text, which the
 * handler knows: max is 0. */
struct ld_query {
    const char *method, *path; /* of the route */
    const char *name;
    uint64_t min, max, preset;
};

extern const struct ld_query ld_queries[];
extern const size_t ld_n_queries;
#define LD_MAX_QUERIES 8 /* of one route */

/* NULL: the route takes no parameter of that name. */
const struct ld_query *ld_route_query(const struct ld_route *route, const char *name);

#define LD_ALLOW_BYTES 64

static inline bool ld_route_reads_header(const struct ld_route *route)
{
    return route->opens == LD_TENANT_OF_HEADER || route->opens == LD_TENANT_TO_REPLACE;
}

/* Row of ld_routes for the request, or -1: then allow lists the methods of the path ("" when there is none). HEAD
 * finds the row of GET. */
int ld_route_find(const char *method, const char *path, char allow[LD_ALLOW_BYTES]);

/* What stands at {u}, {k} or {d} of the route's path, decoded; "" without one. More than KB_ID_MAX_BYTES for what is
 * longer than any id. */
#define LD_PATH_REST_BYTES 258
void ld_route_rest(const struct ld_route *route, const char *path, char out[LD_PATH_REST_BYTES]);

/* Whether an escaped slash or percent sign stands where no name can have it. route NULL: the path is none of ours. */
bool ld_route_hides(const struct ld_route *route, const char *path);

/* The segment at {t} of the route's path. */
void ld_route_tenant(const struct ld_route *route, const char *path, char out[LD_PATH_TENANT_BYTES]);

#endif
