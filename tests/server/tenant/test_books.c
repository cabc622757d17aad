/* Books: each takes every event of the log once, in order, whatever happens to the process, the file and the log. */
#include "base/buf.h"
#include "base/hash.h"
#include "tenant/fold.h"
#include "tenant/tenant_state.h"
#include "tenant_fixture.h"

/* A digest of all events in order: it differs where one is missing, comes twice or in another place. */
struct tally {
    uint64_t n, digest;
};

static bool has_no_memory;

static enum kb_err take(void *book, const struct kb_event *ev)
{
    struct tally *t = book;

    if (has_no_memory)
        return KB_ENOMEM;
    t->n++;
    t->digest = kb_hash_u64(kb_hash_u64(kb_hash_u64(t->digest, ev->seq), (uint64_t)ev->type), (uint64_t)ev->at_ms);
    if (ev->type == KB_EV_DECIDED) /* what the event points at is there */
        t->digest = kb_hash_bytes(t->digest, ev->as.decided.user, strlen(ev->as.decided.user));
    return KB_OK;
}

static void save(const void *book, struct kb_writer *w)
{
    const struct tally *t = book;

    kb_put_u64(w, t->n);
    kb_put_u64(w, t->digest);
}

static enum kb_err load(void *book, struct kb_reader *r)
{
    struct tally *t = book;

    t->n = kb_get_u64(r);
    t->digest = kb_get_u64(r);
    return r->rc;
}

static struct ld_book_kind kind = {
    .name = "tally", .version = 1, .size = sizeof(struct tally), .take = take, .save = save, .load = load};
static const struct ld_book_kind *const kinds[] = {&kind, NULL};

static void open_world(struct fixture *f)
{
    has_no_memory = false;
    kind.version = 1;
    fixture_world(f);
    f->world.books = kinds;
    f->settings = fixture_settings(FIXTURE_TRAFFIC);
    fixture_start(f);
}

/* The tenant's book, which must be up to its log. */
static struct tally tally_of(struct fixture *f)
{
    uint64_t seq = 0;
    const struct tally *book = ld_books_lock(&f->t->books, &kind, &seq);

    ck_assert_ptr_nonnull(book);
    const struct tally out = *book;
    ld_books_unlock(&f->t->books);
    ck_assert_uint_eq(seq, f->t->seq);
    return out;
}

static enum kb_err take_line(void *to, struct ld_line *line, struct kb_errmsg *msg)
{
    (void)msg;
    return take(to, &line->ev);
}

/* The oracle: the same fold of what the file has. */
static struct tally fold_of_log(const struct fixture *f)
{
    struct tally out = {0};
    static const uint32_t one = 1;
    struct ld_fold fold;

    ld_fold_init(&fold, (struct ld_sink){.take = take_line, .to = &out, .context_dim = &one, .arm_dim = &one});
    ck_assert_int_eq(ld_fold_store(&fold, f->t->store, 0, SIZE_MAX), 0);
    return out;
}

static void expect_equal(struct tally a, struct tally b)
{
    ck_assert_uint_gt(a.n, 0);
    ck_assert_uint_eq(a.n, b.n);
    ck_assert_uint_eq(a.digest, b.digest);
}

START_TEST(a_book_has_each_event_of_the_log_once)
{
    struct fixture f;

    open_world(&f);
    expect_equal(tally_of(&f), fold_of_log(&f)); /* the first event */
    fixture_run_traffic(&f, 0, 60);
    expect_equal(tally_of(&f), fold_of_log(&f));
    fixture_close(&f);
}
END_TEST

START_TEST(a_process_that_dies_loses_nothing_of_it)
{
    struct fixture f;

    open_world(&f);
    fixture_run_traffic(&f, 0, 20);
    fixture_restart(&f); /* nothing was saved */
    expect_equal(tally_of(&f), fold_of_log(&f));
    fixture_run_traffic(&f, 20, 30);
    ld_tenant_checkpoint(f.t);
    ck_assert_uint_eq(f.t->books.saved_seq, f.t->seq);
    fixture_run_traffic(&f, 30, 40);
    const struct tally before = tally_of(&f);
    fixture_restart(&f);
    ck_assert_uint_lt(f.t->books.saved_seq, f.t->seq);
    expect_equal(tally_of(&f), before);
    fixture_run_traffic(&f, 40, 50);
    expect_equal(tally_of(&f), fold_of_log(&f));
    fixture_close(&f);
}
END_TEST

START_TEST(a_book_without_memory_is_brought_in_step_later)
{
    struct fixture f;
    uint64_t seq;

    open_world(&f);
    fixture_run_traffic(&f, 0, 5);
    has_no_memory = true;
    fixture_run_traffic(&f, 5, 10);
    ck_assert_ptr_null(ld_books_lock(&f.t->books, &kind, &seq));
    has_no_memory = false;
    clock_ms += 60000;
    fixture_run_traffic(&f, 10, 20);
    run_all(f.t);
    expect_equal(tally_of(&f), fold_of_log(&f));
    fixture_close(&f);
}
END_TEST

START_TEST(a_saved_book_of_another_version_or_no_book_is_folded_anew)
{
    struct fixture f;

    open_world(&f);
    fixture_run_traffic(&f, 0, 20);
    ld_tenant_checkpoint(f.t);
    kind.version = 2;
    fixture_restart(&f);
    ck_assert_uint_eq(f.t->books.saved_seq, 0);
    expect_equal(tally_of(&f), fold_of_log(&f));
    ld_tenant_checkpoint(f.t);
    fixture_restart(&f);
    ck_assert_uint_eq(f.t->books.saved_seq, f.t->seq);
    fixture_close(&f);
}
END_TEST

START_TEST(a_saved_body_that_lies_is_not_believed)
{
    struct fixture f;
    struct ld_message why;
    unsigned char body[64] = {0};
    struct ld_book_row row = {.name = "tally", .version = 1, .body = body};

    open_world(&f);
    fixture_run_traffic(&f, 0, 20);
    const struct tally want = tally_of(&f);
    for (size_t n = 0; n <= sizeof body; n += 8) {
        row.seq = 7;
        row.n_body = n;
        body[6] = n == 32; /* dimensions that are none */
        ck_assert_int_eq(ld_store_put_books(f.t->store, &row, 1, &why), LD_STORE_OK);
        fixture_restart(&f);
        expect_equal(tally_of(&f), want);
    }
    row.seq = f.t->seq + 1; /* newer than the log */
    row.n_body = 32;
    body[6] = 0;
    ck_assert_int_eq(ld_store_put_books(f.t->store, &row, 1, &why), LD_STORE_OK);
    fixture_restart(&f);
    expect_equal(tally_of(&f), want);
    fixture_close(&f);
}
END_TEST

/* Compacts all but `keep` events. */
static void compact(struct fixture *f, uint64_t keep)
{
    struct ld_op *op = op_task(&ld_compaction);

    op->keep_events = keep;
    expect_status(f->t, op, 200);
    run_all(f->t);
    ck_assert_uint_gt(atomic_load(&f->t->log_kept), 1);
}

START_TEST(compaction_leaves_a_book_as_it_is)
{
    struct fixture f;

    open_world(&f);
    fixture_run_traffic(&f, 0, 60);
    struct tally want = fold_of_log(&f);
    compact(&f, 10);
    ck_assert_uint_ge(tally_of(&f).n, want.n); /* a reset may have come first */
    want = tally_of(&f);
    fixture_restart(&f);
    expect_equal(tally_of(&f), want);
    fixture_run_traffic(&f, 60, 70);
    ck_assert_uint_gt(tally_of(&f).n, want.n);
    fixture_close(&f);
}
END_TEST

START_TEST(a_book_that_comes_after_a_compaction_begins_with_the_summary)
{
    struct fixture f;

    open_world(&f);
    fixture_run_traffic(&f, 0, 60);
    compact(&f, 10);
    kind.version = 2;
    fixture_restart(&f);
    expect_equal(tally_of(&f), fold_of_log(&f));
    fixture_close(&f);
}
END_TEST

START_TEST(an_erasure_is_an_event_like_others)
{
    struct fixture f;

    open_world(&f);
    fixture_run_traffic(&f, 0, 30);
    const uint64_t n = tally_of(&f).n, seq = f.t->seq;
    struct ld_op *op = op_task(&ld_erasure);
    strcpy(op->user, "u1");
    expect_status(f.t, op, 200);
    ck_assert_uint_eq(tally_of(&f).n - n, f.t->seq - seq);
    fixture_run_traffic(&f, 30, 40);
    const struct tally want = tally_of(&f);
    ld_tenant_checkpoint(f.t);
    fixture_restart(&f);
    expect_equal(tally_of(&f), want);
    fixture_close(&f);
}
END_TEST

int main(void)
{
    return KBT_RUN("books", a_book_has_each_event_of_the_log_once, a_process_that_dies_loses_nothing_of_it,
                   a_book_without_memory_is_brought_in_step_later,
                   a_saved_book_of_another_version_or_no_book_is_folded_anew, a_saved_body_that_lies_is_not_believed,
                   compaction_leaves_a_book_as_it_is, a_book_that_comes_after_a_compaction_begins_with_the_summary,
                   an_erasure_is_an_event_like_others);
}
