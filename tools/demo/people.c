/* The game with real people.
 *
 *   sample   a breadth-first ball of the network (network.h): N connected users, and the edges among them
 *   arms     those that someone likes; with rare_share only those liked by few; at most max_arms, the most liked
 *   split    each user's likes by a seeded hash into a training and a held-out half (likes.h)
 *   features from the training halves of the sampled users alone (arm_features.c)
 *   round    a uniform player (a user with a held-out like), C candidates drawn without replacement from the arms
 *            outside the player's training half; reward 1 when the chosen arm is held out, else 0
 *
 * Policies see users, edges, arms, features and rewards, never a like. The training half reaches them only through
 * the features: a policy that knew it as rewards would start warmer, and so would all of them. */
#include "demo/people.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/rng.h"

/* numbers enter the keys: a new purpose goes to the end */
enum purpose { SAMPLE = 1, SPLIT, PLAYER, CANDIDATES };

/* Independent streams for each purpose from the one seed. */
static uint64_t key_of(const struct lc_people *p, enum purpose what)
{
    return kb_hash_u64(kb_hash_u64(KB_HASH_INIT, p->o.seed), (uint64_t)what);
}

static double uniform(uint64_t key, uint64_t i)
{
    return kb_rng_uniform(key, KB_STREAM_SIMULATION, i);
}

/* --- sample ----------------------------------------------------------------------------------------- */

/* All users, or the ball around a random centre, which may have fewer than wanted. */
static void take_members(struct lc_people *p, const struct lc_network *net)
{
    size_t want = p->o.n_users > 0 && p->o.n_users < net->n_users ? p->o.n_users : net->n_users;
    p->member = lc_alloc(want, sizeof *p->member);
    if (want < net->n_users) {
        p->n_members = lc_network_ball(net, key_of(p, SAMPLE), want, p->member);
        return;
    }
    for (uint32_t u = 0; u < want; u++)
        p->member[p->n_members++] = u;
}

static void take_edges(struct lc_people *p, const struct lc_network *net)
{
    uint32_t *index = lc_alloc(net->n_users, sizeof *index);
    p->edges = lc_alloc(net->n_edges, sizeof *p->edges);
    memset(index, 0xFF, net->n_users * sizeof *index); /* KB_ID_NONE */
    for (uint32_t i = 0; i < p->n_members; i++)
        index[p->member[i]] = i;
    for (size_t i = 0; i < net->n_edges; i++) {
        struct kb_edge e = net->edges[i];
        if (index[e.u] != KB_ID_NONE && index[e.v] != KB_ID_NONE)
            p->edges[p->n_edges++] = (struct kb_edge){index[e.u], index[e.v], e.weight};
    }
    free(index);
}

/* --- arms ------------------------------------------------------------------------------------------- */

struct ranked {
    size_t fans;
    uint32_t arm;
};

/* Most liked first; the order of the file decides among equals. */
static int by_fans(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->fans != y->fans)
        return x->fans > y->fans ? -1 : 1;
    return x->arm < y->arm ? -1 : x->arm > y->arm;
}

/* "Less than the share of those who like anything": counted over the whole file, not over the sample. Kept arms are
 * numbered from the most liked down; these numbers are the `arm` of all functions below. */
static void take_arms(struct lc_people *p)
{
    const struct lc_likes *l = p->likes;
    struct ranked *r = lc_alloc(l->arms.n, sizeof *r);
    double most = p->o.rare_share > 0.0 ? p->o.rare_share * (double)l->n_fans_total : (double)l->n_fans_total + 1.0;
    size_t n = 0;
    for (uint32_t a = 0; a < l->arms.n; a++)
        if (l->n_fans[a] > 0 && (double)l->n_fans[a] < most)
            r[n++] = (struct ranked){l->n_fans[a], a};
    qsort(r, n, sizeof *r, by_fans);
    p->n_arms = n < p->o.max_arms ? n : p->o.max_arms;
    p->arm = lc_alloc(p->n_arms, sizeof *p->arm);
    for (size_t i = 0; i < p->n_arms; i++)
        p->arm[i] = r[i].arm;
    free(r);
}

/* --- likes ------------------------------------------------------------------------------------------ */

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* The members' likes of kept arms on one side of the split, as CSR; *item is NULL when nobody has any. kept: [arms]
 * number of a kept arm or KB_ID_NONE. Sorted again within a member, as numbers follow popularity. */
static void take_side(const struct lc_people *p, const uint32_t *kept, const bool *is_training, bool side,
                      size_t **start, uint32_t **item)
{
    const struct lc_likes *l = p->likes;
    size_t n = 0, cap = 0;
    *start = lc_alloc(p->n_members + 1, sizeof **start);
    *item = NULL;
    for (size_t m = 0; m < p->n_members; m++) {
        uint32_t u = p->member[m];
        for (size_t i = l->start[u]; i < l->start[u + 1]; i++) {
            if (is_training[i] != side || kept[l->arm[i]] == KB_ID_NONE)
                continue;
            *item = lc_room(*item, &cap, n + 1, sizeof **item);
            (*item)[n++] = kept[l->arm[i]];
        }
        (*start)[m + 1] = n;
        if (n > (*start)[m])
            qsort(*item + (*start)[m], n - (*start)[m], sizeof **item, by_value);
    }
}

/* The split ranks all likes of a user, also those of arms that are not kept: whether an arm is rare says nothing about
 * the half it falls into. */
static void take_likes(struct lc_people *p)
{
    uint32_t *kept = lc_alloc(p->likes->arms.n, sizeof *kept);
    bool *is_training = lc_alloc(p->likes->n, sizeof *is_training);
    memset(kept, 0xFF, p->likes->arms.n * sizeof *kept);
    for (uint32_t i = 0; i < p->n_arms; i++)
        kept[p->arm[i]] = i;
    lc_likes_split(p->likes, p->users, key_of(p, SPLIT), is_training);
    take_side(p, kept, is_training, true, &p->train_start, &p->train);
    take_side(p, kept, is_training, false, &p->held_start, &p->held);
    free(kept);
    free(is_training);
}

/* A player needs something to find and a choice. */
static void take_players(struct lc_people *p)
{
    p->player = lc_alloc(p->n_members, sizeof *p->player);
    for (uint32_t m = 0; m < p->n_members; m++) {
        size_t n_train = p->train_start[m + 1] - p->train_start[m];
        if (p->held_start[m + 1] > p->held_start[m] && p->n_arms - n_train >= 2)
            p->player[p->n_players++] = m;
    }
}

/* Counts over training halves, then the eigenvectors. Held-out likes never enter: features made from them would give
 * the answers away. */
static void make_features(struct lc_people *p)
{
    size_t m = p->n_arms;
    double *co = lc_alloc(m * m, sizeof *co);
    for (size_t u = 0; u < p->n_members; u++)
        for (size_t i = p->train_start[u]; i < p->train_start[u + 1]; i++)
            for (size_t j = p->train_start[u]; j < p->train_start[u + 1]; j++)
                co[(size_t)p->train[i] * m + p->train[j]] += 1.0;
    p->o.dim = p->o.dim < m ? p->o.dim : m;
    p->features = lc_alloc(m * p->o.dim, sizeof *p->features);
    lc_arm_features(m, co, p->o.dim, p->features);
    free(co);
}

/* --- life ------------------------------------------------------------------------------------------- */

int lc_people_new(struct lc_people *p, const struct lc_network *net, const struct kb_ids *users,
                  const struct lc_likes *likes, const struct lc_people_options *o, char *why)
{
    *p = (struct lc_people){.o = *o, .users = users, .likes = likes};
    take_members(p, net);
    take_edges(p, net);
    take_arms(p);
    take_likes(p);
    take_players(p);
    if (p->n_arms < 2 || p->n_players == 0) {
        snprintf(why, LC_WHY, "%zu arms and %zu users with a held-out like are left: too few to play", p->n_arms,
                 p->n_players);
        return -1;
    }
    if (o->dim > 0)
        make_features(p);
    return 0;
}

void lc_people_close(struct lc_people *p)
{
    free(p->member);
    free(p->edges);
    free(p->arm);
    free(p->train_start);
    free(p->held_start);
    free(p->train);
    free(p->held);
    free(p->player);
    free(p->features);
    *p = (struct lc_people){0};
}

/* --- rounds ----------------------------------------------------------------------------------------- */

uint32_t lc_people_player(const struct lc_people *p, size_t t)
{
    return p->player[(size_t)(uniform(key_of(p, PLAYER), t) * (double)p->n_players)];
}

static bool is_in(const uint32_t *sorted, size_t n, uint32_t v)
{
    return n > 0 && bsearch(&v, sorted, n, sizeof v, by_value) != NULL;
}

/* The truth of the game; policies get it one reward at a time. */
bool lc_people_likes(const struct lc_people *p, uint32_t member, size_t arm)
{
    size_t from = p->held_start[member];
    return is_in(p->held + from, p->held_start[member + 1] - from, (uint32_t)arm);
}

/* Deck of the arms outside the training half, then the head of a Fisher-Yates shuffle. */
size_t lc_people_candidates(const struct lc_people *p, size_t t, size_t *arms)
{
    uint32_t m = lc_people_player(p, t);
    size_t from = p->train_start[m], n_train = p->train_start[m + 1] - from, n = 0;
    size_t *deck = lc_alloc(p->n_arms, sizeof *deck);
    uint64_t key = key_of(p, CANDIDATES);
    for (size_t a = 0; a < p->n_arms; a++)
        if (!is_in(p->train + from, n_train, (uint32_t)a))
            deck[n++] = a;
    size_t take = p->o.n_candidates < n ? p->o.n_candidates : n;
    for (size_t i = 0; i < take; i++) {
        /* one of the n - i arms that are left, each equally likely */
        size_t j = i + (size_t)(uniform(key, t * p->o.n_candidates + i) * (double)(n - i));
        arms[i] = deck[j];
        deck[j] = deck[i];
    }
    free(deck);
    return take;
}

/* By going through all rounds: O(rounds (arms + C log likes)). */
void lc_people_bounds(const struct lc_people *p, size_t n_rounds, double *best, double *chance)
{
    size_t *arms = lc_alloc(p->o.n_candidates, sizeof *arms);
    double any = 0.0, share = 0.0;
    for (size_t t = 0; t < n_rounds; t++) {
        size_t n = lc_people_candidates(p, t, arms), hits = 0;
        for (size_t i = 0; i < n; i++)
            hits += lc_people_likes(p, lc_people_player(p, t), arms[i]);
        any += hits > 0;
        share += (double)hits / (double)n;
    }
    *best = any / (double)n_rounds;
    *chance = share / (double)n_rounds;
    free(arms);
}
