/* Flags of `vw --cb_explore_adf` -> a tenant's configuration.
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
#include "ctl/from_vw.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/args.h"

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

/* What the flags have said so far. */
struct said {
    bool has_task, has_epsilon, has_all_pairs;
    const char *rule; /* NULL: epsilon-greedy */
    double epsilon, gamma_scale, gamma_exponent;
    struct lc_text *remarks;
};

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

static int read_number(const struct flag *flag, const char *value, double most, double *out)
{
    char *end = NULL;
    *out = value != NULL ? strtod(value, &end) : -1;
    if (value == NULL || end == value || *end != '\0' || !(*out >= 0 && *out <= most))
        return lc_fail("%s %s: expected a number from 0 to %g", flag->name, value != NULL ? value : "", most);
    return 0;
}

static void remark(struct said *s, const struct flag *flag, const char *text)
{
    lc_text_printf(s->remarks, "%s: %s\n", flag->name, text);
}

static int take_rule(struct said *s, const struct flag *flag, const char *rule)
{
    if (s->rule != NULL && strcmp(s->rule, rule) != 0)
        return lc_fail("%s: the flags before it have asked for another kind of exploration", flag->name);
    s->rule = rule;
    return 0;
}

static int take_pairs(struct said *s, const struct flag *flag, const char *value)
{
    const bool is_all = strncmp(value, "::", 2) == 0;
    s->has_all_pairs |= is_all;
    remark(s, flag,
           is_all ? "context and arm have polynomials of degree 2: products of up to four features are in the model"
                  : "every product of a feature of the context with one of the arm is in the model, whatever it says");
    return 0;
}

static int take(struct said *s, const struct flag *flag, const char *value)
{
    switch (flag->meaning) {
    case MEANS_TASK:
        s->has_task = true;
        return 0;
    case MEANS_EPSILON:
        s->has_epsilon = true;
        return read_number(flag, value, 1, &s->epsilon);
    case MEANS_SQUARECB:
        return take_rule(s, flag, "igw");
    case MEANS_GAMMA_SCALE:
        return read_number(flag, value, 1e9, &s->gamma_scale);
    case MEANS_GAMMA_EXPONENT:
        return read_number(flag, value, 1, &s->gamma_exponent);
    case MEANS_UCB:
        remark(s, flag, "arms are drawn by the rule `ucb`, the nearest: the greatest upper bound");
        return take_rule(s, flag, "ucb");
    case MEANS_THOMPSON:
        remark(s, flag, "arms are drawn by the rule `thompson`, the nearest: as often as they may be best");
        return take_rule(s, flag, "thompson");
    case MEANS_PAIRS:
        return take_pairs(s, flag, value);
    case MEANS_OTHER_TASK:
        return lc_fail("%s: a tenant does what --cb_explore_adf does, and nothing of this", flag->name);
    case MEANS_STEPS:
        remark(s, flag, "of no effect: the model is exact or sketched, and evidence finds its scales");
        return 0;
    case MEANS_LEAVING:
        remark(s, flag,
               "of no effect: every feature is in the model; leave out what should not be, or give its namespace a "
               "small weight");
        return 0;
    case MEANS_HASHING:
        remark(s, flag, "of no effect: `features.dim` is the number of coordinates, `features.seed` that of the hash");
        return 0;
    case MEANS_NOTHING:
        return 0;
    }
    return 0;
}

static int read_flags(const char *text, struct said *s)
{
    char word[MOST_WORD], next[MOST_WORD];
    bool is_bad = false;
    for (size_t n = 0; next_word(&text, word, &is_bad); n++) {
        const char *value = NULL;
        if (n == 0 && strcmp(word, "vw") == 0)
            continue;
        const struct flag *flag = find(word, &value);
        if (flag == NULL)
            return lc_fail("%s: no flag of vw that is known here", word);
        if (flag->has_value && value == NULL && next_word(&text, next, &is_bad))
            value = next;
        if (is_bad)
            return lc_fail("%s: its value has no end, or more than %d bytes", flag->name, MOST_WORD - 1);
        if (flag->has_value && value == NULL)
            return lc_fail("%s: its value is missing", flag->name);
        if (!flag->has_value && value != NULL)
            return lc_fail("%s: it takes no value", flag->name);
        if (take(s, flag, value) != 0)
            return 1;
    }
    return s->has_task ? 0 : lc_fail("expected --cb_explore_adf among the flags");
}

/* --- the configuration ------------------------------------------------------------------------------------------- */

/* VW explores evenly besides with epsilon-greedy alone, unless told. */
static void write_rule(const struct said *s, struct lc_text *out)
{
    const bool is_greedy = s->rule == NULL;
    const double epsilon = s->has_epsilon ? s->epsilon : is_greedy ? 0.05 : 0;
    lc_text_printf(out, "  \"rule\": {\"type\": \"%s\", \"epsilon\": ", is_greedy ? "ucb" : s->rule);
    lc_text_number(out, epsilon);
    if (!is_greedy && strcmp(s->rule, "igw") == 0) {
        lc_text_puts(out, ", \"gamma_scale\": ");
        lc_text_number(out, s->gamma_scale);
        lc_text_puts(out, ", \"gamma_exponent\": ");
        lc_text_number(out, s->gamma_exponent);
    }
    lc_text_puts(out, "}");
    if (is_greedy)
        lc_text_puts(out, ",\n  \"confidence\": {\"type\": \"fixed\", \"beta\": 0}");
}

int lc_from_vw(const char *text, struct lc_text *out, struct lc_text *remarks)
{
    struct said s = {.gamma_scale = 10, .gamma_exponent = 0.5, .remarks = remarks};
    if (read_flags(text, &s) != 0)
        return 1;
    const int degree = s.has_all_pairs ? 2 : 1;
    lc_text_puts(out, "{\n  \"algorithm\": \"ek-ucb\",\n  \"features\": {\"mapping\": \"names-1\"},\n"
                      "  \"user_kernel\": {\"type\": \"ones\"},\n");
    lc_text_printf(out, "  \"context_kernel\": {\"type\": \"polynomial\", \"degree\": %d, \"offset\": 1},\n", degree);
    lc_text_printf(out, "  \"arm_kernel\": {\"type\": \"polynomial\", \"degree\": %d, \"offset\": 1},\n", degree);
    write_rule(&s, out);
    lc_text_puts(out, "\n}\n");
    return 0;
}
