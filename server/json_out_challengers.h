/* Challengers -> JSON. */
#ifndef LD_JSON_OUT_CHALLENGERS_H
#define LD_JSON_OUT_CHALLENGERS_H

#include "challenger.h"

#define LD_CHALLENGERS_LEVEL 0.95 /* of the intervals that are shown */

/* tip: the log's last event; version: of the configuration in force. malloc'd; NULL: no memory. */
char *ld_encode_challengers(const struct ld_challenger_view *v, size_t n_views, uint64_t tip, uint64_t version,
                            size_t *n);

#endif
