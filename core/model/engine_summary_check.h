/* A summary's parts, looked at before they are folded. */
#ifndef KB_ENGINE_SUMMARY_CHECK_H
#define KB_ENGINE_SUMMARY_CHECK_H

#include "model/engine_state.h"

/* Items of a summary's parts, and its totals at the end, when the draft is complete (engine_summary_check.c):
 * KB_EINVAL, KB_ERANGE. `last`: the event of the point before. */
enum kb_err kb_summary_check_arm(const struct kb_engine *e, const struct kb_ev_known_arm *arm, size_t i,
                                 struct kb_errmsg *msg);
enum kb_err kb_summary_check_point(const struct kb_engine *e, const struct kb_ev_points *p, size_t i, uint64_t last,
                                   struct kb_errmsg *msg);
enum kb_err kb_summary_check_decision(const struct kb_engine *e, const struct kb_ev_summary *s, struct kb_errmsg *msg);
enum kb_err kb_summary_check_totals(const struct kb_engine *e, const struct kb_ev_totals *t, struct kb_errmsg *msg);
const double *kb_summary_vector(const struct kb_engine *e, const struct kb_ev_points *p, size_t i); /* NULL: dim is 0 */

#endif
