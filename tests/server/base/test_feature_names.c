/* The mapping names-1, by hand-made trees: which keys an object has, what they add up to, and what is refused. That all
 * of it equals an implementation in another language, bit by bit, over random objects, is tests/http/b70_names.py. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/feature_names.h"
#include "base/hashing.h"
#include "kbt.h"

/* --- trees that C can spell ------------------------------------------------------------------------------ */

struct node {
    enum ld_named_kind kind;
    const char *key; /* of a member */
    double number;
    const char *text;
    const struct node *below;
    size_t n;
};

static void look(const void *v, struct ld_named_value *out)
{
    const struct node *node = v;
    const size_t n = node->kind == LD_NAMED_STRING ? strlen(node->text) : node->n;

    *out = (struct ld_named_value){node->kind, node->number, node->text, n};
}

static const void *item(const void *v, size_t i)
{
    return &((const struct node *)v)->below[i];
}

static int each(const void *v, int (*fn)(void *arg, const char *key, const void *member), void *arg)
{
    const struct node *node = v;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < node->n; i++)
        rc = fn(arg, node->below[i].key, &node->below[i]);
    return rc;
}

static const struct ld_named_tree tree = {look, item, each};

#define NUMBER(k, v) ((struct node){.kind = LD_NAMED_NUMBER, .key = (k), .number = (v)})
#define TEXT(k, s) ((struct node){.kind = LD_NAMED_STRING, .key = (k), .text = (s)})
#define OF(what, k, ...)                                                                                               \
    ((struct node){.kind = (what),                                                                                     \
                   .key = (k),                                                                                         \
                   .below = (const struct node[]){__VA_ARGS__},                                                        \
                   .n = sizeof((const struct node[]){__VA_ARGS__}) / sizeof(struct node)})
#define OBJECT(k, ...) OF(LD_NAMED_OBJECT, k, __VA_ARGS__)
#define ARRAY(k, ...) OF(LD_NAMED_ARRAY, k, __VA_ARGS__)

enum { DIM = 4096 };

static enum kb_err map(const struct node *object, const struct ld_name_map *of, double *x, struct kb_errmsg *msg)
{
    struct ld_names names = {0};
    const enum kb_err rc = ld_names_map(&names, of, LD_NAMED_CONTEXT, &tree, object, x, msg);

    ld_names_close(&names);
    return rc;
}

/* x += value at the key, by the published function alone. */
static void put(double *x, const char *key, double value)
{
    const uint32_t h = ld_murmur3(key, strlen(key), 7);

    x[(uint64_t)h * DIM >> 32] += h % 2 == 1 ? -value : value;
}

static void expect(const struct node *object, const double *want)
{
    const struct ld_name_map of = {.dim = DIM, .seed = 7};
    struct kb_errmsg msg = {"", ""};
    static double x[DIM];

    ck_assert_msg(map(object, &of, x, &msg) == KB_OK, "%s: %s", msg.pointer, msg.text);
    for (size_t i = 0; i < DIM; i++)
        ck_assert_msg(fabs(x[i] - want[i]) < 1e-15, "%zu: %.17g and not %.17g", i, x[i], want[i]);
}

static void expect_fault(const struct node *object, const char *pointer, const char *text)
{
    const struct ld_name_map of = {.dim = 8};
    struct kb_errmsg msg = {"", ""};
    double x[8];

    ck_assert_int_eq(map(object, &of, x, &msg), KB_EINVAL);
    ck_assert_str_eq(msg.pointer, pointer);
    ck_assert_msg(strstr(msg.text, text) != NULL, "%s", msg.text);
}

/* --- tests ----------------------------------------------------------------------------------------------- */

START_TEST(each_kind_of_value_has_the_keys_of_its_path)
{
    const struct node object = OBJECT(
        NULL, TEXT("device", "phone"), NUMBER("_id", 5),
        OBJECT("article", TEXT("topic", "sport"), NUMBER("age", 2), {.kind = LD_NAMED_TRUE, .key = "new"},
               {.kind = LD_NAMED_NOTHING, .key = "old"}, TEXT("empty", "")),
        ARRAY("tags", TEXT(NULL, "a"), NUMBER(NULL, -0.5), OBJECT(NULL, TEXT("x", "y"))), TEXT("a^b=c\\", "d^e"));
    double want[DIM] = {0}, article = sqrt(2 + asinh(2) * asinh(2)), tags = sqrt(1 + asinh(0.5) * asinh(0.5));

    put(want, "device=phone", 1 / sqrt(3)); /* one of three leaves of the namespace "" */
    put(want, "tags=a", 1 / sqrt(3));
    put(want, "a\\^b\\=c\\\\=d^e", 1 / sqrt(3));
    put(want, "article^topic=sport", 1 / article);
    put(want, "article^age", asinh(2) / article);
    put(want, "article^new", 1 / article);
    put(want, "tags^1", -asinh(0.5) / tags);
    put(want, "tags^x=y", 1 / tags);
    expect(&object, want);
}
END_TEST

START_TEST(a_pointer_without_room_ends_behind_a_whole_character)
{
    char name[3 * 70 + 1] = "", pointer[128] = "/";
    const struct node inner[] = {NUMBER(NULL, 1)};
    const struct node lists[] = {{.kind = LD_NAMED_ARRAY, .below = inner, .n = 1}};

    /* Two bytes each: 63 of them and the slash are 127. */
    for (int i = 0; i < 70; i++)
        strcat(name, "\xc3\xa4");
    memcpy(pointer + 1, name, 126);
    const struct node two = OBJECT(NULL, {.kind = LD_NAMED_ARRAY, .key = name, .below = lists, .n = 1});
    expect_fault(&two, pointer, "an array in an array");
    /* Three bytes each: 42 of them are 126, and nothing comes in place of what was cut. */
    for (int i = 0; i < 70; i++)
        memcpy(name + 3 * i, "\xe2\x82\xac", 4);
    (void)snprintf(pointer, sizeof pointer, "/%.126s", name);
    const struct node three = OBJECT(NULL, {.kind = LD_NAMED_ARRAY, .key = name, .below = lists, .n = 1});
    expect_fault(&three, pointer, "an array in an array");
    /* One more before them: the last one has no room, and one byte stays empty. */
    memmove(name + 1, name, 3 * 69);
    name[0] = 'x';
    name[1 + 3 * 69] = '\0';
    (void)snprintf(pointer, sizeof pointer, "/%.124s", name);
    const struct node one = OBJECT(NULL, {.kind = LD_NAMED_ARRAY, .key = name, .below = lists, .n = 1});
    expect_fault(&one, pointer, "an array in an array");
}
END_TEST

START_TEST(of_one_key_the_last_counts_and_texts_are_keys_of_their_own)
{
    const struct node object =
        OBJECT(NULL, ARRAY("a", OBJECT(NULL, NUMBER("n", 9), TEXT("t", "x")),
                           OBJECT(NULL, NUMBER("n", 0.25), TEXT("t", "y")), OBJECT(NULL, TEXT("t", "x"))));
    const double n = asinh(0.25), norm = sqrt(2 + n * n);
    double want[DIM] = {0};

    put(want, "a^n", n / norm);
    put(want, "a^t=x", 1 / norm);
    put(want, "a^t=y", 1 / norm);
    expect(&object, want);
}
END_TEST

START_TEST(sixteen_numbers_are_an_embedding_and_fifteen_are_not)
{
    struct node item[17];
    char key[8];

    for (size_t n = 15; n <= 17; n++) {
        double want[DIM] = {0}, sum = 0;
        for (size_t i = 0; i < n; i++)
            item[i] = NUMBER(NULL, 1e200 * (double)(i + 1));
        const struct node object = OBJECT(NULL, {.kind = LD_NAMED_ARRAY, .key = "v", .below = item, .n = n});
        for (size_t i = 0; i < n; i++)
            sum += n < 16 ? pow(asinh(item[i].number), 2) : (double)((i + 1) * (i + 1));
        for (size_t i = 0; i < n; i++) {
            snprintf(key, sizeof key, "v^%zu", i);
            put(want, key, (n < 16 ? asinh(item[i].number) : (double)(i + 1)) / sqrt(sum));
        }
        expect(&object, want);
    }
}
END_TEST

START_TEST(weights_scale_namespaces_and_small_blocks_keep_their_size)
{
    const struct node object =
        OBJECT(NULL, NUMBER("", 0.1), OBJECT("", NUMBER("k", 0.2)), OBJECT("w", NUMBER("k", 0.1)));
    struct ld_name_map of = {.dim = DIM, .seed = 7};
    static double x[DIM], want[DIM];
    struct kb_errmsg msg;

    ck_assert_int_eq(kb_split_put(&of.weights, "", 4), KB_OK);
    ck_assert_int_eq(kb_split_put(&of.weights, "w", 0), KB_OK);
    ck_assert_int_eq(map(&object, &of, x, &msg), KB_OK);
    put(want, "", 2 * asinh(0.1));
    put(want, "^k", 2 * asinh(0.2));
    for (size_t i = 0; i < DIM; i++)
        ck_assert(fabs(x[i] - want[i]) < 1e-15);
}
END_TEST

START_TEST(the_order_of_members_changes_no_bit)
{
    struct node member[40];
    char key[40][8];
    const struct ld_name_map of = {.dim = 3, .seed = 1};
    double first[3], x[3];
    struct kb_errmsg msg;

    for (size_t i = 0; i < 40; i++) {
        snprintf(key[i], sizeof key[i], "k%zu", i);
        member[i] = NUMBER(key[i], 1.0 / (double)(i + 3));
    }
    for (int turn = 0; turn < 50; turn++) {
        const struct node object = {.kind = LD_NAMED_OBJECT, .below = member, .n = 40};
        ck_assert_int_eq(map(&object, &of, turn == 0 ? first : x, &msg), KB_OK);
        ck_assert(turn == 0 || memcmp(first, x, sizeof x) == 0);
        const struct node moved = member[turn % 40];
        member[turn % 40] = member[(turn * 7 + 1) % 40];
        member[(turn * 7 + 1) % 40] = moved;
    }
}
END_TEST

START_TEST(squash_is_asinh_within_two_units)
{
    for (int e = -1074; e < 1024; e++)
        for (int i = 0; i < 40; i++) {
            const double v = ldexp(1 + i / 40.0, e), want = asinh(v), got = ld_names_squash(v);
            ck_assert_msg(fabs(got - want) <= 2 * (nextafter(want, INFINITY) - want), "%.17g: %.17g", v, got);
            ck_assert(ld_names_squash(-v) == -got);
        }
    ck_assert(ld_names_squash(0) == 0);
}
END_TEST

/* A chain of n objects with names of so many bytes. */
static struct node chain(struct node *room, size_t n, const char *key)
{
    for (size_t i = 0; i < n; i++)
        room[i] =
            i == 0 ? NUMBER(key, 1) : (struct node){.kind = LD_NAMED_OBJECT, .key = key, .below = &room[i - 1], .n = 1};
    return (struct node){.kind = LD_NAMED_OBJECT, .below = &room[n - 1], .n = 1};
}

START_TEST(limits_are_told_with_their_place)
{
    struct node room[16], many[1001];
    char name[513];
    const struct ld_name_map of = {.dim = 8};
    struct kb_errmsg msg;
    double x[8];

    const struct node nested = OBJECT(NULL, ARRAY("a/b", NUMBER(NULL, 1), ARRAY(NULL, NUMBER(NULL, 2))));
    expect_fault(&nested, "/a~1b/1", "an array in an array");
    struct node object = chain(room, 8, "k");
    ck_assert_int_eq(map(&object, &of, x, &msg), KB_OK);
    object = chain(room, 9, "k");
    expect_fault(&object, "/k/k/k/k/k/k/k/k/k", "more than 8 deep");
    memset(name, 'n', sizeof name);
    name[511] = '\0';
    object = chain(room, 1, name);
    ck_assert_int_eq(map(&object, &of, x, &msg), KB_OK);
    name[0] = '=';
    ck_assert_int_eq(map(&object, &of, x, &msg), KB_EINVAL);
    ck_assert_msg(strstr(msg.text, "more than 511 bytes") != NULL, "%s", msg.text);
    for (size_t i = 0; i < 1001; i++)
        many[i] = TEXT(NULL, "again");
    object = (struct node){.kind = LD_NAMED_ARRAY, .key = "t", .below = many, .n = 1000};
    const struct node whole = {.kind = LD_NAMED_OBJECT, .below = &object, .n = 1};
    ck_assert_int_eq(map(&whole, &of, x, &msg), KB_OK);
    object.n = 1001;
    expect_fault(&whole, "/t/1000", "more than 1000 features");
}
END_TEST

START_TEST(an_object_of_nothing_is_the_vector_of_zeros)
{
    const struct node object = OBJECT(NULL, NUMBER("_a", 1), {.kind = LD_NAMED_NOTHING, .key = "b"});
    const struct ld_name_map of = {.dim = 2};
    double x[2] = {5, 5};
    struct kb_errmsg msg;

    ck_assert_int_eq(map(&object, &of, x, &msg), KB_OK);
    ck_assert(x[0] == 0 && x[1] == 0);
}
END_TEST

/* Whatever a server tells: a tilde that ends a pointer is one, and what is behind the pointer is not read. */
START_TEST(a_user_is_looked_for_up_to_the_end_of_the_pointer)
{
    const struct node object = OBJECT(NULL, TEXT("a~", "ann"));
    const struct ld_name_map of = {.dim = 2, .user = "/a~\0b"};
    char id[LD_NAMES_USER_BYTES + 1], path[LD_NAMES_PATH_BYTES + 1];
    struct kb_errmsg msg;

    ck_assert_int_eq(ld_names_user(&of, &tree, &object, id, &msg), KB_OK);
    ck_assert_str_eq(id, "ann");
    ck_assert_uint_eq(ld_names_path(of.user, path), 0);
}
END_TEST

START_TEST(a_user_has_no_control_characters)
{
    const struct ld_name_map of = {.dim = 2, .user = "/u"};
    char id[LD_NAMES_USER_BYTES + 1];
    struct kb_errmsg msg;

    for (unsigned c = 1; c < 0x100; c++) {
        const char text[] = {'a', c < 0x80 ? (char)c : (char)(c < 0xc0 ? 0xc2 : 0xc3),
                             c < 0x80 ? '\0' : (char)(0x80 | (c & 0x3f)), '\0'};
        const struct node object = OBJECT(NULL, TEXT("u", text));
        const bool is_control = c < 0x20 || (c >= 0x7f && c < 0xa0);

        ck_assert_int_eq(ld_names_user(&of, &tree, &object, id, &msg), is_control ? KB_EINVAL : KB_OK);
        ck_assert_str_eq(id, is_control ? "" : text);
    }
}
END_TEST

START_TEST(a_hash_in_pieces_is_the_hash_of_the_whole)
{
    const char *text = "article^topic=sport and some more bytes";
    const size_t n = strlen(text);

    for (size_t a = 0; a <= n; a++)
        for (size_t b = a; b <= n; b++) {
            struct ld_murmur m = {.h = 9};
            ld_murmur_add(&m, text, a);
            ld_murmur_add(&m, text + a, b - a);
            ld_murmur_add(&m, text + b, n - b);
            ck_assert_uint_eq(ld_murmur_end(&m), ld_murmur3(text, n, 9));
        }
}
END_TEST

int main(void)
{
    return KBT_RUN("feature names", each_kind_of_value_has_the_keys_of_its_path,
                   a_pointer_without_room_ends_behind_a_whole_character,
                   of_one_key_the_last_counts_and_texts_are_keys_of_their_own,
                   sixteen_numbers_are_an_embedding_and_fifteen_are_not,
                   weights_scale_namespaces_and_small_blocks_keep_their_size, the_order_of_members_changes_no_bit,
                   squash_is_asinh_within_two_units, limits_are_told_with_their_place,
                   an_object_of_nothing_is_the_vector_of_zeros, a_user_is_looked_for_up_to_the_end_of_the_pointer,
                   a_user_has_no_control_characters, a_hash_in_pieces_is_the_hash_of_the_whole);
}
