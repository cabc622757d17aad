/* What the parts of the Prometheus text share (metrics*.c). Names go without "laplaced_" unless `is_own` is false, as
 * for those that all programs have (process_...). */
#ifndef LD_METRICS_TEXT_H
#define LD_METRICS_TEXT_H

#include <stdint.h>

#include "base/metrics.h"
#include "base/text.h"

struct ld_tenants;

/* Everything in the Prometheus text format 0.0.4, malloc'd; NULL on no memory. tenants may be NULL. Takes the
 * read lock of the first max_listed tenants in memory for a moment, and opens none. */
char *ld_metrics_text(const struct ld_metrics *m, struct ld_tenants *tenants, size_t max_listed, size_t *n);

/* A formatted line, cut at 511 bytes. A failure of memory sticks in the text. */
void ld_metrics_put(struct ld_text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* HELP and TYPE of laplaced_<name>, once before all its series. */
void ld_metrics_put_head(struct ld_text *t, const char *name, const char *type, const char *help);

/* metrics_process.c, metrics_tenants.c. False: no memory. */
void ld_metrics_put_process(struct ld_text *t);
bool ld_metrics_put_tenants(struct ld_text *t, struct ld_tenants *tenants, size_t max_listed);

#endif
