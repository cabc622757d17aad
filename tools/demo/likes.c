/* Reading likes. Both formats become pairs of indices, sorted by user and arm, with repeats merged: a like is a fact,
 * not a number of plays. Cost: O(n log n).
 *
 * Order of work: pairs as they come -> sort -> CSR with repeats merged, and counts of fans per arm -> split
 * when a seed is known. Users are interned behind those of the network (network.c), so a user of both files
 * is one user.
 *
 * Errors carry the file and the line (CSV) or the user (JSON). After an error *l is empty but for the
 * interned arms; lc_likes_close frees it. */
#include "demo/likes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/edges.h"
#include "base/hash.h"
#include "base/hash_key.h"
#include "common/json.h"
#include "common/network.h"

/* 8 bytes a like while reading, 4 afterwards */
struct pair {
    uint32_t user, arm;
};

/* All likes as read, repeats included; freed when the CSR stands. */
struct pairs {
    struct pair *item;
    size_t n, cap;
};

static void add_pair(struct pairs *p, uint32_t user, uint32_t arm)
{
    p->item = lc_room(p->item, &p->cap, p->n + 1, sizeof *p->item);
    p->item[p->n++] = (struct pair){user, arm};
}

/* --- CSV -------------------------------------------------------------------------------------------- */

/* A third column is a count of plays: more than 0 means "likes", how often does not matter. Ids of rows with a count of
 * 0 are not interned: a user who only disliked is no user of this file. */
static int read_csv(struct pairs *p, struct kb_ids *users, struct kb_ids *arms, const char *path, char *why)
{
    struct lc_edge_reader reader;
    struct lc_edge_row row;
    int rc = lc_edges_open(&reader, path, LC_HEADER_AUTO);
    reader.is_likes = true;
    while (rc == 0 && (rc = lc_edges_next(&reader, &row)) == 1) {
        rc = 0;
        if (!(row.weight > 0.0))
            continue;
        uint32_t u = lc_intern(users, row.u), a = lc_intern(arms, row.v);
        if (u == KB_ID_NONE || a == KB_ID_NONE)
            rc = lc_csv_fail(&reader.csv, "an id of more than 256 bytes");
        else
            add_pair(p, u, a);
    }
    if (rc != 0)
        snprintf(why, LC_WHY, "%s", reader.csv.why);
    lc_edges_close(&reader);
    return rc;
}

/* --- JSON ------------------------------------------------------------------------------------------- */

/* What read_member needs besides its member. */
struct json_reader {
    struct pairs *pairs;
    struct kb_ids *users, *arms;
    const char *path;
    char *why;
};

static int fail_user(struct json_reader *r, const char *user, const char *what)
{
    snprintf(r->why, LC_WHY, "%.120s: user \"%.40s\": %s", r->path, user, what);
    return -1;
}

/* "user": ["arm", ...]. An array may be empty: the user is then known and likes nothing. */
static int read_member(void *arg, const char *user, const struct json_t *list)
{
    struct json_reader *r = arg;
    if (!lc_json_is_array(list))
        return fail_user(r, user, "expected an array of arms");
    uint32_t u = lc_intern(r->users, user);
    if (u == KB_ID_NONE)
        return fail_user(r, user, "an id has 1 to 256 bytes");
    for (size_t i = 0; i < lc_json_length(list); i++) {
        const char *name = lc_json_string(lc_json_at(list, i));
        uint32_t a = name != NULL ? lc_intern(r->arms, name) : KB_ID_NONE;
        if (a == KB_ID_NONE)
            return fail_user(r, user, "an arm is a string of 1 to 256 bytes");
        add_pair(r->pairs, u, a);
    }
    return 0;
}

/* The whole text is parsed at once: some 60 bytes of memory a like. */
static int read_json(struct pairs *p, struct kb_ids *users, struct kb_ids *arms, const char *path, char *why)
{
    struct json_reader r = {p, users, arms, path, why};
    struct lc_text text = {0};
    char inner[LC_WHY];
    int rc = lc_read_file(path, &text, why);
    if (rc == 0) {
        struct json_t *doc = lc_json_parse(text.data, text.n, inner);
        if (!lc_json_is_object(doc)) {
            snprintf(why, LC_WHY, "%.100s: %.120s", path, doc == NULL ? inner : "expected {user: [arm, ...]}");
            rc = -1;
        } else {
            rc = lc_json_each(doc, read_member, &r);
        }
        lc_json_free(doc);
    }
    lc_text_close(&text);
    return rc;
}

/* --- building --------------------------------------------------------------------------------------- */

/* Brings repeats together. A total order up to true repeats, so qsort's freedom among equals changes nothing. */
static int by_user_and_arm(const void *a, const void *b)
{
    const struct pair *x = a, *y = b;
    if (x->user != y->user)
        return x->user < y->user ? -1 : 1;
    return x->arm < y->arm ? -1 : x->arm > y->arm;
}

/* CSR by counting; start[u + 1] holds the count of u until the sums are taken. Items are sorted, so repeats stand side
 * by side and each user's arms come out ascending. */
static void build(struct lc_likes *l, struct pairs *p)
{
    if (p->n > 0)
        qsort(p->item, p->n, sizeof *p->item, by_user_and_arm);
    l->start = lc_alloc(l->n_users + 1, sizeof *l->start);
    l->arm = lc_alloc(p->n, sizeof *l->arm);
    l->n_fans = lc_alloc(l->arms.n, sizeof *l->n_fans);
    for (size_t i = 0; i < p->n; i++) {
        struct pair at = p->item[i];
        if (i > 0 && at.user == p->item[i - 1].user && at.arm == p->item[i - 1].arm) {
            l->n_repeats++;
            continue;
        }
        l->arm[l->n++] = at.arm;
        l->n_fans[at.arm]++;
        l->n_fans_total += l->start[at.user + 1] == 0;
        l->start[at.user + 1]++;
    }
    for (size_t u = 0; u < l->n_users; u++)
        l->start[u + 1] += l->start[u];
}

/* Users who are known from elsewhere and like nothing have an empty range. A file without any like is an error: nothing
 * could be played. Users beyond those of the network stay among the ids, but belong to no sample. */
int lc_likes_read(struct lc_likes *l, struct kb_ids *users, const char *path, char *why)
{
    struct pairs p = {0};
    memset(l, 0, sizeof *l);
    kb_ids_init(&l->arms, ld_hash_key());
    int rc = (lc_ends_with(path, ".json") ? read_json : read_csv)(&p, users, &l->arms, path, why);
    if (rc == 0 && p.n == 0) {
        snprintf(why, LC_WHY, "%.200s: no like in this file", path);
        rc = -1;
    }
    if (rc == 0) {
        l->n_users = users->n;
        build(l, &p);
    }
    free(p.item);
    return rc;
}

void lc_likes_close(struct lc_likes *l)
{
    kb_ids_close(&l->arms);
    free(l->start);
    free(l->arm);
    free(l->n_fans);
    *l = (struct lc_likes){0};
}

/* --- split ------------------------------------------------------------------------------------------ */

/* A like of the user in hand, and its place in l->arm. */
struct ranked {
    uint64_t hash;
    size_t at;
};

/* Equal hashes (2^-64) fall back to the position, so the order is total. Ascending. */
static int by_hash(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* By the ids' bytes, not by their indices: the order in which files were read cannot matter. Each user's part is
 * independent of all others, so a sample of users does not change it. */
void lc_likes_split(const struct lc_likes *l, const struct kb_ids *users, uint64_t seed, bool *is_training)
{
    struct ranked *r = lc_alloc(l->arms.n, sizeof *r);
    for (uint32_t u = 0; u < l->n_users; u++) {
        size_t from = l->start[u], n = l->start[u + 1] - from;
        uint64_t h = kb_hash_str(kb_hash_u64(KB_HASH_INIT, seed), kb_ids_str(users, u));
        for (size_t i = 0; i < n; i++)
            r[i] = (struct ranked){kb_hash_str(h, kb_ids_str(&l->arms, l->arm[from + i])), from + i};
        qsort(r, n, sizeof *r, by_hash);
        for (size_t i = 0; i < n; i++)
            is_training[r[i].at] = i < (n + 1) / 2;
    }
    free(r);
}
