/* Ids of requests: which `traceparent` is believed, and that ids repeat in no thread and between none. */
#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kbt.h"
#include "base/trace.h"

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define SPAN "00f067aa0ba902b7"

static bool continues(const char *header)
{
    struct ld_trace t;
    char id[LD_TRACE_BYTES];
    ld_trace_begin(&t, header);
    ld_trace_format(&t, id);
    ck_assert_uint_eq(strlen(id), 32);
    ck_assert_uint_eq(strspn(id, "0123456789abcdef"), 32);
    ck_assert_uint_ne(t.span, 0);
    ck_assert_uint_ne(t.span, 0x00f067aa0ba902b7u); /* this request's own, never the caller's */
    return strcmp(id, TRACE) == 0;
}

START_TEST(valid_traces_go_on)
{
    static const char *const valid[] = {
        "00-" TRACE "-" SPAN "-01", "00-" TRACE "-" SPAN "-00",   "00-" TRACE "-" SPAN "-ff",
        "01-" TRACE "-" SPAN "-01", "cc-" TRACE "-" SPAN "-01-x", "fe-" TRACE "-" SPAN "-01-",
    };
    for (size_t i = 0; i < sizeof valid / sizeof *valid; i++)
        ck_assert_msg(continues(valid[i]), "%s", valid[i]);
}
END_TEST

START_TEST(invalid_traces_are_ignored)
{
    static const char *const invalid[] = {
        "",
        "00",
        "00-" TRACE "-" SPAN,
        "00-" TRACE "-" SPAN "-",
        "00-" TRACE "-" SPAN "-0",
        "00-" TRACE "-" SPAN "-01-",
        "00-" TRACE "-" SPAN "-01-x",
        "00-" TRACE "-" SPAN "-011",
        "01-" TRACE "-" SPAN "-01x",
        "ff-" TRACE "-" SPAN "-01",
        "0-" TRACE "-" SPAN "-01-",
        "0g-" TRACE "-" SPAN "-01",
        "00-" TRACE "-" SPAN "-0g",
        "00_" TRACE "-" SPAN "-01",
        "00-" TRACE "_" SPAN "-01",
        "00-" TRACE "-" SPAN "_01",
        " 00-" TRACE "-" SPAN "-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-" SPAN "-01",
        "00-" TRACE "-00F067AA0BA902B7-01",
        "00-00000000000000000000000000000000-" SPAN "-01",
        "00-" TRACE "-0000000000000000-01",
        "00-4bf92f3577b34da6a3ce929d0e0e473-" SPAN "-01x",
    };
    ck_assert(!continues(NULL));
    for (size_t i = 0; i < sizeof invalid / sizeof *invalid; i++)
        ck_assert_msg(!continues(invalid[i]), "%s", invalid[i]);
    /* Half of an id of zeros is fine. */
    struct ld_trace t;
    ld_trace_begin(&t, "00-00000000000000000000000000000001-" SPAN "-01");
    ck_assert(t.high == 0 && t.low == 1);
}
END_TEST

enum { N_THREADS = 4, N_IDS = 20000 };
static struct ld_trace drawn[N_THREADS][N_IDS];

static void *draw(void *arg)
{
    for (size_t i = 0; i < N_IDS; i++)
        ld_trace_begin(&((struct ld_trace *)arg)[i], NULL);
    return NULL;
}

static int compare(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(uint64_t));
}

/* Every word that was drawn: 240,000 of 64 bits meet by chance once in 600 million runs. */
START_TEST(ids_are_distinct_between_threads)
{
    static uint64_t words[3 * N_THREADS * N_IDS];
    pthread_t thread[N_THREADS];
    size_t n = 0;
    for (int i = 0; i < N_THREADS; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, draw, drawn[i]), 0);
    for (int i = 0; i < N_THREADS; i++) {
        pthread_join(thread[i], NULL);
        for (int k = 0; k < N_IDS; k++) {
            words[n++] = drawn[i][k].high;
            words[n++] = drawn[i][k].low;
            words[n++] = drawn[i][k].span;
        }
    }
    qsort(words, n, sizeof *words, compare);
    for (size_t i = 1; i < n; i++)
        ck_assert_uint_ne(words[i - 1], words[i]);
}
END_TEST

START_TEST(a_thread_has_the_trace_that_it_entered)
{
    struct ld_trace t = {.high = 1, .low = 2, .span = 3};
    ck_assert_ptr_null(ld_trace_current());
    ld_trace_enter(&t);
    t.low = 7; /* copied */
    ck_assert_uint_eq(ld_trace_current()->low, 2);
    ld_trace_enter(NULL);
    ck_assert_ptr_null(ld_trace_current());
}
END_TEST

int main(void)
{
    return KBT_RUN("trace", valid_traces_go_on, invalid_traces_are_ignored, ids_are_distinct_between_threads,
                   a_thread_has_the_trace_that_it_entered);
}
