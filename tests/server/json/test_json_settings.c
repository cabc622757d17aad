/* Configurations: presets fill, fields override, what is written reads back, what is wrong is refused. */
#include <check.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json/json_in.h"
#include "json/json_out.h"
#include "kbt.h"

static int decode(const char *text, struct ld_settings *out, struct ld_problem *p)
{
    struct ld_doc *doc = NULL;
    ld_problem_init(p);
    int rc = ld_doc_parse(&doc, text, strlen(text), false, p);
    if (rc == 0)
        rc = ld_decode_settings(doc, out, p);
    ld_doc_free(doc);
    return rc;
}

static struct ld_settings settings_of(const char *text)
{
    struct ld_settings s;
    struct ld_problem p;
    ck_assert_msg(decode(text, &s, &p) == 0, "%s: %s %s %s", text, p.detail, p.n_errors > 0 ? p.errors[0].pointer : "",
                  p.n_errors > 0 ? p.errors[0].detail : "");
    return s;
}

/* Writing, reading and writing again gives the same text and the same digest. */
static void assert_round_trip(const struct ld_settings *s)
{
    size_t n, n_again;
    char *text = ld_encode_settings(s, &n);
    ck_assert_ptr_nonnull(text);
    struct ld_settings again = settings_of(text);
    char *text_again = ld_encode_settings(&again, &n_again);
    ck_assert_str_eq(text, text_again);
    ck_assert_uint_eq(kb_spec_digest(&s->spec, 1), kb_spec_digest(&again.spec, 1));
    ck_assert_int_eq(s->is_relaxed, again.is_relaxed);
    free(text);
    free(text_again);
}

START_TEST(every_preset_reads_back_from_its_full_form)
{
    static const uint32_t dims[][2] = {{0, 0}, {2, 0}, {0, 3}, {2, 3}};
    for (size_t i = 0; kb_preset_name(i) != NULL; i++) {
        for (size_t k = 0; k < 4; k++) {
            char text[160];
            struct kb_spec want;
            (void)snprintf(text, sizeof text, "{\"algorithm\":\"%s\",\"context_dim\":%u,\"arm_dim\":%u}",
                           kb_preset_name(i), (unsigned)dims[k][0], (unsigned)dims[k][1]);
            struct ld_settings s = settings_of(text);
            ck_assert_int_eq(kb_spec_preset(&want, kb_preset_name(i), dims[k][0], dims[k][1]), KB_OK);
            ck_assert_uint_eq(kb_spec_digest(&s.spec, 1), kb_spec_digest(&want, 1));
            ck_assert(!s.is_relaxed);
            assert_round_trip(&s);
        }
    }
}
END_TEST

START_TEST(nothing_means_the_default_preset)
{
    struct ld_settings s = settings_of("{}");
    ck_assert_str_eq(s.spec.algorithm, "laplaced");
    ck_assert(s.spec.context_dim == 0 && s.spec.arm_dim == 0);
    ck_assert(s.spec.has_default_reward && s.spec.default_reward == 0 && s.spec.rule.epsilon == 0.02);
    ck_assert(s.spec.is_tuned && s.spec.learned == KB_LEARNED_ALL);
    ck_assert_int_eq(s.spec.reward_window_ms, 3600000);
}
END_TEST

/* tune speaks first, numbers fix what they name, and what no refit of an exact model can serve is as in the papers. */
START_TEST(rows_of_means_are_tuned_or_those_of_the_papers)
{
    static const struct {
        const char *text;
        unsigned learned;
        double lambda;
    } cases[] = {{"{\"algorithm\":\"ucb\"}", KB_LEARNED_APART, 0.25},
                 {"{\"algorithm\":\"ts\",\"tune\":true,\"arm_dim\":2}", KB_LEARNED_APART, 0.25},
                 {"{\"algorithm\":\"ts\",\"representation\":{\"lambda\":0.5}}", KB_LEARNED_MEAN | KB_LEARNED_ARM, 0.5},
                 {"{\"algorithm\":\"ucb\",\"prior\":{\"mean\":0.02,\"arm\":0.001}}", KB_LEARNED_NOISE, 0.25},
                 {"{\"algorithm\":\"gp-ucb\",\"tune\":true}", KB_LEARNED_APART, 0.25},
                 {"{\"algorithm\":\"ucb\",\"tune\":false}", 0, 1},
                 {"{\"algorithm\":\"ts\",\"tune\":false,\"representation\":{\"lambda\":0.5}}", 0, 0.5},
                 {"{\"algorithm\":\"ts\",\"tune\":false,\"representation\":{\"lambda\":\"learned\"}}", 0, 1},
                 {"{\"algorithm\":\"ucb\",\"confidence\":{\"type\":\"lk\"}}", 0, 1},
                 {"{\"algorithm\":\"ucb\",\"rule\":{\"type\":\"sup_kernel\"}}", 0, 1},
                 {"{\"algorithm\":\"ucb\",\"user_kernel\":{\"type\":\"laplacian\"}}", 0, 1}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ld_settings s = settings_of(cases[i].text);

        ck_assert_msg(s.spec.learned == cases[i].learned, "%s: %u", cases[i].text, s.spec.learned);
        ck_assert(s.spec.is_tuned == (cases[i].learned != 0) && s.spec.repr.lambda == cases[i].lambda);
        assert_round_trip(&s);
    }
}
END_TEST

START_TEST(every_field_can_be_overridden)
{
    struct ld_settings s = settings_of(
        "{\"algorithm\":\"gp-ucb\",\"context_dim\":2,\"arm_dim\":3,"
        "\"user_kernel\":{\"type\":\"laplacian\",\"rho\":0.25,\"population\":1.5,\"normalize\":true,\"power\":1,"
        "\"tolerance\":0.0625,\"tau\":0.5,\"k\":5,\"lengthscale\":0.75,\"bandwidth\":0.5,\"features\":31,\"refresh\":"
        "17,"
        "\"min_observations\":3},"
        "\"context_kernel\":{\"type\":\"matern32\",\"lengthscale\":\"median\"},"
        "\"arm_kernel\":{\"type\":\"polynomial\",\"degree\":3,\"offset\":0.5},"
        "\"representation\":{\"type\":\"threshold\",\"lambda\":0.04,\"mu\":2,\"gamma\":3,\"epsilon\":0.25,"
        "\"threshold\":0.02,"
        "\"max_dictionary\":77,\"exact_limit\":99},"
        "\"confidence\":{\"type\":\"fixed\",\"beta\":1.5,\"norm_bound\":4,\"noise\":0.2,\"delta\":0.05,"
        "\"form\":\"split\",\"score\":\"fixed\"},"
        "\"rule\":{\"type\":\"thompson\",\"epsilon\":0.125},"
        "\"forgetting\":{\"type\":\"half_life\",\"discount\":0.75,\"half_life_s\":90.5},\"pending\":\"ignore\","
        "\"reward_window_s\":0.25,"
        "\"default_reward\":-1,\"aggregation\":\"last\",\"durability\":\"relaxed\",\"seed\":9007199254740991}");
    const struct kb_spec *p = &s.spec;
    ck_assert(p->user_kernel.type == KB_USER_LAPLACIAN && p->user_kernel.rho == 0.25);
    ck_assert(p->user_kernel.tolerance == 0.0625);
    ck_assert(p->user_kernel.population == 1.5 && p->user_kernel.is_normalized);
    ck_assert(p->user_kernel.power == 1 && p->user_kernel.tau == 0.5 && p->user_kernel.n_vectors == 5);
    ck_assert(p->user_kernel.lengthscale == 0.75 && p->user_kernel.bandwidth == 0.5);
    ck_assert(p->user_kernel.n_features == 31 && p->user_kernel.refresh == 17 && p->user_kernel.min_observations == 3);
    ck_assert(p->context_kernel.type == KB_VEC_MATERN32 && p->context_kernel.is_median);
    ck_assert(p->arm_kernel.type == KB_VEC_POLYNOMIAL && p->arm_kernel.degree == 3 && p->arm_kernel.offset == 0.5);
    ck_assert(p->repr.type == KB_REPR_THRESHOLD && p->repr.lambda == 0.04 && p->repr.mu == 2 && p->repr.gamma == 3);
    ck_assert(p->repr.epsilon == 0.25 && p->repr.threshold == 0.02);
    ck_assert(p->repr.max_dictionary == 77 && p->repr.exact_limit == 99);
    ck_assert(p->conf.beta == 1.5 && p->conf.norm_bound == 4 && p->conf.noise == 0.2 && p->conf.delta == 0.05);
    ck_assert(p->conf.form == KB_SKETCH_SPLIT && p->conf.score == KB_SCORE_FIXED && !p->conf.is_mixture);
    ck_assert(p->rule.type == KB_RULE_THOMPSON && p->rule.epsilon == 0.125);
    ck_assert(p->forgetting.type == KB_FORGET_HALF_LIFE && p->forgetting.discount == 0.75);
    ck_assert(p->forgetting.half_life_s == 90.5);
    ck_assert(p->reward_window_ms == 250 && p->has_default_reward && p->default_reward == -1);
    ck_assert(p->aggregation == KB_AGG_LAST && s.is_relaxed && p->seed == 9007199254740991u);
    assert_round_trip(&s);
}
END_TEST

START_TEST(auto_null_and_median_undo_numbers)
{
    struct ld_settings s =
        settings_of("{\"arm_dim\":1,\"confidence\":{\"norm_bound\":\"auto\"},\"default_reward\":null,"
                    "\"user_kernel\":{\"lengthscale\":\"median\"},"
                    "\"arm_kernel\":{\"type\":\"rbf\",\"lengthscale\":2.5}}");
    ck_assert(s.spec.user_kernel.lengthscale == 0);
    ck_assert(s.spec.conf.norm_bound == 0 && !s.spec.has_default_reward);
    ck_assert(!s.spec.arm_kernel.is_median && s.spec.arm_kernel.lengthscale == 2.5);
    assert_round_trip(&s);
}
END_TEST

START_TEST(bounds_that_need_rewards_to_stay_give_way_to_fixed_when_nobody_asked_for_them)
{
    struct ld_settings s = settings_of("{\"algorithm\":\"laplaced-kors\"}");
    ck_assert(s.spec.conf.type == KB_CONF_CMM && s.spec.conf.score == KB_SCORE_FIXED);
    s = settings_of("{\"algorithm\":\"laplaced-kors\",\"aggregation\":\"last\",\"confidence\":{\"beta\":1}}");
    ck_assert(s.spec.conf.type == KB_CONF_FIXED && s.spec.conf.beta == 1);
    assert_round_trip(&s);
    s = settings_of(
        "{\"algorithm\":\"laplaced-kors\",\"aggregation\":\"sum\",\"representation\":{\"type\":\"exact\"}}");
    ck_assert(s.spec.conf.type == KB_CONF_CMM); /* all points are held: nothing to give way to */
    s = settings_of("{\"algorithm\":\"laplaced-kors\",\"aggregation\":\"sum\",\"confidence\":{\"type\":\"ek_plus\"}}");
    ck_assert(s.spec.conf.type == KB_CONF_EK_PLUS);
}
END_TEST

static const struct {
    const char *text;
    int status;
    const char *pointers;
} refused[] = {
    {"[]", 400, ""},
    {"{\"algorithm\":\"gpt\"}", 400, "/algorithm"},
    {"{\"algorithm\":7}", 400, "/algorithm"},
    {"{\"context_dim\":4097,\"arm_dim\":-1}", 400, "/context_dim /arm_dim"},
    {"{\"context_dim\":1.5}", 400, "/context_dim"},
    {"{\"colour\":1,\"user_kernel\":{\"hue\":2}}", 400, "/colour /user_kernel/hue"},
    {"{\"user_kernel\":\"ones\"}", 400, "/user_kernel"},
    {"{\"user_kernel\":{\"type\":\"one\"}}", 400, "/user_kernel/type"},
    {"{\"user_kernel\":{\"type\":1}}", 400, "/user_kernel/type"},
    {"{\"user_kernel\":{\"rho\":0,\"population\":-1,\"normalize\":1,\"power\":\"1\"}}", 400,
     "/user_kernel/rho /user_kernel/population /user_kernel/normalize /user_kernel/power"},
    {"{\"user_kernel\":{\"tolerance\":0.11}}", 400, "/user_kernel/tolerance"},
    {"{\"user_kernel\":{\"tolerance\":-1e-9}}", 400, "/user_kernel/tolerance"},
    {"{\"user_kernel\":{\"power\":4.5,\"tau\":0,\"k\":0,\"lengthscale\":\"mean\"}}", 400,
     "/user_kernel/power /user_kernel/tau /user_kernel/k /user_kernel/lengthscale"},
    {"{\"user_kernel\":{\"power\":0,\"tau\":\"1\",\"k\":2.5,\"lengthscale\":0}}", 400,
     "/user_kernel/power /user_kernel/tau /user_kernel/k /user_kernel/lengthscale"},
    {"{\"arm_dim\":2,\"arm_kernel\":{\"lengthscale\":0,\"degree\":9,\"offset\":-1}}", 400,
     "/arm_kernel/lengthscale /arm_kernel/degree /arm_kernel/offset"},
    {"{\"arm_dim\":2,\"arm_kernel\":{\"lengthscale\":\"mean\",\"degree\":2.5}}", 400,
     "/arm_kernel/lengthscale /arm_kernel/degree"},
    {"{\"representation\":{\"lambda\":0,\"mu\":-1,\"gamma\":null,\"epsilon\":1,\"threshold\":0,\"max_dictionary\":0,"
     "\"exact_limit\":16385}}",
     400,
     "/representation/lambda /representation/mu /representation/gamma /representation/epsilon "
     "/representation/threshold "
     "/representation/max_dictionary /representation/exact_limit"},
    {"{\"confidence\":{\"beta\":-1,\"norm_bound\":0,\"noise\":0,\"delta\":1}}", 400,
     "/confidence/beta /confidence/norm_bound /confidence/noise /confidence/delta"},
    {"{\"confidence\":{\"norm_bound\":\"big\",\"type\":\"free\"}}", 400, "/confidence/norm_bound /confidence/type"},
    {"{\"rule\":{\"type\":\"greedy\",\"epsilon\":1.5}}", 400, "/rule/type /rule/epsilon"},
    {"{\"pending\":\"wait\",\"aggregation\":\"mean\",\"durability\":\"none\",\"seed\":-1,\"default_reward\":\"0\"}",
     400, "/pending /aggregation /durability /seed /default_reward"},
    {"{\"reward_window_s\":0}", 400, "/reward_window_s"},
    {"{\"reward_window_s\":1e10}", 400, "/reward_window_s"},
    {"{\"seed\":9007199254740993}", 400, "/seed"},
    /* of the contract, but not served by this version */
    {"{\"user_kernel\":{\"type\":\"mmd\"}}", 422, "/user_kernel/type"}, /* dimensions 0: nothing to learn from */
    {"{\"user_kernel\":{\"features\":0,\"refresh\":1.5,\"min_observations\":0,\"bandwidth\":\"auto\"}}", 400,
     "/user_kernel/features /user_kernel/refresh /user_kernel/min_observations /user_kernel/bandwidth"},
    {"{\"representation\":{\"type\":\"bkb\"},\"confidence\":{\"type\":\"lk\"}}", 422, "/confidence/type"},
    {"{\"representation\":{\"q\":0}}", 400, "/representation/q"},
    {"{\"representation\":{\"q\":\"5\"}}", 400, "/representation/q"},
    {"{\"representation\":{\"batch_ratio\":0.99}}", 400, "/representation/batch_ratio"},
    {"{\"pending\":\"guess\"}", 400, "/pending"},
    {"{\"pending\":\"hallucinate\",\"forgetting\":{\"type\":\"discount\"}}", 422, "/pending"},
    {"{\"pending\":\"hallucinate\",\"algorithm\":\"cmm-ucb\"}", 422, "/pending"},
    /* combinations; laplaced-kors has a population */
    {"{\"algorithm\":\"laplaced-kors\",\"user_kernel\":{\"type\":\"heat\"}}", 422, "/user_kernel/population"},
    {"{\"algorithm\":\"laplaced-kors\",\"user_kernel\":{\"type\":\"spectral_rbf\"}}", 422, "/user_kernel/population"},
    {"{\"algorithm\":\"laplaced-kors\",\"user_kernel\":{\"power\":2}}", 422, "/user_kernel/population"},
    {"{\"user_kernel\":{\"power\":4,\"rho\":1e-6,\"population\":0}}", 422, "/user_kernel/power"},
    {"{\"representation\":{\"type\":\"kors\"},\"confidence\":{\"type\":\"lk\"}}", 422, "/confidence/type"},
    {"{\"representation\":{\"type\":\"kors\"},\"confidence\":{\"type\":\"ay\"}}", 422, "/confidence/type"},
    {"{\"representation\":{\"type\":\"kors\"},\"confidence\":{\"type\":\"igp\"}}", 422, "/confidence/type"},
    {"{\"algorithm\":\"laplaced-kors\",\"confidence\":{\"type\":\"cmm\"},\"aggregation\":\"sum\"}", 422,
     "/aggregation"},
    {"{\"algorithm\":\"laplaced-kors\",\"confidence\":{\"type\":\"ek\",\"mixture\":true}}", 422, "/confidence/mixture"},
    {"{\"confidence\":{\"form\":\"double\",\"mixture\":1,\"score\":\"lower\"}}", 400,
     "/confidence/form /confidence/mixture /confidence/score"},
    {"{\"arm_kernel\":{\"type\":\"rbf\"}}", 422, "/arm_kernel/type"},
    {"{\"context_kernel\":{\"type\":\"linear\"}}", 422, "/context_kernel/type"},
    {"{\"arm_dim\":2,\"arm_kernel\":{\"type\":\"linear\",\"lengthscale\":\"median\"}}", 422, "/arm_kernel/lengthscale"},
    {"{\"experiment\":{}}", 400, "/experiment/difference"},
    {"{\"experiment\":{\"difference\":0,\"level\":0.6,\"traffic_level\":0,\"baseline\":\"\"}}", 400,
     "/experiment/difference /experiment/level /experiment/traffic_level /experiment/baseline"},
    {"{\"experiment\":{\"difference\":0.1,\"range\":[0]}}", 400, "/experiment/range"},
    {"{\"experiment\":{\"difference\":0.1,\"range\":[0,\"1\"]}}", 400, "/experiment/range/1"},
    {"{\"experiment\":{\"difference\":0.1,\"range\":[1,1]}}", 422, "/experiment/range"},
    {"{\"experiment\":{\"difference\":2.5,\"range\":[-1,1]}}", 422, "/experiment/difference"},
    {"{\"experiment\":true}", 400, "/experiment"},
};

START_TEST(wrong_configurations_are_refused_by_pointer)
{
    struct ld_settings s;
    struct ld_problem p;
    char pointers[LD_PROBLEM_MAX_ERRORS * 168] = "";
    ck_assert_int_eq(decode(refused[_i].text, &s, &p), -1);
    for (size_t i = 0; i < p.n_errors; i++) {
        strcat(pointers, i > 0 ? " " : "");
        strcat(pointers, p.errors[i].pointer);
    }
    ck_assert_msg(p.status == refused[_i].status, "%s: status %d", refused[_i].text, p.status);
    ck_assert_msg(strcmp(pointers, refused[_i].pointers) == 0, "%s: %s", refused[_i].text, pointers);
}
END_TEST

START_TEST(the_written_form_has_every_field_of_the_contract)
{
    static const char *const names[] = {
        "algorithm",      "context_dim", "arm_dim",    "user_kernel", "context_kernel", "arm_kernel",
        "representation", "confidence",  "rule",       "pending",     "forgetting",     "reward_window_s",
        "default_reward", "aggregation", "durability", "seed",        "retention",      "challengers",
        "log_candidates", "guardrail",   "promotion",  "routing",     "tune",           "prior"};
    struct ld_settings s = settings_of("{\"arm_dim\":2,\"arm_kernel\":{\"lengthscale\":\"median\"}}");
    size_t n;
    char *text = ld_encode_settings(&s, &n);
    json_t *v = json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_msg(v != NULL, "%s", text);
    ck_assert_uint_eq(json_object_size(v), sizeof names / sizeof *names);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        ck_assert_msg(json_object_get(v, names[i]) != NULL, "%s", names[i]);
    ck_assert_str_eq(json_string_value(json_object_get(json_object_get(v, "arm_kernel"), "lengthscale")), "median");
    ck_assert_str_eq(json_string_value(json_object_get(json_object_get(v, "confidence"), "norm_bound")), "auto");
    json_decref(v);
    free(text);
}
END_TEST

/* Of models that do not read it, where nobody has set it. */
START_TEST(the_prior_of_arms_is_written_where_it_is_read)
{
    static const struct {
        const char *body;
        bool is_written;
    } cases[] = {{"{\"algorithm\":\"laplaced-kors\"}", false},
                 {"{}", true},
                 {"{\"algorithm\":\"laplaced-by-arm\"}", true},
                 {"{\"algorithm\":\"laplaced-kors\",\"representation\":{\"type\":\"by_arm\"},\"confidence\":{\"type\":"
                  "\"fixed\"}}",
                  true},
                 {"{\"algorithm\":\"laplaced-kors\",\"prior\":{\"mean\":0.5}}", true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ld_settings s = settings_of(cases[i].body), back;
        struct ld_problem p;
        size_t n;
        char *text = ld_encode_settings(&s, &n);
        json_t *v = json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL);
        ck_assert_msg(v != NULL, "%s", text);
        ck_assert((json_object_get(v, "prior") != NULL) == cases[i].is_written);
        ck_assert_int_eq(decode(text, &back, &p), 0);
        ck_assert_mem_eq(&s.spec.prior, &back.spec.prior, sizeof s.spec.prior);
        json_decref(v);
        free(text);
    }
}
END_TEST

/* In full where there is one, and not at all where there is none. */
START_TEST(an_experiment_reads_back_from_its_full_form)
{
    struct ld_settings s = settings_of("{\"experiment\":{\"difference\":0.25,\"baseline\":\"a\",\"range\":[-1,3]}}"),
                       back;
    struct ld_problem p;
    size_t n;
    char *text = ld_encode_settings(&s, &n);
    ck_assert_ptr_nonnull(strstr(text, "\"experiment\":{\"baseline\":\"a\",\"difference\":0.25,\"level\":0.05,"
                                       "\"traffic_level\":0.01,\"range\":[-1,3]}"));
    ck_assert_int_eq(decode(text, &back, &p), 0);
    ck_assert(ld_experiment_is_same(&s.experiment, &back.experiment) && back.experiment.is_on);
    free(text);
    s = settings_of("{\"experiment\":null}");
    ck_assert(!s.experiment.is_on);
    text = ld_encode_settings(&s, &n);
    ck_assert_ptr_null(strstr(text, "experiment"));
    free(text);
}
END_TEST

/* What is in force is shown in numbers where the configuration says "median". */
START_TEST(parameters_in_force_show_the_lengthscale)
{
    struct ld_settings s =
        settings_of("{\"algorithm\":\"laplaced-kors\",\"arm_dim\":2,\"arm_kernel\":{\"lengthscale\":\"median\"}}");
    struct kb_spec in_force = s.spec;
    struct kb_engine_counts counts = {.seq = 9, .version = 2, .learned = 5};
    struct ld_tenant_view view = {.name = "t", .settings = &s, .in_force = &in_force, .counts = &counts};
    size_t n;
    in_force.arm_kernel.lengthscale = 0.75;
    in_force.repr.type = KB_REPR_EXACT;
    char *text = ld_encode_tenant(&view, &n);
    json_t *v = json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_msg(v != NULL, "%s", text);
    const json_t *parameters = json_object_get(v, "parameters");
    ck_assert_uint_eq(json_object_size(parameters), 7);
    ck_assert(json_real_value(json_object_get(json_object_get(parameters, "arm_kernel"), "lengthscale")) == 0.75);
    ck_assert_str_eq(json_string_value(json_object_get(json_object_get(parameters, "representation"), "type")),
                     "exact");
    ck_assert_str_eq(json_string_value(json_object_get(
                         json_object_get(json_object_get(v, "configuration"), "arm_kernel"), "lengthscale")),
                     "median");
    ck_assert_int_eq(json_integer_value(json_object_get(v, "version")), 2);
    ck_assert_int_eq(json_integer_value(json_object_get(v, "seq")), 9);
    ck_assert_int_eq(json_integer_value(json_object_get(v, "events")), 5);
    json_decref(v);
    free(text);
}
END_TEST

int main(void)
{
    return KBT_RUN_TIMES(
        "json_settings", 0, {every_preset_reads_back_from_its_full_form, 1}, {nothing_means_the_default_preset, 1},
        {rows_of_means_are_tuned_or_those_of_the_papers, 1}, {every_field_can_be_overridden, 1},
        {auto_null_and_median_undo_numbers, 1},
        {bounds_that_need_rewards_to_stay_give_way_to_fixed_when_nobody_asked_for_them, 1},
        {wrong_configurations_are_refused_by_pointer, sizeof refused / sizeof *refused},
        {the_written_form_has_every_field_of_the_contract, 1}, {the_prior_of_arms_is_written_where_it_is_read, 1},
        {an_experiment_reads_back_from_its_full_form, 1}, {parameters_in_force_show_the_lengthscale, 1});
}
