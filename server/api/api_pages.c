/* What is public, constant and the same for everybody: pages for people who open the server's address, or a problem's
 * type, in a browser, and what machines ask.
 *
 *   /                  what this is, with links, one to the console (api_console.c); its policy lets a browser
 *                      load nothing
 *   /favicon.ico       nothing, which a browser asks for once
 *   /problems          docs/ERRORS.md as it was built in
 *   /problems/{p}      its section on the problem of that name
 *   /openapi.yaml      the contract that this program was built with, whatever stands on a web page
 *   /openapi-3.0.yaml  the same for generators of clients that do not read OpenAPI 3.1
 *   /healthz /readyz   see health.c; answered before the server is ready
 *
 * No key, no tenant. They run in the thread that serves HTTP, hence they neither wait for a tenant's lock nor read a
 * file. */
#include "api/api.h"

#include <string.h>

#include "base/embed.h"
#include "base/text.h"
#include "base/version.h"

#define MARKDOWN "text/markdown; charset=utf-8"
#define PROBLEM_PREFIX "/problems/"
#define HEADING "\n## "

/* With a line more where there is a console. */
#define FRONT(console)                                                                                                 \
    "<!doctype html>\n"                                                                                                \
    "<html lang=\"en\">\n"                                                                                             \
    "<head><meta charset=\"utf-8\"><title>laplaced</title></head>\n"                                                   \
    "<body>\n"                                                                                                         \
    "<h1>laplaced " LD_VERSION "</h1>\n"                                                                               \
    "<p>This server decides which arm to show to a user, and learns from rewards along a graph of users.</p>\n"        \
    "<ul>\n" console                                                                                                   \
    "<li><a href=\"/openapi.yaml\">/openapi.yaml</a>: every request and every answer, with examples</li>\n"            \
    "<li><a href=\"/openapi-3.0.yaml\">/openapi-3.0.yaml</a>: the same in OpenAPI 3.0, for generators of "             \
    "clients</li>\n"                                                                                                   \
    "<li><a href=\"/problems\">/problems</a>: every error, with its cause and what to do</li>\n"                       \
    "<li><a href=\"/metrics\">/metrics</a>: Prometheus metrics</li>\n"                                                 \
    "<li><a href=\"/healthz\">/healthz</a>, <a href=\"/readyz\">/readyz</a>: probes</li>\n"                            \
    "</ul>\n"                                                                                                          \
    "<p>The documents are in the folder docs/ of the source.</p>\n"                                                    \
    "</body>\n"                                                                                                        \
    "</html>\n"

static const char front[] = FRONT("");
static const char front_with_console[] =
    FRONT("<li><a href=\"/console/\">/console/</a>: what it has learned, for people to look at</li>\n");

static const struct ld_header policy[] = {
    {"Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
    {"X-Content-Type-Options", "nosniff"},
};

static bool answer(struct ld_reply *out, const char *content_type, const char *text)
{
    out->content_type = content_type;
    out->constant = text;
    out->n = strlen(text);
    return true;
}

bool api_front(struct ld_call *c, struct ld_reply *out)
{
    out->headers = policy;
    out->n_headers = sizeof policy / sizeof *policy;
    return answer(out, "text/html; charset=utf-8", c->server->has_console ? front_with_console : front);
}

bool api_favicon(struct ld_call *c, struct ld_reply *out)
{
    (void)c;
    out->status = 204;
    return true;
}

bool api_problems(struct ld_call *c, struct ld_reply *out)
{
    (void)c;
    return answer(out, MARKDOWN, ld_embed_ERRORS_md);
}

/* The section of that name, without the line feed before it; NULL: there is none. Other headings of the page are no
 * names. */
static const char *find_section(const char *name, size_t *n)
{
    const size_t n_name = strspn(name, "abcdefghijklmnopqrstuvwxyz-");
    if (n_name == 0 || name[n_name] != '\0')
        return NULL;
    const char *at = strstr(ld_embed_ERRORS_md, HEADING);
    while (at != NULL) {
        const char *next = strstr(at + 1, HEADING), *title = at + strlen(HEADING);
        if (strncmp(title, name, n_name) == 0 && title[n_name] == '\n') {
            *n = next != NULL ? (size_t)(next - at) : strlen(at + 1);
            return at + 1;
        }
        at = next;
    }
    return NULL;
}

/* GET /problems/{p}: what the type of a problem document leads to. */
bool api_problem(struct ld_call *c, struct ld_reply *out)
{
    out->content_type = MARKDOWN;
    out->constant = find_section(ld_request_path(c->request) + strlen(PROBLEM_PREFIX), &out->n);
    if (out->constant == NULL)
        ld_problem_set_as(out->problem, LD_NO_ROUTE,
                          "there is no problem of that name; /problems lists those that there are");
    return true;
}

bool api_openapi(struct ld_call *c, struct ld_reply *out)
{
    (void)c;
    return answer(out, "application/yaml", ld_embed_openapi_yaml);
}

bool api_openapi30(struct ld_call *c, struct ld_reply *out)
{
    (void)c;
    return answer(out, "application/yaml", ld_embed_openapi_3_0_yaml);
}

/* GET /healthz. Whether to start the process anew would help: a failing disk is no reason to. */
bool api_healthz(struct ld_call *c, struct ld_reply *out)
{
    if (!ld_health_is_alive(c->server))
        ld_problem_set(out->problem, 503, "the server's loop stands still");
    return answer(out, NULL, "{\"status\":\"ok\"}");
}

/* GET /readyz. 503 while a balancer should send its traffic elsewhere (health.c). A warning changes nothing of that. */
bool api_readyz(struct ld_call *c, struct ld_reply *out)
{
    char buffer[LD_HEALTH_BYTES];
    const char *why = ld_health_refuses(c->server, buffer);
    if (why != NULL)
        ld_problem_set(out->problem, 503, "%s", why);
    if (why != NULL || (why = ld_health_warns(c->server, buffer)) == NULL)
        return answer(out, NULL, "{\"ready\":true}");
    struct ld_text t;
    ld_text_init(&t);
    ld_text_lit(&t, "{");
    ld_text_put_bool(&t, "ready", true);
    ld_text_key(&t, "warnings");
    ld_text_lit(&t, "[");
    ld_text_string(&t, why);
    ld_text_lit(&t, "]}");
    out->text = ld_text_take(&t, &out->n);
    return true;
}
