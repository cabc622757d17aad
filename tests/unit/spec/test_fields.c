/* The table of fields: it names every member of the struct, and each row counts in digests and snapshots. */
#include <stddef.h>
#include <string.h>

#include "kbt.h"
#include "spec/fields.h"

static struct kb_spec usual(void)
{
    struct kb_spec spec;
    kb_spec_init(&spec);
    return spec;
}

/* What no configuration has stands behind all that one may have, and behind all of `conf`. */
#define FIELDS_END offsetof(struct kb_spec, spaces)
#define GRID_START offsetof(struct kb_spec, conf.grid_start)

/* Where the bytes of rows end so far, in the order of their offsets; padding is less than what it aligns. */
START_TEST(rows_cover_the_struct)
{
    size_t end = 0;
    while (end < FIELDS_END) {
        if (end <= GRID_START && GRID_START - end < 8)
            end = GRID_START + 8;
        const struct kb_field *next = NULL;
        size_t at = FIELDS_END, size = 8;
        for (const struct kb_field *f = kb_fields; f < kb_fields + kb_n_fields; f++) {
            if (f->offset >= end && f->offset < at) {
                next = f;
                at = f->offset, size = f->size;
            }
            if (f->flag > 0 && f->flag >= end && f->flag < at) {
                next = f;
                at = f->flag, size = sizeof(bool);
            }
        }
        const size_t align = at % 8 == 0 ? 8 : next != NULL && next->kind == KB_FIELD_TEXT ? 1 : size;
        ck_assert_msg(at - end < align, "no row for what stands at %zu, before %s", end,
                      next != NULL ? next->pointer : "the end");
        end = next != NULL ? at + size : FIELDS_END;
    }
    ck_assert_uint_eq(end, FIELDS_END);
}
END_TEST

/* Puts another value into a field, within its range. */
static void move(const struct kb_field *f, struct kb_spec *spec)
{
    char *at = (char *)spec + f->offset;
    const double x = f->usual + (f->hi - f->usual) / 2;
    const uint64_t whole = f->size == sizeof(bool) ? f->usual == 0 : (uint64_t)f->usual + 1;

    if (f->kind == KB_FIELD_TEXT)
        strcpy(at, "another");
    else if (f->kind == KB_FIELD_WEIGHTS)
        ck_assert_int_eq(kb_split_put((struct kb_split *)(void *)at, "another", 2), KB_OK);
    else if (f->kind >= KB_FIELD_REAL)
        memcpy(at, f->kind == KB_FIELD_REWARD ? &(double){7} : &x, sizeof x);
    else if (f->size <= sizeof whole)
        memcpy(at, &whole, f->size); /* little-endian */
    else
        ck_abort_msg("%s: no value for its kind", f->pointer);
}

static struct kb_spec saved_and_loaded(const struct kb_spec *spec, enum kb_err want, size_t damaged)
{
    struct kb_writer w;
    struct kb_reader r;
    struct kb_spec again;

    kb_writer_init(&w);
    kb_spec_save(spec, &w);
    ck_assert_int_eq(w.rc, KB_OK);
    if (damaged < w.n)
        w.data[damaged] ^= 1;
    kb_reader_init(&r, w.data, w.n);
    ck_assert_int_eq(kb_spec_load(&again, &r), want);
    if (want == KB_OK)
        ck_assert_uint_eq(r.pos, r.n);
    for (size_t n = 0; n < w.n && want == KB_OK; n++) {
        kb_reader_init(&r, w.data, n);
        struct kb_spec cut;
        ck_assert_int_eq(kb_spec_load(&cut, &r), KB_ECORRUPT);
    }
    kb_writer_close(&w);
    return again;
}

START_TEST(every_row_counts_in_digest_and_snapshot)
{
    for (size_t i = 0; i < kb_n_fields; i++) {
        const struct kb_spec before = usual();
        struct kb_spec after = before;
        move(&kb_fields[i], &after);
        ck_assert_msg(kb_spec_digest(&after, 1) != kb_spec_digest(&before, 1), "%s", kb_fields[i].pointer);
        const struct kb_spec again = saved_and_loaded(&after, KB_OK, SIZE_MAX);
        ck_assert_uint_eq(kb_spec_digest(&again, 1), kb_spec_digest(&after, 1));
        if (kb_fields[i].flag == 0)
            continue;
        bool *flag = (bool *)((char *)&after + kb_fields[i].flag);
        *flag = !*flag;
        const struct kb_spec flagged = saved_and_loaded(&after, KB_OK, SIZE_MAX);
        ck_assert_uint_ne(kb_spec_digest(&flagged, 1), kb_spec_digest(&again, 1));
        ck_assert_uint_eq(kb_spec_digest(&flagged, 1), kb_spec_digest(&after, 1));
    }
}
END_TEST

START_TEST(what_another_table_has_saved_is_of_another_version)
{
    const struct kb_spec spec = usual();
    for (size_t at = 0; at < sizeof(uint64_t); at++)
        (void)saved_and_loaded(&spec, KB_EVERSION, at);
}
END_TEST

/* Both ends of every range, and what lies beyond. */
START_TEST(ends_are_taken_and_what_lies_beyond_is_named)
{
    for (size_t i = 0; i < kb_n_fields; i++) {
        const struct kb_field *f = &kb_fields[i];
        struct kb_spec spec = usual();
        struct kb_errmsg msg = {{0}, {0}};
        char *at = (char *)&spec + f->offset;

        ck_assert_int_eq(kb_fields_check(&spec, f->turn, &msg), KB_OK);
        if (f->turn == KB_TURN_N || f->kind == KB_FIELD_FLAG)
            continue;
        for (int end = 0; end < 2; end++) {
            const double in = end == 0 ? f->lo : f->hi, beyond = f->lo < 0 ? 2 * f->lo : f->lo - 1;
            const double out = end == 0 ? beyond : f->hi * 2 + 1;
            const uint64_t whole_in = (uint64_t)in, whole_out = end == 0 ? (uint64_t)f->lo - 1 : (uint64_t)f->hi + 1;
            memcpy(at, f->kind >= KB_FIELD_REAL ? (const void *)&in : &whole_in, f->size);
            ck_assert_int_eq(kb_fields_check(&spec, f->turn, &msg), f->is_open ? KB_EINVAL : KB_OK);
            memcpy(at, f->kind >= KB_FIELD_REAL ? (const void *)&out : &whole_out, f->size);
            ck_assert_int_eq(kb_fields_check(&spec, f->turn, &msg), KB_EINVAL);
            ck_assert_str_eq(msg.pointer, f->pointer);
        }
    }
}
END_TEST

int main(void)
{
    return KBT_RUN("fields", rows_cover_the_struct, every_row_counts_in_digest_and_snapshot,
                   what_another_table_has_saved_is_of_another_version, ends_are_taken_and_what_lies_beyond_is_named);
}
