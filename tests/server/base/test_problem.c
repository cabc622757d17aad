/* Problem documents: every code of the core has a status, faults are listed, texts survive whatever is in them. */
#include <check.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "kbt.h"
#include "base/problem.h"

static json_t *document(const struct ld_problem *p)
{
    size_t n;
    char *text = ld_problem_json(p, NULL, &n);
    ck_assert_ptr_nonnull(text);
    ck_assert_uint_eq(strlen(text), n);
    json_t *v = json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_msg(v != NULL, "not JSON: %s", text);
    free(text);
    return v;
}

static const char *member(const json_t *v, const char *key)
{
    return json_string_value(json_object_get(v, key));
}

START_TEST(every_code_of_the_core_has_a_status)
{
    static const struct {
        int rc, status;
    } rows[] = {{KB_EINVAL, 400},       {KB_ENOTFOUND, 404}, {KB_EEXIST, 409},   {KB_ECONFLICT, 409},
                {KB_EUNSUPPORTED, 422}, {KB_EGONE, 410},     {KB_ENOMEM, 503},   {KB_EBUSY, 503},
                {KB_ELIMIT, 503},       {KB_ENOTPD, 500},    {KB_ECORRUPT, 500}, {KB_EVERSION, 500},
                {KB_ECANCELLED, 503},   {KB_EFULL, 507},     {KB_ERANGE, 400}};
    size_t n_codes = 0;
#define WALK(name, value, text)                                                                                        \
    {                                                                                                                  \
        size_t i = 0;                                                                                                  \
        while (i < sizeof rows / sizeof *rows && rows[i].rc != (name))                                                 \
            i++;                                                                                                       \
        ck_assert_msg(i < sizeof rows / sizeof *rows, #name " has no status in this test");                            \
        ck_assert_int_eq(ld_problem_status(name), rows[i].status);                                                     \
        n_codes++;                                                                                                     \
    }
    KB_ERR_MAP(WALK)
#undef WALK
    ck_assert_uint_eq(n_codes, sizeof rows / sizeof *rows);
    ck_assert_int_eq(ld_problem_status(KB_OK), 200);
    ck_assert_int_eq(ld_problem_status(-999), 500);
}
END_TEST

START_TEST(the_first_status_wins)
{
    struct ld_problem p;
    ld_problem_init(&p);
    ck_assert_int_eq(p.status, 0);
    ld_problem_set(&p, 409, "the decision has %s", "another reward");
    ld_problem_set(&p, 500, "later");
    ld_problem_add(&p, "/reward", "is 1");
    json_t *v = document(&p);
    ck_assert_int_eq(p.status, 409);
    ck_assert_int_eq(json_integer_value(json_object_get(v, "status")), 409);
    ck_assert_str_eq(member(v, "detail"), "the decision has another reward");
    ck_assert_str_eq(member(v, "title"), "Conflict");
    ck_assert_str_eq(member(v, "type"), "/problems/conflict");
    const json_t *e = json_array_get(json_object_get(v, "errors"), 0);
    ck_assert_str_eq(member(e, "pointer"), "/reward");
    ck_assert_str_eq(member(e, "detail"), "is 1");
    json_decref(v);
}
END_TEST

START_TEST(a_fault_alone_makes_a_bad_request)
{
    struct ld_problem p;
    ld_problem_init(&p);
    ld_problem_add(&p, "", "expected an object");
    json_t *v = document(&p);
    ck_assert_int_eq(p.status, 400);
    ck_assert_uint_gt(strlen(member(v, "detail")), 0);
    ck_assert_uint_eq(json_array_size(json_object_get(v, "errors")), 1);
    json_decref(v);
}
END_TEST

START_TEST(without_faults_there_is_no_list_and_503_says_when)
{
    struct ld_problem p;
    ld_problem_init(&p);
    ld_problem_set(&p, 503, "the queue is full");
    json_t *v = document(&p);
    ck_assert_ptr_null(json_object_get(v, "errors"));
    ck_assert_ptr_null(json_object_get(v, "more_errors"));
    ck_assert_int_gt(p.retry_after_s, 0);
    json_decref(v);
}
END_TEST

START_TEST(faults_beyond_the_list_are_counted)
{
    struct ld_problem p;
    ld_problem_init(&p);
    for (int i = 0; i < LD_PROBLEM_MAX_ERRORS + 7; i++)
        ld_problem_add(&p, "/x", "fault %d", i);
    json_t *v = document(&p);
    ck_assert_uint_eq(json_array_size(json_object_get(v, "errors")), LD_PROBLEM_MAX_ERRORS);
    ck_assert_int_eq(json_integer_value(json_object_get(v, "more_errors")), 7);
    json_decref(v);
}
END_TEST

START_TEST(core_errors_keep_their_pointer_and_text)
{
    struct kb_errmsg msg;
    struct ld_problem p;
    ld_problem_init(&p);
    int rc = kb_fail(KB_EUNSUPPORTED, &msg, "/confidence/type", "cannot be had from %s", "kors");
    ld_problem_from_core(&p, rc, &msg);
    json_t *v = document(&p);
    ck_assert_int_eq(p.status, 422);
    ck_assert_str_eq(member(v, "detail"), "cannot be had from kors");
    ck_assert_str_eq(member(json_array_get(json_object_get(v, "errors"), 0), "pointer"), "/confidence/type");
    json_decref(v);
}
END_TEST

START_TEST(core_errors_without_a_message_have_the_codes_text)
{
    struct ld_problem p;
    ld_problem_init(&p);
    ld_problem_from_core(&p, KB_EGONE, NULL);
    ck_assert_int_eq(p.status, 410);
    ck_assert_str_eq(p.detail, kb_strerror(KB_EGONE));
    ck_assert_uint_eq(p.n_errors, 0);
}
END_TEST

/* Every length near the cut, so that it falls on every byte of the three-byte character. */
START_TEST(texts_are_cut_between_characters)
{
    for (size_t lead = 0; lead < 6; lead++) {
        char text[1024], *at = text;
        struct ld_problem p;
        memset(text, 'a', lead);
        for (at = text + lead; at + 4 < text + sizeof text; at += 3)
            memcpy(at, "\xe2\x82\xac", 3);
        *at = '\0';
        ld_problem_init(&p);
        ld_problem_add(&p, text, "%s", text);
        ld_problem_init(&p);
        ld_problem_set(&p, 400, "%s", text);
        ld_problem_add(&p, text, "%s", text);
        json_t *v = document(&p);
        const json_t *e = json_array_get(json_object_get(v, "errors"), 0);
        const char *cut[] = {member(v, "detail"), member(e, "pointer"), member(e, "detail")};
        for (size_t i = 0; i < 3; i++) {
            ck_assert_uint_gt(strlen(cut[i]), 100);
            ck_assert_ptr_null(strstr(cut[i], "\xef\xbf\xbd")); /* nothing had to be replaced */
        }
        json_decref(v);
    }
}
END_TEST

START_TEST(every_status_in_use_has_a_title)
{
    static const int statuses[] = {400, 401, 404, 405, 409, 410, 411, 413, 415, 422, 500, 503};
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
        ck_assert_str_ne(ld_status_title(statuses[i]), "Unknown Status");
}
END_TEST

int main(void)
{
    return KBT_RUN("problem", every_code_of_the_core_has_a_status, the_first_status_wins,
                   a_fault_alone_makes_a_bad_request, without_faults_there_is_no_list_and_503_says_when,
                   faults_beyond_the_list_are_counted, core_errors_keep_their_pointer_and_text,
                   core_errors_without_a_message_have_the_codes_text, texts_are_cut_between_characters,
                   every_status_in_use_has_a_title);
}
