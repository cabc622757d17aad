/* A tenant: an engine, its file, its queue, and the lock between its readers and its one writer.
 *
 * /select is computed by the thread that handles the request, under the lock for decisions. Whatever changes the model
 * is an ld_op on the tenant's queue. One writer's thread at a time (turns.h) takes what waits, reserves it, appends it
 * in one transaction, applies it under the write lock, and answers. */
#ifndef LD_TENANT_H
#define LD_TENANT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/message.h"
#include "base/ids.h"
#include "base/limit.h"
#include "base/problem.h"
#include "types/promotion.h"
#include "types/requests.h"
#include "types/settings.h"
#include "store/store.h"
#include "base/trace.h"

struct ld_books;
struct ld_evaluation_request;
struct ld_shared_log;
struct ld_task_kind;
struct ld_tenant;
struct ld_sched;
struct ld_turn;
struct ld_metrics;
struct ld_progress;
struct ld_books;

enum ld_op_type {
    LD_OP_EVENT,
    LD_OP_REWARDS,
    LD_OP_OBSERVE,
    LD_OP_ACTIVATE,
    LD_OP_SETTINGS,
    LD_OP_PATCH,   /* some fields of the configuration; the document has the patch */
    LD_OP_SWITCH,  /* the tenant's switch */
    LD_OP_PROMOTE, /* a challenger into force, or out again */
    LD_OP_REBUILD, /* the model anew from the history; answered when that has begun */
    LD_OP_TASK,    /* work beside the writer, of the op's kind (task.h); answered when that has ended */
};

/* A unit of work for the writer, answered once by done(). The doc holds all memory of what it names. */
struct ld_op {
    struct ld_op *next;
    enum ld_op_type type;
    const struct ld_task_kind *task; /* TASK */
    struct ld_doc *doc;              /* owned by the op */
    size_t bytes;                    /* of the body that it was made from */
    char by[17];                     /* the id of the key that asked; "": none was asked for, or it has no id */
    uint32_t dims_epoch;             /* of the tenant when vectors were decoded */
    uint32_t arms_epoch;             /* EVENT decided: of the catalogue that it was made among */
    uint32_t n_among;      /* EVENT decided: candidates, which its line tells where that is another one by then */
    struct kb_event event; /* EVENT: decided, graph, arms */
    const struct ld_select *again; /* EVENT decided, with a shared log: the request (the document's), and what the */
    uint64_t seen_seq, version;    /* decision rests on: the last event, and the configuration */
    bool is_drafted;               /* EVENT graph: made beside the writer */
    uint64_t line;                 /* and what of its row is written already (batch.h) */
    char *answer;                  /* EVENT decided: the answer to give (owned) */
    size_t n_answer;
    size_t n_tagged;                /* EVENT decided: bytes of a flag's answer that say what is shown, */
    bool is_settled;                /* and whether they would be the same again */
    bool is_plain;                  /* EVENT decided: its answer is that of POST /select */
    bool is_named;                  /* decided with the caller's id: look for an earlier one, keep the answer */
    bool is_stopping;               /* SWITCH: off; else on again */
    struct ld_promotion promotion;  /* PROMOTE: what settings are made of */
    char user[KB_ID_MAX_BYTES + 1]; /* TASK: erasure. EVENT decided for a proxy: the arm told in place of a refusal */
    uint64_t keep_events;           /* TASK: compaction: of the last ones, so many stay as they are */
    struct ld_evaluation_request
        *evaluation;           /* TASK: one that is to begin (owned); NULL: the one that `user` names is to go */
    char *location;            /* the path of what is made, owned; NULL: nothing is */
    struct ld_reward *rewards; /* REWARDS. ACTIVATE: whose newest, instead of a decision's id; NULL: nobody's */
    struct kb_event *events;   /* OBSERVE */
    size_t n;                  /* of rewards or events */
    bool is_array;
    /* Filled by the writer: */
    char *reply; /* JSON text, owned; NULL: no content */
    size_t n_reply;
    int reply_status;
    void (*done)(struct ld_op *op); /* called once, from the writer's thread, which frees nothing: op is the callee's */
    void *arg;
    struct ld_trace trace; /* of the request that it came with, for what is logged of it later */
    /* The writer's own: */
    struct ld_reward_result *results; /* REWARDS: one per reward, in doc */
    size_t n_known;                   /* OBSERVE: items that the log had already */
    bool is_unsure;                   /* it may be in the shared log, though it was lost here */
    size_t n_done, n_safe;            /* items dealt with, and how many of those no failing commit can undo */
    /* Large, and made when needed; owned: */
    struct ld_settings *settings;     /* SETTINGS; by the writer: of what else makes a configuration. Else NULL */
    const struct ld_problem *problem; /* never NULL; status 0: success */
};

/* The op's problem, to be filled in; by whoever has the op. Without memory for it the op is refused with 503. */
struct ld_problem *ld_op_problem(struct ld_op *op);
void ld_op_forgive(struct ld_op *op); /* it has none any more */

struct ld_op *ld_op_new(enum ld_op_type type);
void ld_op_free(struct ld_op *op);

/* Surroundings that every tenant shares. What is atomic may change at any time (reload.c). */
struct ld_world {
    struct ld_sched *sched;
    struct ld_metrics *metrics;
    struct ld_pace *pace;       /* of commits; NULL: they wait for nobody */
    void (*hold_answers)(void); /* before many answers in a row, and after them (http.h); NULL: each goes by itself */
    void (*send_answers)(void);
    const char *data_dir;
    /* Of requests that name none, made with a new folder; "": none, NULL: `default`. */
    const char *default_tenant;
    struct ld_progress *progress;     /* of openings (recover.h); NULL: nobody looks */
    int64_t (*now_ms)(void);          /* wall clock, replaceable in tests */
    atomic_size_t max_queue;          /* ops waiting per tenant before 503 */
    atomic_size_t max_queue_bytes;    /* bytes of their bodies, and of vectors of names, likewise; 0: any */
    atomic_size_t max_feature_bytes;  /* of the vectors that the objects of one body become; 0: any */
    atomic_size_t max_opening;        /* requests that wait for one tenant to be opened, likewise */
    atomic_size_t max_pending;        /* open decisions per tenant before 503 */
    _Atomic uint64_t snapshot_events; /* log rows between snapshots */
    bool verify_on_start;             /* compare the snapshot's digest with a fresh fold, whenever a tenant is opened */
    atomic_size_t memory_cap;         /* of all tenants together: beyond it idle ones are closed; 0: none */
    atomic_size_t tenant_quota; /* bytes of one tenant's model, beyond which what would take more is refused; 0: none */
    _Atomic double rate, burst; /* of a tenant's requests (limit.h), where nobody has set another for it */
    _Atomic double inline_work; /* multiply-adds that a change of the model may take in the writer's turn */
    const struct ld_book_kind *const *books; /* kept for each tenant (book/book.h); NULL: none */
    int64_t log_wait_ms;                     /* how long a change waits for it */
    struct ld_shared_log *shared; /* the log that several servers share (shared_log.h); NULL: each file is one */
    const char *node;             /* and this server's name in it */
    bool is_finishing_builds;     /* the rest is done in that turn as well, before its answers (background.c) */
};

/* Of a tenant that nobody has open: lines of the shared log that were rewritten come into its copy, and nothing is
 * folded. The rewriting that the copy has then; where it could not be renewed, the one that it had. */
uint64_t ld_tenant_renew_closed(const struct ld_world *world, const char *name);
/* Opens DATA/tenants/NAME.db, recovering snapshot + tail; a new file starts with `initial` as its first event.
 * 0 or an LD_STORE_* code; why says what and which file. */
int ld_tenant_open(struct ld_tenant **out, const struct ld_world *world, const char *name,
                   const struct ld_settings *initial, struct ld_message *why);

/* References: a tenant stays usable while held, even when deleted meanwhile (its ops then answer 404). */
struct ld_tenant *ld_tenant_hold(struct ld_tenant *t);
void ld_tenant_release(struct ld_tenant *t);

/* From now on every op answers 404, and the last release removes the files. */
void ld_tenant_doom(struct ld_tenant *t);
/* The same of one whose name is another's by now: who waits is to ask again. */
void ld_tenant_give_way(struct ld_tenant *t);
#define LD_EXCHANGED "another tenant has taken this one's place: ask again; nothing was recorded"
size_t ld_tenant_n_holders(const struct ld_tenant *t);

const char *ld_tenant_name(const struct ld_tenant *t);

/* Dimensions of contexts and features, with the epoch that changes when they do, or the mapping of names: that goes to
 * the document whose vectors are to be decoded, NULL: none. */
uint32_t ld_tenant_dims(struct ld_tenant *t, struct ld_doc *doc, uint32_t *context_dim, uint32_t *arm_dim);

/* Whether answers of Personalizer's Rank are to say which features moved a score. */
bool ld_tenant_explains(struct ld_tenant *t);

/* Computes a decision in the calling thread under the lock for decisions. On success: a dry run fills op->reply;
 * otherwise op holds the decided event and the answer, ready for ld_tenant_submit. 0, or -1 with *p. */
int ld_tenant_select(struct ld_tenant *t, const struct ld_select *select, const char *decision, struct ld_op *op,
                     struct ld_problem *p);

/* With a shared log, in the writer's turn: whether what the decision rests on has changed since, and the same request
 * decided by what holds now. 0, or -1 with *p; the op may have its whole answer in `reply` then. */
bool ld_tenant_is_stale(const struct ld_tenant *t, const struct ld_op *op);
int ld_tenant_select_again(struct ld_tenant *t, struct ld_op *op, struct ld_problem *p);

/* What the model thinks of each user with each arm, as POST /tenants/{t}/posterior answers, into *out; of one moment,
 * under the lock for decisions. dims_epoch: of the moment when the body was decoded. 0; -1 with *p; 1: the dimensions
 * are others by now. */
struct ld_text;
int ld_tenant_ask(struct ld_tenant *t, const struct ld_ask *ask, uint32_t dims_epoch, struct ld_text *out,
                  struct ld_problem *p);
/* Multiply-adds that naming neighbours takes besides. Waits for an apply at most. */
double ld_tenant_neighbours_work(struct ld_tenant *t);

/* Puts op on the queue; done() will be called exactly once, possibly before this returns. When the queue is full,
 * the tenant closing, or the server draining for good, done() is called at once with problem 503. */
void ld_tenant_submit(struct ld_tenant *t, struct ld_op *op);

/* Consistent reading: the engine and settings are stable between lock and unlock. */
const struct kb_engine *ld_tenant_read_lock(struct ld_tenant *t, const struct ld_settings **settings);
void ld_tenant_read_unlock(struct ld_tenant *t);
/* Under the read lock: a number that changes when the catalogue of arms does. */
uint32_t ld_tenant_arms_epoch(const struct ld_tenant *t);
struct ld_store *ld_tenant_store(struct ld_tenant *t);
/* For who reads one (books.h), which has a lock of its own. */
struct ld_books *ld_tenant_books(struct ld_tenant *t);
/* The last event that is applied. No lock. */
uint64_t ld_tenant_tip(const struct ld_tenant *t);
/* How long its log is, and its files. No lock. */
void ld_tenant_log(const struct ld_tenant *t, struct ld_log_view *out);

/* How far large changes of its graph are; and that one is being read, from its beginning to its end. No lock. */
void ld_tenant_graph(const struct ld_tenant *t, struct ld_graph_view *out);
void ld_tenant_read_graph(struct ld_tenant *t, bool is_over);

bool ld_tenant_is_failing(const struct ld_tenant *t); /* the last commit failed */
/* The line that no fold takes, of a tenant that is served as it was before it and takes no changes (repair.h), and what
 * the fold said of it; 0: the tenant is like any other. */
uint64_t ld_tenant_read_only(const struct ld_tenant *t, const char **fault);
bool ld_tenant_is_rebuilding(const struct ld_tenant *t); /* the writer builds a new model; the old one serves */
/* Since when changes wait without that the writer has answered any: monotonic, us; 0: none wait. */
int64_t ld_tenant_waiting_since(const struct ld_tenant *t);
/* Rewards that found no decision (books.h). No lock. */
uint64_t ld_tenant_unknown_rewards(const struct ld_tenant *t);
size_t ld_tenant_queue_depth(const struct ld_tenant *t);
size_t ld_tenant_queue_bytes(const struct ld_tenant *t); /* of the bodies of what waits */

/* Memory of the model, of the file's connections and of what waits, as of the writer's last turn. */
size_t ld_tenant_bytes(const struct ld_tenant *t);
/* How large a tenant is. */
struct ld_size {
    size_t points, active_arms; /* points: kb_posterior_width */
    uint64_t learned;
    uint32_t dims;
};

/* What the prices of its requests depend on (api/call.h), as of the same moment; and what they are paid from. */
void ld_tenant_size(const struct ld_tenant *t, struct ld_size *out);
struct ld_bucket *ld_tenant_bucket(struct ld_tenant *t);
/* A rate of its own; NULL: none, the world's holds. */
void ld_tenant_set_rate(struct ld_tenant *t, const struct ld_rate *own);
/* How many of its requests wait for a thread of the pool; beside.c counts. */
atomic_size_t *ld_tenant_n_served(struct ld_tenant *t);
/* Whether it may be closed: only for who has its one hold, and while nobody can get another. */
bool ld_tenant_is_idle(const struct ld_tenant *t);

/* With a shared log: others may have written; the writer is asked to read on. From any thread. */
void ld_tenant_follow(struct ld_tenant *t);
/* What the shared log has said of its last line; one thread's. Whether that is applied here. */
bool ld_tenant_see_head(struct ld_tenant *t, uint64_t head);
/* How far behind that the tenant is. Any thread. */
struct ld_lag {
    uint64_t events;
    int64_t us; /* since when it has not come to the end that it was then told of */
};
void ld_tenant_lag(const struct ld_tenant *t, struct ld_lag *out);
/* What a server knows of a tenant's place in the shared log. Any thread. */
struct ld_tenant_shared {
    uint64_t id;         /* the tenant's in it; another one under the same name is another tenant */
    uint64_t seq;        /* the last line that is applied */
    bool is_forked;      /* the shared log has other lines: no change is taken */
    bool is_followed;    /* the last time that it was asked, it told all that it had */
    uint64_t generation; /* the last rewriting of it that is here, with nothing left of what was before; 0: not now */
};
void ld_tenant_shared(const struct ld_tenant *t, struct ld_tenant_shared *out);

/* Whether the configuration has work that one server does for all, and whether that is this one: always, where no log
 * is shared. */
bool ld_tenant_has_held_work(const struct ld_tenant *t);
bool ld_tenant_is_held(const struct ld_tenant *t);
void ld_tenant_set_held(struct ld_tenant *t, bool is_held);

/* In a writer's thread (turns.h): one turn; whether more waits afterwards. */
bool ld_tenant_run_writer(struct ld_tenant *t);
/* Before the scheduler stops: models that are being built are left as they are, to be begun again at the next start. */
void ld_tenant_halt(struct ld_tenant *t);
/* The timer's, for windows that have closed. */
void ld_tenant_tick(struct ld_tenant *t, int64_t now_ms);
/* At shutdown, when no op is in flight: the last snapshot, and the log's end. */
void ld_tenant_checkpoint(struct ld_tenant *t);

#endif
