/* Open decisions beside a plain list of them: random comings and goings, deadlines, what has expired, what each user
 * was shown, tables that grow, and what is saved. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kbt.h"
#include "history/pending.h"
#include "base/rng.h"

#define N_STEPS 4000u
#define MOST 1500u
#define DIM 3u
#define N_USERS 37u

struct oracle {
    char id[MOST][24];
    int64_t at_ms[MOST];
    uint32_t user[MOST];
    uint64_t shown[MOST]; /* 0: it was not yet */
    uint64_t n_shown;
    size_t n, n_made;
};

static uint64_t draw(uint64_t i, uint64_t n)
{
    return kb_rng_bits(41, KB_STREAM_SIMULATION, i) % n;
}

/* Deadlines of three kinds: in order, as windows of one length are; any; and all at once. */
static int64_t deadline_of(int kind, uint64_t i)
{
    return kind == 0 ? (int64_t)(1000 + i) : kind == 1 ? (int64_t)draw(3 * i, 5000) : 77;
}

static void enter(struct kb_pending *p, struct oracle *o, int kind)
{
    const size_t n_slots = 1 + draw(5 * o->n_made, 3);
    char *id = o->id[o->n];

    snprintf(id, sizeof o->id[0], "d%zu-%llx", o->n_made, (unsigned long long)draw(o->n_made, UINT32_MAX));
    struct kb_pending_entry *entry = kb_pending_entry_new(id, n_slots, 0, DIM);
    ck_assert_ptr_nonnull(entry);
    entry->expires_at_ms = o->at_ms[o->n] = deadline_of(kind, o->n_made);
    entry->user = o->user[o->n] = (uint32_t)draw(17 * o->n_made, N_USERS);
    entry->is_deferred = draw(19 * o->n_made, 3) == 0;
    o->shown[o->n] = entry->is_deferred ? 0 : ++o->n_shown;
    for (size_t k = 0; k < n_slots; k++)
        entry->slot[k].reward = entry->x[k * DIM] = (double)draw(7 * o->n_made + k, 100) / 7;
    ck_assert_int_eq(kb_pending_reserve(p, 1, (size_t)entry->user + 1), KB_OK);
    kb_pending_insert(p, entry);
    o->n++;
    o->n_made++;
}

static void activate(struct kb_pending *p, struct oracle *o, size_t i)
{
    struct kb_pending_entry *entry = kb_pending_find(p, o->id[i]);

    if (o->shown[i] > 0)
        return;
    entry->is_deferred = false;
    kb_pending_show(p, entry);
    kb_pending_changed(p, entry);
    o->shown[i] = ++o->n_shown;
}

static void leave(struct kb_pending *p, struct oracle *o, size_t i)
{
    struct kb_pending_entry *entry = kb_pending_find(p, o->id[i]);

    ck_assert_ptr_nonnull(entry);
    ck_assert_str_eq(entry->id, o->id[i]);
    kb_pending_remove(p, entry);
    ck_assert_ptr_null(kb_pending_find(p, o->id[i]));
    o->n--;
    memcpy(o->id[i], o->id[o->n], sizeof o->id[0]);
    o->at_ms[i] = o->at_ms[o->n];
    o->user[i] = o->user[o->n];
    o->shown[i] = o->shown[o->n];
}

static size_t index_of(const struct oracle *o, const char *id)
{
    size_t i = 0;

    while (i < o->n && strcmp(o->id[i], id) != 0)
        i++;
    return i;
}

/* What has expired by then, asked for all of it and for a part. */
static void compare_expired(const struct kb_pending *p, const struct oracle *o, int64_t now_ms)
{
    static const char *ids[MOST + 1];
    static bool is_told[MOST];
    size_t n_due = 0;

    for (size_t i = 0; i < o->n; i++)
        n_due += o->at_ms[i] <= now_ms;
    for (size_t most = 1; most <= MOST + 1; most *= 7) {
        const size_t n = kb_pending_expired(p, now_ms, ids, most);

        ck_assert_uint_eq(n, n_due < most ? n_due : most);
        memset(is_told, 0, sizeof is_told);
        for (size_t k = 0; k < n; k++) {
            const size_t i = index_of(o, ids[k]);

            ck_assert_uint_lt(i, o->n);
            ck_assert(o->at_ms[i] <= now_ms && !is_told[i]);
            is_told[i] = true;
        }
    }
}

static bool is_before(const struct oracle *o, size_t i, size_t k)
{
    return o->at_ms[i] != o->at_ms[k] ? o->at_ms[i] < o->at_ms[k] : strcmp(o->id[i], o->id[k]) < 0;
}

/* From the one shown last on each is the latest of those before the last one named, and none is left over. */
static void compare_shown(const struct kb_pending *p, const struct oracle *o)
{
    for (uint32_t user = 0; user < N_USERS + 2; user++) {
        const struct kb_pending_entry *entry = kb_pending_newest(p, user), *newer = NULL;

        for (uint64_t before = UINT64_MAX, latest = 1; latest > 0; before = latest) {
            const char *id = NULL;

            latest = 0;
            for (size_t i = 0; i < o->n; i++)
                if (o->user[i] == user && o->shown[i] < before && o->shown[i] > latest) {
                    latest = o->shown[i];
                    id = o->id[i];
                }
            ck_assert_int_eq(entry != NULL, id != NULL);
            if (id == NULL)
                break;
            ck_assert_str_eq(entry->id, id);
            ck_assert_ptr_eq(entry->newer, newer);
            newer = entry;
            entry = entry->older;
        }
    }
}

/* Of those that wait, each is the one with the latest deadline (then id) before the last one named. */
static void compare_waiting(const struct kb_pending *p, const struct oracle *o)
{
    for (uint32_t user = 0; user < N_USERS + 2; user++) {
        const struct kb_pending_entry *entry = kb_pending_waiting(p, user), *newer = NULL;
        size_t before = o->n, n = 0;

        for (size_t i = 0; i < o->n; i++)
            n += o->user[i] == user && o->shown[i] == 0;
        for (; n > 0; n--) {
            size_t latest = o->n;

            for (size_t i = 0; i < o->n; i++)
                if (o->user[i] == user && o->shown[i] == 0 && (before == o->n || is_before(o, i, before)) &&
                    (latest == o->n || is_before(o, latest, i)))
                    latest = i;
            ck_assert_ptr_nonnull(entry);
            ck_assert_str_eq(entry->id, o->id[latest]);
            ck_assert_ptr_eq(entry->newer, newer);
            before = latest;
            newer = entry;
            entry = entry->older;
        }
        ck_assert_ptr_null(entry);
    }
}

static void compare(const struct kb_pending *p, const struct oracle *o)
{
    int64_t next = INT64_MAX;

    ck_assert_uint_eq(p->n, o->n);
    for (size_t i = 0; i < o->n; i++)
        next = o->at_ms[i] < next ? o->at_ms[i] : next;
    ck_assert_int_eq(kb_pending_next_expiry(p), next);
    compare_expired(p, o, next - 1);
    compare_expired(p, o, next);
    compare_expired(p, o, next < INT64_MAX ? next + 200 : 0);
    compare_expired(p, o, INT64_MAX);
}

static void compare_saved(const struct kb_pending *p, const struct oracle *o)
{
    struct kb_pending loaded;
    struct kb_writer w;
    struct kb_reader r;

    kb_pending_init(&loaded, kbt_key);
    kb_writer_init(&w);
    kb_pending_save(p, DIM, &w);
    ck_assert_int_eq(w.rc, KB_OK);
    ck_assert_uint_le(w.n, 2 * sizeof(uint64_t) + p->bytes); /* what it reserved */
    kb_reader_init(&r, w.data, w.n);
    ck_assert_int_eq(kb_pending_load(&loaded, DIM, N_USERS, &r), KB_OK);
    ck_assert_uint_eq(kb_pending_digest(&loaded, 1), kb_pending_digest(p, 1));
    ck_assert_uint_eq(loaded.bytes, p->bytes);
    compare(&loaded, o);
    compare_shown(&loaded, o);
    compare_waiting(&loaded, o);
    ck_assert_uint_eq(loaded.n_shown, p->n_shown);
    kb_pending_close(&loaded);
    kb_writer_close(&w);
}

START_TEST(comings_and_goings_equal_a_plain_list)
{
    static struct oracle o;
    struct kb_pending p;

    o.n = o.n_made = 0;
    o.n_shown = 0;
    kb_pending_init(&p, kbt_key);
    compare(&p, &o);
    for (uint64_t step = 0; step < N_STEPS; step++) {
        const bool is_growing = step / 1000 % 2 == 0; /* it fills, then empties */

        if (o.n < MOST && (o.n == 0 || draw(11 * step, 10) < (is_growing ? 9 : 2)))
            enter(&p, &o, _i);
        else
            leave(&p, &o, draw(13 * step, o.n));
        if (o.n > 0)
            activate(&p, &o, draw(23 * step, o.n));
        if (step % 50 == 0)
            compare(&p, &o);
        if (step % 100 == 0) {
            compare_shown(&p, &o);
            compare_waiting(&p, &o);
        }
        if (step % 500 == 0)
            compare_saved(&p, &o);
    }
    while (o.n > 0)
        leave(&p, &o, o.n / 2);
    compare(&p, &o);
    ck_assert_uint_eq(p.bytes, 0);
    ck_assert_uint_eq(p.digest, 0);
    kb_pending_close(&p);
}
END_TEST

int main(void)
{
    return KBT_RUN_TIMES("pending", 60, {comings_and_goings_equal_a_plain_list, 3});
}
