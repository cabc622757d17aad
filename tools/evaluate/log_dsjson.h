/* Lines of dsjson (log_dsjson.c), in parts: actions and features, and decisions with slots. */
#ifndef LC_LOG_DSJSON_H
#define LC_LOG_DSJSON_H

#include "common/json.h"
#include "base/hashing.h"
#include "evaluate/log_reader.h"

struct lc_dsjson {
    struct json_t *doc; /* the line in hand */
    double *logged;     /* [cap_logged] of the decision, or of its slots one behind the other */
    size_t cap_logged;
    char place[24];
    /* of a decision with slots: names that are numbers or places; by action, who may stand in the slot in hand */
    char (*name)[24];
    bool *is_in;
    size_t cap_name, cap_in;
};

/* Of a context or an action. In lines that we wrote the vector is the namespace x; it may be hashed only where it is
 * not there. 0, or -1 with why. */
int lc_dsjson_features(struct lc_log *log, const struct ld_hasher *h, const char *key, const struct json_t *v,
                       bool is_ours, double *x);
/* The user of a context: of a line that we wrote, or where the mapping says; "-": none. NULL with why. */
const char *lc_dsjson_user(struct lc_log *log, const struct json_t *c, bool is_ours);
/* The actions as candidates of the decision. 0, or -1 or LD_DECISIONS_BROKEN with why. */
int lc_dsjson_actions(struct lc_log *log, const struct json_t *multi, bool is_ours, struct ld_logged *ev);

/* The slots of a line, whose actions, context and user are in *ev: 1, 0 when there is nothing to learn, or as above. */
int lc_dsjson_slots(struct lc_log *log, const struct json_t *doc, bool is_ours, struct ld_logged *ev);
void lc_dsjson_slots_close(struct lc_dsjson *s);

#endif
