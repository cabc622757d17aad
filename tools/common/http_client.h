/* HTTP client (owner of libcurl: http_client.c): one keep-alive connection per client, one client per thread. */
#ifndef LC_HTTP_CLIENT_H
#define LC_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "common/args.h"
#include "common/json.h"
#include "common/text.h"

#define LC_JSON_TYPE "application/json"
#define LC_PATCH_TYPE "application/merge-patch+json"
#define LC_NDJSON_TYPE "application/x-ndjson"
#define LC_DATABASE_TYPE "application/vnd.sqlite3"

struct lc_client; /* opaque */

struct lc_reply {
    int status;          /* HTTP status; 0: no answer came, see why */
    struct lc_text body; /* of the last request; reused */
    char why[LC_WHY];    /* transport error in plain words */
    char seq[24];        /* of a copy: Laplaced-Seq and Laplaced-Digest; "" where the answer has none */
    char digest[24];
};

void lc_http_global_init(void); /* once, before any thread */

/* A client for the session's server, key and the tenant (NULL: the server's default). Never NULL. */
struct lc_client *lc_client_new(const struct lc_session *s, const char *tenant);
void lc_client_free(struct lc_client *c);

/* Sends body (NULL: none) and waits for the answer, which stays in the client until its next call. */
const struct lc_reply *lc_client_send(struct lc_client *c, const char *method, const char *path, const char *type,
                                      const char *body, size_t n);
const struct lc_reply *lc_client_get(struct lc_client *c, const char *path);
const struct lc_reply *lc_client_json(struct lc_client *c, const char *method, const char *path,
                                      const struct lc_text *body);

/* A body that is produced while it is sent, and an answer of any length. `read` (NULL: no body) fills up to n bytes and
 * returns how many, 0 at the end, or LC_READ_FAILED to give up (the request is then broken off and nothing is applied).
 * The body of a 2xx goes to `out` (NULL: into the reply) as it comes, any other into the reply. */
#define LC_READ_FAILED ((size_t)-1)
const struct lc_reply *lc_client_exchange(struct lc_client *c, const char *method, const char *path, const char *type,
                                          size_t (*read)(void *arg, char *buf, size_t n), void *arg, FILE *out);

/* `watch` is called now and then while a request is under way, with the bytes of its body that are sent; NULL: nobody
 * looks. It may use other clients. */
void lc_client_watch(struct lc_client *c, void (*watch)(void *arg, double n_sent), void *arg);

/* From now on requests take as long as they take. */
void lc_client_be_patient(struct lc_client *c);

bool lc_reply_ok(const struct lc_reply *r);             /* a 2xx status */
struct json_t *lc_reply_json(const struct lc_reply *r); /* its body, to be freed; NULL when that is no JSON */

/* One plain sentence about a failed request, with the faults a problem document names. */
void lc_reply_explain(const struct lc_reply *r, struct lc_text *out);

/* Prints "laplacectl: WHAT: explanation" on standard error; returns 1 (the exit status). */
int lc_reply_fail(const struct lc_reply *r, const char *what);

/* Prints the body: JSON indented unless --json (compact, as it came). Returns the exit status: 0, or that of
 * lc_reply_fail(r, what) when the request failed. */
int lc_reply_print(const struct lc_session *s, const struct lc_reply *r, const char *what);

/* Percent-encodes one path segment into out. */
void lc_path_segment(struct lc_text *out, const char *segment);

/* The tenant that a /tenants/{t}/... route is asked for: the session's, else "default". */
const char *lc_tenant_name(const struct lc_session *s);

/* "/tenants/NAME" and the rest, the name encoded; to be closed. */
struct lc_text lc_tenant_path(const char *name, const char *rest);

#endif
