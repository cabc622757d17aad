/* laplacectl demo: the simulated town, four policies, cumulative regret.
 *
 * The truth is drawn from the model that `laplaced` assumes (town.c), so this demo shows what is gained when
 * the assumption holds; demo_people.c asks whether it holds. gp-ucb sees arms and features but no users,
 * lin-ucb is linear in the features, random chooses uniformly.
 *
 * Regret of a round: truth of the best candidate less truth of the chosen one, without noise. Its running
 * total is what is drawn and compared; it flattens for a policy that has learned. */
#include "demo/demo.h"

#include <stdio.h>
#include <stdlib.h>

/* 25 rounds a user with 120 users */
#define DEFAULT_ROUNDS 3000u

/* The first is the one that is compared; every one has a tenant of its own, so that no log mixes two policies. */
static const struct ld_ope_policy policies[] = {
    {"laplaced", "demo-laplaced", "laplaced", LC_WHOLE_GRAPH, true},
    {"gp-ucb", "demo-gp-ucb", "gp-ucb", LC_NO_GRAPH, true},
    {"lin-ucb", "demo-lin-ucb", "lin-ucb", LC_NO_GRAPH, true},
    {"random", "demo-random", "random", LC_NO_GRAPH, false},
};

#define N_POLICIES (sizeof policies / sizeof policies[0])

/* --- the town as a game ----------------------------------------------------------------------------- */

/* The town and the names its users and items have on the server; state of struct lc_game. */
struct stage {
    struct lc_town town;
    char (*user)[32]; /* "u007" */
    char (*arm)[32];
};

/* The functions of struct lc_game (race.h); all are const and called from several threads at once. */
static const char *user_of(const void *state, size_t t)
{
    const struct stage *st = state;
    return st->user[lc_town_user(&st->town, t)];
}

static const char *name_of(const void *state, size_t user)
{
    return ((const struct stage *)state)->user[user];
}

static size_t candidates_of(const void *state, size_t t, size_t *arms)
{
    const struct stage *st = state;
    lc_town_candidates(&st->town, t, arms);
    return st->town.o.n_candidates;
}

static const char *arm_of(const void *state, size_t arm)
{
    return ((const struct stage *)state)->arm[arm];
}

/* Truth plus noise, which hangs on round and arm alone. */
static double reward_of(const void *state, size_t t, size_t arm)
{
    return lc_town_reward(&((const struct stage *)state)->town, t, arm);
}

/* What the curve adds up; the server never learns it. */
static double regret_of(const void *state, size_t t, size_t arm)
{
    return lc_town_regret(&((const struct stage *)state)->town, t, arm);
}

/* 0, or 1 after a printed error; stage_close is safe either way. */
static int stage_open(struct stage *st, const struct lc_town_options *o)
{
    char why[LC_WHY];
    if (lc_town_new(&st->town, o, why) != 0)
        return lc_fail("%s", why);
    st->user = lc_alloc(o->n_users, sizeof *st->user);
    st->arm = lc_alloc(o->n_arms, sizeof *st->arm);
    for (size_t i = 0; i < o->n_users; i++)
        snprintf(st->user[i], sizeof st->user[i], "u%03zu", i);
    for (size_t i = 0; i < o->n_arms; i++)
        snprintf(st->arm[i], sizeof st->arm[i], "item%02zu", i);
    return 0;
}

static void stage_close(struct stage *st)
{
    lc_town_close(&st->town);
    free(st->user);
    free(st->arm);
}

/* --- the show --------------------------------------------------------------------------------------- */

static void print_settings(const struct lc_town *town, const struct lc_demo_options *o)
{
    printf("A town of %zu users in %zu neighbourhoods, %zu friendships; %zu items with %zu features.\n"
           "Truth: a draw from GP(0, (L + %g I)^-1 x RBF(%g)), of root mean square 1; rewards carry noise of sd %g.\n"
           "Each of %s rounds: a random user and %zu of the %zu items, the same for every policy; each answer is\n"
           "one durable commit. Regret: what the best of the %zu would have given, less what the choice gave.\n"
           "Settings: lambda %g (the noise variance), beta %g, lengthscale 1, for all; otherwise each preset as it "
           "is.\n\n",
           town->o.n_users, town->n_blocks, town->n_edges, town->o.n_arms, town->o.dim, town->o.rho,
           town->o.lengthscale, town->o.noise, lc_thousands(o->n_rounds), town->o.n_candidates, town->o.n_arms,
           town->o.n_candidates, o->lambda, o->beta);
}

static int play_seed(const struct lc_session *s, const struct lc_demo_options *o, const struct lc_town_options *base,
                     size_t ix, struct lc_scores *scores)
{
    struct stage st = {0};
    struct lc_town_options town = *base;
    struct lc_world world = {0};
    char about[320];
    struct lc_game game = {&st,           o->n_rounds, town.n_candidates, "",       user_of,
                           candidates_of, arm_of,      reward_of,         regret_of};
    const struct lc_show show = {policies,
                                 N_POLICIES,
                                 N_POLICIES,
                                 "regret",
                                 false,
                                 "Cumulative regret",
                                 "Four policies in the same town",
                                 "regret so far: lower is better",
                                 about};
    town.seed = o->seed + ix;
    int rc = stage_open(&st, &town);
    if (rc == 0) {
        if (ix == 0 && !s->is_json)
            print_settings(&st.town, o);
        lc_demo_put_graph(&st, name_of, 0, st.town.edges, st.town.n_edges, &world.graph);
        lc_demo_put_arms(&game, town.n_arms, st.town.features, town.dim, &world.arms);
        lc_demo_put_arms(&game, town.n_arms, NULL, 0, &world.names);
        snprintf(about, sizeof about,
                 "Cumulative regret over %zu decisions for %zu users with %zu friendships: laplaced, which knows the "
                 "friendships, gp-ucb and lin-ucb, which do not, and random choice. Made by laplacectl demo --svg.",
                 o->n_rounds, town.n_users, st.town.n_edges);
        rc = lc_demo_race(s, &show, o, &game, &world, town.dim, ix, scores);
    }
    stage_close(&st);
    return rc;
}

/* The pair that is printed is laplaced against gp-ucb: the same kernel on arms, with and without the users. */
static void print_result(const struct lc_session *s, const struct lc_demo_options *o,
                         const struct lc_town_options *town, const struct lc_scores *scores)
{
    struct lc_text out = {0};
    if (s->is_json) {
        lc_text_printf(&out,
                       "{\"demo\":\"town\",\"seed\":%zu,\"seeds\":%zu,\"rounds\":%zu,\"users\":%zu,\"arms\":%zu,"
                       "\"candidates\":%zu,\"lambda\":%g,\"beta\":%g,\"noise\":%g,",
                       o->seed, o->n_seeds, o->n_rounds, town->n_users, town->n_arms, town->n_candidates, o->lambda,
                       o->beta, town->noise);
        lc_scores_json(scores, "regret", &out);
        lc_text_puts(&out, "}\n");
    } else {
        lc_text_puts(&out, "\n");
        lc_scores_print(scores, o->n_seeds > 1 ? "regret, mean +- se" : "regret", 1, &out);
        lc_text_puts(&out, "\n");
        lc_scores_print_pair(scores, 0, 1, "regret", 1, &out);
    }
    fputs(out.data, stdout);
    lc_text_close(&out);
    if (!s->is_json)
        lc_demo_epilogue(s, policies[0].tenant, "u000");
}

/* lambda is the true noise variance: every policy knows it, none has to guess. Numbers that were not given (0) get the
 * town's own. --seeds repeats everything with the seeds S, S+1, ...: other towns, not other rounds in one town. */
int lc_demo_town(const struct lc_session *s, const struct lc_demo_options *given)
{
    struct lc_demo_options o = *given;
    struct lc_town_options town = lc_town_defaults();
    struct lc_scores *scores = lc_alloc(1, sizeof *scores);
    int rc = 0;
    town.n_users = o.n_users > 0 ? o.n_users : town.n_users;
    town.n_candidates = o.n_candidates > 0 ? o.n_candidates : town.n_candidates;
    o.n_rounds = o.n_rounds > 0 ? o.n_rounds : DEFAULT_ROUNDS;
    o.lambda = o.lambda > 0.0 ? o.lambda : town.noise * town.noise;
    lc_scores_init(scores, N_POLICIES, o.n_seeds);
    for (size_t i = 0; i < o.n_seeds && rc == 0; i++)
        rc = play_seed(s, &o, &town, i, scores);
    if (rc == 0)
        print_result(s, &o, &town, scores);
    lc_scores_close(scores);
    free(scores);
    return rc;
}
