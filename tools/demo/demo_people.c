/* laplacectl demo --data DIR: real people, four policies, share of recommendations that hit a held-out like.
 *
 * Does the graph help? Two policies differ in nothing but that: `laplaced` knows who is whose friend, `no
 * friendships` knows the same users without edges. gp-ucb has one model for everybody, random none. What is
 * played is told in people.c; docs/DATA.md says how files must look and what the demo does with them.
 *
 *   files   -> users, network, likes          read once
 *   seed    -> people (sample, split, arms)   one per seed, freed after its race
 *           -> bodies of PUT graph and arms   JSON, held in memory for the race (demo.c)
 *           -> race -> scores
 *
 * Numbers are hit rates: the share of rounds in which the chosen arm was a held-out like. */
#include "demo/demo.h"
#include "base/hash_key.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* sizes when the options say nothing */
#define DEFAULT_USERS 2000u
#define DEFAULT_CANDIDATES 20u
#define ROUNDS_PER_USER 10u
#define MAX_ROUNDS 100000u
#define MAX_ARMS 1000u
#define FEATURES 8u
#define RARE 0.02
#define LAMBDA 0.25 /* a reward of 0 or 1 has a variance of at most 1/4 */

/* Without friendships the same users hang on the virtual node alone: the same kernel, only nobody has friends. The
 * first is the one that the others are compared with; the last, random, is the base of the chart. */
static const struct ld_ope_policy policies[] = {
    {"laplaced", "demo-laplaced", "laplaced", LC_WHOLE_GRAPH, true},
    {"no friendships", "demo-no-graph", "laplaced", LC_USERS_ONLY, true},
    {"gp-ucb", "demo-gp-ucb", "gp-ucb", LC_NO_GRAPH, true},
    {"random", "demo-random", "random", LC_NO_GRAPH, false},
};

#define N_POLICIES (sizeof policies / sizeof policies[0])

/* --- files ------------------------------------------------------------------------------------------ */

/* Names of files as data sets in the wild have them: RO_edges.csv, edges.csv, my_edges.csv. */
static bool is_edges(const char *name)
{
    return strstr(name, "edges") != NULL && lc_ends_with(name, ".csv");
}

static bool is_likes(const char *name)
{
    return (strstr(name, "genres") != NULL || strstr(name, "likes") != NULL) &&
           (lc_ends_with(name, ".json") || lc_ends_with(name, ".csv"));
}

/* The first name in the folder (by the alphabet) that fits; malloc'd path or NULL. Freed by the caller. */
static char *find_file(const char *dir, bool (*fits)(const char *name))
{
    struct lc_text path = {0};
    char *best = NULL;
    DIR *d = opendir(dir);
    struct dirent *entry;
    while (d != NULL && (entry = readdir(d)) != NULL) {
        if (!fits(entry->d_name) || (best != NULL && strcmp(entry->d_name, best) > 0))
            continue;
        free(best);
        best = lc_copy(entry->d_name);
    }
    if (d != NULL)
        closedir(d);
    if (best != NULL)
        lc_text_printf(&path, "%s/%s", dir, best);
    free(best);
    return path.data;
}

/* What all seeds share; people borrow from it. Users known from the network come first among the ids. */
struct files {
    struct kb_ids users;
    struct lc_network net;
    struct lc_likes likes;
};

/* Options win over names found in the folder; 0 or 1 (printed). f must be zero before. */
static int read_files(const struct lc_demo_options *o, struct files *f)
{
    char why[LC_WHY] = "";
    char *edges = o->edges != NULL ? lc_copy(o->edges) : find_file(o->data != NULL ? o->data : ".", is_edges);
    char *likes = o->likes != NULL ? lc_copy(o->likes) : find_file(o->data != NULL ? o->data : ".", is_likes);
    int rc = -1;
    kb_ids_init(&f->users, ld_hash_key());
    if (edges == NULL || likes == NULL)
        snprintf(why, sizeof why, "%.100s: no file called %s (say --%s FILE)", o->data != NULL ? o->data : ".",
                 edges == NULL ? "*edges*.csv" : "*likes* or *genres*", edges == NULL ? "edges" : "likes");
    else if (lc_network_read(&f->net, &f->users, edges, why) == 0)
        rc = lc_likes_read(&f->likes, &f->users, likes, why);
    if (rc != 0)
        lc_fail("%s", why);
    free(edges);
    free(likes);
    return rc == 0 ? 0 : 1;
}

static void close_files(struct files *f)
{
    lc_likes_close(&f->likes);
    lc_network_close(&f->net);
    kb_ids_close(&f->users);
}

/* --- the people as a game --------------------------------------------------------------------------- */

/* The user's own id from the files: the tenant speaks their language. `member` is an index into the sample. */
static const char *member_name(const void *people, size_t member)
{
    const struct lc_people *p = people;
    return kb_ids_str(p->users, p->member[member]);
}

/* The five functions of struct lc_game (race.h): state is the struct lc_people of the seed. */
static const char *user_of(const void *state, size_t t)
{
    const struct lc_people *p = state;
    return member_name(p, lc_people_player(p, t));
}

static size_t candidates_of(const void *state, size_t t, size_t *arms)
{
    return lc_people_candidates(state, t, arms);
}

static const char *arm_of(const void *state, size_t arm)
{
    const struct lc_people *p = state;
    return kb_ids_str(&p->likes->arms, p->arm[arm]);
}

/* Reward and score are one thing here: 1 for a held-out like. */
static double hit_of(const void *state, size_t t, size_t arm)
{
    const struct lc_people *p = state;
    return lc_people_likes(p, lc_people_player(p, t), arm) ? 1.0 : 0.0;
}

/* --- the show --------------------------------------------------------------------------------------- */

/* Everything a reader needs to judge the numbers, and the two bounds no policy can escape. */
static void print_settings(const struct files *f, const struct lc_people *p, const struct lc_demo_options *o)
{
    double best, chance;
    lc_people_bounds(p, o->n_rounds, &best, &chance);
    printf("Network: %s users, %s friendships (%s loops and %s repeats left out); %s likes of %s arms.\n",
           lc_thousands(f->net.n_users), lc_thousands(f->net.n_edges), lc_thousands(f->net.n_loops),
           lc_thousands(f->net.n_repeats), lc_thousands(f->likes.n), lc_thousands(f->likes.arms.n));
    printf("Sample: %s connected users with %s friendships; %s of them have a held-out like. Arms: %s%s.\n",
           lc_thousands(p->n_members), lc_thousands(p->n_edges), lc_thousands(p->n_players), lc_thousands(p->n_arms),
           o->is_rare ? ", each liked by less than 2 % of those who like anything" : "");
    printf(
        "Each of %s rounds: one of those users and %zu arms outside the training half of their likes; reward 1 when\n"
        "the choice is a held-out like. %s.\n"
        "Every policy meets the same rounds; in them uniform choice hits %.4f on average, perfect knowledge %.4f.\n"
        "Settings: lambda %g, beta %g for all; rho %g (1 / users: the crowd's average has a prior variance of 1) "
        "where\n"
        "the kernel knows users; otherwise each preset as it is.\n\n",
        lc_thousands(o->n_rounds), p->o.n_candidates,
        p->features != NULL ? "Arm features come from who likes arms together, training halves only"
                            : "Arms have no features",
        chance, best, o->lambda, o->beta, o->rho);
}

/* Every seed draws its own sample, split and rounds. */
static int play_seed(const struct lc_session *s, const struct lc_demo_options *o, const struct files *f,
                     const struct lc_people_options *base, size_t ix, struct lc_scores *scores)
{
    static const struct lc_show show = {
        policies,
        N_POLICIES,
        N_POLICIES - 1,
        "hit rate",
        true,
        "Hits more than random",
        "Four policies among the same people",
        "hits more than random: higher is better",
        "Hits of each policy less those of random choice, over the decisions. Made by laplacectl demo --svg."};
    char why[LC_WHY];
    struct lc_people people;
    struct lc_people_options po = *base;
    struct lc_world world = {0};
    struct lc_game game = {&people, o->n_rounds, po.n_candidates, "", user_of, candidates_of, arm_of, hit_of, hit_of};
    int rc = 1;
    po.seed = o->seed + ix;
    if (lc_people_new(&people, &f->net, &f->users, &f->likes, &po, why) != 0) {
        lc_fail("%s", why);
    } else {
        if (ix == 0 && !s->is_json)
            print_settings(f, &people, o);
        lc_demo_put_graph(&people, member_name, people.n_members, people.edges, people.n_edges, &world.graph);
        lc_demo_put_graph(&people, member_name, people.n_members, NULL, 0, &world.users);
        lc_demo_put_arms(&game, people.n_arms, people.features, people.o.dim, &world.arms);
        lc_demo_put_arms(&game, people.n_arms, NULL, 0, &world.names);
        rc = lc_demo_race(s, &show, o, &game, &world, people.o.dim, ix, scores);
    }
    lc_people_close(&people);
    return rc;
}

/* Three pairs matter: what the graph adds, what the whole adds, and that anything was learned at all. */
static void print_result(const struct lc_session *s, const struct lc_demo_options *o,
                         const struct lc_people_options *po, const struct lc_scores *scores)
{
    struct lc_text out = {0};
    if (s->is_json) {
        lc_text_printf(
            &out,
            "{\"demo\":\"people\",\"seed\":%zu,\"seeds\":%zu,\"rounds\":%zu,\"users\":%zu,\"candidates\":%zu,"
            "\"rare\":%s,\"features\":%zu,\"lambda\":%g,\"beta\":%g,",
            o->seed, o->n_seeds, o->n_rounds, po->n_users, po->n_candidates, o->is_rare ? "true" : "false", po->dim,
            o->lambda, o->beta);
        lc_scores_json(scores, "hit_rate", &out);
        lc_text_puts(&out, "}\n");
    } else {
        lc_text_puts(&out, "\n");
        lc_scores_print(scores, o->n_seeds > 1 ? "hit rate, mean +- se" : "hit rate", 4, &out);
        lc_text_puts(&out, "\n");
        for (size_t i = 1; i < N_POLICIES; i++)
            lc_scores_print_pair(scores, 0, i, "hit rate", 4, &out);
    }
    fputs(out.data, stdout);
    lc_text_close(&out);
}

/* Rounds grow with the sample, so that each user is seen about ten times whatever N is. rho = 1 / users gives the
 * crowd's average a prior variance of 1. */
int lc_demo_people(const struct lc_session *s, const struct lc_demo_options *given)
{
    struct lc_demo_options o = *given;
    struct files f = {0};
    struct lc_people_options po = {.max_arms = MAX_ARMS, .rare_share = o.is_rare ? RARE : 0.0};
    struct lc_scores *scores = lc_alloc(1, sizeof *scores);
    int rc = read_files(&o, &f);
    if (rc == 0) {
        po.n_users = o.is_all ? f.net.n_users : o.n_users > 0 ? o.n_users : DEFAULT_USERS;
        po.n_users = po.n_users < f.net.n_users ? po.n_users : f.net.n_users;
        po.n_candidates = o.n_candidates > 0 ? o.n_candidates : DEFAULT_CANDIDATES;
        po.dim = o.has_no_features ? 0 : FEATURES;
        size_t rounds = po.n_users * ROUNDS_PER_USER < MAX_ROUNDS ? po.n_users * ROUNDS_PER_USER : MAX_ROUNDS;
        o.n_rounds = o.n_rounds > 0 ? o.n_rounds : rounds;
        o.lambda = o.lambda > 0.0 ? o.lambda : LAMBDA;
        o.rho = o.rho > 0.0 ? o.rho : 1.0 / (double)po.n_users;
        lc_scores_init(scores, N_POLICIES, o.n_seeds);
        for (size_t i = 0; i < o.n_seeds && rc == 0; i++)
            rc = play_seed(s, &o, &f, &po, i, scores);
        if (rc == 0)
            print_result(s, &o, &po, scores);
    }
    lc_scores_close(scores);
    free(scores);
    close_files(&f);
    return rc;
}
