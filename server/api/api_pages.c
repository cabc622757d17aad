/* Pages for people who open the server's address, or a problem's type, in a browser: public, constant, and the same for
 * everybody.
 *
 *   /                  what this is, with links; its policy lets a browser load nothing
 *   /favicon.ico       nothing, which a browser asks for once
 *   /problems          docs/ERRORS.md as it was built in
 *   /problems/{p}      its section on the problem of that name */
#include "api/api.h"

#include <string.h>

#include "base/embed.h"
#include "api/route.h"
#include "base/version.h"

#define MARKDOWN "text/markdown; charset=utf-8"
#define PROBLEM_PREFIX "/problems/"
#define HEADING "\n## "

static const char front[] =
    "<!doctype html>\n"
    "<html lang=\"en\">\n"
    "<head><meta charset=\"utf-8\"><title>laplaced</title></head>\n"
    "<body>\n"
    "<h1>laplaced " LD_VERSION "</h1>\n"
    "<p>This server decides which arm to show to a user, and learns from rewards along a graph of users.</p>\n"
    "<ul>\n"
    "<li><a href=\"/openapi.yaml\">/openapi.yaml</a>: every request and every answer, with examples</li>\n"
    "<li><a href=\"/problems\">/problems</a>: every error, with its cause and what to do</li>\n"
    "<li><a href=\"/metrics\">/metrics</a>: Prometheus metrics</li>\n"
    "<li><a href=\"/healthz\">/healthz</a>, <a href=\"/readyz\">/readyz</a>: probes</li>\n"
    "</ul>\n"
    "<p>The documents are in the folder docs/ of the source.</p>\n"
    "</body>\n"
    "</html>\n";

static const struct ld_header policy[] = {
    {"Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
    {"X-Content-Type-Options", "nosniff"},
};

/* GET /: no key, no tenant. */
void api_front(struct ld_app *app, struct ld_request *r, const char *tenant)
{
    (void)app;
    (void)tenant;
    ld_reply_static(r, "text/html; charset=utf-8", front, sizeof front - 1, policy, sizeof policy / sizeof *policy);
}

/* GET /favicon.ico: 204. */
void api_favicon(struct ld_app *app, struct ld_request *r, const char *tenant)
{
    (void)app;
    (void)tenant;
    ld_reply(r, 204, NULL, NULL, 0);
}

/* GET /problems: all of them. */
void api_problems(struct ld_app *app, struct ld_request *r, const char *tenant)
{
    (void)app;
    (void)tenant;
    ld_reply_constant(r, MARKDOWN, ld_embed_ERRORS_md);
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
void api_problem(struct ld_app *app, struct ld_request *r, const char *tenant)
{
    size_t n = 0;
    const char *section = find_section(ld_request_path(r) + strlen(PROBLEM_PREFIX), &n);
    (void)app;
    (void)tenant;
    if (section != NULL)
        ld_reply_static(r, MARKDOWN, section, n, NULL, 0);
    else
        ld_reply_as(r, LD_NO_ROUTE, "there is no problem of that name; /problems lists those that there are");
}
