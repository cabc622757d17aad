/* Folding a tenant's log beside the traffic: see refold.h. */
#include "tenant/refold.h"

#include <math.h>
#include <stdio.h>

#include "base/failpoint.h"
#include "base/hash_key.h"
#include "model/engine_background.h"
#include "model/engine_write.h"
#include "tenant/line.h"
#include "tenant/tenant_state.h"

#define TAIL_EVENTS 256u /* that the writer folds in its own turn */
#define MOST_ROUNDS 16u

static bool is_over(const struct ld_refold *f)
{
    return atomic_load(&f->t->is_halting) || atomic_load(&f->is_cancelled);
}

/* Lines that have come behind the last one that it knows are the end of the log. */
static void note_progress(struct ld_refold *f)
{
    const double share = fmin((double)f->fold.seq / (double)(f->last + 1), 0.999);

    atomic_store_explicit(&f->n_seen, f->fold.n_lines, memory_order_relaxed);
    if (share > atomic_load_explicit(&f->progress, memory_order_relaxed))
        atomic_store_explicit(&f->progress, share, memory_order_relaxed);
}

static int look(void *refold, const struct ld_row *row, struct ld_problem *fault)
{
    struct ld_refold *f = refold;

    note_progress(f);
    ld_failpoint("mid_refold");
    if (!is_over(f))
        return 0;
    ld_problem_set(fault, 503, "event %llu was not folded: %s", (unsigned long long)row->seq,
                   atomic_load(&f->is_cancelled) ? "it was cancelled" : "the tenant is being closed");
    return LD_STORE_STOPPED;
}

enum kb_err ld_refold_open(struct ld_refold *f, struct ld_tenant *t, uint64_t quiet_until)
{
    *f = (struct ld_refold){.t = t};
    if (kb_engine_new(&f->engine, ld_hash_key()) != KB_OK)
        return KB_ENOMEM;
    kb_engine_fold_quietly_until(f->engine, quiet_until);
    f->fold.sink = ld_engine_sink(f->engine);
    f->fold.sink.before = look;
    f->fold.sink.watch = f;
    return KB_OK;
}

void ld_refold_close(struct ld_refold *f)
{
    kb_engine_free(f->engine);
    f->engine = NULL;
}

bool ld_refold_tail(struct ld_refold *f)
{
    if (ld_fold_store(&f->fold, f->t->store, f->fold.seq, SIZE_MAX) == 0)
        return true;
    ld_fold_say(&f->fold, &f->why);
    return false;
}

/* Where ld_refold_cancel finds it. */
static void show_build(struct ld_refold *f, struct kb_build *b)
{
    pthread_mutex_lock(&f->t->queue->lock);
    f->build = b;
    if (b != NULL && is_over(f))
        kb_build_cancel(b);
    pthread_mutex_unlock(&f->t->queue->lock);
}

/* What the log has begun; the writer's turn would otherwise take as long. True when something was built. */
static bool build(struct ld_refold *f, enum kb_err *rc)
{
    struct kb_build *b = kb_engine_lend_build(f->engine);

    *rc = KB_OK;
    if (b == NULL)
        return false;
    show_build(f, b);
    *rc = kb_build_run(b);
    show_build(f, NULL);
    kb_engine_return_build(f->engine, b);
    return true;
}

bool ld_refold_build(struct ld_refold *f)
{
    enum kb_err rc = KB_OK;

    (void)build(f, &rc);
    return rc == KB_OK || ld_fail(&f->why, "the model cannot be built: %s", kb_strerror(rc)) == 0;
}

bool ld_refold_catch_up(struct ld_refold *f)
{
    uint64_t last_reset = 0;
    bool has_built = true; /* or may have to */
    enum kb_err rc = KB_OK;

    for (size_t round = 0; round < MOST_ROUNDS; round++) {
        if (ld_store_tip(f->t->store, &f->last, &last_reset) != LD_STORE_OK) {
            ld_fail(&f->why, "the log cannot be read");
            return false;
        }
        if (!has_built && f->last - f->fold.seq <= TAIL_EVENTS)
            break;
        if (!ld_refold_tail(f))
            return false;
        has_built = build(f, &rc);
        if (rc != KB_OK)
            return ld_fail(&f->why, "the model cannot be built: %s", kb_strerror(rc)) == 0;
    }
    return true;
}

void ld_refold_cancel(struct ld_refold *f)
{
    atomic_store(&f->is_cancelled, true);
    if (f->build != NULL)
        kb_build_cancel(f->build);
}
