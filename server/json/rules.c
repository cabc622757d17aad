/* See rules.h. Written by tools/schemas.py from the JSON Schemas of schema/. */
/* clang-format off */
#include "json/rules.h"

#include <math.h>

const struct ld_rule ld_id_rule = {.lo = 1, .hi = 256};
const struct ld_rule ld_user_id_rule = {.lo = 1, .hi = 256, .takes_digits = true};
const struct ld_rule ld_decision_id_rule = {.lo = 1, .hi = 128};
const struct ld_rule ld_metric_name_rule = {.lo = 1, .hi = 64};

const struct ld_rules ld_candidate_rules = {(const struct ld_rule[]){
    {.key = "id", .lo = 1, .hi = 256},
    {.key = "features", .lo = 0, .hi = 4096},
}, 2, 0x1};
const struct ld_rule ld_edge_rule = {.lo = 2, .hi = 3};
const struct ld_rule ld_pair_rule = {.lo = 2, .hi = 2};
const struct ld_rule ld_attribute_name_rule = {.lo = 1, .hi = 64};
const struct ld_rule ld_attribute_value_rule = {.lo = 1, .hi = 256};
const struct ld_rule ld_attribute_values_rule = {.lo = 1, .hi = 256};
const struct ld_rule ld_hour_rule = {.lo = 0, .hi = 23};

const struct ld_rules ld_eligibility_rules = {(const struct ld_rule[]){
    {.key = "allow", .lo = 0, .hi = 16},
    {.key = "deny", .lo = 0, .hi = 16},
    {.key = "from"},
    {.key = "until"},
    {.key = "hours", .lo = 1, .hi = 24},
    {.key = "days", .choices = (const char *const[]){"mon", "tue", "wed", "thu", "fri", "sat", "sun", NULL}, .lo = 1, .hi = 7},
}, 6, 0x0};
const struct ld_rule ld_weight_rule = {.lo = 0, .hi = 1e+30, .is_lo_open = true, .is_magnitude = true};

const struct ld_rules ld_activate_rules = {(const struct ld_rule[]){
    {.key = "decision", .lo = 1, .hi = 128},
}, 1, 0x1};

const struct ld_rules ld_arms_rules = {(const struct ld_rule[]){
    {.key = "arms", .lo = 0, .hi = INFINITY},
}, 1, 0x1};

const struct ld_rules ld_arm_rules = {(const struct ld_rule[]){
    {.key = "id", .lo = 1, .hi = 256},
    {.key = "features", .lo = 0, .hi = 4096},
    {.key = "active"},
    {.key = "stopped"},
    {.key = "eligibility"},
    {.key = "value", .lo = -INFINITY, .hi = INFINITY},
}, 6, 0x1};

const struct ld_rules ld_arms_patch_rules = {(const struct ld_rule[]){
    {.key = "arms", .lo = 0, .hi = INFINITY},
    {.key = "remove", .lo = 0, .hi = INFINITY},
    {.key = "stop", .lo = 0, .hi = INFINITY},
    {.key = "start", .lo = 0, .hi = INFINITY},
}, 4, 0x0};

const struct ld_rules ld_compact_rules = {(const struct ld_rule[]){
    {.key = "keep_events", .lo = 0, .hi = 9007199254740991},
}, 1, 0x1};

const struct ld_rules ld_evaluation_rules = {(const struct ld_rule[]){
    {.key = "policies", .lo = 1, .hi = 8},
    {.key = "from", .lo = 0, .hi = 9007199254740991},
    {.key = "to", .lo = 0, .hi = 9007199254740991},
    {.key = "estimators", .choices = (const char *const[]){"replay", "ips", "snips", "clipped_ips", "dr", "ips_by_slot", "pseudo_inverse", NULL}, .lo = 1, .hi = 7},
    {.key = "metric", .lo = 1, .hi = 64},
    {.key = "note", .lo = 1, .hi = 16384},
    {.key = "id", .lo = 1, .hi = 64},
}, 7, 0x1};

const struct ld_rules ld_arm_policy_rules = {(const struct ld_rule[]){
    {.key = "arm", .lo = 1, .hi = 256},
}, 1, 0x1};

const struct ld_rules ld_configured_policy_rules = {(const struct ld_rule[]){
    {.key = "configuration"},
    {.key = "name", .lo = 1, .hi = 64},
}, 2, 0x1};

const struct ld_rules ld_graph_rules = {(const struct ld_rule[]){
    {.key = "users", .lo = 0, .hi = INFINITY},
    {.key = "edges", .lo = 0, .hi = INFINITY},
}, 2, 0x2};

const struct ld_rules ld_graph_patch_rules = {(const struct ld_rule[]){
    {.key = "users", .lo = 0, .hi = INFINITY},
    {.key = "add", .lo = 0, .hi = INFINITY},
    {.key = "remove", .lo = 0, .hi = INFINITY},
}, 3, 0x0};

const struct ld_rules ld_server_key_rules = {(const struct ld_rule[]){
    {.key = "roles", .choices = (const char *const[]){"admin", "metrics", NULL}, .lo = 1, .hi = 2},
    {.key = "label", .lo = 1, .hi = 64},
    {.key = "expires_in_s", .lo = 1, .hi = 3153600000},
}, 3, 0x0};

const struct ld_rules ld_spanning_key_rules = {(const struct ld_rule[]){
    {.key = "roles", .choices = (const char *const[]){"decide", NULL}, .lo = 1, .hi = 1},
    {.key = "label", .lo = 1, .hi = 64},
    {.key = "expires_in_s", .lo = 1, .hi = 3153600000},
    {.key = "tenants", .lo = 1, .hi = 8},
}, 4, 0x9};

const struct ld_rules ld_limits_rules = {(const struct ld_rule[]){
    {.key = "rate", .lo = 0, .hi = 1000000000},
    {.key = "burst", .lo = 0, .hi = 1000000000000},
}, 2, 0x0};

const struct ld_rules ld_observation_rules = {(const struct ld_rule[]){
    {.key = "user", .lo = 1, .hi = 256, .takes_digits = true},
    {.key = "context", .lo = 0, .hi = 4096},
    {.key = "arm", .lo = 1, .hi = 256},
    {.key = "reward", .lo = -1e+30, .hi = 1e+30, .is_magnitude = true},
    {.key = "propensity", .lo = 0, .hi = 1, .is_lo_open = true},
    {.key = "id", .lo = 1, .hi = 128},
}, 6, 0xd};

const struct ld_rules ld_posterior_rules = {(const struct ld_rule[]){
    {.key = "users", .lo = 1, .hi = 1000, .takes_digits = true},
    {.key = "arms", .lo = 1, .hi = 1000},
    {.key = "context", .lo = 0, .hi = 4096},
    {.key = "neighbours", .lo = 1, .hi = 20},
    {.key = "features", .lo = 1, .hi = 50},
}, 5, 0x1};

const struct ld_rules ld_promote_rules = {(const struct ld_rule[]){
    {.key = "challenger", .lo = 1, .hi = 64},
    {.key = "version", .lo = 1, .hi = 9007199254740991},
}, 2, 0x1};

const struct ld_rules ld_repair_rules = {(const struct ld_rule[]){
    {.key = "action", .choices = (const char *const[]){"read_only", "drop", "lift", "push", "rewind", NULL}},
    {.key = "seq", .lo = 1, .hi = 9007199254740991},
}, 2, 0x1};

const struct ld_rules ld_replay_rules = {(const struct ld_rule[]){
    {.key = "type", .choices = (const char *const[]){"replay", NULL}},
    {.key = "configuration"},
    {.key = "log", .choices = (const char *const[]){"body", "own", NULL}},
    {.key = "commit", .lo = 1, .hi = 64},
}, 4, 0x3};

const struct ld_rules ld_reward_rules = {(const struct ld_rule[]){
    {.key = "decision", .lo = 1, .hi = 128},
    {.key = "reward", .lo = -1e+30, .hi = 1e+30, .is_magnitude = true},
    {.key = "arm", .lo = 1, .hi = 256},
    {.key = "slot", .lo = 1, .hi = 256},
    {.key = "metric", .lo = 1, .hi = 64},
    {.key = "id", .lo = 1, .hi = 128},
    {.key = "event", .lo = 1, .hi = 256},
    {.key = "at"},
}, 8, 0x3};

const struct ld_rules ld_user_reward_rules = {(const struct ld_rule[]){
    {.key = "user", .lo = 1, .hi = 256, .takes_digits = true},
    {.key = "reward", .lo = -1e+30, .hi = 1e+30, .is_magnitude = true},
    {.key = "arm", .lo = 1, .hi = 256},
    {.key = "slot", .lo = 1, .hi = 256},
    {.key = "all"},
    {.key = "metric", .lo = 1, .hi = 64},
    {.key = "id", .lo = 1, .hi = 128},
    {.key = "event", .lo = 1, .hi = 256},
    {.key = "at"},
}, 9, 0x3};
const struct ld_rule ld_rewards_rule = {.lo = 1, .hi = 1000};

const struct ld_rules ld_rollback_rules = {(const struct ld_rule[]){
    {.key = "version", .lo = 1, .hi = 9007199254740991},
}, 1, 0x0};

const struct ld_rules ld_select_rules = {(const struct ld_rule[]){
    {.key = "user", .lo = 1, .hi = 256, .takes_digits = true},
    {.key = "context", .lo = 0, .hi = 4096},
    {.key = "candidates", .lo = 1, .hi = 1024},
    {.key = "exclude", .lo = 0, .hi = 1024},
    {.key = "top", .lo = 1, .hi = 16},
    {.key = "slots", .lo = 1, .hi = 50},
    {.key = "explain"},
    {.key = "neighbours", .lo = 1, .hi = 20},
    {.key = "dry_run"},
    {.key = "decision", .lo = 1, .hi = 128},
    {.key = "attributes", .lo = 0, .hi = 32},
    {.key = "defer"},
}, 12, 0x1};

const struct ld_rules ld_slot_rules = {(const struct ld_rule[]){
    {.key = "id", .lo = 1, .hi = 256},
    {.key = "context", .lo = 0, .hi = 4096},
    {.key = "features"},
    {.key = "exclude", .lo = 0, .hi = 1024},
    {.key = "baseline", .lo = 1, .hi = 256},
}, 5, 0x1};

const struct ld_rules ld_configuration_rules = {(const struct ld_rule[]){
    {.key = "algorithm", .choices = (const char *const[]){"laplaced", "laplaced-kors", "laplaced-by-arm", "laplaced-by-component", "lk-gp-ucb", "lk-gp-ts", "ek-ucb", "k-ucb", "bkb", "bbkb", "gp-ucb", "lin-ucb", "lin-ucb-per-user", "gob-lin", "graph-ucb", "coop-kernel-ucb", "sup-kernel-ucb", "cmm-ucb", "dmm-ucb", "amm-ucb", "ay-gp-ucb", "igp-ucb", "ucb", "ts", "random", NULL}},
    {.key = "context_dim", .lo = 0, .hi = 4096},
    {.key = "arm_dim", .lo = 0, .hi = 4096},
    {.key = "user_kernel"},
    {.key = "context_kernel"},
    {.key = "arm_kernel"},
    {.key = "representation"},
    {.key = "prior"},
    {.key = "tune"},
    {.key = "confidence"},
    {.key = "rule"},
    {.key = "forgetting"},
    {.key = "routing"},
    {.key = "retention"},
    {.key = "pending", .choices = (const char *const[]){"ignore", "hallucinate", NULL}},
    {.key = "reward_window_s", .lo = 0.001, .hi = 316224000},
    {.key = "default_reward", .lo = -1e+30, .hi = 1e+30, .is_magnitude = true},
    {.key = "aggregation", .choices = (const char *const[]){"first", "sum", "last", NULL}},
    {.key = "learn"},
    {.key = "durability", .choices = (const char *const[]){"commit", "relaxed", NULL}},
    {.key = "on_log_failure", .choices = (const char *const[]){"refuse", "decide", NULL}},
    {.key = "seed", .lo = 0, .hi = 9007199254740991},
    {.key = "challengers", .lo = 0, .hi = 4},
    {.key = "log_candidates"},
    {.key = "guardrail"},
    {.key = "promotion"},
    {.key = "experiment"},
    {.key = "metrics", .lo = 0, .hi = 16},
    {.key = "features"},
    {.key = "personalizer"},
}, 30, 0x0};

const struct ld_rules ld_feature_names_rules = {(const struct ld_rule[]){
    {.key = "mapping", .choices = (const char *const[]){"names-1", "names-2", NULL}},
    {.key = "dim", .lo = 1, .hi = 4096},
    {.key = "seed", .lo = 0, .hi = 4294967295},
    {.key = "weights", .lo = 0, .hi = 32},
    {.key = "namespaces", .lo = 0, .hi = 32},
    {.key = "user", .lo = 2, .hi = 512},
}, 6, 0x1};
const struct ld_rule ld_feature_space_rule = {.lo = 1, .hi = 4095};
const struct ld_rule ld_feature_weight_rule = {.lo = 0, .hi = 1000000.0};

const struct ld_rules ld_personalizer_settings_rules = {(const struct ld_rule[]){
    {.key = "policy_name", .lo = 1, .hi = 256},
    {.key = "policy_arguments", .lo = 1, .hi = 1024},
    {.key = "model_export_frequency", .lo = 1, .hi = 64},
    {.key = "model_retrain_days", .lo = 0, .hi = 2147483647},
    {.key = "auto_optimization_frequency", .lo = 1, .hi = 64},
    {.key = "auto_optimization_start_date", .lo = 1, .hi = 64},
    {.key = "explain_inference"},
}, 7, 0x0};

const struct ld_rules ld_metric_rules = {(const struct ld_rule[]){
    {.key = "name", .lo = 1, .hi = 64},
    {.key = "role", .choices = (const char *const[]){"observed", "guardrail", "objective", NULL}},
    {.key = "weight", .lo = -1000000.0, .hi = 1000000.0},
    {.key = "range", .lo = 2, .hi = 2},
    {.key = "aggregation", .choices = (const char *const[]){"first", "sum", "last", NULL}},
    {.key = "default", .lo = -1e+30, .hi = 1e+30, .is_magnitude = true},
    {.key = "harm", .lo = 0, .hi = 1e+30},
    {.key = "level", .lo = 1e-06, .hi = 0.5},
}, 8, 0x1};

const struct ld_rules ld_challenger_rules = {(const struct ld_rule[]){
    {.key = "algorithm", .choices = (const char *const[]){"laplaced", "laplaced-kors", "laplaced-by-arm", "laplaced-by-component", "lk-gp-ucb", "lk-gp-ts", "ek-ucb", "k-ucb", "bkb", "bbkb", "gp-ucb", "lin-ucb", "lin-ucb-per-user", "gob-lin", "graph-ucb", "coop-kernel-ucb", "sup-kernel-ucb", "cmm-ucb", "dmm-ucb", "amm-ucb", "ay-gp-ucb", "igp-ucb", "ucb", "ts", "random", NULL}},
    {.key = "user_kernel"},
    {.key = "context_kernel"},
    {.key = "arm_kernel"},
    {.key = "representation"},
    {.key = "prior"},
    {.key = "tune"},
    {.key = "confidence"},
    {.key = "rule"},
    {.key = "forgetting"},
    {.key = "seed", .lo = 0, .hi = 9007199254740991},
}, 11, 0x0};

const struct ld_rules ld_guardrail_rules = {(const struct ld_rule[]){
    {.key = "baseline"},
    {.key = "level", .lo = 0.5, .hi = 1, .is_hi_open = true},
    {.key = "min_decisions", .lo = 100, .hi = 1000000000},
    {.key = "range", .lo = 2, .hi = 2},
}, 4, 0x0};

const struct ld_rules ld_experiment_rules = {(const struct ld_rule[]){
    {.key = "baseline", .lo = 1, .hi = 256},
    {.key = "difference", .lo = 0, .hi = 1e+30, .is_lo_open = true},
    {.key = "level", .lo = 1e-06, .hi = 0.5},
    {.key = "traffic_level", .lo = 1e-06, .hi = 0.5},
    {.key = "range", .lo = 2, .hi = 2},
}, 5, 0x2};
const struct ld_rule ld_range_end_rule = {.lo = -1e+30, .hi = 1e+30, .is_magnitude = true};

const struct ld_rules ld_promotion_rules = {(const struct ld_rule[]){
    {.key = "challenger"},
    {.key = "reason", .choices = (const char *const[]){"none", "request", "guardrail", "rollback", NULL}},
}, 2, 0x0};

const struct ld_rules ld_user_kernel_rules = {(const struct ld_rule[]){
    {.key = "type", .choices = (const char *const[]){"laplacian", "identity", "ones", "heat", "spectral_rbf", "mmd", NULL}},
    {.key = "rho", .choices = (const char *const[]){"learned", NULL}, .lo = 1e-12, .hi = 1000000000000},
    {.key = "population", .lo = 0, .hi = 1000000000000},
    {.key = "normalize"},
    {.key = "tolerance", .lo = 0, .hi = 0.1},
    {.key = "power", .lo = 1e-12, .hi = 4},
    {.key = "tau", .lo = 1e-12, .hi = 1000000000000},
    {.key = "k", .lo = 1, .hi = 2048},
    {.key = "lengthscale", .choices = (const char *const[]){"median", NULL}, .lo = 1e-12, .hi = 1000000000000},
    {.key = "bandwidth", .choices = (const char *const[]){"median", NULL}, .lo = 1e-12, .hi = 1000000000000},
    {.key = "features", .lo = 1, .hi = 4096},
    {.key = "refresh", .lo = 1, .hi = 1000000},
    {.key = "min_observations", .lo = 1, .hi = 1000000},
}, 13, 0x0};

const struct ld_rules ld_context_kernel_rules = {(const struct ld_rule[]){
    {.key = "type", .choices = (const char *const[]){"rbf", "matern12", "matern32", "matern52", "linear", "polynomial", "delta", "ones", NULL}},
    {.key = "lengthscale", .choices = (const char *const[]){"median", "learned", NULL}, .lo = 1e-12, .hi = 1000000000000},
    {.key = "degree", .lo = 1, .hi = 8},
    {.key = "offset", .lo = 0, .hi = 1000000000000},
}, 4, 0x0};

const struct ld_rules ld_vector_kernel_rules = {(const struct ld_rule[]){
    {.key = "type", .choices = (const char *const[]){"rbf", "matern12", "matern32", "matern52", "linear", "polynomial", "delta", "ones", NULL}},
    {.key = "lengthscale", .choices = (const char *const[]){"median", NULL}, .lo = 1e-12, .hi = 1000000000000},
    {.key = "degree", .lo = 1, .hi = 8},
    {.key = "offset", .lo = 0, .hi = 1000000000000},
}, 4, 0x0};

const struct ld_rules ld_representation_rules = {(const struct ld_rule[]){
    {.key = "type", .choices = (const char *const[]){"exact", "kors", "threshold", "bkb", "bbkb", "by_arm", "by_component", NULL}},
    {.key = "lambda", .choices = (const char *const[]){"learned", NULL}, .lo = 1e-12, .hi = 1000000000000},
    {.key = "mu", .lo = 1e-12, .hi = 1000000000000},
    {.key = "gamma", .lo = 1e-12, .hi = 1000000000000},
    {.key = "epsilon", .lo = 0, .hi = 1, .is_lo_open = true, .is_hi_open = true},
    {.key = "threshold", .lo = 0, .hi = 1, .is_lo_open = true, .is_hi_open = true},
    {.key = "q", .lo = 1e-12, .hi = 1000000000000},
    {.key = "batch_ratio", .lo = 1, .hi = 1000000000000},
    {.key = "max_dictionary", .lo = 1, .hi = 4096},
    {.key = "exact_limit", .lo = 1, .hi = 16384},
}, 10, 0x0};

const struct ld_rules ld_prior_rules = {(const struct ld_rule[]){
    {.key = "mean", .choices = (const char *const[]){"learned", NULL}, .lo = -1e+30, .hi = 1e+30},
    {.key = "arm", .choices = (const char *const[]){"learned", NULL}, .lo = 0, .hi = 1000000000000},
    {.key = "feature", .choices = (const char *const[]){"learned", NULL}, .lo = 0, .hi = 1000000000000},
    {.key = "user", .choices = (const char *const[]){"learned", NULL}, .lo = 0, .hi = 1000000000000},
    {.key = "context", .choices = (const char *const[]){"learned", NULL}, .lo = 0, .hi = 1000000000000},
    {.key = "linear", .choices = (const char *const[]){"learned", NULL}, .lo = 0, .hi = 1000000000000},
}, 6, 0x0};

const struct ld_rules ld_confidence_rules = {(const struct ld_rule[]){
    {.key = "type", .choices = (const char *const[]){"fixed", "lk", "ek", "ay", "igp", "amm", "dmm", "cmm", "bkb", "ek_plus", NULL}},
    {.key = "beta", .lo = 0, .hi = 1000000000000},
    {.key = "norm_bound", .choices = (const char *const[]){"auto", NULL}, .lo = 1e-12, .hi = 1000000000000},
    {.key = "noise", .lo = 1e-12, .hi = 1000000000000},
    {.key = "delta", .lo = 0, .hi = 1, .is_lo_open = true, .is_hi_open = true},
    {.key = "form", .choices = (const char *const[]){"cross", "split", "simple", NULL}},
    {.key = "mixture"},
    {.key = "score", .choices = (const char *const[]){"upper", "fixed", NULL}},
}, 8, 0x0};

const struct ld_rules ld_rule_rules = {(const struct ld_rule[]){
    {.key = "type", .choices = (const char *const[]){"ucb", "thompson", "uniform", "sup_kernel", "rand_ucb", "igw", "top_two", "split", NULL}},
    {.key = "epsilon", .lo = 0, .hi = 1},
    {.key = "scale", .lo = 1e-12, .hi = 1000000000000},
    {.key = "gamma_scale", .lo = 0, .hi = 1000000000000},
    {.key = "gamma_exponent", .lo = 0, .hi = 1},
    {.key = "weights", .lo = 0, .hi = 32},
}, 6, 0x0};
const struct ld_rule ld_split_weight_rule = {.lo = 0, .hi = 1000000};

const struct ld_rules ld_forgetting_rules = {(const struct ld_rule[]){
    {.key = "type", .choices = (const char *const[]){"none", "discount", "half_life", NULL}},
    {.key = "discount", .lo = 0, .hi = 1, .is_lo_open = true, .is_hi_open = true},
    {.key = "half_life_s", .lo = 0.001, .hi = 1000000000},
    {.key = "detect_changes"},
}, 4, 0x0};

const struct ld_rules ld_routing_rules = {(const struct ld_rule[]){
    {.key = "holdout"},
    {.key = "sticky"},
    {.key = "stopped"},
    {.key = "apprentice"},
}, 4, 0x0};

const struct ld_rules ld_holdout_rules = {(const struct ld_rule[]){
    {.key = "share", .lo = 0, .hi = 1},
    {.key = "baseline"},
    {.key = "salt", .lo = 0, .hi = 64},
}, 3, 0x0};

const struct ld_rules ld_baseline_rules = {(const struct ld_rule[]){
    {.key = "arm", .lo = 1, .hi = 256},
    {.key = "rule", .choices = (const char *const[]){"uniform", "first", NULL}},
}, 2, 0x0};

const struct ld_rules ld_sticky_rules = {(const struct ld_rule[]){
    {.key = "ttl_s", .lo = 0.001, .hi = 316224000},
}, 1, 0x1};

const struct ld_rules ld_retention_rules = {(const struct ld_rule[]){
    {.key = "events", .lo = 1, .hi = 9007199254740991},
    {.key = "age_s", .lo = 0.001, .hi = 3162240000},
}, 2, 0x0};

const struct ld_rules ld_tenant_key_rules = {(const struct ld_rule[]){
    {.key = "roles", .choices = (const char *const[]){"decide", "read", "manage", NULL}, .lo = 1, .hi = 3},
    {.key = "label", .lo = 1, .hi = 64},
    {.key = "expires_in_s", .lo = 1, .hi = 3153600000},
}, 3, 0x1};
