/* The console: a page for people, in files that are built in (server/console/).
 *
 *   /console        leads to the next
 *   /console/       index.html
 *   /console/{f}    the file of that name
 *
 * The files are public and the same for everybody: what they show is asked for by the reader's browser, with the
 * reader's key, by the routes of everybody else. The policy lets a browser run, load and ask nothing but what this
 * server has, and make no text into a script (trusted types). A browser asks each time whether its copy is still
 * good: after an upgrade no page is made of files of two versions. --console off: there are none of these routes. */
#include "api/api.h"

#include <string.h>

#include "base/embed.h"

#define ROOT "/console/"
#define POLICY                                                                                                         \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "              \
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "                \
    "trusted-types 'none'"

_Static_assert(sizeof((struct ld_call *)0)->headers / sizeof(struct ld_header) >= 6, "the headers of a file");

/* 404, as for all that is not there. */
static bool refuse(struct ld_reply *out)
{
    ld_problem_set_as(out->problem, LD_NO_ROUTE, "there is no such resource; /openapi.yaml describes what there is");
    return true;
}

static const char *type_of(const char *name)
{
    static const struct {
        const char *end, *type;
    } types[] = {{".html", "text/html; charset=utf-8"},
                 {".css", "text/css; charset=utf-8"},
                 {".js", "text/javascript; charset=utf-8"},
                 {".svg", "image/svg+xml"}};
    const char *end = strrchr(name, '.');
    for (size_t i = 0; end != NULL && i < sizeof types / sizeof *types; i++)
        if (strcmp(end, types[i].end) == 0)
            return types[i].type;
    return "application/octet-stream";
}

static const struct ld_embed_file *find(const char *name)
{
    const struct ld_embed_file *file = ld_embed_console;
    while (file->name != NULL && strcmp(file->name, name) != 0)
        file++;
    return file->name != NULL ? file : NULL;
}

/* Whether the client has it: one of the tags that it names, or any (RFC 9110, 13.1.2). */
static bool is_known(const struct ld_call *c, const char *tag)
{
    const char *known = ld_request_header(c->request, "If-None-Match");
    return known != NULL && (strcmp(known, "*") == 0 || strstr(known, tag) != NULL);
}

bool api_console_file(struct ld_call *c, struct ld_reply *out)
{
    const char *name = ld_request_path(c->request) + strlen(ROOT);
    const struct ld_embed_file *file = c->server->has_console ? find(*name != '\0' ? name : "index.html") : NULL;
    if (file == NULL)
        return refuse(out);
    const struct ld_header headers[] = {{"ETag", file->tag},
                                        {"Cache-Control", "no-cache"},
                                        {"Content-Security-Policy", POLICY},
                                        {"X-Content-Type-Options", "nosniff"},
                                        {"Referrer-Policy", "no-referrer"},
                                        {"Cross-Origin-Opener-Policy", "same-origin"}};
    memcpy(c->headers, headers, sizeof headers);
    out->headers = c->headers;
    out->n_headers = sizeof headers / sizeof *headers;
    out->status = is_known(c, file->tag) ? 304 : 200;
    out->content_type = type_of(file->name);
    out->constant = file->text;
    out->n = file->n;
    return true;
}

/* The page's files are named beside it: so its address must end with the slash. */
bool api_console(struct ld_call *c, struct ld_reply *out)
{
    static const struct ld_header there[] = {{"Location", ROOT}};
    if (!c->server->has_console)
        return refuse(out);
    out->headers = there;
    out->n_headers = 1;
    out->status = 308;
    out->content_type = "text/plain; charset=utf-8";
    out->constant = ROOT "\n";
    out->n = strlen(ROOT "\n");
    return true;
}
