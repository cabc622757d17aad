/* Bodies of requests: decoded or refused, never both, and what is refused says where and why. What a tenant would learn
 * from is offered to an engine, which takes it or is left as it was. */
#include <stdlib.h>
#include <string.h>

#include "json/json_in.h"
#include "json/json_keys.h"
#include "json/json_out.h"
#include "json/json_personalizer.h"
#include "targets.h"
#include "model/commit.h"
#include "model/engine_write.h"

#define CONTEXT_DIM 1
#define ARM_DIM 2
#define N_KINDS 22

static struct kb_engine *new_engine(void)
{
    struct kb_engine *e = NULL;
    struct kb_spec spec;
    struct kb_event ev = {.seq = 1, .at_ms = 1, .type = KB_EV_CONFIGURED};

    FUZZ_EXPECT(kb_spec_preset(&spec, "laplaced-kors", CONTEXT_DIM, ARM_DIM) == KB_OK);
    ev.as.configured.spec = &spec;
    ev.as.configured.version = 1;
    FUZZ_EXPECT(kb_engine_new(&e, (struct kb_hash_key){{1, 2}}) == KB_OK && kb_engine_fold(e, &ev, NULL) == KB_OK);
    return e;
}

static void offer(const struct kb_event *events, size_t n)
{
    struct kb_engine *e = new_engine();

    for (size_t i = 0; i < n; i++) {
        struct kb_engine_counts counts;
        struct kb_errmsg msg = {.text = ""};
        struct kb_event ev = events[i];
        const uint64_t before = kb_engine_digest(e);

        kb_engine_counts(e, &counts);
        ev.seq = counts.seq + 1;
        ev.at_ms = 2;
        const enum kb_err rc = kb_engine_fold(e, &ev, &msg);
        FUZZ_EXPECT(rc == KB_OK || kb_engine_digest(e) == before);
        FUZZ_EXPECT(rc != KB_EINVAL || msg.text[0] != '\0');
    }
    kb_engine_free(e);
}

static void choose(const struct ld_select *select)
{
    struct kb_engine *e = new_engine();
    struct kb_scratch *s = NULL;
    struct kb_decision d;
    double sum = 0;

    FUZZ_EXPECT(kb_engine_scratch_new(&s) == KB_OK);
    FUZZ_EXPECT(kb_engine_fit_scratch(e, s, select->query.n_candidates, select->query.n_exclude) == KB_OK);
    if (kb_engine_decide(e, &select->query, s, &d, NULL) == KB_OK) {
        for (size_t i = 0; i < d.n; i++)
            sum += d.propensity[i];
        FUZZ_EXPECT(d.chosen < d.n && sum > 1 - 1e-9 && sum < 1 + 1e-9);
    }
    kb_engine_scratch_free(s);
    kb_engine_free(e);
}

/* A configuration in force, with something in each of its parts. */
static const struct ld_settings *settings_in_force(void)
{
    static const char text[] =
        "{\"algorithm\":\"ts\",\"arm_dim\":2,\"routing\":{\"holdout\":{\"share\":0.5,\"baseline\":{\"arm\":\"a\"}},"
        "\"sticky\":{\"ttl_s\":60}},\"challengers\":{\"b\":{\"algorithm\":\"ucb\"},\"a\":{\"rule\":{\"epsilon\":0.5}}},"
        "\"guardrail\":{\"baseline\":\"a\"},\"retention\":{\"events\":1000}}";
    static struct ld_settings settings;
    struct ld_doc *doc = NULL;
    struct ld_problem p;

    if (settings.spec.algorithm[0] != '\0')
        return &settings;
    ld_problem_init(&p);
    FUZZ_EXPECT(ld_doc_parse(&doc, text, sizeof text - 1, false, &p) == 0 &&
                ld_decode_settings(doc, &settings, &p) == 0);
    ld_doc_free(doc);
    return &settings;
}

/* A patch that is taken can be taken again, and then changes nothing. */
static int patch(struct ld_doc *doc, struct ld_problem *p)
{
    struct ld_settings once, twice;
    size_t n = 0;

    if (ld_decode_patch(doc, settings_in_force(), 1, &once, p) != 0)
        return -1;
    FUZZ_EXPECT(ld_decode_patch(doc, &once, 1, &twice, p) == 0);
    char *first = ld_encode_settings(&once, &n), *second = ld_encode_settings(&twice, &n);
    FUZZ_EXPECT(first != NULL && second != NULL && strcmp(first, second) == 0);
    free(first);
    free(second);
    return 0;
}

/* What is taken of Rank is a body that /select takes, with its actions. */
static int rank(struct ld_doc *doc, bool has_slots, struct ld_problem *p)
{
    struct ld_rank wanted;
    struct ld_select select;
    struct ld_doc *as_select = NULL;
    size_t n = 0;

    if (ld_decode_rank(doc, has_slots, &wanted, p) != 0)
        return -1;
    for (int has_features = 0; has_features < 2; has_features++) {
        char *text = ld_encode_rank_select(doc, &wanted, "d", has_features == 1, &n);
        FUZZ_EXPECT(text != NULL && ld_doc_parse(&as_select, text, n, false, p) == 0);
        if (has_features == 0)
            FUZZ_EXPECT(ld_decode_select(as_select, 0, 0, &select, p) == 0 && select.query.n_candidates == wanted.n);
        ld_doc_free(as_select);
        free(text);
    }
    return 0;
}

/* What is read of a service's configuration, or of its policy, is a patch that a tenant may refuse. */
static int patch_of(struct ld_doc *doc, bool is_policy, struct ld_problem *p)
{
    static const char now_text[] = "{\"rewardWaitTime\":\"PT90.5S\",\"defaultReward\":0,\"logRetentionDays\":-1}";
    struct ld_doc *now = NULL, *patch_doc = NULL;
    size_t n = 0;
    const char *code = NULL;

    FUZZ_EXPECT(ld_doc_parse(&now, now_text, sizeof now_text - 1, false, p) == 0);
    const struct ld_told_tenant told = {.doc = now, .edited_ms = INT64_MIN};
    char *text = (is_policy ? ld_decode_policy : ld_decode_service)(doc, &told, &n, &code, p);
    ld_doc_free(now);
    if (text == NULL)
        return -1;
    FUZZ_EXPECT(ld_doc_parse(&patch_doc, text, n, false, p) == 0);
    ld_doc_free(patch_doc);
    free(text);
    return 0;
}

/* Which decoder, and whether it reads lines. */
static int decode(unsigned kind, struct ld_doc *doc, struct ld_problem *p)
{
    struct ld_settings settings;
    struct ld_select select;
    struct ld_reward *rewards;
    struct kb_event *events, ev = {.type = KB_EV_NONE};
    struct ld_replay_head head;
    struct ld_key key;
    const char *decision;
    uint64_t keep_events;
    bool is_array;
    double reward;
    size_t n = 0;
    int rc = 0;

    switch (kind) {
    case 0:
        rc = ld_decode_select(doc, CONTEXT_DIM, ARM_DIM, &select, p);
        if (rc == 0)
            choose(&select);
        return rc;
    case 1:
        return ld_decode_rewards(doc, &rewards, &n, &is_array, p);
    case 2:
        return ld_decode_activate(doc, &decision, p);
    case 3:
    case 4:
        rc = ld_decode_observe(doc, kind == 4, CONTEXT_DIM, ARM_DIM, &events, &n, p);
        if (rc == 0)
            offer(events, n);
        return rc;
    case 5:
        return ld_decode_settings(doc, &settings, p);
    case 6:
    case 7:
    case 8:
        rc = ld_decode_graph(doc, kind == 7, &ev, p);
        break;
    case 12:
        return ld_decode_compact(doc, &keep_events, p);
    case 13:
    case 14:
        return ld_decode_key(doc, kind == 14, 0, &key, p);
    case 16:
        return patch(doc, p);
    case 17:
    case 20:
        return rank(doc, kind == 20, p);
    case 18:
        return ld_decode_rank_reward(doc, &reward, p);
    case 19:
    case 21:
        return patch_of(doc, kind == 21, p);
    case 15:
        return ld_decode_replay(doc, false, &head, p);
    default:
        rc = ld_decode_arms(doc, kind == 10, ARM_DIM, &ev, p);
        break;
    }
    if (rc == 0)
        offer(&ev, 1);
    return rc;
}

static void check_refusal(const struct ld_problem *p)
{
    size_t n = 0;
    char *text = ld_problem_json(p, NULL, &n);

    FUZZ_EXPECT(p->status >= 400 && p->status < 500 && p->detail[0] != '\0');
    for (size_t i = 0; i < p->n_errors; i++)
        FUZZ_EXPECT((p->errors[i].pointer[0] == '\0' || p->errors[i].pointer[0] == '/') &&
                    p->errors[i].detail[0] != '\0');
    FUZZ_EXPECT(text != NULL && strlen(text) == n);
    free(text);
    text = ld_encode_rank_refusal(p, "BadRequest", NULL, &n);
    FUZZ_EXPECT(text != NULL && strlen(text) == n);
    free(text);
}

int fuzz_bodies(const uint8_t *data, size_t n)
{
    struct ld_doc *doc = NULL;
    struct ld_problem p;

    if (n == 0)
        return 0;
    const unsigned kind = data[0] % N_KINDS;
    const bool is_lines = kind == 4 || kind == 8 || kind == 11;

    ld_problem_init(&p);
    int rc = ld_doc_parse(&doc, (const char *)data + 1, n - 1, is_lines, &p);
    if (rc == 0)
        rc = decode(kind, doc, &p);
    FUZZ_EXPECT((rc == 0) == (p.status == 0));
    if (rc != 0)
        check_refusal(&p);
    ld_doc_free(doc);
    return 0;
}
