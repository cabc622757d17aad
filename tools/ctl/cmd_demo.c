/* laplacectl demo: options of both demos, the town (simulated) and people (--data).
 *
 * The demos are clients like any other: they need a running server, make tenants called demo-*, and speak
 * HTTP with it. Everything they do can be seen in those tenants' logs afterwards.
 *
 *   options  ->  check  ->  is a server there?  ->  demo_town.c or demo_people.c
 *
 * Numbers that were not given stay 0 here and get their default in the demo that is played, since the two
 * differ. */
#include "ctl/commands.h"

#include <stdio.h>

#include "demo/demo.h"

/* one width for all policies, so that none wins by being tuned */
#define DEFAULT_BETA 1.0

/* Limits that a later failure would not explain; 0 or 2 (printed). */
static int check(const struct lc_demo_options *o)
{
    if (o->n_seeds < 1 || o->n_seeds > 1000)
        return lc_misuse("--seeds: expected 1 to 1000");
    if (o->n_candidates == 1 || o->n_candidates > 1024)
        return lc_misuse("--candidates: expected 2 to 1024");
    return 0;
}

/* Any hint of a file makes it the demo with real people. */
static int run_demo(const struct lc_command *self, struct lc_session *s, int argc, char **argv)
{
    struct lc_demo_options o = {.seed = 1, .n_seeds = 1, .beta = DEFAULT_BETA};
    struct lc_words w;
    const struct lc_opt opts[] = {
        {"seed", LC_OPT_COUNT, &o.seed, "S", "of the town and its visitors (default 1)"},
        {"seeds", LC_OPT_COUNT, &o.n_seeds, "K", "repeat for S, S+1, ...: means, standard errors, paired differences"},
        {"rounds", LC_OPT_COUNT, &o.n_rounds, "T", "decisions of each policy (default: town 3,000; people 10 a user)"},
        {"users", LC_OPT_COUNT, &o.n_users, "N", "town: how many (120); people: size of the sample (2,000)"},
        {"candidates", LC_OPT_COUNT, &o.n_candidates, "C", "arms to choose from in a round (town 10 of 20; people 20)"},
        {"beta", LC_OPT_REAL, &o.beta, "B", "width of the confidence band, for all policies (default 1)"},
        {"lambda", LC_OPT_REAL, &o.lambda, "L", "noise variance, for all policies (town 0.04; people 0.25)"},
        {"rho", LC_OPT_REAL, &o.rho, "R", "ridge of the user kernel (town: the preset's; people: 1 / users)"},
        {"data", LC_OPT_TEXT, &o.data, "DIR", "real people: a folder with *edges*.csv and *likes* or *genres*"},
        {"edges", LC_OPT_TEXT, &o.edges, "FILE", "people: the edge list"},
        {"likes", LC_OPT_TEXT, &o.likes, "FILE", "people: who likes what"},
        {"rare", LC_OPT_FLAG, &o.is_rare, NULL, "people: only arms liked by less than 2 % of users"},
        {"all", LC_OPT_FLAG, &o.is_all, NULL, "people: all users instead of a sample"},
        {"no-features", LC_OPT_FLAG, &o.has_no_features, NULL, "people: arms without features"},
        {"svg", LC_OPT_TEXT, &o.svg, "FILE", "write a picture of the curves, that of the last seed"},
        {"quiet", LC_OPT_FLAG, &o.is_quiet, NULL, "no live line"},
    };
    /* the defaults above are what holds when an option is missing */
    int rc = lc_args_parse(self, s, opts, sizeof opts / sizeof opts[0], argc, argv, &w, 0, 0);
    if (rc != LC_GO)
        return rc;
    rc = check(&o);
    if (rc == 0 && o.svg != NULL)
        rc = lc_demo_picture_check(o.svg);
    if (rc == 0)
        rc = lc_demo_check(s);
    if (rc != 0)
        return rc;
    bool is_people = o.data != NULL || o.edges != NULL || o.likes != NULL;
    return is_people ? lc_demo_people(s, &o) : lc_demo_town(s, &o);
}

/* Decision ids repeat from run to run, which is why the tenants are made anew (race.c). */
const struct lc_command lc_cmd_demo = {
    .name = "demo",
    .synopsis = "demo [--seed S] [--seeds K] [--rounds T] [--users N] [--svg FILE] [--json] | demo --data DIR [--rare] "
                "[--users N]",
    .about = "watch four policies learn: a simulated town, or real people",
    .text =
        "The tenants demo-* are deleted and made anew at the start, and stay at the end. The same seed gives the same\n"
        "outcome; decisions have the ids demo-<seed>-<round>.\n\n"
        "People: the edge list is CSV u,v[,weight]; likes are CSV user,arm[,count] or JSON {\"user\":[\"arm\",...]}.\n"
        "Each user's likes are split in two by a seeded hash. Arm features come from the first half; a choice\n"
        "earns 1 when it lies in the second. docs/DATA.md tells it in full.\n\n"
        "  laplacectl demo\n"
        "  laplacectl demo --data data/deezer-ro --rare --seeds 5\n",
    .run = run_demo,
};
