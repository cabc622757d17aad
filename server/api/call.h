/* A request on its way to its handler, and what handlers share.
 *
 * A handler fills the reply and returns true: dispatch sends it. Where it has passed the call on (to the tenant's
 * writer, to another thread, to a stream) it returns false, and touches neither call nor request any more. */
#ifndef LD_CALL_H
#define LD_CALL_H

#include "api/route.h"
#include "api/server.h"
#include "json/json_in.h"
#include "json/json_out.h"

/* The media type of a body. */
enum ld_media { LD_MEDIA_JSON, LD_MEDIA_MERGE_PATCH, LD_MEDIA_NDJSON, LD_MEDIA_DATABASE, LD_MEDIA_OTHER };

/* What dispatch has found out about the request, once. It lives as long as the request: until the reply. */
struct ld_call {
    struct ld_tenant_wait wait; /* of beside.c; the first */
    struct ld_server *server;
    struct ld_request *request;
    const struct ld_route *route;    /* NULL: there is none */
    const struct ld_door *door;      /* of the path; NULL: the protocol is ours */
    struct ld_caller caller;         /* whose key it is */
    char name[LD_PATH_TENANT_BYTES]; /* of the tenant that it is about; "": of none. Too long a name is cut, and none */
    struct ld_tenant *tenant;        /* held until the handler returns; NULL: of none, or of one to be made */
    enum ld_media media;             /* of the body that the route takes */
    bool is_labelled;                /* it was told, and is not that of a form */
    const char *flag_code;           /* of a flag that is refused: OpenFeature's error code; NULL: the status says it */
    bool is_of_2022;                 /* rank_door.c: in the words of that service's 2022-09-01-preview */
    int64_t edited_ms;               /* likewise: when the tenant was configured last */
    struct ld_header headers[6];     /* [n_headers] of its answer (flag_door.c) */
    size_t n_headers;
    char origin[128]; /* of the page that asks */
    char etag[24];
    /* after.c: of a server that shares a log. */
    struct ld_call *next_after;
    uint64_t after; /* the line that it waits for */
    int64_t until_us;
    char seq[24];                 /* that its answer tells */
    bool is_let_in;               /* it may know how far its tenant is */
    bool was_waiting, is_counted; /* for its tenant; among those of its tenant in the line (beside.c) */
};

/* Who calls, into c->caller, and which tenant the call is about. Each false with *p: 401; 403, or 404 for a
 * tenant of others. */
bool ld_access_identify(struct ld_call *c, struct ld_problem *p);
bool ld_access_allow(const struct ld_call *c, struct ld_problem *p);

/* stray.c. Requests that say what nobody reads (parameters that the route does not take, a tenant named by another
 * header than Laplaced-Tenant) were meant for something else than they would do: false with 400. In `admit`. */
/* What servers that share a log cannot do yet: 501. */
void ld_problem_alone(struct ld_problem *p, const char *what);
#define LD_STRAY_LETTERS "ltx" /* a header that begins with none of them is none */
bool ld_stray_query_allow(const struct ld_call *c, struct ld_problem *p);
bool ld_stray_header_allow(const struct ld_call *c, struct ld_problem *p);

/* after.c. Whether the call waits for a line of the log (Laplaced-After), or was refused for what it says of one; it is
 * passed on then. */
bool ld_after_waits(struct ld_call *c);
/* dispatch.c. Calls the handler, or refuses for it, and lets the tenant go. */
void ld_call_run(struct ld_call *c);
/* dispatch.c. What the route costs; false after a 429. Where there is no tenant nobody pays. */
bool ld_call_pay(struct ld_call *c);

/* beside.c. The call waits for its tenant, without a thread, or was refused; false: there is no such tenant. */
bool ld_call_await(struct ld_call *c);
/* Goes on with a call that has waited, or refuses it. */
void ld_call_resume(struct ld_call *c, const struct ld_problem *p);
/* Refuses it and lets its tenant go; the call may be gone afterwards. */
void ld_call_give_up(struct ld_call *c, const struct ld_problem *p);
/* Its handler is called on the pool, or it is refused. */
void ld_call_put_on_pool(struct ld_call *c);

/* beside.c. From a handler that finds its work too long for a thread that serves HTTP: the call is passed on to the
 * pool, where the handler is called again and ld_request_is_kept. */
void ld_call_beside(struct ld_call *c);

/* api_decide.c. Whether a decision of that price is to go there: what takes longer would hold up every connection of
 * the thread that serves this one, other tenants' too. */
bool ld_call_is_long(const struct ld_call *c, double price);

/* Instead of ld_reply_problem, where a route may answer a refusal otherwise (api_route.c). */
void ld_call_refuse(struct ld_call *c, const struct ld_problem *p);

/* api_decide.c. A decision of the body in op->doc, decoded and computed: 0, perhaps with a refusal that the writer is
 * to confirm, or -1 with *p; 1: nothing was done or paid, and the request is to be handled beside the serving threads.
 */
int ld_call_decide(struct ld_call *c, struct ld_op *op, struct ld_select *select, struct ld_problem *p);

/* --- what handlers share (call.c) ---------------------------------------------------------------------------- */

/* flag_door.c. The answer has an entity tag: in c->etag. Before the reply. */
void ld_flag_tag(struct ld_call *c);
/* A status that clients of other protocols know for one of ours: 400, 401, 403, 404, 429 or 500. */
int ld_door_status(int status);
/* rank_door.c. Of an operation of that service that is not here: *p, in its form. */
void ld_rank_tell_missing(struct ld_call *c, struct ld_problem *p);
/* Whether the query names the version, of a path that does not: else 400. */
bool ld_rank_version_allow(const struct ld_call *c, struct ld_problem *p);
/* The times of the first and the last line of those types (0: any). Without any: INT64_MIN. False: the log cannot be
 * read. */
bool ld_rank_find_span(struct ld_tenant *t, unsigned types, int64_t span[2]);
/* api_personalizer_settings.c. The tenant as it is now, in *doc. False with *p. An op's end without an answer's text;
 * and what a PUT of that policy is, with 204. */
struct ld_told_tenant;
bool ld_rank_look(struct ld_call *c, struct ld_doc **doc, struct ld_told_tenant *out, struct ld_problem *p);
void ld_rank_done(struct ld_op *op);
bool ld_rank_put_policy(struct ld_call *c, const char *text, size_t n, struct ld_reply *out);
/* api_evaluation.c. The evaluation of that id, as a handler tells it. */
bool ld_evaluation_tell(struct ld_call *c, const char *id, struct ld_reply *out);
/* A list of origins as an option has it: 0, or -1 with why. */
int ld_origins_check(const char *list, struct ld_message *why);

/* api_decide.c. What naming neighbours costs besides, into *price; 0 where nobody asked (n 0). False with *p: 403, or
 * 400 where it would be too much work. They are other users, with their rewards: for whoever may read. */
bool ld_call_price_neighbours(const struct ld_call *c, uint64_t n, double *price, struct ld_problem *p);

/* The body as a document, with its numbers bounded. 0, or -1 with *p. */
int ld_call_parse(const struct ld_call *c, struct ld_doc **doc, struct ld_problem *p);

/* A new op of the type, with the body that the route takes as its doc; NULL with *p. */
struct ld_op *ld_call_op(const struct ld_call *c, enum ld_op_type type, struct ld_problem *p);

/* The same with a text in the place of the body, which is freed; NULL: it could not be had, and *p may say why. */
struct ld_op *ld_call_op_of(const struct ld_call *c, enum ld_op_type type, char *text, size_t n, struct ld_problem *p);

/* Queues the op; its outcome becomes the reply, or goes to its own done() where it has one. Takes the op, and passes
 * the call on. t is the call's tenant, or one that was made for it. */
void ld_call_submit(struct ld_call *c, struct ld_tenant *t, struct ld_op *op);
/* The same to the call's tenant, with such a done(), whose arg is the request. False, for a handler to return: its
 * reply comes later. */
bool ld_call_submit_by(struct ld_call *c, struct ld_op *op, void (*done)(struct ld_op *op));

/* --- what it costs (call.c) ----------------------------------------------------------------------------------- */

/* What requests cost, in tokens of the tenant's bucket (limit.h): the one place that says so.
 *
 * One token is about 0.1 ms of one core: what a small request takes on its way through HTTP, or a million
 * multiply-adds, or the way of ten events into the log. With m points in the model (distinct points of an exact one,
 * points of a dictionary; where arms are held apart those of an arm, in the mean of their squares; 1 without a factor)
 * and d coordinates of context and arm together:
 *
 *     any request                                1
 *     /select among C candidates, or a           1 + C (m^2 + m d) / 10^6
 *     /posterior of C users times arms, or of as many features
 *     /select of S slots among C candidates      1 + S C (m^2 + m d) / 10^6
 *     `neighbours` with either of them           and w / 10^6 for w multiply-adds
 *     n rewards, or observations                 1 + n (1/10 + (3 m^2 + m d) / 10^6)
 *     n edges, users or arms                     1 + n / 100
 *     /graph/near, of up to n users              10 + n / 100; over a graph of more than 2,048 users 10 + 10 n
 *     /model                                     1 + m^3 / 10^6
 *     /events, of up to n lines                  1 + n / 100; a stream 1, and n / 100 whenever n lines are sent
 *     /stats, /series, /decisions, GET of graph and arms              10
 *     a fold or a copy of the log: /verify,      1 + t (1/100 + (3 m^2 + m d) / 10^6), t rewards learned so far
 *     /rebuild, /compact, /replay, PUT of a configuration,
 *     DELETE of a user; /snapshot, /export       (these two 1 + t / 100)
 *
 * Sizes are those of the writer's last turn. Nothing costs more than the burst: what would, asks for a full bucket. */
/* Candidates 0: the whole catalogue; slots 0: as 1. */
double ld_price_decision(const struct ld_size *size, size_t n_candidates, size_t n_slots);
double ld_price_neighbours(double work);        /* of so many multiply-adds, in addition */
double ld_price_lines(uint64_t n);              /* of the log, or edges, users, arms */
double ld_price_near(size_t n, bool is_solved); /* is_solved: each of them takes a system */
double ld_price_fold(const struct ld_size *size);

/* Of a route, by what its row says; 0: the handler asks. */
double ld_price_work(const struct ld_size *size, enum ld_work work);

/* Takes the tokens from the tenant's bucket (limit.h), before any of the work is done. False: they are not
 * there; then none was taken, and p says 429 and when to come again. Where there is no tenant, nobody pays. */
bool ld_charge(struct ld_call *c, double tokens, struct ld_problem *p);
bool ld_charge_fold(struct ld_call *c, struct ld_problem *p);
/* For n rewards or observations, or what costs as little as none. */
bool ld_charge_events(struct ld_call *c, size_t n, struct ld_problem *p);
/* The same for a request whose body nobody has looked at: takes what the route costs or, where that depends on the
 * body, looks whether the least of it is there, so that a tenant over its rate costs next to nothing. */
bool ld_charge_route(struct ld_call *c, struct ld_problem *p);

/* --- what path and query say (params.c) ------------------------------------------------------------------------ */

/* The number in a parameter that the route has (route.h: ld_queries). 0, or -1 with 400. */
int ld_call_number(const struct ld_call *c, const char *name, uint64_t *out, struct ld_problem *p);

/* The words in a parameter, with commas between them, as bits; 0 without it. `words` begins with none. 0, or -1 with
 * 400.
 */
int ld_call_words(const struct ld_call *c, const char *name, const struct kb_words *words, unsigned *out,
                  struct ld_problem *p);

/* The one word in a parameter, by its place; `preset` without it. 0, or -1 with 400. */
int ld_call_word(const struct ld_call *c, const char *name, const struct kb_words *words, int preset, int *out,
                 struct ld_problem *p);

/* The id of a user or an arm in a parameter, which must be there; borrowed. NULL with 400. */
const char *ld_call_id(const struct ld_call *c, const char *name, struct ld_problem *p);

/* What stands at {u} or {k} of the path (ld_route_rest). */
void ld_call_rest(const struct ld_call *c, char out[LD_PATH_REST_BYTES]);

/* Whether a tenant of that name may be made of a file; else *p. Known before any work is done, and asked again by
 * ld_tenants_adopt, which alone decides. */
bool ld_call_may_make(const struct ld_call *c, const char *tenant, struct ld_problem *p);
/* 400 for a name that no tenant can have. */
bool ld_call_check_name(const char *tenant, struct ld_problem *p);

#endif
