/* Statistics of a tenant in a list of tenants. */
#ifndef LD_JSON_OUT_STATS_H
#define LD_JSON_OUT_STATS_H

#include "base/text.h"
#include "types/views.h"

/* The member `stats` of a tenant that has an overview. */
void ld_put_overview(struct ld_text *t, const struct ld_tenant_view *v);

#endif
