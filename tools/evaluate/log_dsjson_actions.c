/* See log_dsjson.h. */
#include <stdio.h>
#include <string.h>

#include "evaluate/log_dsjson.h"
#include "evaluate/log_features.h"

static const char *action_id(struct lc_dsjson *s, const struct json_t *action, size_t i)
{
    const char *id = lc_json_id(lc_json_get(action, "_tag"), s->place);

    if (id == NULL)
        id = lc_json_id(lc_json_get(action, "id"), s->place);
    if (id == NULL)
        id = lc_json_id(lc_json_get(lc_json_get(action, "i"), "id"), s->place);
    if (id == NULL) {
        (void)snprintf(s->place, sizeof s->place, "#%zu", i + 1);
        id = s->place;
    }
    return id;
}

static struct json_t *merged_context(const struct json_t *c)
{
    return lc_json_merged(c, "FromUrl", lc_json_get(c, "FromUrl"));
}

int lc_dsjson_features(struct lc_log *log, const struct ld_hasher *h, const char *key, const struct json_t *v,
                       bool is_ours, double *x)
{
    if (h->dim == 0)
        return 0;
    const enum ld_named_side side = strcmp(key, "c") == 0 ? LD_NAMED_CONTEXT : LD_NAMED_ARM;
    if (is_ours && lc_json_get(v, "x") != NULL)
        return lc_log_vector(log, h, side, "x", lc_json_get(v, "x"), x);
    if (log->base.o.names.dim == 0)
        return lc_log_object(log, h, side, key, v, x);
    struct json_t *merged =
        side == LD_NAMED_CONTEXT ? merged_context(v) : lc_json_merged(NULL, NULL, lc_json_get(v, "j"));
    const int rc = lc_log_object(log, h, side, key, merged != NULL ? merged : v, x);
    lc_json_free(merged);
    return rc;
}

const char *lc_dsjson_user(struct lc_log *log, const struct json_t *c, bool is_ours)
{
    const char *user = is_ours ? lc_json_text(lc_json_get(c, "user"), "id") : NULL;

    if (is_ours || log->base.o.names.user[0] == '\0')
        return user != NULL && *user != '\0' && strlen(user) <= KB_ID_MAX_BYTES ? user : "-";
    struct json_t *merged = merged_context(c);
    user = lc_log_user(log, "c", merged != NULL ? merged : c);
    lc_json_free(merged);
    return user;
}

int lc_dsjson_actions(struct lc_log *log, const struct json_t *multi, bool is_ours, struct ld_logged *ev)
{
    const struct ld_hasher h = {log->base.o.arm_dim, log->base.o.hash_seed};
    struct lc_dsjson *s = log->state;
    const size_t n = lc_json_length(multi);

    if (n == 0)
        return ld_decisions_fail(&log->base, "c._multi", "expected an array of the actions");
    if (ld_decisions_name(&log->base, n, ev) != 0)
        return LD_DECISIONS_BROKEN;
    for (size_t i = 0; i < n; i++) {
        const uint32_t arm = ld_decisions_arm(&log->base, action_id(s, lc_json_at(multi, i), i));
        if (arm == KB_ID_NONE)
            return -1;
        const size_t k = ld_decisions_name_arm(&log->base, i, arm);
        if (k < i)
            return ld_decisions_fail(&log->base, "c._multi", "actions %zu and %zu have one id", k + 1, i + 1);
        if (lc_dsjson_features(log, &h, "c._multi", lc_json_at(multi, i), is_ours, log->base.vectors + i * h.dim) != 0)
            return -1;
    }
    return 0;
}
