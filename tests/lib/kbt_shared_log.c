/* See kbt_shared_log.h. A batch whose outcome is unknown is decided when somebody looks next: whoever takes the turn
 * waits for the row that it holds. So does settle, where it tells anything. */
#include "kbt_shared_log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/text.h"

struct ld_shared_turn {
    struct kbt_shared_log *log;
    struct kbt_shared_tenant *tenant;
    struct kbt_shared_batch *put; /* [n_put] of a turn that goes on */
    size_t n_put;
    char name[32]; /* that it takes over from `old`; "": none */
    uint64_t old;
};

static struct kbt_shared_log *log_of(struct ld_shared_log *l)
{
    return (struct kbt_shared_log *)(void *)l;
}

static enum ld_shared_rc say(enum ld_shared_rc rc, struct ld_message *why, const char *text)
{
    snprintf(why->text, sizeof why->text, "%s", text);
    return rc;
}

/* Uniform in [0, 1). */
static double draw(struct kbt_shared_log *l)
{
    return kb_rng_uniform(l->key, KB_STREAM_SIMULATION, l->n_draws++);
}

static bool happens(struct kbt_shared_log *l, double share, size_t *n)
{
    const bool is_so = draw(l) < share;

    *n += is_so;
    return is_so;
}

static struct kbt_shared_tenant *find_id(struct kbt_shared_log *l, uint64_t id)
{
    for (size_t i = 0; i < l->n_tenants; i++)
        if (l->tenant[i].id == id && !l->tenant[i].is_dropped)
            return &l->tenant[i];
    return NULL;
}

/* Of an id that find_id has not: deleted, or never here (a log that was set back). */
static enum ld_shared_rc miss(const struct kbt_shared_log *l, uint64_t id, const struct ld_shared_place *after,
                              struct ld_message *why)
{
    for (size_t i = 0; i < l->n_tenants; i++)
        if (l->tenant[i].id == id)
            return say(LD_SHARED_NONE, why, "no such tenant");
    return say(after->seq > 0 ? LD_SHARED_FORKED : LD_SHARED_NONE, why, "this log has never had the tenant");
}

static struct ld_shared_place tip_of(const struct kbt_shared_tenant *t)
{
    struct ld_shared_place tip = {.seq = 0};

    if (t->n > 0)
        tip = t->batch[t->n - 1].at;
    tip.generation = t->generation;
    return tip;
}

static struct ld_shared_tenant told_tenant(const struct kbt_shared_tenant *t)
{
    return (struct ld_shared_tenant){.id = t->id,
                                     .tip = tip_of(t),
                                     .first = t->n > 0 ? t->batch[0].at.seq - t->batch[0].n + 1 : 1,
                                     .kept = t->kept > 0 ? t->kept : 1,
                                     .rewritten = t->rewritten};
}

static bool is_same(const struct ld_shared_place *a, const struct ld_shared_place *b)
{
    return a->seq == b->seq && memcmp(a->hash, b->hash, sizeof a->hash) == 0;
}

/* ---- batches --------------------------------------------------------------------------------------------- */

static struct kbt_shared_batch copy_of(const struct ld_shared_batch *b)
{
    struct kbt_shared_batch copy = {.at = b->at, .n = b->n, .at_ms = b->at_ms, .nonce = b->nonce, .n_body = b->n_body};

    snprintf(copy.node, sizeof copy.node, "%s", b->node);
    copy.body = malloc(b->n_body);
    if (copy.body == NULL)
        abort();
    memcpy(copy.body, b->body, b->n_body);
    return copy;
}

static void push(struct kbt_shared_tenant *t, struct kbt_shared_batch batch)
{
    if (t->n == t->cap) {
        t->cap = 2 * t->cap + 16;
        t->batch = realloc(t->batch, t->cap * sizeof *t->batch);
        if (t->batch == NULL)
            abort();
    }
    t->batch[t->n++] = batch;
}

/* What was under way comes to its end. */
static void decide(struct kbt_shared_tenant *t)
{
    if (t->pending.body != NULL)
        push(t, t->pending);
    t->pending.body = NULL;
    if (t->coming == NULL)
        return;
    for (size_t i = 0; i < t->n; i++)
        free(t->batch[i].body);
    free(t->batch);
    t->batch = t->coming;
    t->n = t->cap = t->n_coming;
    t->generation = t->coming_generation;
    t->kept = t->coming_kept;
    t->rewritten = t->coming_rewritten;
    t->coming = NULL;
}

/* fn for every batch behind `after`. */
static enum ld_shared_rc tell(const struct kbt_shared_tenant *t, const struct ld_shared_place *after, size_t most,
                              ld_shared_take_fn fn, void *arg, struct ld_message *why)
{
    size_t i = 0, n = 0;

    if (t->generation > after->generation)
        return say(LD_SHARED_REWRITTEN, why, "lines were rewritten");
    if (t->generation < after->generation && after->generation != LD_ANY_GENERATION)
        return say(LD_SHARED_FORKED, why, "a rewriting is gone");
    if (after->seq > 0) {
        while (i < t->n && !is_same(&t->batch[i].at, after))
            i++;
        if (i++ == t->n)
            return say(LD_SHARED_FORKED, why, "no batch ends there with that hash");
    }
    for (; i < t->n && n <= most; i++) {
        const struct kbt_shared_batch *b = &t->batch[i];
        struct ld_shared_batch told = {.at = b->at,
                                       .n = b->n,
                                       .at_ms = b->at_ms,
                                       .node = b->node,
                                       .nonce = b->nonce,
                                       .body = b->body,
                                       .n_body = b->n_body};
        told.at.generation = t->generation;
        const enum ld_shared_rc rc = fn(arg, &told);

        if (rc != LD_SHARED_OK)
            return rc;
        n += b->n_body;
    }
    return LD_SHARED_OK;
}

/* ---- operations ------------------------------------------------------------------------------------------- */

static enum ld_shared_rc find(struct ld_shared_log *log, const char *name, bool is_made, struct ld_shared_tenant *out,
                              bool *is_new, struct ld_message *why)
{
    struct kbt_shared_log *l = log_of(log);
    struct kbt_shared_tenant *t = NULL;

    if (happens(l, l->odds.untaken, &l->n_untaken))
        return say(LD_SHARED_DOWN, why, "drawn to be down");
    for (size_t i = 0; i < l->n_tenants; i++)
        if (strcmp(l->tenant[i].name, name) == 0 && !l->tenant[i].is_dropped)
            t = &l->tenant[i];
    *is_new = t == NULL && is_made;
    if (t == NULL && !is_made)
        return say(LD_SHARED_NONE, why, "no such tenant");
    if (t == NULL) {
        if (l->n_tenants == KBT_SHARED_TENANTS)
            abort();
        t = &l->tenant[l->n_tenants++];
        t->id = 100 + l->n_tenants;
        snprintf(t->name, sizeof t->name, "%s", name);
    }
    *out = told_tenant(t);
    return LD_SHARED_OK;
}

static enum ld_shared_rc drop(struct ld_shared_log *log, uint64_t id, struct ld_message *why)
{
    struct kbt_shared_tenant *t = find_id(log_of(log), id);

    if (t == NULL)
        return say(LD_SHARED_NONE, why, "no such tenant");
    t->is_dropped = true;
    log_of(log)->revision++;
    return LD_SHARED_OK;
}

/* Counts the lines that are told while the row is locked. */
struct counting {
    ld_shared_take_fn fn;
    void *arg;
    size_t n;
};

static enum ld_shared_rc count(void *arg, const struct ld_shared_batch *batch)
{
    struct counting *c = arg;
    const enum ld_shared_rc rc = c->fn(c->arg, batch);

    c->n += rc == LD_SHARED_OK ? batch->n : 0;
    return rc;
}

static enum ld_shared_rc take(struct ld_shared_log *log, uint64_t id, const struct ld_shared_place *after,
                              ld_shared_take_fn fn, void *arg, struct ld_shared_turn **turn, struct ld_message *why)
{
    struct kbt_shared_log *l = log_of(log);
    struct kbt_shared_tenant *t;

    *turn = NULL;
    if (++l->n_takes >= l->meddle_at && l->meddle != NULL)
        l->meddle(l->arg);
    t = find_id(l, id);
    if (happens(l, l->odds.untaken, &l->n_untaken))
        return say(LD_SHARED_DOWN, why, "drawn to be down");
    if (l->version > ld_log_version())
        return say(LD_SHARED_NEWER, why, ld_shared_say(LD_SHARED_NEWER));
    if (t == NULL)
        return miss(l, id, after, why);
    if (t->is_taken)
        abort(); /* one thread: it would wait for ever */
    t->is_taken = true;
    decide(t);
    struct counting counting = {fn, arg, 0};
    const enum ld_shared_rc rc = tell(t, after, SIZE_MAX, count, &counting, why);
    if (counting.n > l->most_held)
        l->most_held = counting.n;
    if (rc == LD_SHARED_OK)
        *turn = calloc(1, sizeof **turn);
    if (*turn != NULL)
        **turn = (struct ld_shared_turn){.log = l, .tenant = t};
    t->is_taken = *turn != NULL;
    return rc;
}

static unsigned version_of(const struct ld_shared_turn *turn)
{
    return turn->log->version;
}

static void release(struct ld_shared_turn *turn)
{
    turn->tenant->is_taken = false;
    for (size_t i = 0; i < turn->n_put; i++)
        free(turn->put[i].body);
    free(turn->put);
    free(turn);
}

static uint64_t last_of(const struct ld_shared_turn *turn)
{
    return turn->n_put > 0 ? turn->put[turn->n_put - 1].at.seq : tip_of(turn->tenant).seq;
}

static enum ld_shared_rc put(struct ld_shared_turn *turn, const struct ld_shared_batch *batch, struct ld_message *why)
{
    if (!turn->tenant->is_taken || (last_of(turn) > 0 && batch->at.seq != last_of(turn) + batch->n))
        abort();
    if (happens(turn->log, turn->log->odds.down, &turn->log->n_down))
        return say(LD_SHARED_DOWN, why, "drawn to be down");
    turn->put = realloc(turn->put, (turn->n_put + 1) * sizeof *turn->put);
    if (turn->put == NULL)
        abort();
    turn->put[turn->n_put++] = copy_of(batch);
    return LD_SHARED_OK;
}

/* The number of the tenant of that name; 0: there is none. */
static uint64_t id_of(const struct kbt_shared_log *l, const char *name)
{
    for (size_t i = 0; i < l->n_tenants; i++)
        if (strcmp(l->tenant[i].name, name) == 0 && !l->tenant[i].is_dropped)
            return l->tenant[i].id;
    return 0;
}

static enum ld_shared_rc make(struct ld_shared_log *log, const char *name, struct ld_shared_turn **turn, uint64_t *id,
                              struct ld_message *why)
{
    struct kbt_shared_log *l = log_of(log);

    *turn = NULL;
    if (happens(l, l->odds.untaken, &l->n_untaken))
        return say(LD_SHARED_DOWN, why, "drawn to be down");
    if (id_of(l, name) != 0)
        return say(LD_SHARED_BEHIND, why, "there is one of the name");
    if (l->n_tenants == KBT_SHARED_TENANTS || (*turn = calloc(1, sizeof **turn)) == NULL)
        abort();
    struct kbt_shared_tenant *t = &l->tenant[l->n_tenants++];
    *t = (struct kbt_shared_tenant){.id = 100 + l->n_tenants, .is_dropped = true, .is_unborn = true, .is_taken = true};
    snprintf(t->name, sizeof t->name, "%s", name);
    **turn = (struct ld_shared_turn){.log = l, .tenant = t};
    *id = t->id;
    return LD_SHARED_OK;
}

static enum ld_shared_rc exchange(struct ld_shared_turn *turn, const char *name, uint64_t old, struct ld_message *why)
{
    if (find_id(turn->log, old) == NULL)
        return say(LD_SHARED_BEHIND, why, "it is not there any more");
    if (find_id(turn->log, old)->is_taken)
        abort();
    snprintf(turn->name, sizeof turn->name, "%s", name);
    turn->old = old;
    return LD_SHARED_OK;
}

/* What was put, and whose place it takes. */
static void land(struct ld_shared_turn *turn)
{
    struct kbt_shared_tenant *t = turn->tenant, *old = find_id(turn->log, turn->old);

    for (size_t i = 0; i < turn->n_put; i++)
        push(t, turn->put[i]);
    turn->n_put = 0;
    if (t->is_unborn)
        t->is_dropped = t->is_unborn = false;
    if (old == NULL)
        return;
    old->is_dropped = true;
    memcpy(t->name, turn->name, sizeof t->name);
    t->has_rate = old->has_rate;
    t->rate = old->rate;
    turn->log->revision++;
}

/* A tenant that is made is there at once, also where nobody is told. */
static enum ld_shared_rc append(struct ld_shared_turn *turn, const struct ld_shared_batch *batch,
                                struct ld_message *why)
{
    struct kbt_shared_log *l = turn->log;
    struct kbt_shared_tenant *t = turn->tenant;
    const struct kbt_shared_odds *o = &l->odds;

    if (!t->is_taken || batch->at.seq != last_of(turn) + batch->n)
        abort(); /* whoever has the turn knows the tip */
    if (t->is_unborn && o->behind + o->down + o->unknown_out == 0) {
        land(turn);
        push(t, copy_of(batch));
        release(turn);
        return happens(l, o->unknown_in, &l->n_unknown_in) ? say(LD_SHARED_UNKNOWN, why, "drawn to be unknown")
                                                           : LD_SHARED_OK;
    }
    release(turn);
    if (happens(l, o->behind, &l->n_behind))
        return say(LD_SHARED_BEHIND, why, "drawn to be behind");
    if (happens(l, o->down, &l->n_down))
        return say(LD_SHARED_DOWN, why, "drawn to be down");
    if (happens(l, o->unknown_out, &l->n_unknown_out))
        return say(LD_SHARED_UNKNOWN, why, "drawn to be unknown");
    if (!t->is_dropped && happens(l, o->unknown_in, &l->n_unknown_in)) {
        t->pending = copy_of(batch);
        return say(LD_SHARED_UNKNOWN, why, "drawn to be unknown");
    }
    if (t->is_dropped)
        return say(LD_SHARED_DOWN, why, "drawn to be down");
    push(t, copy_of(batch));
    l->n_ok++;
    return LD_SHARED_OK;
}

static struct ld_shared_batch told_of(const struct kbt_shared_batch *b)
{
    return (struct ld_shared_batch){b->at, b->n, b->at_ms, b->node, b->nonce, b->body, b->n_body};
}

/* The whole log as it is to be: what it has, what was put, and what comes now. */
static void prepare(const struct ld_shared_turn *turn, const struct ld_shared_line *line, size_t n_lines,
                    struct ld_shared_batch *batch, size_t n_batches)
{
    struct kbt_shared_tenant *t = turn->tenant, to = {.n = 0};
    unsigned char hash[LD_CHAIN_BYTES] = {0};
    const size_t n_there = t->n + turn->n_put;
    size_t at = 0;

    for (size_t i = 0; i < n_there + n_batches; i++) {
        struct ld_shared_batch is = i < t->n      ? told_of(&t->batch[i])
                                    : i < n_there ? told_of(&turn->put[i - t->n])
                                                  : batch[i - n_there];
        struct ld_text text;

        ld_text_init(&text);
        if (!ld_shared_replace(&text, &is, line, n_lines, &at))
            abort();
        is.body = text.data;
        is.n_body = text.n;
        ld_chain(is.at.hash, hash, is.body, is.n_body);
        memcpy(hash, is.at.hash, sizeof hash);
        if (i >= n_there) {
            batch[i - n_there].at = is.at;
            batch[i - n_there].at.generation = t->coming_generation;
        }
        push(&to, copy_of(&is));
        ld_text_close(&text);
    }
    if (at != n_lines)
        abort();
    t->coming = to.batch;
    t->n_coming = to.n;
}

static enum ld_shared_rc rewrite(struct ld_shared_turn *turn, const struct ld_shared_line *line, size_t n_lines,
                                 struct ld_shared_batch *batch, size_t n_batches, struct ld_message *why)
{
    struct kbt_shared_log *l = turn->log;
    struct kbt_shared_tenant *t = turn->tenant;
    const struct kbt_shared_odds *o = &l->odds;
    enum ld_shared_rc rc = LD_SHARED_OK;

    if (!t->is_taken || (n_batches > 0 && batch[0].at.seq != last_of(turn) + batch[0].n) ||
        (turn->n_put > 0 && n_lines > 0) || n_batches + n_lines == 0)
        abort();
    if (happens(l, o->behind, &l->n_behind))
        rc = say(LD_SHARED_BEHIND, why, "drawn to be behind");
    else if (happens(l, o->down, &l->n_down))
        rc = say(LD_SHARED_DOWN, why, "drawn to be down");
    else if (happens(l, o->unknown_out, &l->n_unknown_out))
        rc = say(LD_SHARED_UNKNOWN, why, "drawn to be unknown");
    if (rc == LD_SHARED_OK) {
        const uint64_t least = n_batches > 0 ? batch[n_batches - 1].at.generation : 0;
        l->generation = l->generation + 1 > least ? l->generation + 1 : least;
        t->coming_generation = t->coming_rewritten = l->generation;
        t->coming_kept = t->kept;
        prepare(turn, line, n_lines, batch, n_batches);
        l->n_rewrites++;
        if (happens(l, o->unknown_in, &l->n_unknown_in))
            rc = say(LD_SHARED_UNKNOWN, why, "drawn to be unknown");
        else
            decide(t);
    }
    release(turn);
    return rc;
}

/* ---- compaction -------------------------------------------------------------------------------------------------- */

static void keep_books(struct kbt_shared_tenant *t, const struct ld_shared_book *book, size_t n)
{
    for (size_t i = 0; i < t->n_books; i++) {
        free((char *)t->book[i].name);
        free((void *)t->book[i].body);
    }
    if (n > sizeof t->book / sizeof *t->book)
        abort();
    for (size_t i = 0; i < n; i++) {
        void *body = malloc(book[i].n_body);
        if (body == NULL)
            abort();
        memcpy(body, book[i].body, book[i].n_body);
        t->book[i] = book[i];
        t->book[i].name = strdup(book[i].name);
        t->book[i].body = body;
    }
    t->n_books = n;
}

static void push_chained(struct kbt_shared_tenant *to, struct ld_shared_batch *b, unsigned char hash[LD_CHAIN_BYTES])
{
    ld_chain(hash, hash, b->body, b->n_body);
    memcpy(b->at.hash, hash, LD_CHAIN_BYTES);
    push(to, copy_of(b));
}

static void prepare_summary(const struct ld_shared_turn *turn, const struct ld_shared_summary *s)
{
    struct kbt_shared_tenant *t = turn->tenant;
    struct kbt_shared_tenant to = {.n = 0};
    unsigned char hash[LD_CHAIN_BYTES] = {0};

    for (size_t i = 0; i < s->n; i++) {
        push_chained(&to, &s->batch[i], hash);
        s->batch[i].at.generation = t->coming_generation;
    }
    for (size_t i = 0; i < t->n + turn->n_put; i++) {
        struct ld_shared_batch b = told_of(i < t->n ? &t->batch[i] : &turn->put[i - t->n]);

        if (b.at.seq <= s->last)
            continue;
        if (b.at.seq - b.n < s->last) { /* it stands in this one */
            const uint64_t n_gone = s->last - (b.at.seq - b.n);
            const char *rest = ld_shared_behind(b.body, b.n_body, n_gone);
            b.n_body -= (size_t)(rest - b.body);
            b.body = rest;
            b.n -= (uint32_t)n_gone;
        }
        push_chained(&to, &b, hash);
    }
    t->coming = to.batch;
    t->n_coming = to.n;
}

/* Books are known as soon as it is decided; nobody looks before. */
static enum ld_shared_rc compact(struct ld_shared_turn *turn, const struct ld_shared_summary *s, struct ld_message *why)
{
    struct kbt_shared_log *l = turn->log;
    struct kbt_shared_tenant *t = turn->tenant;
    const struct kbt_shared_odds *o = &l->odds;

    if (!t->is_taken || s->last > last_of(turn) || s->batch[s->n - 1].at.seq != s->last)
        abort();
    enum ld_shared_rc rc = LD_SHARED_OK;
    if (happens(l, o->behind, &l->n_behind))
        rc = say(LD_SHARED_BEHIND, why, "drawn to be behind");
    else if (happens(l, o->down, &l->n_down))
        rc = say(LD_SHARED_DOWN, why, "drawn to be down");
    else if (happens(l, o->unknown_out, &l->n_unknown_out))
        rc = say(LD_SHARED_UNKNOWN, why, "drawn to be unknown");
    if (rc != LD_SHARED_OK) {
        release(turn);
        return rc;
    }
    t->coming_generation = ++l->generation;
    t->coming_rewritten = t->rewritten;
    t->coming_kept = s->last + 1;
    prepare_summary(turn, s);
    release(turn);
    keep_books(t, s->book, s->n_books);
    l->n_compactions++;
    if (happens(l, o->unknown_in, &l->n_unknown_in))
        return say(LD_SHARED_UNKNOWN, why, "drawn to be unknown");
    decide(t);
    return LD_SHARED_OK;
}

static enum ld_shared_rc books(struct ld_shared_log *log, uint64_t id,
                               bool (*fn)(void *arg, const struct ld_shared_book *book), void *arg,
                               struct ld_message *why)
{
    const struct kbt_shared_tenant *t = find_id(log_of(log), id);

    if (happens(log_of(log), log_of(log)->odds.untaken, &log_of(log)->n_untaken))
        return say(LD_SHARED_DOWN, why, "drawn to be down");
    for (size_t i = 0; t != NULL && i < t->n_books; i++)
        if (!fn(arg, &t->book[i]))
            return LD_SHARED_NOMEM;
    return LD_SHARED_OK;
}

static enum ld_shared_rc settle(struct ld_shared_log *log, uint64_t id, const struct ld_shared_batch *batch,
                                struct ld_message *why)
{
    struct kbt_shared_log *l = log_of(log);
    struct kbt_shared_tenant *t = find_id(l, id);

    for (size_t i = 0; i < l->n_tenants; i++)
        if (l->tenant[i].id == id && l->tenant[i].is_unborn)
            return say(LD_SHARED_BEHIND, why, "it is not there");
    if (t == NULL || happens(l, l->odds.unsettled, &l->n_unsettled))
        return say(LD_SHARED_UNKNOWN, why, "drawn to be unknown still");
    decide(t);
    for (size_t i = 0; i < t->n; i++)
        if (t->batch[i].nonce == batch->nonce && strcmp(t->batch[i].node, batch->node) == 0)
            return LD_SHARED_OK;
    if (batch->at.seq < t->kept)
        return say(LD_SHARED_UNKNOWN, why, "a summary may have taken its place");
    return say(LD_SHARED_BEHIND, why, "it is not there");
}

static enum ld_shared_rc read_on(struct ld_shared_log *log, uint64_t id, const struct ld_shared_place *after,
                                 size_t max_bytes, ld_shared_take_fn fn, void *arg, struct ld_message *why)
{
    struct kbt_shared_log *l = log_of(log);
    const struct kbt_shared_tenant *t = find_id(l, id);

    if (happens(l, l->odds.untaken, &l->n_untaken))
        return say(LD_SHARED_DOWN, why, "drawn to be down");
    if (l->version > ld_log_version())
        return say(LD_SHARED_NEWER, why, ld_shared_say(LD_SHARED_NEWER));
    return t != NULL ? tell(t, after, max_bytes, fn, arg, why) : miss(l, id, after, why);
}

static enum ld_shared_rc tips(struct ld_shared_log *log,
                              void (*fn)(void *arg, const char *name, const struct ld_shared_tenant *t), void *arg,
                              uint64_t *generation, struct ld_message *why)
{
    struct kbt_shared_log *l = log_of(log);

    *generation = l->generation;
    if (happens(l, l->odds.untaken, &l->n_untaken))
        return say(LD_SHARED_DOWN, why, "drawn to be down");
    for (size_t i = 0; i < l->n_tenants; i++) {
        const struct kbt_shared_tenant *t = &l->tenant[i];
        const struct ld_shared_tenant told = told_tenant(t);

        if (!t->is_dropped)
            fn(arg, t->name, &told);
    }
    return LD_SHARED_OK;
}

static enum ld_shared_rc report(struct ld_shared_log *log, uint64_t generation, struct ld_message *why)
{
    (void)why;
    log_of(log)->reported = generation;
    return LD_SHARED_OK;
}

static enum ld_shared_rc laggards(struct ld_shared_log *log, uint64_t generation,
                                  void (*fn)(void *arg, const char *node), void *arg, struct ld_message *why)
{
    const struct kbt_shared_log *l = log_of(log);

    (void)generation;
    (void)why;
    if (l->laggard != NULL)
        fn(arg, l->laggard);
    return LD_SHARED_OK;
}

/* ---- what servers have in common ------------------------------------------------------------------------------ */

static enum ld_shared_rc common(struct ld_shared_log *log, struct ld_shared_common *out, struct ld_message *why)
{
    struct kbt_shared_log *l = log_of(log);

    if (happens(l, l->odds.untaken, &l->n_untaken))
        return say(LD_SHARED_DOWN, why, "drawn to be down");
    *out = (struct ld_shared_common){.revision = l->revision, .n_nodes = 1};
    return LD_SHARED_OK;
}

static bool tell_keys(const struct kbt_shared_log *l, ld_shared_key_fn fn, void *arg)
{
    for (size_t i = 0; i < l->n_keys; i++)
        if ((l->keys[i].tenant[0] == '\0' || id_of(l, l->keys[i].tenant) != 0) &&
            !fn(arg, &l->keys[i], id_of(l, l->keys[i].tenant)))
            return false;
    return true;
}

static enum ld_shared_rc keys(struct ld_shared_log *log, ld_shared_key_fn fn, void *arg, uint64_t *revision,
                              struct ld_message *why)
{
    struct kbt_shared_log *l = log_of(log);

    if (happens(l, l->odds.untaken, &l->n_untaken))
        return say(LD_SHARED_DOWN, why, "drawn to be down");
    *revision = l->revision;
    return tell_keys(l, fn, arg) ? LD_SHARED_OK : LD_SHARED_NOMEM;
}

static bool make_change(struct kbt_shared_log *l, const struct ld_shared_key_change *change)
{
    l->revision++;
    if (change->add != NULL && l->n_keys == KBT_SHARED_KEYS)
        abort();
    if (change->add != NULL && (change->add->tenant[0] == '\0' || id_of(l, change->add->tenant) != 0)) {
        l->keys[l->n_keys++] = *change->add;
        return true;
    }
    for (size_t i = 0; change->add == NULL && i < l->n_keys; i++)
        if (strcmp(l->keys[i].id, change->remove) == 0) {
            l->keys[i] = l->keys[--l->n_keys];
            return true;
        }
    return false;
}

static enum ld_shared_rc change_key(struct ld_shared_log *log, const struct ld_shared_key_change *change,
                                    uint64_t *revision, struct ld_message *why)
{
    struct kbt_shared_log *l = log_of(log);

    if (happens(l, l->odds.untaken, &l->n_untaken))
        return say(LD_SHARED_DOWN, why, "drawn to be down");
    change->begin(change->arg);
    if (!tell_keys(l, change->each, change->arg))
        return LD_SHARED_NOMEM;
    if (!change->judge(change->arg))
        return LD_SHARED_BEHIND;
    if (!make_change(l, change))
        return say(LD_SHARED_NONE, why, "no such tenant, or key");
    *revision = l->revision;
    if (!l->is_key_unknown)
        return LD_SHARED_OK;
    l->is_key_unknown = false;
    return say(LD_SHARED_UNKNOWN, why, "asked to be unknown");
}

static enum ld_shared_rc set_rate(struct ld_shared_log *log, uint64_t id, const struct ld_rate *own,
                                  struct ld_message *why)
{
    struct kbt_shared_log *l = log_of(log);
    struct kbt_shared_tenant *t = find_id(l, id);

    if (happens(l, l->odds.untaken, &l->n_untaken))
        return say(LD_SHARED_DOWN, why, "drawn to be down");
    if (t == NULL)
        return say(LD_SHARED_NONE, why, "no such tenant");
    t->has_rate = own != NULL;
    t->rate = own != NULL ? *own : (struct ld_rate){.rate = 0};
    l->revision++;
    return LD_SHARED_OK;
}

static enum ld_shared_rc rates(struct ld_shared_log *log,
                               void (*fn)(void *arg, const char *name, const struct ld_rate *own), void *arg,
                               struct ld_message *why)
{
    struct kbt_shared_log *l = log_of(log);

    if (happens(l, l->odds.untaken, &l->n_untaken))
        return say(LD_SHARED_DOWN, why, "drawn to be down");
    for (size_t i = 0; i < l->n_tenants; i++)
        if (l->tenant[i].has_rate && !l->tenant[i].is_dropped)
            fn(arg, l->tenant[i].name, &l->tenant[i].rate);
    return LD_SHARED_OK;
}

static enum ld_shared_rc hold(struct ld_shared_log *log, uint64_t id, const char *view, struct ld_message *why)
{
    const struct kbt_shared_tenant *t = find_id(log_of(log), id);

    (void)view;
    (void)why;
    return t != NULL && !t->is_held ? LD_SHARED_OK : LD_SHARED_BEHIND;
}

static enum ld_shared_rc held(struct ld_shared_log *log, uint64_t id,
                              void (*fn)(void *arg, const char *node, const char *view), void *arg,
                              struct ld_message *why)
{
    const struct kbt_shared_tenant *t = find_id(log_of(log), id);

    if (t == NULL || !t->is_held)
        return say(LD_SHARED_NONE, why, "nobody has it");
    fn(arg, "another", NULL);
    return LD_SHARED_OK;
}

static void health(struct ld_shared_log *log, struct ld_shared_health *out)
{
    const bool is_newer = ((const struct kbt_shared_log *)log)->version > ld_log_version();
    *out = (struct ld_shared_health){.is_up = !is_newer, .is_newer = is_newer, .n_standbys = -1};
}

static void close_nothing(struct ld_shared_log *log)
{
    (void)log;
}

static const struct ld_shared_ops operations = {.find = find,
                                                .drop = drop,
                                                .take = take,
                                                .append = append,
                                                .rewrite = rewrite,
                                                .compact = compact,
                                                .books = books,
                                                .release = release,
                                                .version = version_of,
                                                .make = make,
                                                .exchange = exchange,
                                                .put = put,
                                                .settle = settle,
                                                .read = read_on,
                                                .tips = tips,
                                                .report = report,
                                                .laggards = laggards,
                                                .common = common,
                                                .keys = keys,
                                                .change_key = change_key,
                                                .set_rate = set_rate,
                                                .rates = rates,
                                                .hold = hold,
                                                .held = held,
                                                .health = health,
                                                .close = close_nothing};

/* ---- life ---------------------------------------------------------------------------------------------------- */

void kbt_shared_log_init(struct kbt_shared_log *l, uint64_t key)
{
    memset(l, 0, sizeof *l);
    l->base.ops = &operations;
    l->key = key;
    l->revision = 1;
    l->version = LD_LOG_VERSION;
}

void kbt_shared_log_close(struct kbt_shared_log *l)
{
    for (size_t i = 0; i < l->n_tenants; i++) {
        struct kbt_shared_tenant *t = &l->tenant[i];

        decide(t);
        for (size_t k = 0; k < t->n; k++)
            free(t->batch[k].body);
        free(t->batch);
        keep_books(t, NULL, 0);
    }
}

struct kbt_shared_tenant *kbt_shared_log_tenant(struct kbt_shared_log *l, const char *name)
{
    for (size_t i = 0; i < l->n_tenants; i++)
        if (strcmp(l->tenant[i].name, name) == 0 && !l->tenant[i].is_dropped)
            return &l->tenant[i];
    abort();
}
