/* Judges bodies as the server would before it looks at a tenant: for tests that compare thousands of verdicts with
 * those of another reader of the schemas.
 *
 *   judge CONTEXT_DIM ARM_DIM
 *
 * stdin: for each body a line "KIND BYTES", and then so many bytes and a newline. KIND is the name of a file of
 * schema/, with `_lines` behind it for NDJSON. stdout: a line for each, `null` or the problem document. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json/json_in.h"
#include "types/promotion.h"
#include "task/repair.h"
#include "json/json_evaluation.h"
#include "json/json_keys.h"
#include "json/json_limits.h"

static uint32_t context_dim, arm_dim;

static int judge_select(struct ld_doc *doc, struct ld_problem *p)
{
    struct ld_select select;
    int rc = ld_decode_select(doc, context_dim, arm_dim, &select, p);
    if (rc == 0) /* what the engine would find */
        ld_decode_select_faults(doc, context_dim, arm_dim, p);
    return rc;
}

static int judge_posterior(struct ld_doc *doc, struct ld_problem *p)
{
    struct ld_ask ask;
    return ld_decode_posterior(doc, context_dim, arm_dim, &ask, p);
}

static int judge_reward(struct ld_doc *doc, struct ld_problem *p)
{
    struct ld_reward *rewards;
    size_t n;
    bool is_array;
    return ld_decode_rewards(doc, &rewards, &n, &is_array, p);
}

static int judge_activate(struct ld_doc *doc, struct ld_problem *p)
{
    const char *decision;
    return ld_decode_activate(doc, &decision, p);
}

static int judge_observe(struct ld_doc *doc, struct ld_problem *p)
{
    struct kb_event *events;
    size_t n;
    return ld_decode_observe(doc, false, context_dim, arm_dim, &events, &n, p);
}

static int judge_observe_lines(struct ld_doc *doc, struct ld_problem *p)
{
    struct kb_event *events;
    size_t n;
    return ld_decode_observe(doc, true, context_dim, arm_dim, &events, &n, p);
}

static int judge_graph(struct ld_doc *doc, struct ld_problem *p)
{
    struct kb_event ev;
    return ld_decode_graph(doc, false, &ev, p);
}

static int judge_graph_patch(struct ld_doc *doc, struct ld_problem *p)
{
    struct kb_event ev;
    return ld_decode_graph(doc, true, &ev, p);
}

static int judge_arms(struct ld_doc *doc, struct ld_problem *p)
{
    struct kb_event ev;
    return ld_decode_arms(doc, false, arm_dim, &ev, p);
}

static int judge_arms_patch(struct ld_doc *doc, struct ld_problem *p)
{
    struct kb_event ev;
    return ld_decode_arms(doc, true, arm_dim, &ev, p);
}

static int judge_settings(struct ld_doc *doc, struct ld_problem *p)
{
    struct ld_settings settings;
    return ld_decode_settings(doc, &settings, p);
}

static int judge_compact(struct ld_doc *doc, struct ld_problem *p)
{
    uint64_t keep_events;
    return ld_decode_compact(doc, &keep_events, p);
}

static int judge_repair(struct ld_doc *doc, struct ld_problem *p)
{
    struct ld_repair repair;
    return ld_decode_repair(doc, &repair, p);
}

static int judge_promote(struct ld_doc *doc, struct ld_problem *p)
{
    struct ld_promotion promotion = {.reason = LD_PROMOTED_ON_REQUEST};
    return ld_decode_promotion(doc, &promotion, p);
}

static int judge_rollback(struct ld_doc *doc, struct ld_problem *p)
{
    struct ld_promotion promotion = {.reason = LD_PROMOTED_BY_ROLLBACK};
    return ld_decode_promotion(doc, &promotion, p);
}

static int judge_evaluation(struct ld_doc *doc, struct ld_problem *p)
{
    struct ld_evaluation_request r;
    return ld_decode_evaluation(doc, context_dim, arm_dim, &r, p);
}

static int judge_replay(struct ld_doc *doc, struct ld_problem *p)
{
    struct ld_replay_head head;
    return ld_decode_replay(doc, false, &head, p);
}

static int judge_key(struct ld_doc *doc, struct ld_problem *p)
{
    struct ld_key key;
    return ld_decode_key(doc, false, 0, &key, p);
}

static int judge_tenant_key(struct ld_doc *doc, struct ld_problem *p)
{
    struct ld_key key;
    return ld_decode_key(doc, true, 0, &key, p);
}

static int judge_limits(struct ld_doc *doc, struct ld_problem *p)
{
    struct ld_rate limit;
    bool is_own;
    return ld_decode_limits(doc, &limit, &is_own, p);
}

static const struct kind {
    const char *name;
    bool is_ndjson;
    int (*judge)(struct ld_doc *doc, struct ld_problem *p);
} kinds[] = {{"select", false, judge_select},
             {"posterior", false, judge_posterior},
             {"reward", false, judge_reward},
             {"activate", false, judge_activate},
             {"observe", false, judge_observe},
             {"observe_lines", true, judge_observe_lines},
             {"evaluation", false, judge_evaluation},
             {"replay", false, judge_replay},
             {"graph", false, judge_graph},
             {"graph_lines", true, judge_graph},
             {"graph_patch", false, judge_graph_patch},
             {"arms", false, judge_arms},
             {"arms_lines", true, judge_arms},
             {"arms_patch", false, judge_arms_patch},
             {"settings", false, judge_settings},
             {"compact", false, judge_compact},
             {"promote", false, judge_promote},
             {"repair", false, judge_repair},
             {"rollback", false, judge_rollback},
             {"key", false, judge_key},
             {"tenant_key", false, judge_tenant_key},
             {"limits", false, judge_limits}};

static const struct kind *find(const char *name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    return NULL;
}

static void tell(const struct kind *kind, const char *body, size_t n)
{
    struct ld_doc *doc = NULL;
    struct ld_problem p;

    ld_problem_init(&p);
    if (ld_doc_parse(&doc, body, n, kind->is_ndjson, &p) == 0)
        (void)kind->judge(doc, &p);
    ld_doc_free(doc);
    if (p.status == 0) {
        puts("null");
        return;
    }
    size_t n_text = 0;
    char *text = ld_problem_json(&p, NULL, &n_text);
    if (text == NULL)
        abort();
    puts(text);
    free(text);
}

/* One body from stdin; false at its end. */
static bool next(void)
{
    char name[32], newline = 0;
    size_t n = 0;

    if (scanf("%31s %zu", name, &n) != 2)
        return false;
    const struct kind *kind = find(name);
    char *body = malloc(n + 1); /* of its very size, so that a read behind it is seen */
    if (kind == NULL || body == NULL || getchar() != '\n' || fread(body, 1, n, stdin) != n ||
        fread(&newline, 1, 1, stdin) != 1 || newline != '\n')
        abort();
    char *exact = realloc(body, n > 0 ? n : 1);
    if (exact == NULL)
        abort();
    tell(kind, exact, n);
    free(exact);
    return true;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    context_dim = (uint32_t)atoi(argv[1]);
    arm_dim = (uint32_t)atoi(argv[2]);
    while (next()) {
    }
    return 0;
}
