/* The book of time series against a fold that keeps every decision and counts anew for each question. */
#include "book/series.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "kbt.h"
#include "spec/event.h"

#define MOST 40000
#define N_METRICS 20u
#define T0 ((int64_t)1790000000000)

struct told {
    char id[16], arm[8];
    int64_t at_ms, until_ms;
    enum kb_route route;
    uint64_t version;
    double p, reward;
    size_t n_slots, n_left;
    bool has_reward, is_closed, is_gone, has_value[N_METRICS];
    double value[N_METRICS]; /* of slot 0 */
};

static struct told told[MOST];
static size_t n_told;
static struct kb_spec spec;
static uint64_t version, seq, state;
static int64_t now;
static void *books[2];
static size_t n_books;
static const char *next_arm; /* NULL: any */

static unsigned draw(unsigned n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % n;
}

static void give(struct kb_event ev)
{
    ev.seq = ++seq;
    ev.at_ms = now;
    for (size_t i = 0; i < n_books; i++)
        ck_assert_int_eq(ld_series_kind.take(books[i], &ev), KB_OK);
}

static void configure(enum kb_aggregation aggregation)
{
    struct kb_event ev = {.type = KB_EV_CONFIGURED};
    spec.aggregation = aggregation;
    ev.as.configured.spec = &spec;
    ev.as.configured.version = ++version;
    give(ev);
}

static void decide(unsigned n_arms, size_t n_slots)
{
    struct told *d = &told[n_told++];
    struct kb_ev_slot slots[2] = {{.arm = d->arm}, {.arm = "second"}};
    struct kb_event ev = {.type = KB_EV_DECIDED};
    *d = (struct told){
        .at_ms = now, .until_ms = now + 600000, .version = version, .n_slots = n_slots, .n_left = n_slots};
    d->route = (enum kb_route)draw(KB_ROUTE_N);
    d->p = (1 + draw(8)) / 8.0;
    (void)snprintf(d->id, sizeof d->id, "d%zu", n_told);
    (void)snprintf(d->arm, sizeof d->arm, "a%u", draw(n_arms));
    if (next_arm != NULL)
        (void)snprintf(d->arm, sizeof d->arm, "%s", next_arm);
    ev.as.decided.decision = d->id;
    ev.as.decided.user = "u";
    ev.as.decided.slots = slots;
    ev.as.decided.n_slots = n_slots;
    ev.as.decided.propensity = d->p;
    ev.as.decided.route = d->route;
    ev.as.decided.expires_at_ms = d->until_ms;
    give(ev);
}

static void reward(struct told *d, const char *arm, double y)
{
    struct kb_event ev = {.type = KB_EV_REWARDED};
    ev.as.rewarded.decision = d->id;
    ev.as.rewarded.arm = arm;
    ev.as.rewarded.reward = y;
    give(ev);
    if (arm == NULL || strcmp(arm, d->arm) == 0) {
        d->reward = y + (spec.aggregation == KB_AGG_SUM && d->has_reward ? d->reward : 0);
        d->has_reward = true;
    }
    d->is_closed |= spec.aggregation == KB_AGG_FIRST && !spec.has_metrics && --d->n_left == 0;
}

static const char *metric_name(unsigned m)
{
    static char name[16];
    (void)snprintf(name, sizeof name, "m%u", m);
    return name;
}

/* What a value has come to: odd metrics are sums. Of the second slot it stands in no row. */
static void measure(struct told *d, unsigned m, const char *arm, double y)
{
    struct kb_event ev = {.type = KB_EV_MEASURED};
    const bool is_of_first = arm == NULL || strcmp(arm, d->arm) == 0, has_before = is_of_first && d->has_value[m];
    const double before = has_before ? d->value[m] : 0, total = m % 2 == 1 ? before + y : y;
    ev.as.measured.decision = d->id;
    ev.as.measured.arm = arm;
    ev.as.measured.metric = (struct kb_ev_metric){.name = metric_name(m),
                                                  .is_told = true,
                                                  .value = y,
                                                  .has_before = has_before,
                                                  .before = before,
                                                  .has_total = m % 2 == 1 && has_before,
                                                  .total = total};
    give(ev);
    if (!is_of_first)
        return;
    d->value[m] = total;
    d->has_value[m] = true;
}

static void expire(struct told *d, bool has_default)
{
    struct kb_event ev = {.type = KB_EV_EXPIRED};
    ev.as.expired.decision = d->id;
    ev.as.expired.has_reward = has_default;
    ev.as.expired.reward = -1;
    give(ev);
    if (has_default && !d->has_reward) {
        d->reward = -1;
        d->has_reward = true;
    }
    d->is_closed = true;
}

static bool is_near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * (1 + fabs(b));
}

/* The cell of one row, counted anew. */
static struct ld_series_cell count(const struct ld_series_view *v, const struct ld_series_row *row,
                                   enum ld_series_step step, enum ld_series_by by)
{
    struct ld_series_cell c = {.decisions = 0};
    for (size_t i = 0; i < n_told; i++) {
        const struct told *d = &told[i];
        const int64_t ms = ld_series_step_ms[step];
        bool is_its = d->at_ms / ms * ms == row->at_ms;
        if (by == LD_BY_ROUTE)
            is_its &= (unsigned)d->route == row->which;
        else if (by == LD_BY_ARM && row->which > 0)
            is_its &= strcmp(d->arm, v->arm[row->which]) == 0;
        else if (by == LD_BY_VERSION && row->which > 0)
            is_its &= d->version == v->version[row->which];
        for (size_t k = 1; row->which == 0 && by == LD_BY_ARM && k <= LD_SERIES_ARMS; k++)
            is_its &= v->arm[k] == NULL || strcmp(d->arm, v->arm[k]) != 0;
        for (size_t k = 1; row->which == 0 && by == LD_BY_VERSION && k <= LD_SERIES_VERSIONS; k++)
            is_its &= d->version != v->version[k];
        if (!is_its)
            continue;
        const bool is_metric = by == LD_BY_METRIC && row->which > 0;
        const unsigned m = is_metric ? (unsigned)atoi(v->metric[row->which] + 1) : 0;
        const double y = is_metric ? d->value[m] : d->reward;
        const bool has = is_metric ? d->has_value[m] : d->has_reward;
        c.decisions++;
        c.closed += d->is_closed;
        c.weight += 1 / d->p;
        c.rewards += has;
        c.sum += has ? y : 0;
        c.square += has ? y * y : 0;
        c.weighted += has ? y / d->p : 0;
    }
    return c;
}

static uint64_t n_values[LD_N_STEPS]; /* that the last check has seen in rows of metrics */

static void check(const void *book)
{
    memset(n_values, 0, sizeof n_values);
    for (int step = 0; step < LD_N_STEPS; step++)
        for (int by = 0; by <= LD_BY_NOTHING; by++) {
            struct ld_series_view v;
            uint64_t n = 0, wanted = 0;
            ck_assert_int_eq(ld_series_look(book, (enum ld_series_step)step, (enum ld_series_by)by, 0, INT64_MAX, &v),
                             KB_OK);
            for (size_t i = 0; i < v.n; i++) {
                const struct ld_series_cell *got = &v.row[i].cell;
                const struct ld_series_cell want =
                    count(&v, &v.row[i], (enum ld_series_step)step, (enum ld_series_by)by);
                ck_assert_uint_eq(got->decisions, want.decisions);
                ck_assert_uint_eq(got->closed, want.closed);
                ck_assert_uint_eq(got->rewards, want.rewards);
                ck_assert(is_near(got->sum, want.sum) && is_near(got->square, want.square));
                ck_assert(is_near(got->weight, want.weight) && is_near(got->weighted, want.weighted));
                n += by == LD_BY_METRIC && v.row[i].which > 0 ? 0 : got->decisions;
                n_values[step] += by == LD_BY_METRIC && v.row[i].which > 0 ? got->rewards : 0;
            }
            for (size_t i = 0; i < n_told; i++) /* none is missing of what is kept */
                wanted += told[i].at_ms >= v.kept_from_ms;
            ck_assert_uint_eq(n, wanted);
            ld_series_view_close(&v);
        }
}

static void begin(uint64_t seed)
{
    n_told = n_books = 0;
    seq = version = 0;
    state = seed;
    now = T0;
    books[n_books++] = calloc(1, ld_series_kind.size);
    configure(KB_AGG_FIRST);
}

static void finish(void)
{
    for (size_t i = 0; i < n_books; i++) {
        ld_series_kind.close(books[i]);
        free(books[i]);
    }
}

/* Through its file: a copy that goes on beside it. */
static void reload(void)
{
    struct kb_writer w;
    struct kb_reader r;
    kb_writer_init(&w);
    ld_series_kind.save(books[0], &w);
    ck_assert_int_eq(w.rc, KB_OK);
    kb_reader_init(&r, w.data, w.n);
    books[n_books] = calloc(1, ld_series_kind.size);
    ck_assert_int_eq(ld_series_kind.load(books[n_books], &r), KB_OK);
    ck_assert(r.rc == KB_OK && r.pos == r.n);
    n_books++;
    kb_writer_close(&w);
}

/* Decisions, and rewards, corrections and ends for what is open, in any order. */
static void live(size_t n, unsigned n_arms, unsigned step_ms)
{
    size_t first = n_told;
    for (size_t i = 0; i < n; i++) {
        now += draw(step_ms);
        decide(n_arms, 1 + draw(4) / 3);
        while (first < n_told && (told[first].is_closed || told[first].until_ms < now)) {
            if (!told[first].is_closed)
                expire(&told[first], draw(2) == 0);
            first++;
        }
        struct told *d = first < n_told ? &told[first + draw((unsigned)(n_told - first))] : NULL;
        if (d != NULL && !d->is_closed && !(spec.aggregation == KB_AGG_FIRST && d->has_reward))
            reward(d, draw(2) == 0 ? NULL : d->arm, draw(100) / 8.0 - 3);
    }
    for (; first < n_told; first++)
        if (!told[first].is_closed)
            expire(&told[first], false);
}

static void compare(uint64_t seed, unsigned n_arms)
{
    begin(seed);
    for (int a = 0; a < KB_AGG_N; a++) {
        live(400, n_arms, 4000);
        configure((enum kb_aggregation)a);
        check(books[0]);
    }
    finish();
}

START_TEST(rows_are_what_a_count_of_all_decisions_gives)
{
    compare(1, 3);
}
END_TEST

START_TEST(arms_beyond_those_with_names_are_summed)
{
    compare(2, 40);
}
END_TEST

START_TEST(a_book_from_its_file_goes_on_as_it_was)
{
    begin(7);
    live(300, 5, 4000);
    decide(5, 1);
    reload();
    reward(&told[n_told - 1], NULL, 2);
    configure(KB_AGG_LAST);
    live(300, 30, 4000);
    check(books[0]);
    check(books[1]);
    finish();
}
END_TEST

START_TEST(only_the_last_versions_have_rows_of_their_own)
{
    begin(9);
    decide(2, 1);
    for (int i = 0; i < 12; i++) {
        decide(2, 1);
        live(30, 2, 2000);
        configure(KB_AGG_SUM);
        check(books[0]);
    }
    reward(&told[0], NULL, 3);
    check(books[0]);
    finish();
}
END_TEST

START_TEST(minutes_of_two_days_and_hours_of_ninety_are_kept)
{
    struct ld_series_view v;
    begin(11);
    live(4000, 4, 120000); /* some three days */
    check(books[0]);
    now += (int64_t)100 * 86400000;
    decide(4, 1);
    ck_assert_int_eq(ld_series_look(books[0], LD_STEP_HOUR, LD_BY_ARM, 0, INT64_MAX, &v), KB_OK);
    ck_assert_uint_eq(v.n, 1);
    ld_series_view_close(&v);
    check(books[0]);
    ck_assert_uint_lt(ld_series_kind.bytes(books[0]), 2 << 20);
    finish();
}
END_TEST

/* An erased user's decision has no end in the log. */
START_TEST(what_never_ends_is_closed_two_days_after_its_window)
{
    begin(13);
    decide(1, 1);
    now += (int64_t)86400000;
    decide(1, 1);
    check(books[0]);
    now += (int64_t)86400000 + 3600000;
    decide(1, 1);
    told[0].is_closed = true;
    check(books[0]);
    finish();
}
END_TEST

START_TEST(a_name_is_free_again_when_nothing_of_its_arm_is_left)
{
    struct ld_series_view v;
    begin(15);
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < 20; i++) {
            char name[8];
            (void)snprintf(name, sizeof name, "r%u-%u", round, i);
            next_arm = name;
            decide(1, 1);
        }
        next_arm = NULL;
        now += (int64_t)100 * 86400000;
        n_told = 0;
    }
    decide(1, 1);
    ck_assert_int_eq(ld_series_look(books[0], LD_STEP_HOUR, LD_BY_ARM, 0, INT64_MAX, &v), KB_OK);
    ck_assert_uint_eq(v.n, 1);
    ck_assert_uint_ne(v.row[0].which, 0);
    ld_series_view_close(&v);
    finish();
}
END_TEST

/* Corrected and added to, of either slot, behind the reward too, in a book from its file as well. */
START_TEST(values_of_metrics_stand_in_the_minute_of_their_decision)
{
    begin(23);
    spec.has_metrics = true;
    configure(KB_AGG_FIRST);
    uint64_t n_told_values = 0, n_slots = 0, n = 0;
    double sum = 0, total = 0;
    for (size_t i = 0; i < 500; i++) {
        now += draw(20000);
        decide(4, 1 + draw(2));
        struct told *d = &told[n_told - 1 - draw(n_told < 20 ? (unsigned)n_told : 20)];
        if (d->is_closed)
            continue;
        if (draw(3) == 0 && !d->has_reward)
            reward(d, NULL, draw(9));
        for (unsigned m = 0; m < 3; m++)
            measure(d, m, draw(2) == 0 ? NULL : d->arm, draw(100) / 8.0 - 3);
        if (d->n_slots == 2 && draw(4) == 0) {
            measure(d, 1, "second", 2);
            n_slots++;
        }
        if (draw(5) == 0)
            expire(d, false);
        if (i == 250)
            reload();
    }
    for (size_t i = 0; i < n_told; i++)
        for (unsigned m = 0; m < 3; m++)
            n_told_values += told[i].has_value[m];
    for (size_t b = 0; b < n_books; b++) {
        check(books[b]);
        ck_assert_uint_eq(n_values[LD_STEP_MINUTE], n_told_values);
        ck_assert_uint_eq(n_values[LD_STEP_HOUR], n_told_values);
    }
    ck_assert_uint_gt(n_slots, 5);
    for (size_t i = 0; i < n_told; i++) {
        n += told[i].has_value[2];
        sum += told[i].has_value[2] ? told[i].value[2] : 0;
    }
    uint64_t n_total = 0;
    ld_series_metric_total(books[1], "m2", &n_total, &total);
    ck_assert_uint_eq(n_total, n);
    ck_assert(is_near(total, sum));
    finish();
}
END_TEST

START_TEST(the_metric_that_had_no_value_for_longest_gives_way)
{
    uint64_t n = 0;
    double sum = 0;
    begin(29);
    spec.has_metrics = true;
    configure(KB_AGG_FIRST);
    for (unsigned m = 0; m < N_METRICS; m++) {
        now += 60000;
        decide(3, 1);
        measure(&told[n_told - 1], m, NULL, 1 + m);
        measure(&told[n_told - 1], 2, NULL, 7); /* one that is told all the time */
    }
    check(books[0]);
    ck_assert_uint_eq(n_values[LD_STEP_MINUTE], (LD_SERIES_METRICS - 1) + N_METRICS);
    ld_series_metric_total(books[0], "m0", &n, &sum);
    ck_assert(n == 0 && sum == 0);
    ld_series_metric_total(books[0], "m19", &n, &sum);
    ck_assert(n == 1 && sum == 20);
    finish();
}
END_TEST

static void expect_total(const void *book, const char *name, uint64_t n_wanted, double sum_wanted)
{
    uint64_t n = 0;
    double sum = 0;
    ld_series_metric_total(book, name, &n, &sum);
    ck_assert_uint_eq(n, n_wanted);
    ck_assert(is_near(sum, sum_wanted));
}

/* A line without a decision that the book has seen says nothing of how many values there are. */
START_TEST(values_of_a_decision_that_the_book_has_not_seen_are_left_out)
{
    struct told unknown = {.id = "x", .arm = "a0", .has_value = {true}, .value = {5}};
    begin(31);
    spec.has_metrics = true;
    configure(KB_AGG_FIRST);
    measure(&unknown, 0, NULL, 2);
    expect_total(books[0], "m0", 0, 0);
    decide(3, 1);
    measure(&told[0], 0, NULL, 1);
    expect_total(books[0], "m0", 1, 1);
    check(books[0]);
    finish();
}
END_TEST

/* Of each slot; from then on corrections change it, also in a book from its file. */
START_TEST(a_value_counts_whole_where_the_one_before_it_was_not_counted)
{
    begin(37);
    spec.has_metrics = true;
    configure(KB_AGG_FIRST);
    decide(3, 2);
    told[0].has_value[0] = told[0].has_value[1] = true; /* told before the book counted metrics */
    told[0].value[0] = 5;
    told[0].value[1] = 3;
    measure(&told[0], 0, NULL, 2);
    measure(&told[0], 1, told[0].arm, 4);
    expect_total(books[0], "m0", 1, 2);
    expect_total(books[0], "m1", 1, 7);
    check(books[0]);
    for (int i = 0; i < 2; i++) {
        struct kb_event ev = {.type = KB_EV_MEASURED, .as.measured = {.decision = told[0].id, .arm = "second"}};
        ev.as.measured.metric = (struct kb_ev_metric){
            .name = "m2", .is_told = true, .value = 8 + i, .has_before = true, .before = i == 0 ? 6 : 8};
        give(ev);
        expect_total(books[i], "m2", 1, 8 + i);
        if (i == 0)
            reload();
    }
    measure(&told[0], 0, NULL, 3);
    for (size_t b = 0; b < n_books; b++) {
        check(books[b]);
        expect_total(books[b], "m0", 1, 3);
    }
    finish();
}
END_TEST

START_TEST(a_name_that_comes_back_counts_the_values_of_open_decisions_anew)
{
    begin(41);
    spec.has_metrics = true;
    configure(KB_AGG_FIRST);
    decide(3, 1);
    measure(&told[0], 0, NULL, 1);
    for (unsigned m = 1; m <= LD_SERIES_METRICS; m++) {
        now += 60000;
        measure(&told[0], m, NULL, 1);
    }
    expect_total(books[0], "m0", 0, 0);
    now += 60000;
    measure(&told[0], 0, NULL, 4);
    told[0].has_value[1] = false; /* the one that gave way in turn */
    expect_total(books[0], "m0", 1, 4);
    check(books[0]);
    measure(&told[0], 0, NULL, 6);
    expect_total(books[0], "m0", 1, 6);
    check(books[0]);
    finish();
}
END_TEST

/* Which ends before it says which decisions have values in the sums. */
START_TEST(a_body_without_marks_of_values_is_read)
{
    struct kb_writer w;
    struct kb_reader r;
    void *book = calloc(1, ld_series_kind.size);
    begin(43);
    spec.has_metrics = true;
    configure(KB_AGG_FIRST);
    decide(3, 1);
    measure(&told[0], 0, NULL, 5);
    kb_writer_init(&w);
    ld_series_kind.save(books[0], &w);
    kb_reader_init(&r, w.data, w.n - 3 * 8); /* how many, and one of them */
    ck_assert_int_eq(ld_series_kind.load(book, &r), KB_OK);
    ck_assert(r.rc == KB_OK && r.pos == r.n);
    expect_total(book, "m0", 1, 5);
    check(book);
    ld_series_kind.close(book);
    free(book);
    kb_writer_close(&w);
    finish();
}
END_TEST

static void decide_and_expire(size_t i, unsigned arm)
{
    char id[24], name[8];
    struct kb_ev_slot slot = {.arm = name};
    struct kb_event ev = {.type = KB_EV_DECIDED};
    (void)snprintf(id, sizeof id, "%zu-%u", i, arm);
    (void)snprintf(name, sizeof name, "a%u", arm);
    ev.as.decided.decision = id;
    ev.as.decided.user = "u";
    ev.as.decided.slots = &slot;
    ev.as.decided.n_slots = 1;
    ev.as.decided.propensity = 0.5;
    ev.as.decided.expires_at_ms = now;
    give(ev);
    ev = (struct kb_event){.type = KB_EV_EXPIRED, .as.expired = {.decision = id}};
    give(ev);
}

/* More arms than names in every bucket that is kept, of days by the hour and then of two days by the minute. */
START_TEST(without_metrics_a_book_takes_no_room_for_them)
{
    begin(47);
    for (size_t i = 0; i < LD_SERIES_HOURS + LD_SERIES_MINUTES; i++) {
        now += i < LD_SERIES_HOURS ? 3600000 : 60000;
        for (unsigned arm = 0; arm <= LD_SERIES_ARMS; arm++)
            decide_and_expire(i, arm);
    }
    ck_assert_uint_gt(ld_series_kind.bytes(books[0]), 5000000);
    ck_assert_uint_lt(ld_series_kind.bytes(books[0]), 9000000);
    finish();
}
END_TEST

/* Every cut and every changed byte is refused or loads as something that can be asked. */
START_TEST(a_damaged_body_is_refused_or_harmless)
{
    struct kb_writer w;
    begin(17);
    live(60, 5, 4000);
    decide(5, 1);
    measure(&told[n_told - 1], 3, NULL, 1);
    kb_writer_init(&w);
    ld_series_kind.save(books[0], &w);
    for (size_t i = 0; i < w.n; i += 7) {
        for (int is_cut = 0; is_cut <= 1; is_cut++) {
            struct kb_reader r;
            struct ld_series_view v;
            void *book = calloc(1, ld_series_kind.size);
            w.data[i] ^= (unsigned char)(is_cut ? 0 : 0xa5);
            kb_reader_init(&r, w.data, is_cut ? i : w.n);
            const enum kb_err rc = ld_series_kind.load(book, &r);
            ck_assert(!is_cut || rc != KB_OK || r.rc != KB_OK || i == w.n);
            if (rc == KB_OK && ld_series_look(book, LD_STEP_MINUTE, LD_BY_METRIC, 0, INT64_MAX, &v) == KB_OK)
                ld_series_view_close(&v);
            ld_series_kind.close(book);
            free(book);
            w.data[i] ^= (unsigned char)(is_cut ? 0 : 0xa5);
        }
    }
    kb_writer_close(&w);
    finish();
}
END_TEST

int main(void)
{
    return KBT_RUN(
        "series", rows_are_what_a_count_of_all_decisions_gives, arms_beyond_those_with_names_are_summed,
        a_book_from_its_file_goes_on_as_it_was, only_the_last_versions_have_rows_of_their_own,
        minutes_of_two_days_and_hours_of_ninety_are_kept, what_never_ends_is_closed_two_days_after_its_window,
        a_name_is_free_again_when_nothing_of_its_arm_is_left, values_of_metrics_stand_in_the_minute_of_their_decision,
        the_metric_that_had_no_value_for_longest_gives_way,
        values_of_a_decision_that_the_book_has_not_seen_are_left_out,
        a_value_counts_whole_where_the_one_before_it_was_not_counted,
        a_name_that_comes_back_counts_the_values_of_open_decisions_anew, a_body_without_marks_of_values_is_read,
        without_metrics_a_book_takes_no_room_for_them, a_damaged_body_is_refused_or_harmless);
}
