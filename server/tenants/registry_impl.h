/* Inside of the registry, shared by registry*.c only.
 *
 *   registry.c           life, the table, look-ups
 *   registry_start.c     which tenants there are, from the folder
 *   registry_opening.c   opening at the first use, and those who wait for it
 *   registry_closing.c   memory: which tenant goes when there is too little
 *   registry_change.c    creation and removal
 *   registry_repair.c    a log that no fold takes to its end
 *   registry_rates.c     rates of their own
 *   registry_nodes.c     the other servers of a shared log
 *   registry_renewals.c  what they have rewritten in it
 *   registry_common.c    what they have in common beside it
 *   registry_held.c      what one of them does for all
 *   registry_import.c    tenants that come whole
 *   registry_waiting.c   requests for names that only those may know; making and deleting tenants there
 *
 * A tenant is a member of the table whether or not it is in memory:
 *
 *     CLOSED -- asked for --> WAITING -- taken by an opener --> OPENING --> OPEN, or FAILED
 *     OPEN   -- least used, idle --> CLOSING --> CLOSED, or WAITING when somebody asked meanwhile
 *     FAILED -- asked for, after a pause --> WAITING
 *
 * All of it moves under `lock`, held for writing. In OPENING and CLOSING the member belongs to the thread that does it:
 * a removal then only marks it, and that thread frees it. Nothing is opened, closed or answered under the lock. */
#ifndef LD_REGISTRY_IMPL_H
#define LD_REGISTRY_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/message.h"
#include "store/folder.h"
#include "tenants/registry.h"

/* One tenant, in memory or not. */
struct ld_member {
    char name[LD_NAME_MAX + 1];
    enum ld_tenant_state state;
    bool is_removed;                     /* out of the table: whoever is at work on it frees it */
    bool is_replaced;                    /* likewise: another tenant of the shared log has its name */
    struct ld_tenant *tenant;            /* OPEN: held */
    size_t n_waiting;                    /* in that list */
    struct ld_tenant_wait *first, *last; /* WAITING, OPENING, CLOSING: who is to be told */
    struct ld_member *next;              /* WAITING: in the line */
    bool has_rate;                       /* an operator has set one */
    struct ld_rate rate;
    int64_t bucket_state;     /* not in memory: what its requests had taken (limit.h) */
    _Atomic uint64_t tip;     /* likewise: the last event, when it was closed; 0: it was not open yet */
    _Atomic uint64_t used_at; /* the registry's tick of the last use */
    uint64_t shared_id;       /* in the shared log; 0: none, or not seen there yet. Set by the thread that asks it */
    int64_t held_us;          /* likewise: when what one server does for all is to be asked for again */
    uint64_t generation;      /* likewise: the last rewriting that its files are known to have */
    int64_t renew_us;         /* likewise: its copy is not to be read anew again before */
    bool is_lost;             /* likewise: the log had it, and says now that it never did */
    /* FAILED: */
    int failure;      /* LD_STORE_* */
    char *why;        /* may be NULL, for want of memory */
    int64_t retry_us; /* not to be tried again before */
};

/* The other servers of a shared log. */
struct ld_nodes {
    pthread_t thread;
    bool is_running;
    unsigned poll_ms;
    bool (*after_round)(void *arg);
    void *after_round_arg;
    _Atomic uint64_t n_made; /* members that entered the table, whoever has made them */
    bool must_make_first;    /* the thread's own */
    uint64_t reported;       /* likewise: the last rewriting that the log was told of; 0: none */
    uint64_t rates_revision; /* likewise: of what they have in common, as of which the rates are in force; 0: none */
    void (*on_common)(void *arg, uint64_t revision);
    void *on_common_arg;
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t has_call;
    bool is_halting, is_ending, is_hurried;
    uint64_t round; /* the number of the one that began last */
    struct ld_tenant_wait *first, *last;
    size_t n_waiting;
    struct ld_nodes_view view; /* down_us: since when, on the monotonic clock */
    int64_t good_us;           /* when the last round began that had an answer; before the first one: the start */
    bool was_good;             /* there was one */
};

/* The table owns its members; a member holds its tenant once, and every pointer that leaves it is a hold of its own. */
struct ld_tenants {
    const struct ld_world *world;
    int lock_fd;
    struct ld_registry_file *file;
    pthread_mutex_t change_lock; /* one creation or removal at a time; guards file */
    pthread_rwlock_t lock;       /* guards all below but the atomics */
    struct ld_member **item;     /* [n] ascending by name */
    size_t n, cap;
    struct ld_member *head, *tail; /* the line of those to open */
    size_t n_openers;              /* jobs that take from it */
    bool is_halting;
    atomic_bool is_left; /* the files are to stay as they are */
    atomic_bool is_trimming;
    void (*on_removal)(void *arg, const char *name, bool is_replaced);
    void *on_removal_arg;
    _Atomic uint64_t tick;
    struct ld_nodes *nodes; /* NULL: no log is shared */
};

/* registry.c. With the lock held (for reading, or for writing where the table changes). */
struct ld_member *ld_member_find(struct ld_tenants *r, const char *name);
/* A new member, closed, or of an open tenant, whose hold it takes over; NULL: no memory, or the name is taken. Takes
 * the lock. */
struct ld_member *ld_member_add(struct ld_tenants *r, const char *name, struct ld_tenant *t);
/* Takes it out of the table; it stays allocated. Lock held for writing. */
void ld_member_take_out(struct ld_tenants *r, struct ld_member *member);
void ld_member_free(struct ld_member *member);
void ld_member_use(struct ld_tenants *r, struct ld_member *member);

/* registry_start.c. Fills the table from the folder: 0, or -1 with why. */
int ld_tenants_read_folder(struct ld_tenants *r, struct ld_message *why);

/* registry_copies.c. Where the log is shared: notes whose copies the members' files are. 0, or -1 with why: the folder
 * has what is no copy. */
int ld_tenants_check_copies(struct ld_tenants *r, struct ld_message *why);
/* What the file of that name says. LD_STORE_*. */
int ld_tenants_look_at_copy(const struct ld_tenants *r, const char *name, struct ld_copy_mark *mark, bool *is_empty,
                            struct ld_message *why);
/* Whether it is one, or has nothing in it yet. */
bool ld_tenants_has_copy(const struct ld_tenants *r, const char *name);

/* registry_rates.c. From the registry file into the members: LD_STORE_OK, or another. */
int ld_tenants_read_rates(struct ld_tenants *r);

/* change_lock held. Into the registry file and the member; false: the file refused, and nothing has changed. */
bool ld_rate_take_over(struct ld_tenants *r, const char *name, const struct ld_rate *own);

/* registry_common.c. Sees what has changed. */
void ld_tenants_follow_common(struct ld_tenants *r);
/* registry_import.c. As ld_tenants_adopt, into the log: the file is left as it is. */
int ld_nodes_adopt(struct ld_tenants *r, const char *name, const struct ld_tenant_file *file, struct ld_problem *p);
/* As ld_tenants_replace, likewise. */
int ld_nodes_replace(struct ld_tenants *r, const char *name, const struct ld_tenant_file *file, struct ld_problem *p);
/* registry_nodes.c. Whether the member of that name is another tenant than this one by now; waits a little for it. */
bool ld_nodes_await_exchange(struct ld_tenants *r, const char *name, uint64_t old);

/* registry_held.c */
void ld_tenants_hold_work(struct ld_tenants *r);
/* change_lock held. Into the log; p says 404 or 503. */
void ld_nodes_set_rate(struct ld_tenants *r, const char *name, const struct ld_rate *own, struct ld_problem *p);

/* registry_opening.c. Opens the first in the line, in this thread; false when there is none. */
bool ld_tenants_open_next(struct ld_tenants *r);
/* With the lock held for writing: puts the member into the line, or takes it out. */
void ld_member_line_up(struct ld_tenants *r, struct ld_member *member);
void ld_member_step_out(struct ld_tenants *r, struct ld_member *member);
/* Tells all who wait, from a list that no member has any more. */
void ld_tenant_waits_end(struct ld_tenant_wait *first, struct ld_tenant *t, const struct ld_problem *p);

/* registry_opening.c. As ld_tenants_await, of a tenant that is known here. */
bool ld_tenants_await_known(struct ld_tenants *r, const char *name, struct ld_tenant_wait *wait);

/* registry_change.c. change_lock held: takes out of the table and off the disk what was deleted elsewhere, or has never
 * been; is_replaced: another tenant has the name by now. False: the folder cannot be written; the tenant stays. */
bool ld_member_forget(struct ld_tenants *r, const char *name, bool is_replaced);
/* What they are told who waited for a tenant that was taken out of the table. */
void ld_problem_no_more(struct ld_problem *p, bool is_replaced);
/* Whether files of that name, which are no copy, keep a tenant from being taken in. */
bool ld_member_has_files(const struct ld_tenants *r, const char *name);
/* change_lock held: a tenant that another server has made, closed. Later, where files of the name are still being taken
 * away. */
void ld_member_take_in(struct ld_tenants *r, const char *name);
/* registry_start.c. What a newcomer's first curl meets: arms without features, no contexts. False: no memory. */
bool ld_settings_of_first(struct ld_settings *out);
const char *ld_tenants_first_name(const struct ld_tenants *r);

/* registry_nodes.c. 0 or -1: no memory. */
int ld_nodes_new(struct ld_tenants *r);
void ld_nodes_free(struct ld_tenants *r); /* ends the thread */
/* The first tenant is to be made, unless the log has some. */
void ld_nodes_want_first(struct ld_tenants *r);
/* Nobody is to wait any more. */
void ld_nodes_halt(struct ld_tenants *r);
/* Finds the tenant in the log, or makes it there: 0, and it is to be made here; else -1 with p. change_lock held. */
int ld_nodes_make(struct ld_tenants *r, const char *name, struct ld_problem *p);
/* A member is about to enter the table that the log has. */
void ld_nodes_made(struct ld_tenants *r);
/* Deletes it for all: 0, or -1 with p (404, 503). */
int ld_nodes_drop(struct ld_tenants *r, const char *name, struct ld_problem *p);
/* registry_waiting.c. Waits for the next round; done is called in any case. */
void ld_nodes_await(struct ld_tenants *r, const char *name, struct ld_tenant_wait *wait);

/* registry_renewals.c, by the thread that asks. Whether nothing is left here of what the tenant's lines were before
 * that rewriting; an old copy that nobody has open is removed. */
bool ld_member_renew(struct ld_tenants *r, const char *name, uint64_t id, uint64_t generation);
/* Tells the log, where n_old, the tenants that are not, are none. */
void ld_nodes_report(struct ld_tenants *r, uint64_t generation, size_t n_old);

/* The round is over, for all who waited for it: what is not known now is not there; unless why says that the log did
 * not answer. */
void ld_nodes_end_waiting(struct ld_tenants *r, uint64_t round, const char *why);
const struct ld_shared_ops *ld_nodes_ops(const struct ld_tenants *r);

/* registry_closing.c. The end of a CLOSING, or of other work on the files of a member that is not open: the files are
 * closed, and the member is not looked at behind it. */
void ld_member_settle_closed(struct ld_tenants *r, struct ld_member *member);

/* registry_closing.c. Closes tenants until the rest fits the cap, in this thread. */
void ld_tenants_trim(struct ld_tenants *r);

#endif
