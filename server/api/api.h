/* The handlers of the routes, and what fills the ops of those that only queue one. */
#ifndef LD_API_H
#define LD_API_H

#include "api/call.h"

bool api_select(struct ld_call *c, struct ld_reply *out);
bool api_flag(struct ld_call *c, struct ld_reply *out);
bool api_track(struct ld_call *c, struct ld_reply *out);
bool api_rank(struct ld_call *c, struct ld_reply *out);
bool api_rank_reward(struct ld_call *c, struct ld_reply *out);
bool api_rank_slots(struct ld_call *c, struct ld_reply *out);
bool api_rank_slots_reward(struct ld_call *c, struct ld_reply *out);
bool api_rank_activate(struct ld_call *c, struct ld_reply *out);
bool api_rank_model_delete(struct ld_call *c, struct ld_reply *out);
bool api_rank_model_properties(struct ld_call *c, struct ld_reply *out);
bool api_rank_logs_delete(struct ld_call *c, struct ld_reply *out);
bool api_rank_logs_properties(struct ld_call *c, struct ld_reply *out);
bool api_service_get(struct ld_call *c, struct ld_reply *out);
bool api_service_put(struct ld_call *c, struct ld_reply *out);
bool api_rank_evaluation_begin(struct ld_call *c, struct ld_reply *out);
bool api_rank_evaluations_get(struct ld_call *c, struct ld_reply *out);
bool api_rank_evaluation_get(struct ld_call *c, struct ld_reply *out);
bool fill_rank_no_evaluation(struct ld_call *c, struct ld_op *op, struct ld_problem *p);
bool api_rank_apply(struct ld_call *c, struct ld_reply *out);
bool api_policy_get(struct ld_call *c, struct ld_reply *out);
bool api_policy_put(struct ld_call *c, struct ld_reply *out);
bool api_policy_delete(struct ld_call *c, struct ld_reply *out);
bool api_flags(struct ld_call *c, struct ld_reply *out);
bool api_route(struct ld_call *c, struct ld_reply *out);
bool api_tenant_list(struct ld_call *c, struct ld_reply *out);
bool api_tenant_put(struct ld_call *c, struct ld_reply *out);
bool api_tenant_get(struct ld_call *c, struct ld_reply *out);
bool api_tenant_delete(struct ld_call *c, struct ld_reply *out);
bool api_tenant_repair(struct ld_call *c, struct ld_reply *out);
bool api_experiment_get(struct ld_call *c, struct ld_reply *out);
bool api_challengers_get(struct ld_call *c, struct ld_reply *out);
bool api_graph_put(struct ld_call *c, struct ld_reply *out);
bool api_graph_patch(struct ld_call *c, struct ld_reply *out);
bool api_graph_get(struct ld_call *c, struct ld_reply *out);
bool api_near(struct ld_call *c, struct ld_reply *out);
bool api_posterior(struct ld_call *c, struct ld_reply *out);
bool api_arms_get(struct ld_call *c, struct ld_reply *out);
bool api_model(struct ld_call *c, struct ld_reply *out);
bool api_stats(struct ld_call *c, struct ld_reply *out);
bool api_decision(struct ld_call *c, struct ld_reply *out);
bool api_evaluations_get(struct ld_call *c, struct ld_reply *out);
bool api_evaluation_get(struct ld_call *c, struct ld_reply *out);
bool api_series(struct ld_call *c, struct ld_reply *out);
bool api_verification_get(struct ld_call *c, struct ld_reply *out);
bool api_verification_delete(struct ld_call *c, struct ld_reply *out);
bool api_events(struct ld_call *c, struct ld_reply *out);
bool api_limits_get(struct ld_call *c, struct ld_reply *out);
bool api_limits_put(struct ld_call *c, struct ld_reply *out);
bool api_keys_post(struct ld_call *c, struct ld_reply *out);
bool api_keys_get(struct ld_call *c, struct ld_reply *out);
bool api_key_delete(struct ld_call *c, struct ld_reply *out);
bool api_export(struct ld_call *c, struct ld_reply *out);
bool api_import(struct ld_call *c, struct ld_reply *out);
bool api_replay(struct ld_call *c, struct ld_reply *out);
bool api_snapshot_post(struct ld_call *c, struct ld_reply *out);
bool api_snapshot_put(struct ld_call *c, struct ld_reply *out);
bool api_rank_model_get(struct ld_call *c, struct ld_reply *out);
bool api_rank_model_put(struct ld_call *c, struct ld_reply *out);
bool api_healthz(struct ld_call *c, struct ld_reply *out);
bool api_readyz(struct ld_call *c, struct ld_reply *out);
bool api_metrics(struct ld_call *c, struct ld_reply *out);
bool api_openapi(struct ld_call *c, struct ld_reply *out);
bool api_openapi30(struct ld_call *c, struct ld_reply *out);
bool api_problems(struct ld_call *c, struct ld_reply *out);
bool api_problem(struct ld_call *c, struct ld_reply *out);
bool api_front(struct ld_call *c, struct ld_reply *out);
bool api_console(struct ld_call *c, struct ld_reply *out);
bool api_console_file(struct ld_call *c, struct ld_reply *out);
bool api_favicon(struct ld_call *c, struct ld_reply *out);

/* GET /events as a stream, where its client asks for one: as a handler does. */
bool ld_watch_is_wanted(const struct ld_call *c);
bool ld_watch_begin(struct ld_call *c, struct ld_reply *out);

/* What an overview shows of a tenant besides its counts, for free(); NULL: no memory. */
struct ld_overview *ld_overview_of(struct ld_tenant *t);

/* Whether its experiment has found that the traffic does not match; false also while its book is behind. */
bool ld_traffic_is_void(struct ld_tenant *t);

/* From op->doc into the op; and the tenant pays, where its route does not say what for. False with *p. */
bool fill_rewards(struct ld_call *c, struct ld_op *op, struct ld_problem *p);
bool fill_activate(struct ld_call *c, struct ld_op *op, struct ld_problem *p);
bool fill_observe(struct ld_call *c, struct ld_op *op, struct ld_problem *p);
bool fill_arms_put(struct ld_call *c, struct ld_op *op, struct ld_problem *p);
bool fill_arms_patch(struct ld_call *c, struct ld_op *op, struct ld_problem *p);
bool fill_patch(struct ld_call *c, struct ld_op *op, struct ld_problem *p);
bool fill_stop(struct ld_call *c, struct ld_op *op, struct ld_problem *p);
bool fill_forget(struct ld_call *c, struct ld_op *op, struct ld_problem *p);
bool fill_compact(struct ld_call *c, struct ld_op *op, struct ld_problem *p);
bool fill_erase(struct ld_call *c, struct ld_op *op, struct ld_problem *p);
bool fill_evaluation(struct ld_call *c, struct ld_op *op, struct ld_problem *p);
bool fill_no_evaluation(struct ld_call *c, struct ld_op *op, struct ld_problem *p);
bool fill_promote(struct ld_call *c, struct ld_op *op, struct ld_problem *p);
bool fill_rollback(struct ld_call *c, struct ld_op *op, struct ld_problem *p);

#endif
