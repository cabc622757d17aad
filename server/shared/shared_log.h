/* The log that several servers share (--log): what the writer of a tenant asks of it. PostgreSQL keeps it (pg_log.c);
 * the tests have one in memory that answers at random.
 *
 * Servers write by turns. Who takes the turn of a tenant has its row locked, gets all that others have written, and may
 * then append one batch behind the tip. The append commits, and gives the turn up.
 *
 *     find      the tenant's number by its name
 *     take      wait for the turn; what is there behind `after` comes first                 one round trip
 *     append    one batch, durable where LD_SHARED_OK comes back; the turn is over          one round trip
 *     release   the turn is over, nothing was written
 *     settle    whether a batch whose append was LD_SHARED_UNKNOWN is there
 *     read      what is there behind `after`, without a turn
 *     rewrite   lines that are to read otherwise, and batches behind them, in one                      the turn is over
 *     compact   a summary in the place of the log's beginning                                          the turn is over
 *     books     what was counted over the lines that are gone
 *     make      the turn of a tenant that is made in it     put   a batch in a turn that goes on
 *     exchange  it takes another's place
 *     tips      where each tenant's log ends
 *     report    up to which rewriting all copies of this server are renewed
 *     laggards  the servers that have not said so
 *     common    whether what stands beside the logs has changed: keys and rates
 *
 * A batch is in the log as a whole or not at all. Its lines are as an export writes them (ld_text_export), each with a
 * line feed. Every batch has a hash of the one before it and of its own lines (ld_chain), so that two copies of a log
 * can be compared by their last one.
 *
 * Lines are rewritten when a user is erased, and give way to a summary when the log is compacted. Every rewriting has a
 * number, greater than all before it; the tenant's generation is that of its last one. Lines keep their number and
 * batches their place; the chain is another from the first line on that has changed. Who asks from a place of an older
 * generation is told LD_SHARED_REWRITTEN, and has to read the log from its beginning.
 *
 * Threads: any; a turn is one thread's. Every call may block for --log-wait, and longer only while
 * bytes move. Texts and bodies that a
 * callback is given last as long as its call. */
#ifndef LD_SHARED_LOG_H
#define LD_SHARED_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limit.h"
#include "base/message.h"
#include "types/key.h"

enum ld_shared_rc {
    LD_SHARED_OK,
    LD_SHARED_NONE,    /* there is no such tenant, or it has been deleted */
    LD_SHARED_BEHIND,  /* nothing was written, and never will be: the turn was lost, or others have written meanwhile */
    LD_SHARED_UNKNOWN, /* the batch may be in the log, or come there yet: settle tells later, or the next take */
    LD_SHARED_DOWN,    /* it cannot be asked, or may not acknowledge (no standby); nothing was written */
    LD_SHARED_FORKED,  /* it has other lines than we have, or fewer: an operator has to look */
    LD_SHARED_NOMEM,
    LD_SHARED_REWRITTEN, /* lines were rewritten since: what we have of it is to be renewed first */
    LD_SHARED_NEWER,     /* its lines may be of a version that this program does not know */
};

/* The version of lines, which moves when a new kind of them comes; the log says up to which one may be written there.
 *
 *     1   all but those below
 *     2   decisions with slots; changes of what arms earn */
#define LD_LOG_VERSION 2u
#define LD_LOG_VERSION_SLOTS 2u
#define LD_LOG_VERSION_COUNTS 2u /* `candidates` of a line `decided` */
#define LD_LOG_VERSION_CHANGES 2u
#define LD_LOG_VERSION_RANKS 2u /* `features.user` and `personalizer.explain_inference` of a line `configured` */

/* The newest that this program knows. For tests, LAPLACED_LOG_VERSION=N makes it one that knows no more than N. chain.c
 */
unsigned ld_log_version(void);

#define LD_CHAIN_BYTES 16u

#define LD_ANY_GENERATION UINT64_MAX /* of a place before the first line: whatever it is */

/* A place in a tenant's log: its last line, and the chain's hash behind it; all zeros before the first. */
struct ld_shared_place {
    uint64_t seq;
    unsigned char hash[LD_CHAIN_BYTES];
    uint64_t generation; /* the last rewriting that it knows of; 0: none */
};

struct ld_shared_batch {
    struct ld_shared_place at; /* behind it */
    uint32_t n;                /* lines; the first has the number at.seq - n + 1 */
    int64_t at_ms;             /* of its last line */
    const char *node;          /* who wrote it */
    uint64_t nonce;            /* drawn by who wrote it */
    const char *body;
    size_t n_body;
};

/* A line as it is to read. */
struct ld_shared_line {
    uint64_t seq;
    const char *text; /* as an export has it, without a line feed */
    size_t n_text;
};

/* To be told of a batch, in order; not LD_SHARED_OK ends the call, which returns it. */
typedef enum ld_shared_rc (*ld_shared_take_fn)(void *arg, const struct ld_shared_batch *batch);

/* A tenant in the log. */
struct ld_shared_tenant {
    uint64_t id; /* never used again, not for a tenant of the same name either */
    struct ld_shared_place tip;
    uint64_t first, kept; /* its first line, and the first one behind a summary; 1, 1: it was never compacted */
    uint64_t rewritten;   /* the last rewriting that was no compaction */
};

/* What was counted over lines that are gone. */
struct ld_shared_book {
    const char *name;
    uint64_t version, seq;
    const void *body;
    size_t n_body;
};

/* A log's beginning that gives way to a summary. */
struct ld_shared_summary {
    uint64_t last;                 /* the last line that goes */
    struct ld_shared_batch *batch; /* [n] the summary's lines, up to number `last`; hash and generation are filled in */
    size_t n;
    const struct ld_shared_book *book; /* [n_books] in place of those of before */
    size_t n_books;
};

/* How the log is, as an operator wants to know it. */
struct ld_shared_health {
    bool is_up;            /* the last call reached it, and it may acknowledge */
    bool is_newer;         /* is_up is false since its lines may be of a version that this program does not know */
    int n_standbys;        /* that commits wait for; -1: unknown, or not asked (--log-sync=trusted) */
    int64_t since_ms;      /* wall clock: since when is_up is so */
    struct ld_message why; /* of is_up being false */
};

/* What the servers have in common beside the tenants' logs. */
struct ld_shared_common {
    uint64_t revision; /* moves with every change of keys and rates, and when a tenant is deleted; never 0 */
    unsigned n_nodes;  /* servers that have been there lately */
};

/* To be told of a key, and of its tenant's number (0: the servers' own). False: no memory; ends the call, which is
 * LD_SHARED_NOMEM then. */
typedef bool (*ld_shared_key_fn)(void *arg, const struct ld_key *key, uint64_t tenant);

/* A change of the keys, which is judged by all of them and made in one transaction that no other one is beside. */
struct ld_shared_key_change {
    const struct ld_key *add; /* or */
    const char *remove;       /* an id */
    ld_shared_key_fn each;    /* for every key that is there; may begin anew, with `begin` */
    void (*begin)(void *arg);
    bool (*judge)(void *arg); /* behind the last one: whether the change is to be made */
    void *arg;
};

struct ld_shared_turn;
struct ld_shared_log;
struct ld_text;

struct ld_shared_ops {
    /* is_made: made where there is none, and *is_new tells whether it was; the next take sees an empty log then. OK,
     * NONE, DOWN. */
    enum ld_shared_rc (*find)(struct ld_shared_log *l, const char *name, bool is_made, struct ld_shared_tenant *out,
                              bool *is_new, struct ld_message *why);
    /* Deletes it for all; its rows go later. OK, NONE, DOWN. */
    enum ld_shared_rc (*drop)(struct ld_shared_log *l, uint64_t id, struct ld_message *why);
    /* OK with *turn, and fn was told of every batch behind `after`; else *turn is NULL. FORKED: the log has no batch
     * that ends at `after` with that hash (a log is looked at only where after->seq > 0). What fn returned. */
    enum ld_shared_rc (*take)(struct ld_shared_log *l, uint64_t id, const struct ld_shared_place *after,
                              ld_shared_take_fn fn, void *arg, struct ld_shared_turn **turn, struct ld_message *why);
    /* The batch is behind the last one that the turn has seen. Ends the turn, whatever it returns: OK, BEHIND, UNKNOWN,
     * DOWN. */
    enum ld_shared_rc (*append)(struct ld_shared_turn *turn, const struct ld_shared_batch *batch,
                                struct ld_message *why);
    /* The lines, ascending, in place of those that have their numbers; and the batches behind the tip, if any, whose
     * hash and generation are filled in (not less than the one that the last of them has). Ends the turn, as append
     * does; settle tells by the last batch, and without one the next turn does by the generation. */
    enum ld_shared_rc (*rewrite)(struct ld_shared_turn *turn, const struct ld_shared_line *line, size_t n_lines,
                                 struct ld_shared_batch *batch, size_t n_batches, struct ld_message *why);
    /* The log begins with the summary. A rewriting as well: ends the turn, as append does; settle tells by the
     * summary's last batch. */
    enum ld_shared_rc (*compact)(struct ld_shared_turn *turn, const struct ld_shared_summary *summary,
                                 struct ld_message *why);
    /* fn for each book of the last compaction; false: no memory, ends the call, which is LD_SHARED_NOMEM then. */
    enum ld_shared_rc (*books)(struct ld_shared_log *l, uint64_t id,
                               bool (*fn)(void *arg, const struct ld_shared_book *book), void *arg,
                               struct ld_message *why);
    void (*release)(struct ld_shared_turn *turn);
    /* The newest version of lines that may be written in it. */
    unsigned (*version)(const struct ld_shared_turn *turn);
    /* The turn of a tenant that is made in it: nobody sees it before the append that ends the turn, nor any line that
     * was put. BEHIND: there is one of the name. OK with *turn and its number, DOWN. */
    enum ld_shared_rc (*make)(struct ld_shared_log *l, const char *name, struct ld_shared_turn **turn, uint64_t *id,
                              struct ld_message *why);
    /* A batch behind the last one, in a turn that goes on; the first of a log may have any number, where a summary ends
     * the turn that ends before it. OK, BEHIND, DOWN: nothing of the turn will be written, and it is to be released. */
    enum ld_shared_rc (*put)(struct ld_shared_turn *turn, const struct ld_shared_batch *batch, struct ld_message *why);
    /* In a turn of `make`, under a name that is nobody's: the tenant takes the name and the place of `old`, which is
     * deleted, and its keys and its rate, in the same commit. Waits for the old one's turn. OK, BEHIND (it is not there
     * any more as well), DOWN: as put. */
    enum ld_shared_rc (*exchange)(struct ld_shared_turn *turn, const char *name, uint64_t old, struct ld_message *why);
    /* Waits up to --log-wait for the answer: OK, the batch is there; BEHIND, it is not and never will be; UNKNOWN,
     * where the log was compacted behind it as well: it may have been there. */
    enum ld_shared_rc (*settle)(struct ld_shared_log *l, uint64_t id, const struct ld_shared_batch *batch,
                                struct ld_message *why);
    /* As take, without waiting for a turn; at most about max_bytes of bodies, one batch at least. */
    enum ld_shared_rc (*read)(struct ld_shared_log *l, uint64_t id, const struct ld_shared_place *after,
                              size_t max_bytes, ld_shared_take_fn fn, void *arg, struct ld_message *why);
    /* fn for every tenant that is not deleted, in order of its name; *generation is that of the last rewriting of any
     * of them, at the same moment. */
    enum ld_shared_rc (*tips)(struct ld_shared_log *l,
                              void (*fn)(void *arg, const char *name, const struct ld_shared_tenant *t), void *arg,
                              uint64_t *generation, struct ld_message *why);
    enum ld_shared_rc (*report)(struct ld_shared_log *l, uint64_t generation, struct ld_message *why);
    /* fn for every server that has been heard of in the last seconds and has not reported that generation. */
    enum ld_shared_rc (*laggards)(struct ld_shared_log *l, uint64_t generation, void (*fn)(void *arg, const char *node),
                                  void *arg, struct ld_message *why);
    enum ld_shared_rc (*common)(struct ld_shared_log *l, struct ld_shared_common *out, struct ld_message *why);
    /* All keys of one moment, but those of tenants that are deleted. */
    enum ld_shared_rc (*keys)(struct ld_shared_log *l, ld_shared_key_fn fn, void *arg, uint64_t *revision,
                              struct ld_message *why);
    /* OK with its revision; BEHIND: judged not to be made; NONE: the key's tenant (by its name) is not there, or no key
     * has the id; UNKNOWN, DOWN, NOMEM. */
    enum ld_shared_rc (*change_key)(struct ld_shared_log *l, const struct ld_shared_key_change *change,
                                    uint64_t *revision, struct ld_message *why);
    /* A tenant's own rate, NULL: it has none any more. OK, NONE, DOWN (it may have been set). */
    enum ld_shared_rc (*set_rate)(struct ld_shared_log *l, uint64_t id, const struct ld_rate *own,
                                  struct ld_message *why);
    enum ld_shared_rc (*rates)(struct ld_shared_log *l,
                               void (*fn)(void *arg, const char *name, const struct ld_rate *own), void *arg,
                               struct ld_message *why);
    /* Takes what one server does for all of a tenant, where nobody has it or whoever had it has been silent for long;
     * renews it where it is ours. view: what it tells of it, kept for the others; NULL: nothing new. OK: it is ours
     * now; BEHIND: another has it; DOWN. */
    enum ld_shared_rc (*hold)(struct ld_shared_log *l, uint64_t id, const char *view, struct ld_message *why);
    /* fn is told who has it, and what was last told of it (NULL: nothing). OK, NONE: nobody, DOWN. */
    enum ld_shared_rc (*held)(struct ld_shared_log *l, uint64_t id,
                              void (*fn)(void *arg, const char *node, const char *view), void *arg,
                              struct ld_message *why);
    void (*health)(struct ld_shared_log *l, struct ld_shared_health *out);
    void (*close)(struct ld_shared_log *l); /* no turn is open */
};

/* The beginning of each kind's own structure. */
struct ld_shared_log {
    const struct ld_shared_ops *ops;
};

/* The chain's hash behind a body: BLAKE2b-128 of the hash before it and the body. chain.c */
void ld_chain(unsigned char out[LD_CHAIN_BYTES], const unsigned char before[LD_CHAIN_BYTES], const char *body,
              size_t n_body);

/* What is left of a body without its first n lines; NULL: it has not more than those. chain.c */
const char *ld_shared_behind(const char *body, size_t n_body, uint64_t n);

/* Puts the batch's body behind `out`, with those of the n lines in it that have its numbers, *at the first of them that
 * is not behind already. False: memory is out, or the body has not so many lines. chain.c */
bool ld_shared_replace(struct ld_text *out, const struct ld_shared_batch *batch, const struct ld_shared_line *line,
                       size_t n, size_t *at);

/* A sentence for the outcome. */
const char *ld_shared_say(enum ld_shared_rc rc);

#endif
