/* Real people: likes, networks and samples read as they are, halves that do not leak into each other, features against
 * Jacobi's eigenvalue algorithm. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kbt.h"
#include "demo/people.h"

/* A file with this text; its name ends in `suffix`. Static storage, four files at a time. */
static const char *file_of(const char *text, const char *suffix)
{
    static char names[4][64];
    static unsigned turn;
    char *name = names[turn++ % 4];
    snprintf(name, 64, "/tmp/lc-likes-XXXXXX%s", suffix);
    int fd = mkstemps(name, (int)strlen(suffix));
    FILE *f = fdopen(fd, "w");
    fputs(text, f);
    fclose(f);
    return name;
}

static int read_likes(struct lc_likes *l, struct kb_ids *users, const char *text, const char *suffix, char *why)
{
    const char *path = file_of(text, suffix);
    kb_ids_init(users, kbt_key);
    int rc = lc_likes_read(l, users, path, why);
    remove(path);
    return rc;
}

/* "user:arm,arm; ..." */
static const char *show(const struct lc_likes *l, const struct kb_ids *users)
{
    static char out[1024];
    size_t n = 0;
    out[0] = '\0';
    for (uint32_t u = 0; u < l->n_users; u++) {
        n += (size_t)snprintf(out + n, sizeof out - n, "%s:", kb_ids_str(users, u));
        for (size_t i = l->start[u]; i < l->start[u + 1]; i++)
            n += (size_t)snprintf(out + n, sizeof out - n, "%s,", kb_ids_str(&l->arms, l->arm[i]));
        n += (size_t)snprintf(out + n, sizeof out - n, " ");
    }
    return out;
}

START_TEST(both_formats_read_the_same)
{
    static const char *const texts[] = {"{\"ann\":[\"pop\",\"jazz\",\"pop\"],\"bob\":[\"rock\"],\"cat\":[]}",
                                        "user,arm,count\nann,pop,3\nann,jazz,1\nbob,rock,9\nann,pop,1\nann,rap,0\n",
                                        "user\tartist\nann\tpop\nann\tjazz\nbob\trock\nann\tpop\n"};
    static const char *const suffix[] = {".json", ".csv", ".dat"};
    for (size_t i = 0; i < 3; i++) {
        struct lc_likes l;
        struct kb_ids users;
        char why[LC_WHY] = "";
        ck_assert_msg(read_likes(&l, &users, texts[i], suffix[i], why) == 0, "%s", why);
        ck_assert_ptr_nonnull(strstr(show(&l, &users), "ann:pop,jazz, bob:rock, "));
        ck_assert_uint_eq(l.n, 3);
        ck_assert_uint_eq(l.n_repeats, 1);
        ck_assert_uint_eq(l.n_fans_total, 2);
        ck_assert_uint_eq(l.n_fans[0] + l.n_fans[1] + l.n_fans[2], 3);
        lc_likes_close(&l);
        kb_ids_close(&users);
    }
}
END_TEST

START_TEST(faulty_likes_say_where)
{
    static const struct {
        const char *text, *suffix, *want;
    } cases[] = {{"{\"ann\":\"pop\"}", ".json", "user \"ann\": expected an array"},
                 {"{\"ann\":[1]}", ".json", "user \"ann\": an arm is a string"},
                 {"{\"ann\":[\"\"]}", ".json", "user \"ann\": an arm is a string of 1 to 256"},
                 {"[1]", ".json", "expected {user: [arm, ...]}"},
                 {"{", ".json", "line 1"},
                 {"a,b,x\nc,d,y\n", ".csv", ":2: count \"y\": expected a finite number"},
                 {"ann,pop\nbob\n", ".csv", ":2: 1 column: a like is user,arm or user,arm,count"},
                 {"ann\n", ".csv", ":1: 1 column: a like is user,arm or user,arm,count"},
                 {"ann,pop,1,2\n", ".csv", ":1: 4 columns: a like is user,arm or user,arm,count"},
                 {"ann,pop\nbob,\n", ".csv", ":2: an empty arm id"},
                 {"ann,pop\n,pop\n", ".csv", ":2: an empty user id"},
                 {"", ".csv", "no like in this file"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lc_likes l;
        struct kb_ids users;
        char why[LC_WHY] = "";
        ck_assert_int_ne(read_likes(&l, &users, cases[i].text, cases[i].suffix, why), 0);
        ck_assert_msg(strstr(why, cases[i].want) != NULL, "%s", why);
        lc_likes_close(&l);
        kb_ids_close(&users);
    }
}
END_TEST

/* --- split ----------------------------------------------------------------------------------------------- */

START_TEST(halves_are_halves_and_do_not_depend_on_the_order_of_the_file)
{
    struct lc_likes a, b;
    struct kb_ids ua, ub;
    char why[LC_WHY];
    bool sa[8], sb[8];
    size_t agree = 0, n_train[3] = {0};
    ck_assert_int_eq(
        read_likes(&a, &ua, "{\"x\":[\"1\",\"2\",\"3\",\"4\"],\"y\":[\"1\"],\"z\":[\"1\",\"2\",\"3\"]}", ".json", why),
        0);
    ck_assert_int_eq(
        read_likes(&b, &ub, "{\"z\":[\"3\",\"2\",\"1\"],\"x\":[\"4\",\"2\",\"1\",\"3\"],\"y\":[\"1\"]}", ".json", why),
        0);
    lc_likes_split(&a, &ua, 7, sa);
    lc_likes_split(&b, &ub, 7, sb);
    for (uint32_t u = 0; u < 3; u++)
        for (size_t i = a.start[u]; i < a.start[u + 1]; i++) {
            uint32_t other = kb_ids_find(&ub, kb_ids_str(&ua, u));
            n_train[u] += sa[i];
            for (size_t j = b.start[other]; j < b.start[other + 1]; j++)
                if (strcmp(kb_ids_str(&a.arms, a.arm[i]), kb_ids_str(&b.arms, b.arm[j])) == 0)
                    agree += sa[i] == sb[j];
        }
    ck_assert_uint_eq(agree, 8);
    ck_assert(n_train[0] == 2 && n_train[1] == 1 && n_train[2] == 2);
    lc_likes_close(&a);
    lc_likes_close(&b);
    kb_ids_close(&ua);
    kb_ids_close(&ub);
}
END_TEST

/* --- network --------------------------------------------------------------------------------------------- */

START_TEST(a_network_drops_loops_and_repeats)
{
    struct lc_network net;
    struct kb_ids users;
    char why[LC_WHY] = "";
    const char *path = file_of("a,b,2\nb,a,5\nc,c,1\nb,c,1\na,b,2\n", ".csv");
    kb_ids_init(&users, kbt_key);
    ck_assert_msg(lc_network_read(&net, &users, path, why) == 0, "%s", why);
    ck_assert(net.n_users == 3 && net.n_edges == 2 && net.n_loops == 1 && net.n_repeats == 2);
    ck_assert_double_eq(net.edges[0].weight, 2.0); /* the first of a repeat counts */
    ck_assert(net.edges[0].u == 0 && net.edges[0].v == 1 && net.edges[1].u == 1 && net.edges[1].v == 2);
    lc_network_close(&net);
    kb_ids_close(&users);
    remove(path);
}
END_TEST

/* A path 0-1-...-59 and a far triangle: balls are intervals of the path, whatever the seed. */
START_TEST(a_ball_is_connected_and_lies_in_the_largest_component)
{
    struct kb_edge edges[62];
    struct lc_network net;
    uint32_t ball[63];
    size_t n = 0;
    bool differs = false;
    for (uint32_t i = 0; i < 59; i++)
        edges[n++] = (struct kb_edge){i, i + 1, 1.0};
    edges[n++] = (struct kb_edge){60, 61, 1.0};
    edges[n++] = (struct kb_edge){61, 62, 1.0};
    edges[n++] = (struct kb_edge){60, 62, 1.0};
    lc_network_build(&net, 63, edges, n);
    for (uint64_t seed = 0; seed < 20; seed++) {
        uint32_t low = 63, high = 0;
        ck_assert_uint_eq(lc_network_ball(&net, seed, 15, ball), 15);
        for (size_t i = 0; i < 15; i++) {
            low = ball[i] < low ? ball[i] : low;
            high = ball[i] > high ? ball[i] : high;
        }
        ck_assert_uint_eq(high - low, 14); /* 15 distinct users in a row */
        ck_assert_uint_lt(high, 60);
        differs = differs || low != 0;
    }
    ck_assert(differs);
    ck_assert_uint_eq(lc_network_ball(&net, 1, 63, ball), 60); /* no more than the component holds */
    lc_network_close(&net);
}
END_TEST

/* --- features -------------------------------------------------------------------------------------------- */

/* Two groups of arms that are never liked together: features are equal within a group and orthogonal across. */
START_TEST(features_separate_groups_that_share_no_fans)
{
    const size_t m = 6, dim = 2;
    double co[36] = {0}, x[12];
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < m; j++)
            co[i * m + j] = i / 3 == j / 3 ? 10.0 : 0.0;
    co[0 * m + 1] = co[1 * m + 0] = 12.0; /* not two equal blocks: the eigenvalues differ */
    lc_arm_features(m, co, dim, x);
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < m; j++) {
            double dot = x[i * dim] * x[j * dim] + x[i * dim + 1] * x[j * dim + 1];
            ck_assert_double_eq_tol(dot, i / 3 == j / 3 ? 1.0 : 0.0, 1e-6);
        }
}
END_TEST

/* Eigenvalues and eigenvectors of a symmetric matrix by cyclic Jacobi rotations: a becomes diagonal, v (rows x columns)
 * holds the vectors as columns. An oracle that shares nothing with orthogonal iteration. */
static void jacobi(size_t n, double *a, double *v)
{
    for (size_t i = 0; i < n * n; i++)
        v[i] = i / n == i % n ? 1.0 : 0.0;
    for (int sweep = 0; sweep < 60; sweep++)
        for (size_t p = 0; p < n; p++)
            for (size_t q = p + 1; q < n; q++) {
                double angle = 0.5 * atan2(2.0 * a[p * n + q], a[q * n + q] - a[p * n + p]);
                double c = cos(angle), s = sin(angle);
                for (size_t k = 0; k < n; k++) {
                    double x = a[k * n + p], y = a[k * n + q];
                    a[k * n + p] = c * x - s * y;
                    a[k * n + q] = s * x + c * y;
                    x = v[k * n + p], y = v[k * n + q];
                    v[k * n + p] = c * x - s * y;
                    v[k * n + q] = s * x + c * y;
                }
                for (size_t k = 0; k < n; k++) {
                    double x = a[p * n + k], y = a[q * n + k];
                    a[p * n + k] = c * x - s * y;
                    a[q * n + k] = s * x + c * y;
                }
            }
}

static size_t largest_but(size_t n, const double *a, size_t but)
{
    size_t best = but == 0 ? 1 : 0;
    for (size_t i = 0; i < n; i++)
        if (i != but && fabs(a[i * n + i]) > fabs(a[best * n + best]))
            best = i;
    return best;
}

START_TEST(features_are_the_leading_eigenvectors_of_ppmi)
{
    enum { M = 6 };
    double co[M * M] = {0}, p[M * M], v[M * M], x[M * 2], row[M] = {0}, total = 0.0;
    for (size_t i = 0; i < M; i++)
        for (size_t j = 0; j < i; j++)
            co[i * M + j] = co[j * M + i] = (i < 3) == (j < 3) ? 20.0 + (double)(i * j) : 2.0 + (double)i;
    for (size_t i = 0; i < M * M; i++) {
        row[i / M] += co[i];
        total += co[i];
    }
    for (size_t i = 0; i < M; i++)
        for (size_t j = 0; j < M; j++)
            p[i * M + j] = i == j ? 0.0 : fmax(0.0, log(co[i * M + j] * total / (row[i] * row[j])));
    lc_arm_features(M, co, 2, x);
    jacobi(M, p, v);
    size_t first = largest_but(M, p, M), second = largest_but(M, p, first);
    double l1 = fabs(p[first * M + first]), l2 = fabs(p[second * M + second]);
    ck_assert_double_gt(l2, 0.1);
    for (size_t i = 0; i < M; i++)
        for (size_t j = 0; j < M; j++) { /* inner products do not depend on the signs of eigenvectors */
            double fi[2] = {sqrt(l1) * v[i * M + first], sqrt(l2) * v[i * M + second]};
            double fj[2] = {sqrt(l1) * v[j * M + first], sqrt(l2) * v[j * M + second]};
            double want = (fi[0] * fj[0] + fi[1] * fj[1]) / (hypot(fi[0], fi[1]) * hypot(fj[0], fj[1]));
            double got = x[i * 2] * x[j * 2] + x[i * 2 + 1] * x[j * 2 + 1];
            ck_assert_double_eq_tol(got, want, 1e-8);
        }
}
END_TEST

/* --- people ---------------------------------------------------------------------------------------------- */

struct crowd {
    struct kb_ids users;
    struct lc_network net;
    struct lc_likes likes;
};

/* 60 users on a ring with chords, 30 arms, 8 or 9 likes each; arm "rare" has a single fan. */
static void make_crowd(struct crowd *c)
{
    struct lc_text edges = {0}, likes = {0};
    char why[LC_WHY] = "";
    for (int u = 0; u < 60; u++) {
        lc_text_printf(&edges, "p%d,p%d\np%d,p%d\n", u, (u + 1) % 60, u, (u + 7) % 60);
        for (int k = 0; k < 8; k++)
            lc_text_printf(&likes, "p%d,g%d\n", u, (u / 2 + k * k) % 30);
    }
    for (int u = 0; u < 60; u++) /* some arms are liked by more */
        lc_text_printf(&likes, "p%d,g%d\n", u, u % 5);
    lc_text_puts(&likes, "p3,rare\n");
    const char *e = file_of(edges.data, ".csv"), *l = file_of(likes.data, ".csv");
    kb_ids_init(&c->users, kbt_key);
    ck_assert_msg(lc_network_read(&c->net, &c->users, e, why) == 0, "%s", why);
    ck_assert_msg(lc_likes_read(&c->likes, &c->users, l, why) == 0, "%s", why);
    remove(e);
    remove(l);
    lc_text_close(&edges);
    lc_text_close(&likes);
}

static void free_crowd(struct crowd *c)
{
    lc_likes_close(&c->likes);
    lc_network_close(&c->net);
    kb_ids_close(&c->users);
}

static bool user_likes(const struct crowd *c, uint32_t user, uint32_t arm)
{
    for (size_t i = c->likes.start[user]; i < c->likes.start[user + 1]; i++)
        if (c->likes.arm[i] == arm)
            return true;
    return false;
}

/* The rule that keeps the game honest: a candidate is never a training like, and every like among the candidates is
 * held out, hence pays. */
START_TEST(candidates_are_never_in_the_training_half)
{
    struct crowd c;
    struct lc_people p;
    char why[LC_WHY] = "";
    struct lc_people_options o = {.seed = 5, .n_users = 40, .n_candidates = 6, .dim = 4, .max_arms = 100};
    size_t arms[6], hits = 0;
    make_crowd(&c);
    ck_assert_msg(lc_people_new(&p, &c.net, &c.users, &c.likes, &o, why) == 0, "%s", why);
    ck_assert_uint_eq(p.n_members, 40);
    for (size_t t = 0; t < 2000; t++) {
        uint32_t m = lc_people_player(&p, t);
        size_t n = lc_people_candidates(&p, t, arms);
        ck_assert_uint_eq(n, 6);
        for (size_t i = 0; i < n; i++) {
            for (size_t j = p.train_start[m]; j < p.train_start[m + 1]; j++)
                ck_assert_uint_ne(p.train[j], arms[i]);
            for (size_t j = 0; j < i; j++)
                ck_assert_uint_ne(arms[j], arms[i]);
            ck_assert_int_eq(lc_people_likes(&p, m, arms[i]), user_likes(&c, p.member[m], p.arm[arms[i]]));
            hits += lc_people_likes(&p, m, arms[i]);
        }
    }
    double best, chance;
    lc_people_bounds(&p, 2000, &best, &chance);
    ck_assert_double_eq_tol(chance, (double)hits / 12000.0, 1e-12);
    ck_assert(best > chance && best <= 1.0);
    lc_people_close(&p);
    free_crowd(&c);
}
END_TEST

/* Features must not change when held-out likes do: they are made from what is left after these are taken away. */
START_TEST(features_come_from_the_training_half_alone)
{
    struct crowd c;
    struct lc_people p;
    char why[LC_WHY] = "";
    struct lc_people_options o = {.seed = 9, .n_users = 0, .n_candidates = 6, .dim = 3, .max_arms = 100};
    make_crowd(&c);
    ck_assert_msg(lc_people_new(&p, &c.net, &c.users, &c.likes, &o, why) == 0, "%s", why);
    size_t m = p.n_arms;
    double *co = calloc(m * m, sizeof *co), *x = calloc(m * 3, sizeof *x);
    size_t n_train = 0;
    for (size_t u = 0; u < p.n_members; u++)
        for (size_t i = p.train_start[u]; i < p.train_start[u + 1]; i++, n_train++)
            for (size_t j = p.train_start[u]; j < p.train_start[u + 1]; j++)
                co[p.train[i] * m + p.train[j]] += 1.0;
    ck_assert_uint_lt(n_train, c.likes.n * 6 / 10);
    lc_arm_features(m, co, 3, x);
    ck_assert_mem_eq(x, p.features, m * 3 * sizeof *x);
    free(co);
    free(x);
    lc_people_close(&p);
    free_crowd(&c);
}
END_TEST

START_TEST(rare_arms_are_those_with_few_fans)
{
    struct crowd c;
    struct lc_people p;
    char why[LC_WHY] = "";
    struct lc_people_options o = {.seed = 1, .n_candidates = 2, .max_arms = 100, .rare_share = 0.02};
    make_crowd(&c);
    /* one arm with one fan of 60 users: too few to play, and the message says what is left */
    ck_assert_int_eq(lc_people_new(&p, &c.net, &c.users, &c.likes, &o, why), -1);
    ck_assert_ptr_nonnull(strstr(why, "1 arms"));
    lc_people_close(&p);
    o.rare_share = 0.28; /* 16 fans of 60, but for the five that more like */
    ck_assert_msg(lc_people_new(&p, &c.net, &c.users, &c.likes, &o, why) == 0, "%s", why);
    ck_assert(p.n_arms < c.likes.arms.n);
    for (size_t i = 0; i < p.n_arms; i++)
        ck_assert_double_lt((double)c.likes.n_fans[p.arm[i]], 0.28 * 60.0);
    lc_people_close(&p);
    free_crowd(&c);
}
END_TEST

START_TEST(a_sample_keeps_the_edges_among_its_members)
{
    struct crowd c;
    struct lc_people p;
    char why[LC_WHY] = "";
    size_t inside = 0;
    bool is_member[60] = {false};
    struct lc_people_options o = {.seed = 2, .n_users = 25, .n_candidates = 4, .max_arms = 100};
    make_crowd(&c);
    ck_assert_msg(lc_people_new(&p, &c.net, &c.users, &c.likes, &o, why) == 0, "%s", why);
    for (size_t i = 0; i < p.n_members; i++)
        is_member[p.member[i]] = true;
    for (size_t i = 0; i < c.net.n_edges; i++)
        inside += is_member[c.net.edges[i].u] && is_member[c.net.edges[i].v];
    ck_assert_uint_eq(p.n_edges, inside);
    for (size_t i = 0; i < p.n_edges; i++)
        ck_assert(p.edges[i].u < 25 && p.edges[i].v < 25 && p.edges[i].u != p.edges[i].v);
    lc_people_close(&p);
    free_crowd(&c);
}
END_TEST

int main(void)
{
    return KBT_RUN("likes", both_formats_read_the_same, faulty_likes_say_where,
                   halves_are_halves_and_do_not_depend_on_the_order_of_the_file) |
           KBT_RUN("network", a_network_drops_loops_and_repeats,
                   a_ball_is_connected_and_lies_in_the_largest_component) |
           KBT_RUN("features", features_separate_groups_that_share_no_fans,
                   features_are_the_leading_eigenvectors_of_ppmi) |
           KBT_RUN("people", candidates_are_never_in_the_training_half, features_come_from_the_training_half_alone,
                   rare_arms_are_those_with_few_fans, a_sample_keeps_the_edges_among_its_members);
}
