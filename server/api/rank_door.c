/* What holds for the routes under /personalizer/: their key, and refusals in the form of Azure Personalizer.
 *
 * The key comes in Ocp-Apim-Subscription-Key (call.c), and the tenant is the key's. A refusal is {"error": {"code",
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

/* In the words of that service, where it has one for what happened. */
static const char *code_of(const char *path, int status)
{
    static const struct {
        const char *end, *code;
    } bad[] = {{"/rank", "InvalidRankRequest"},
               {"/reward", "InvalidRewardRequest"},
               {"/activate", "InvalidEventIdToActivate"},
               {"/service", "InvalidServiceConfiguration"}};
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
    *status = ld_door_status(p->status);
    const char *code = code_of(ld_request_path(r), *status);
    c->headers[0] = (struct ld_header){"x-ms-error-code", code};
    c->n_headers = 1;
    ld_request_add_headers(c->request, c->headers, c->n_headers);
    return ld_encode_rank_refusal(p, code, instance, n);
}

bool ld_rank_is_path(const struct ld_request *r)
{
    return strncmp(ld_request_path(r), ROOT, strlen(ROOT)) == 0;
}

void ld_rank_door(struct ld_call *c)
{
    if (c->route != NULL && ld_rank_is_path(c->request))
        ld_request_tell_by(c->request, tell);
}
