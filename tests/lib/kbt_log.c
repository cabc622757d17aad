/* A log in memory: events are copied deep, since a writer's events borrow. */
#include "kbt_log.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "kbt.h"
#include "model/engine_background.h"
#include "model/engine_read.h"
#include "model/engine_write.h"

/* Every copy made, freed together when the log is closed. */
static void **copies;
static size_t n_copies, cap_copies;

static void *copy_bytes(const void *data, size_t n)
{
    if (n == 0 || data == NULL)
        return NULL;
    if (n_copies == cap_copies) {
        cap_copies = cap_copies > 0 ? 2 * cap_copies : 1024;
        copies = realloc(copies, cap_copies * sizeof *copies);
    }
    void *copy = memcpy(malloc(n), data, n);
    copies[n_copies++] = copy;
    return copy;
}

static void free_copies(void)
{
    for (size_t i = 0; i < n_copies; i++)
        free(copies[i]);
    free(copies);
    copies = NULL;
    n_copies = cap_copies = 0;
}

static const char *copy_text(const char *text)
{
    return text != NULL ? copy_bytes(text, strlen(text) + 1) : NULL;
}

static const struct kb_ev_edge *copy_edges(const struct kb_ev_edge *edges, size_t n)
{
    struct kb_ev_edge *copy = copy_bytes(edges, n * sizeof *edges);

    for (size_t i = 0; i < n; i++) {
        copy[i].u = copy_text(edges[i].u);
        copy[i].v = copy_text(edges[i].v);
    }
    return copy;
}

static const char *const *copy_texts(const char *const *texts, size_t n)
{
    const char **copy = copy_bytes(texts, n * sizeof *texts);

    for (size_t i = 0; i < n; i++)
        copy[i] = copy_text(texts[i]);
    return copy;
}

static struct kb_ev_slot copy_slot(struct kb_ev_slot slot, size_t arm_dim)
{
    return (struct kb_ev_slot){copy_text(slot.arm), copy_bytes(slot.features, arm_dim * sizeof(double))};
}

static void copy_decided(struct kb_event *ev, const struct kb_spec *spec)
{
    struct kb_ev_slot *slots = copy_bytes(ev->as.decided.slots, ev->as.decided.n_slots * sizeof *slots);

    ev->as.decided.decision = copy_text(ev->as.decided.decision);
    ev->as.decided.user = copy_text(ev->as.decided.user);
    ev->as.decided.context = copy_bytes(ev->as.decided.context, spec->context_dim * sizeof(double));
    for (size_t i = 0; i < ev->as.decided.n_slots; i++)
        slots[i] = copy_slot(slots[i], spec->arm_dim);
    ev->as.decided.slots = slots;
    struct kb_ev_draw *draws = copy_bytes(ev->as.decided.draws, ev->as.decided.n_slots * sizeof *draws);
    for (size_t i = 0; draws != NULL && i < ev->as.decided.n_slots; i++) {
        draws[i].id = copy_text(draws[i].id);
        draws[i].context = copy_bytes(draws[i].context, spec->context_dim * sizeof(double));
    }
    ev->as.decided.draws = draws;
}

static const struct kb_attribute_rule *copy_rules(const struct kb_attribute_rule *rules, size_t n)
{
    struct kb_attribute_rule *copy = copy_bytes(rules, n * sizeof *rules);

    for (size_t i = 0; i < n; i++) {
        copy[i].name = copy_text(rules[i].name);
        copy[i].values = copy_texts(rules[i].values, rules[i].n_values);
    }
    return copy;
}

static const struct kb_eligibility *copy_eligibility(const struct kb_eligibility *rules)
{
    struct kb_eligibility *copy = copy_bytes(rules, sizeof *rules);

    if (copy == NULL)
        return NULL;
    copy->allow = copy_rules(rules->allow, rules->n_allow);
    copy->deny = copy_rules(rules->deny, rules->n_deny);
    return copy;
}

static void copy_arms(struct kb_event *ev, const struct kb_spec *spec)
{
    struct kb_ev_arm *put = copy_bytes(ev->as.arms.put, ev->as.arms.n_put * sizeof *put);

    for (size_t i = 0; i < ev->as.arms.n_put; i++) {
        put[i].id = copy_text(put[i].id);
        put[i].features = copy_bytes(put[i].features, spec->arm_dim * sizeof(double));
        put[i].eligibility = copy_eligibility(put[i].eligibility);
        if (put[i].value != NULL)
            put[i].value = copy_bytes(put[i].value, strlen(put[i].value) + 1);
    }
    ev->as.arms.put = put;
    ev->as.arms.remove = copy_texts(ev->as.arms.remove, ev->as.arms.n_remove);
    ev->as.arms.stop = copy_texts(ev->as.arms.stop, ev->as.arms.n_stop);
    ev->as.arms.start = copy_texts(ev->as.arms.start, ev->as.arms.n_start);
}

static struct kb_event copy_event(struct kb_event ev, const struct kb_spec *spec)
{
    switch (ev.type) {
    case KB_EV_CONFIGURED:
        ev.as.configured.spec = copy_bytes(ev.as.configured.spec, sizeof *ev.as.configured.spec);
        break;
    case KB_EV_GRAPH:
        ev.as.graph.users = copy_texts(ev.as.graph.users, ev.as.graph.n_users);
        ev.as.graph.add = copy_edges(ev.as.graph.add, ev.as.graph.n_add);
        ev.as.graph.remove = copy_edges(ev.as.graph.remove, ev.as.graph.n_remove);
        break;
    case KB_EV_ARMS:
        copy_arms(&ev, spec);
        break;
    case KB_EV_DECIDED:
        copy_decided(&ev, spec);
        break;
    case KB_EV_REWARDED:
        ev.as.rewarded.decision = copy_text(ev.as.rewarded.decision);
        ev.as.rewarded.arm = copy_text(ev.as.rewarded.arm);
        ev.as.rewarded.metric.name = copy_text(ev.as.rewarded.metric.name);
        break;
    case KB_EV_MEASURED:
        ev.as.measured.decision = copy_text(ev.as.measured.decision);
        ev.as.measured.arm = copy_text(ev.as.measured.arm);
        ev.as.measured.metric.name = copy_text(ev.as.measured.metric.name);
        break;
    case KB_EV_OBSERVED:
        ev.as.observed.user = copy_text(ev.as.observed.user);
        ev.as.observed.context = copy_bytes(ev.as.observed.context, spec->context_dim * sizeof(double));
        ev.as.observed.arm = copy_slot(ev.as.observed.arm, spec->arm_dim);
        break;
    case KB_EV_EXPIRED:
        ev.as.expired.decision = copy_text(ev.as.expired.decision);
        break;
    case KB_EV_ACTIVATED:
        ev.as.activated.decision = copy_text(ev.as.activated.decision);
        break;
    case KB_EV_CHANGED:
        ev.as.changed.arm = copy_text(ev.as.changed.arm);
        break;
    case KB_EV_DICTIONARY:
    case KB_EV_TUNED:
        ev.as.dictionary.atoms =
            copy_bytes(ev.as.dictionary.atoms, ev.as.dictionary.n_atoms * sizeof(struct kb_ev_atom));
        if (ev.as.dictionary.tuning != NULL)
            ev.as.dictionary.tuning = copy_bytes(ev.as.dictionary.tuning, sizeof(struct kb_tuning));
        if (ev.as.dictionary.scale != NULL)
            ev.as.dictionary.scale =
                copy_bytes(ev.as.dictionary.scale, ev.as.dictionary.n_scale * sizeof *ev.as.dictionary.scale);
        break;
    default:
        break;
    }
    return ev;
}

/* ---- the live writer ------------------------------------------------------------------------------- */

size_t kbt_delay;

void kbt_log_open(struct kbt_log *log)
{
    *log = (struct kbt_log){.now_ms = 1000000};
    ck_assert_int_eq(kb_engine_new(&log->live, kbt_key), KB_OK);
    if (kbt_delay > 0)
        kb_engine_set_inline_work(log->live, 0);
}

/* The worker's part: a build is run as late as can be, when the rows that it was given have long moved on. */
static void run_build(struct kbt_log *log, size_t delay)
{
    if (log->lent != NULL && log->n >= log->lent_at + delay) {
        const enum kb_err rc = kb_build_run(log->lent);

        ck_assert(rc == KB_OK || rc == KB_ECANCELLED); /* superseded */
        kb_engine_return_build(log->live, log->lent);
        log->lent = NULL;
        log->n_builds++;
    }
    if (log->lent == NULL) {
        log->lent = kb_engine_lend_build(log->live);
        log->lent_at = log->n;
    }
}

void kbt_log_drop(struct kbt_log *log)
{
    if (log->lent != NULL)
        kb_engine_return_build(log->live, log->lent);
    kb_commit_free(&log->commit);
    kb_engine_free(log->live);
    free(log->event);
}

void kbt_log_close(struct kbt_log *log)
{
    kbt_log_drop(log);
    free_copies();
}

static void keep(struct kbt_log *log, struct kb_event ev)
{
    if (log->n == log->cap) {
        log->cap = log->cap > 0 ? 2 * log->cap : 256;
        log->event = realloc(log->event, log->cap * sizeof *log->event);
    }
    const struct kb_spec *spec = ev.type == KB_EV_CONFIGURED ? ev.as.configured.spec : kb_engine_spec(log->live);
    log->event[log->n++] = copy_event(ev, spec);
}

/* Hook of a commit. */
static enum kb_err append(void *arg, const struct kb_event *event, size_t n)
{
    for (size_t i = 0; i < n; i++)
        keep(arg, event[i]);
    return KB_OK;
}

/* The way of events into the live engine, behind those that are kept. */
static struct kb_commit *way(struct kbt_log *log)
{
    kb_commit_begin(&log->commit, log->live, log->n);
    return &log->commit;
}

static void commit(struct kbt_log *log)
{
    const struct kb_commit_hooks hooks = {.append = append, .arg = log};

    ck_assert_int_eq(kb_commit_run(&log->commit, &hooks), KB_OK);
    ck_assert_int_eq(kb_commit_settle(log->commit.engine, NULL), KB_OK);
}

static void run_due(struct kbt_log *log)
{
    struct kb_event next;

    if (log->n == 0)
        return;
    run_build(log, kbt_delay);
    ck_assert_int_eq(kb_engine_due(log->live, log->n + 1, true, &next), KB_OK);
    if (next.type == KB_EV_NONE)
        return;
    ck_assert_int_eq(kb_commit_add(way(log), &next, log->now_ms, NULL), KB_OK);
    commit(log);
}

void kbt_log_finish_builds(struct kbt_log *log)
{
    const size_t delay = kbt_delay;

    kbt_delay = 0;
    while (kb_engine_is_building(log->live))
        run_due(log);
    kbt_delay = delay;
}

enum kb_err kbt_log_live(struct kbt_log *log, struct kb_event ev, struct kb_errmsg *msg)
{
    run_due(log);
    const enum kb_err rc = kb_commit_add(way(log), &ev, log->now_ms, msg);
    if (rc == KB_OK)
        commit(log);
    return rc;
}

void kbt_log_batch(struct kbt_log *log, struct kb_event *events, size_t n)
{
    size_t i = 0;

    while (i < n) {
        enum kb_err rc = KB_OK;

        run_due(log);
        struct kb_commit *c = way(log);
        while (i < n && kb_commit_takes(c, &events[i]) &&
               (rc = kb_commit_add(c, &events[i], log->now_ms, NULL)) == KB_OK)
            i++;
        ck_assert(rc == KB_OK || rc == KB_EBUSY);
        ck_assert_uint_gt(c->n, 0);
        commit(log);
    }
}

/* ---- folds ------------------------------------------------------------------------------------------ */

struct kb_engine *kbt_log_fold(const struct kbt_log *log, struct kb_engine *from, size_t first, bool is_quiet)
{
    struct kb_engine *e = from;
    struct kb_errmsg msg = {0};
    uint64_t last_reset = 0;

    if (e == NULL)
        ck_assert_int_eq(kb_engine_new(&e, kbt_key), KB_OK);
    for (size_t i = first; i < log->n; i++)
        if (kb_event_is_dictionary(&log->event[i]) && log->event[i].as.dictionary.is_reset &&
            !log->event[i].as.dictionary.is_begun)
            last_reset = log->event[i].seq;
    if (is_quiet)
        kb_engine_fold_quietly_until(e, last_reset);
    for (size_t i = first; i < log->n; i++) {
        const enum kb_err rc = kb_engine_fold(e, &log->event[i], &msg);

        ck_assert_msg(rc == KB_OK, "event %zu (%s): %s %s %s", i + 1, kb_word(&kb_event_words, log->event[i].type),
                      kb_strerror(rc), msg.pointer, msg.text);
    }
    ck_assert_int_eq(kb_commit_settle(e, NULL), KB_OK);
    return e;
}

struct kb_engine *kbt_log_reload(const struct kb_engine *e)
{
    struct kb_writer w;
    struct kb_engine *copy = NULL;

    kb_writer_init(&w);
    ck_assert_int_eq(kb_engine_save(e, &w), KB_OK);
    ck_assert_int_eq(kb_engine_new(&copy, kbt_key), KB_OK);
    ck_assert_int_eq(kb_engine_load(copy, w.data, w.n), KB_OK);
    kb_writer_close(&w);
    return copy;
}

struct kb_event kbt_configured(const struct kb_spec *spec, uint64_t version)
{
    return (struct kb_event){.type = KB_EV_CONFIGURED, .as.configured = {.spec = spec, .version = version}};
}

struct kb_event kbt_rewarded(const char *decision, double reward)
{
    return (struct kb_event){.type = KB_EV_REWARDED, .as.rewarded = {.decision = decision, .reward = reward}};
}
