/* Tenants that move: a copy of the file, the log as lines, and the way back in.
 *
 *     POST /tenants/{t}/snapshot    the file as it is now            PUT  /tenants/{t}/snapshot    a tenant from it
 *     GET  /tenants/{t}/export      the log, a line an event         POST /tenants/{t}/import      a tenant from it
 *
 * All run in threads of their own (LD_TRANSFERS): they take as long as the disk, or a fold, takes. Bodies and
 * copies lie in the spool meanwhile, never in memory. A tenant that comes in is checked and folded before anybody can
 * see it; then one rename and one row of the registry make it a tenant (ld_tenants_adopt). */
#include "api/api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "task/copy.h"
#include "base/names.h"
#include "task/restore.h"
#include "api/route.h"
#include "base/text.h"

/* Whoever waits for a copy at the stop is told so: the disk may be slow, and a stop is not to wait for it. */
static bool is_stopping(void *arg)
{
    const struct ld_app *app = arg;
    return atomic_load(&app->is_draining);
}

static void refuse_claim(struct ld_request *r, const char *tenant)
{
    struct ld_problem p;
    ld_problem_init(&p);
    ld_problem_set(&p, 409, "another copy of \"%.64s\" is being made, sent or taken in", tenant);
    ld_reply_problem(r, &p);
}

/* --- out --------------------------------------------------------------------------------------------------- */

/* The name of a tenant that is being copied, until the copy is sent. */
struct claim {
    struct ld_spool *spool;
    char name[LD_PATH_TENANT_BYTES];
};

static void let_go(void *arg)
{
    struct claim *claim = arg;
    ld_spool_let_go(claim->spool, claim->name);
    free(claim);
}

/* The header that says which moment it is, and what a fold of it must come to. */
static void reply_copy(struct ld_request *r, const struct ld_copy *copy, const char *content_type, struct claim *claim)
{
    char seq[24], digest[24];
    const struct ld_header headers[] = {{"Laplaced-Seq", seq}, {"Laplaced-Digest", digest}};
    snprintf(seq, sizeof seq, "%llu", (unsigned long long)copy->seq);
    snprintf(digest, sizeof digest, "%016llx", (unsigned long long)copy->digest);
    const struct ld_body_file file = {.content_type = content_type,
                                      .fd = copy->fd,
                                      .bytes = copy->bytes,
                                      .headers = headers,
                                      .n_headers = copy->has_digest ? 2 : 1,
                                      .done = let_go,
                                      .arg = claim};
    ld_reply_file(r, &file);
}

/* The tenant is let go before the copy is sent: a slow client keeps nobody from deleting it. */
static void give_out(struct ld_app *app, struct ld_request *r, const char *tenant, enum ld_copy_kind kind,
                     const char *content_type)
{
    char path[LD_PATH_MAX];
    struct ld_copy copy = {.fd = -1};
    struct ld_problem p;
    struct ld_tenant *t = ld_api_tenant(app, r, tenant);
    if (t == NULL)
        return;
    struct claim *claim = malloc(sizeof *claim);
    if (claim == NULL || !ld_spool_claim(app->spool, tenant)) {
        free(claim);
        ld_tenant_release(t);
        refuse_claim(r, tenant);
        return;
    }
    claim->spool = app->spool;
    snprintf(claim->name, sizeof claim->name, "%s", tenant);
    ld_problem_init(&p);
    ld_spool_path(app->spool, path);
    int rc = ld_copy_make(&copy, t, kind, path, is_stopping, app, &p);
    ld_tenant_release(t);
    if (rc == 0) {
        reply_copy(r, &copy, content_type, claim);
    } else {
        let_go(claim);
        ld_reply_problem(r, &p);
    }
}

/* POST /snapshot: it makes something, if only for the time that it takes to send it. */
void api_snapshot_post(struct ld_app *app, struct ld_request *r, const char *tenant)
{
    give_out(app, r, tenant, LD_COPY_FILE, "application/vnd.sqlite3");
}

void api_export(struct ld_app *app, struct ld_request *r, const char *tenant)
{
    give_out(app, r, tenant, LD_COPY_LOG, "application/x-ndjson");
}

/* --- in ---------------------------------------------------------------------------------------------------- */

static char *encode_restored(const char *tenant, const struct ld_restored *restored, size_t *n)
{
    struct ld_text t;
    char digest[24];
    snprintf(digest, sizeof digest, "%016llx", (unsigned long long)restored->digest);
    ld_text_init(&t);
    ld_text_lit(&t, "{");
    ld_text_put_string(&t, "tenant", tenant);
    ld_text_put_count(&t, "events", restored->events);
    ld_text_put_count(&t, "seq", restored->seq);
    ld_text_put_string(&t, "digest", digest);
    ld_text_lit(&t, "}");
    return ld_text_take(&t, n);
}

bool ld_api_may_be_made(struct ld_app *app, const char *tenant, struct ld_problem *p)
{
    if (!ld_tenant_name_is_valid(tenant))
        ld_problem_set(p, 400,
                       "a tenant's name is 1 to 64 letters, digits, dots, underscores and dashes, "
                       "the first a letter or digit");
    else if (ld_tenants_has(app->tenants, tenant))
        ld_problem_set(p, 409, "there is a tenant \"%s\": delete it first, or take another name", tenant);
    return p->status == 0;
}

/* The claim is held. From the body's file to a tenant; the files that were needed on the way are gone afterwards. */
static void take_in(struct ld_app *app, const char *tenant, struct ld_restore *how, struct ld_restored *restored,
                    struct ld_problem *p)
{
    char snapshot[LD_PATH_MAX + 16];
    snprintf(snapshot, sizeof snapshot, "%s" LD_RESTORE_SNAPSHOT, how->path);
    how->max_line = 2 * app->limits.bulk_body;
    how->is_over = is_stopping;
    how->arg = app;
    if (ld_restore(how, restored, p) == 0)
        (void)ld_tenants_adopt(app->tenants, tenant, how->path, snapshot, p);
    ld_spool_remove(how->path);
}

static void restore(struct ld_app *app, struct ld_request *r, const char *tenant, struct ld_restore *how)
{
    struct ld_restored restored;
    struct ld_problem p;
    ld_problem_init(&p);
    if (ld_api_may_be_made(app, tenant, &p)) {
        if (!ld_spool_claim(app->spool, tenant)) {
            refuse_claim(r, tenant);
            return;
        }
        take_in(app, tenant, how, &restored, &p);
        ld_spool_let_go(app->spool, tenant);
    }
    size_t n = 0;
    if (p.status != 0) {
        ld_reply_problem(r, &p);
    } else {
        char *text = encode_restored(tenant, &restored, &n);
        ld_reply_json(r, 201, text, n);
    }
}

/* PUT /snapshot. The body's own file becomes the tenant's. */
void api_snapshot_put(struct ld_app *app, struct ld_request *r, const char *tenant)
{
    struct ld_restore how = {.path = ld_request_body_file(r)};
    if (how.path == NULL)
        ld_reply_status(r, 503, "out of memory");
    else
        restore(app, r, tenant, &how);
}

/* POST /import. The lines stay in the body's file, the tenant's is made beside it. */
void api_import(struct ld_app *app, struct ld_request *r, const char *tenant)
{
    char path[LD_PATH_MAX];
    struct ld_restore how = {.path = path, .lines = ld_request_body_file(r)};
    ld_spool_path(app->spool, path);
    if (how.lines == NULL)
        ld_reply_status(r, 503, "out of memory");
    else
        restore(app, r, tenant, &how);
}
