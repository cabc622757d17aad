/* What holds for the routes under /personalizer/: their key, and refusals in the form of Azure Personalizer.
 *
 * The key comes in Ocp-Apim-Subscription-Key, and the tenant is the key's. A refusal is {"error": {"code",
 * "message", ...}}, and its code stands in the header x-ms-error-code as well. */
#include "api/call.h"

#include <string.h>

#include "json/json_personalizer.h"

#define ROOT "/personalizer/"

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), n_end = strlen(end);
    return n >= n_end && strcmp(text + n - n_end, end) == 0;
}

/* --- what there is not ------------------------------------------------------------------------------------------- */

/* Behind the version; a star is one segment. The word for it, where that is not that nobody has made it. */
static const struct {
    const char *method, *path, *code;
} missing[] = {{"POST", "multislot/rank", NULL},
               {"POST", "multislot/events/*/reward", NULL},
               {"POST", "multislot/events/*/activate", NULL},
               {"POST", "configurations/applyFromEvaluation", NULL},
               {"GET", "configurations/policy", NULL},
               {"PUT", "configurations/policy", NULL},
               {"DELETE", "configurations/policy", NULL},
               {"POST", "evaluations", NULL},
               {"GET", "evaluations", NULL},
               {"GET", "evaluations/*", NULL},
               {"DELETE", "evaluations/*", NULL},
               {"GET", "model", NULL},
               {"PUT", "model", NULL},
               {"POST", "logs/interactions", "InvalidApiAccess"},
               {"POST", "logs/observations", "InvalidApiAccess"}};

static bool is_like(const char *pattern, const char *path)
{
    for (; *pattern != '\0'; pattern++) {
        const size_t n = *pattern == '*' ? strcspn(path, "/") : (size_t)(*path == *pattern);
        if (n == 0)
            return false;
        path += n;
    }
    return *path == '\0';
}

/* An operation of that service which is not here; -1: none such. */
static int find_missing(const struct ld_request *r)
{
    const char *path = ld_request_path(r) + strlen(ROOT);
    path += strcspn(path, "/");
    for (size_t i = 0; *path == '/' && i < sizeof missing / sizeof *missing; i++)
        if (strcmp(missing[i].method, ld_request_method(r)) == 0 && is_like(missing[i].path, path + 1))
            return (int)i;
    return -1;
}

void ld_rank_tell_missing(struct ld_call *c, struct ld_problem *p)
{
    const int i = c->door == &ld_rank_door ? find_missing(c->request) : -1;
    if (i < 0)
        return;
    c->flag_code = missing[i].code;
    if (c->flag_code != NULL)
        ld_problem_set(p, 400, "%s is for clients that decide by themselves: call Rank", missing[i].path);
    else
        ld_problem_set(p, 501, "%s %s is not offered here", missing[i].method, missing[i].path);
}

/* In the words of that service, where it has one for what happened. */
static const char *code_of(const char *path, int status)
{
    static const struct {
        const char *end, *code;
    } bad[] = {{"/rank", "InvalidRankRequest"},
               {"/reward", "InvalidRewardRequest"},
               {"/activate", "InvalidEventIdToActivate"},
               {"/service", "InvalidServiceConfiguration"}};
    if (status == 501)
        return "NotImplemented";
    if (status == 401 || status == 403)
        return "InvalidApiAccess";
    if (status == 404)
        return "ResourceNotFound";
    if (status == 429)
        return "TooManyRequests";
    for (size_t i = 0; status == 400 && i < sizeof bad / sizeof *bad; i++)
        if (ends_with(path, bad[i].end))
            return bad[i].code;
    return status == 400 ? "BadRequest" : "InternalServerError";
}

static char *tell(const struct ld_request *r, const struct ld_problem *p, const char *instance, int *status, size_t *n)
{
    struct ld_call *c = ld_request_context(r);
    *status = p->status == 501 ? 501 : ld_door_status(p->status);
    const bool is_told = c->flag_code != NULL && (*status == 400 || *status == 404);
    const char *code = is_told ? c->flag_code : code_of(ld_request_path(r), *status);
    c->headers[0] = (struct ld_header){"x-ms-error-code", code};
    c->n_headers = 1;
    ld_request_add_headers(c->request, c->headers, c->n_headers);
    return ld_encode_rank_refusal(p, code, instance, n);
}

static bool enter(struct ld_call *c)
{
    if (c->route != NULL || find_missing(c->request) >= 0)
        ld_request_tell_by(c->request, tell);
    return false;
}

const struct ld_door ld_rank_door = {.root = ROOT, .key_header = "Ocp-Apim-Subscription-Key", .enter = enter};
