/* Error texts and messages. */
#include <string.h>

#include "kbt.h"

START_TEST(every_code_has_a_text_of_its_own)
{
    const int codes[] = {KB_OK,
#define CODE(name, value, text) name,
                         KB_ERR_MAP(CODE)
#undef CODE
    };
    size_t n = sizeof codes / sizeof *codes;
    for (size_t i = 0; i < n; i++) {
        ck_assert_str_ne(kb_strerror(codes[i]), kb_strerror(12345));
        for (size_t j = 0; j < i; j++) {
            ck_assert_int_ne(codes[i], codes[j]);
            ck_assert_str_ne(kb_strerror(codes[i]), kb_strerror(codes[j]));
        }
    }
}
END_TEST

START_TEST(errors_are_negative)
{
#define CHECK(name, value, text) ck_assert_int_lt(name, 0);
    KB_ERR_MAP(CHECK)
#undef CHECK
}
END_TEST

START_TEST(fail_fills_the_message_and_returns_the_code)
{
    struct kb_errmsg msg;
    ck_assert_int_eq(kb_fail(KB_EINVAL, &msg, "/rho", "must be above %d", 0), KB_EINVAL);
    ck_assert_str_eq(msg.pointer, "/rho");
    ck_assert_str_eq(msg.text, "must be above 0");
    ck_assert_int_eq(kb_fail(KB_ENOMEM, &msg, NULL, "whole"), KB_ENOMEM);
    ck_assert_str_eq(msg.pointer, "");
}
END_TEST

START_TEST(fail_item_names_the_place_in_the_array)
{
    struct kb_errmsg msg;
    ck_assert_int_eq(kb_fail_item(KB_EEXIST, &msg, "/arms", 3, "/id", "twice: %s", "a"), KB_EEXIST);
    ck_assert_str_eq(msg.pointer, "/arms/3/id");
    ck_assert_str_eq(msg.text, "twice: a");
}
END_TEST

START_TEST(no_message_is_fine)
{
    ck_assert_int_eq(kb_fail(KB_EBUSY, NULL, "/x", "%s", "text"), KB_EBUSY);
    ck_assert_int_eq(kb_fail_item(KB_EBUSY, NULL, "/x", 1, "", "%s", "text"), KB_EBUSY);
}
END_TEST

START_TEST(long_messages_are_cut_and_terminated)
{
    char giant[1000];
    struct kb_errmsg msg;
    memset(giant, 'x', sizeof giant - 1);
    giant[sizeof giant - 1] = '\0';
    kb_fail(KB_EINVAL, &msg, giant, "%s", giant);
    ck_assert_uint_eq(strlen(msg.pointer), sizeof msg.pointer - 1);
    ck_assert_uint_eq(strlen(msg.text), sizeof msg.text - 1);
}
END_TEST

int main(void)
{
    return KBT_RUN("err", every_code_has_a_text_of_its_own, errors_are_negative,
                   fail_fills_the_message_and_returns_the_code, fail_item_names_the_place_in_the_array,
                   no_message_is_fine, long_messages_are_cut_and_terminated);
}
