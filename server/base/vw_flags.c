/* Flags of `vw --cb_explore_adf` as a tenant's configuration, and back.
 *
 *   flag                              here
 *   (epsilon-greedy) --epsilon E      rule ucb with beta 0: the greatest mean, and epsilon E; 0.05 as in VW
 *   --squarecb --gamma_scale G ...    rule igw, whose gamma grows alike
 *   --regcb, --regcbopt               rule ucb
 *   --bag, --cover, --softmax, --rnd  rule thompson, the nearest: each draws by what is uncertain
 *   -q ::, --interactions ::          polynomials of degree 2 of context and arm
 *   other -q, --interactions          nothing to say: each product of context and arm is in the model
 *
 * The model is VW's with a prior: (1 + x.x') (1 + a.a') has a constant, each feature, and each product of a feature of
 * the context with one of the arm. How fast VW steps, and how it hashes and regularises, has no counterpart: evidence
 * finds the scales. */
#include "base/vw_flags.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_WORD 256

enum meaning {
    MEANS_TASK,
    MEANS_EPSILON,
    MEANS_SQUARECB,
    MEANS_GAMMA_SCALE,
    MEANS_GAMMA_EXPONENT,
    MEANS_UCB,
    MEANS_THOMPSON,
    MEANS_PAIRS,
    MEANS_OTHER_TASK,
    MEANS_STEPS,   /* of its optimiser */
    MEANS_LEAVING, /* features out of the model */
    MEANS_HASHING,
    MEANS_NOTHING /* files, texts, how it is run */
};

static const struct flag {
    const char *name;
    bool has_value;
    enum meaning meaning;
} flags[] = {
    {"--cb_explore_adf", false, MEANS_TASK},
    {"--epsilon", true, MEANS_EPSILON},
    {"--squarecb", false, MEANS_SQUARECB},
    {"--gamma_scale", true, MEANS_GAMMA_SCALE},
    {"--gamma_exponent", true, MEANS_GAMMA_EXPONENT},
    {"--regcb", false, MEANS_UCB},
    {"--regcbopt", false, MEANS_UCB},
    {"--mellowness", true, MEANS_STEPS},
    {"--bag", true, MEANS_THOMPSON},
    {"--cover", true, MEANS_THOMPSON},
    {"--softmax", false, MEANS_THOMPSON},
    {"--rnd", true, MEANS_THOMPSON},
    {"--lambda", true, MEANS_STEPS},
    {"--greedify", false, MEANS_STEPS},
    {"--nounif", false, MEANS_STEPS},
    {"--psi", true, MEANS_STEPS},
    {"-q", true, MEANS_PAIRS},
    {"--quadratic", true, MEANS_PAIRS},
    {"--interactions", true, MEANS_PAIRS},
    {"--cubic", true, MEANS_PAIRS},
    {"--cb", true, MEANS_OTHER_TASK},
    {"--cb_explore", true, MEANS_OTHER_TASK},
    {"--cb_adf", false, MEANS_OTHER_TASK},
    {"--ccb_explore_adf", false, MEANS_OTHER_TASK},
    {"--slates", false, MEANS_OTHER_TASK},
    {"--cats", true, MEANS_OTHER_TASK},
    {"--first", true, MEANS_OTHER_TASK},
    {"--cb_type", true, MEANS_STEPS},
    {"-l", true, MEANS_STEPS},
    {"--learning_rate", true, MEANS_STEPS},
    {"--power_t", true, MEANS_STEPS},
    {"--initial_t", true, MEANS_STEPS},
    {"--decay_learning_rate", true, MEANS_STEPS},
    {"--l1", true, MEANS_STEPS},
    {"--l2", true, MEANS_STEPS},
    {"--loss_function", true, MEANS_STEPS},
    {"--link", true, MEANS_STEPS},
    {"--adaptive", false, MEANS_STEPS},
    {"--normalized", false, MEANS_STEPS},
    {"--invariant", false, MEANS_STEPS},
    {"--sgd", false, MEANS_STEPS},
    {"--coin", false, MEANS_STEPS},
    {"--noconstant", false, MEANS_LEAVING},
    {"--ignore_linear", true, MEANS_LEAVING},
    {"--ignore", true, MEANS_LEAVING},
    {"--keep", true, MEANS_LEAVING},
    {"-b", true, MEANS_HASHING},
    {"--bit_precision", true, MEANS_HASHING},
    {"--hash", true, MEANS_HASHING},
    {"--hash_seed", true, MEANS_HASHING},
    {"--chain_hash", false, MEANS_HASHING},
    {"--random_seed", true, MEANS_NOTHING},
    {"-d", true, MEANS_NOTHING},
    {"--data", true, MEANS_NOTHING},
    {"-f", true, MEANS_NOTHING},
    {"--final_regressor", true, MEANS_NOTHING},
    {"-i", true, MEANS_NOTHING},
    {"--initial_regressor", true, MEANS_NOTHING},
    {"-p", true, MEANS_NOTHING},
    {"--predictions", true, MEANS_NOTHING},
    {"-t", false, MEANS_NOTHING},
    {"--passes", true, MEANS_NOTHING},
    {"-c", false, MEANS_NOTHING},
    {"-k", false, MEANS_NOTHING},
    {"--json", false, MEANS_NOTHING},
    {"--dsjson", false, MEANS_NOTHING},
    {"--quiet", false, MEANS_NOTHING},
    {"--save_resume", false, MEANS_NOTHING},
    {"--preserve_performance_counters", false, MEANS_NOTHING},
};

#define DEFAULT_EPSILON 0.05
#define DEFAULT_GAMMA_SCALE 10
#define DEFAULT_GAMMA_EXPONENT 0.5

/* --- words --------------------------------------------------------------------------------------------------- */

/* The next word of the text into out, in quotes or not. False at the end; *is_bad: it is too long, or a quote is open.
 */
static bool next_word(const char **at, char out[MOST_WORD], bool *is_bad)
{
    size_t n = 0;
    char quote = '\0';
    *at += strspn(*at, " \t\r\n");
    if (**at == '\0')
        return false;
    for (; **at != '\0' && (quote != '\0' || strchr(" \t\r\n", **at) == NULL); (*at)++) {
        if (quote == '\0' && (**at == '"' || **at == '\''))
            quote = **at;
        else if (**at == quote)
            quote = '\0';
        else if (n < MOST_WORD - 1)
            out[n++] = **at;
        else
            *is_bad = true;
    }
    out[n] = '\0';
    *is_bad |= quote != '\0';
    return true;
}

/* The flag that a word begins with, and the value in the same word: --name=value, -qab, -b18. NULL: VW has none. */
static const struct flag *find(const char *word, const char **value)
{
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        const size_t n = strlen(flags[i].name);
        if (strncmp(word, flags[i].name, n) != 0)
            continue;
        const bool is_short = flags[i].name[1] != '-', is_glued = is_short && flags[i].has_value;
        if (word[n] != '\0' && word[n] != '=' && !is_glued)
            continue;
        *value = word[n] == '\0' ? NULL : word + n + (word[n] == '=');
        return &flags[i];
    }
    return NULL;
}

/* --- meanings -------------------------------------------------------------------------------------------------- */

static int read_number(const struct flag *flag, const char *value, double most, double *out, struct ld_message *why)
{
    char *end = NULL;
    *out = value != NULL ? strtod(value, &end) : -1;
    if (value == NULL || end == value || *end != '\0' || !(*out >= 0 && *out <= most))
        return ld_fail(why, "%s %s: expected a number from 0 to %g", flag->name, value != NULL ? value : "", most);
    return 0;
}

/* Once of a flag, whatever is said of it again. */
static void remark(struct ld_vw *vw, const struct flag *flag, bool is_idle, const char *text)
{
    for (size_t i = 0; i < vw->n; i++)
        if (vw->remark[i].flag == flag->name && vw->remark[i].text == text)
            return;
    if (vw->n < LD_VW_REMARKS)
        vw->remark[vw->n++] = (struct ld_vw_remark){flag->name, text, is_idle, flag->meaning == MEANS_PAIRS};
}

static int take_rule(struct ld_vw *vw, const struct flag *flag, enum ld_vw_rule rule, struct ld_message *why)
{
    if (vw->rule != LD_VW_GREEDY && vw->rule != rule)
        return ld_fail(why, "%s: the flags before it have asked for another kind of exploration", flag->name);
    vw->rule = rule;
    return 0;
}

static int take_pairs(struct ld_vw *vw, const struct flag *flag, const char *value)
{
    const bool is_all = strncmp(value, "::", 2) == 0;
    vw->has_all_pairs |= is_all;
    if (is_all)
        remark(vw, flag, false,
               "context and arm have polynomials of degree 2: products of up to four features are in the model");
    else
        remark(vw, flag, true,
               "every product of a feature of the context with one of the arm is in the model, whatever it says");
    return 0;
}

static int take(struct ld_vw *vw, const struct flag *flag, const char *value, struct ld_message *why)
{
    switch (flag->meaning) {
    case MEANS_TASK:
        vw->has_task = true;
        return 0;
    case MEANS_EPSILON:
        vw->has_epsilon = true;
        return read_number(flag, value, 1, &vw->epsilon, why);
    case MEANS_SQUARECB:
        return take_rule(vw, flag, LD_VW_SQUARECB, why);
    case MEANS_GAMMA_SCALE:
        return read_number(flag, value, 1e9, &vw->gamma_scale, why);
    case MEANS_GAMMA_EXPONENT:
        return read_number(flag, value, 1, &vw->gamma_exponent, why);
    case MEANS_UCB:
        remark(vw, flag, false, "arms are drawn by the rule `ucb`, the nearest: the greatest upper bound");
        return take_rule(vw, flag, LD_VW_UCB, why);
    case MEANS_THOMPSON:
        remark(vw, flag, false, "arms are drawn by the rule `thompson`, the nearest: as often as they may be best");
        return take_rule(vw, flag, LD_VW_THOMPSON, why);
    case MEANS_PAIRS:
        return take_pairs(vw, flag, value);
    case MEANS_OTHER_TASK:
        return ld_fail(why, "%s: a tenant does what --cb_explore_adf does, and nothing of this", flag->name);
    case MEANS_STEPS:
        remark(vw, flag, true, "of no effect: the model is exact or sketched, and evidence finds its scales");
        return 0;
    case MEANS_LEAVING:
        remark(vw, flag, true,
               "of no effect: every feature is in the model; leave out what should not be, or give its namespace a "
               "small weight");
        return 0;
    case MEANS_HASHING:
        remark(vw, flag, true,
               "of no effect: `features.dim` is the number of coordinates, `features.seed` that of the hash");
        return 0;
    case MEANS_NOTHING:
        return 0;
    }
    return 0;
}

int ld_vw_read(const char *text, struct ld_vw *out, struct ld_message *why)
{
    char word[MOST_WORD], next[MOST_WORD];
    bool is_bad = false;
    *out = (struct ld_vw){.gamma_scale = DEFAULT_GAMMA_SCALE, .gamma_exponent = DEFAULT_GAMMA_EXPONENT};
    for (size_t n = 0; next_word(&text, word, &is_bad); n++) {
        const char *value = NULL;
        if (n == 0 && strcmp(word, "vw") == 0)
            continue;
        const struct flag *flag = find(word, &value);
        if (flag == NULL)
            return ld_fail(why, "%s: no flag of vw that is known here", word);
        if (flag->has_value && value == NULL && next_word(&text, next, &is_bad))
            value = next;
        if (is_bad)
            return ld_fail(why, "%s: its value has no end, or more than %d bytes", flag->name, MOST_WORD - 1);
        if (flag->has_value && value == NULL)
            return ld_fail(why, "%s: its value is missing", flag->name);
        if (!flag->has_value && value != NULL)
            return ld_fail(why, "%s: it takes no value", flag->name);
        if (take(out, flag, value, why) != 0)
            return -1;
    }
    if (!out->has_epsilon)
        out->epsilon = out->rule == LD_VW_GREEDY ? DEFAULT_EPSILON : 0;
    return out->has_task ? 0 : ld_fail(why, "expected --cb_explore_adf among the flags");
}

/* --- the configuration ------------------------------------------------------------------------------------------- */

const char *const ld_vw_rules[LD_VW_N_RULES] = {"ucb", "ucb", "igw", "thompson"};

/* VW explores evenly besides with epsilon-greedy alone, unless told. */
void ld_vw_put_rule(struct ld_text *t, const struct ld_vw *vw, bool is_patch)
{
    ld_text_key(t, "rule");
    ld_text_lit(t, "{");
    ld_text_put_string(t, "type", ld_vw_rules[vw->rule]);
    ld_text_put_number(t, "epsilon", vw->epsilon);
    if (vw->rule == LD_VW_SQUARECB) {
        ld_text_put_number(t, "gamma_scale", vw->gamma_scale);
        ld_text_put_number(t, "gamma_exponent", vw->gamma_exponent);
    }
    ld_text_lit(t, "}");
    if (vw->rule != LD_VW_GREEDY && !is_patch)
        return;
    ld_text_key(t, "confidence");
    ld_text_lit(t, vw->rule == LD_VW_GREEDY ? "{\"type\":\"fixed\",\"beta\":0}" : "null");
}

void ld_vw_put_configuration(struct ld_text *t, const struct ld_vw *vw)
{
    static const char *const kernels[] = {"context_kernel", "arm_kernel"};
    ld_text_lit(t,
                "{\"algorithm\":\"ek-ucb\",\"features\":{\"mapping\":\"names-1\"},\"user_kernel\":{\"type\":\"ones\"}");
    for (size_t i = 0; i < 2; i++) {
        ld_text_key(t, kernels[i]);
        ld_text_lit(t, "{\"type\":\"polynomial\"");
        ld_text_put_count(t, "degree", vw->has_all_pairs ? 2 : 1);
        ld_text_put_count(t, "offset", 1);
        ld_text_lit(t, "}");
    }
    ld_vw_put_rule(t, vw, false);
    ld_text_lit(t, "}");
}

/* --- and back -------------------------------------------------------------------------------------------------------
 */

bool ld_vw_is_same(const struct ld_vw *a, const struct ld_vw *b)
{
    return a->rule == b->rule && a->epsilon == b->epsilon && a->has_all_pairs == b->has_all_pairs &&
           (a->rule != LD_VW_SQUARECB || (a->gamma_scale == b->gamma_scale && a->gamma_exponent == b->gamma_exponent));
}

void ld_vw_put_flags(struct ld_text *t, const struct ld_vw *vw)
{
    static const char *const kinds[LD_VW_N_RULES] = {"", " --regcb", " --squarecb", " --bag 10"};
    ld_text_lit(t, "--cb_explore_adf");
    ld_text_lit(t, kinds[vw->rule]);
    ld_text_lit(t, " --epsilon ");
    ld_text_number(t, vw->epsilon);
    if (vw->rule == LD_VW_SQUARECB) {
        ld_text_lit(t, " --gamma_scale ");
        ld_text_number(t, vw->gamma_scale);
        ld_text_lit(t, " --gamma_exponent ");
        ld_text_number(t, vw->gamma_exponent);
    }
    ld_text_lit(t, vw->has_all_pairs ? " -q ::" : "");
}
