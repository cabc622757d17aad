/* Tenants that move: a copy of the file, the log as lines, and the way back in.
 *
 *     POST /tenants/{t}/snapshot    the file as it is now            PUT  /tenants/{t}/snapshot    a tenant from it
 *     GET  /tenants/{t}/export      the log, a line an event         POST /tenants/{t}/import      a tenant from it
 *     GET  /personalizer/{v}/model  the file                         PUT  /personalizer/{v}/model  in its place
 *
 * All run in threads of their own (LD_TRANSFERS): they take as long as the disk, or a fold, takes. Bodies and
 * copies lie in the spool meanwhile, never in memory. A tenant that comes in is checked and folded before anybody can
 * see it; then one rename and one row of the registry make it a tenant (ld_tenants_adopt). */
#include "api/api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "task/copy.h"
#include "task/restore.h"
#include "base/text.h"

/* Whoever waits for a copy at the stop is told so: the disk may be slow, and a stop is not to wait for it. */
static bool is_stopping(void *arg)
{
    const struct ld_server *s = arg;
    return atomic_load(&s->is_draining);
}

/* One copy of a tenant at a time, out or in. */
static bool claim_name(struct ld_call *c, struct ld_problem *p)
{
    const bool is_free = ld_spool_claim(c->server->spool, c->name);
    if (!is_free)
        ld_problem_set(p, 409, "another copy of \"%.64s\" is being made, sent or taken in", c->name);
    return is_free;
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

/* The tenant is not held while the copy is sent: a slow client keeps nobody from deleting it. */
static bool give_out(struct ld_call *c, enum ld_copy_kind kind, const char *content_type, struct ld_problem *p)
{
    char path[LD_PATH_MAX];
    struct ld_copy copy = {.fd = -1};
    struct claim *claim = malloc(sizeof *claim);
    if (claim == NULL)
        ld_problem_set(p, 503, "out of memory");
    if (claim == NULL || !claim_name(c, p)) {
        free(claim);
        return true;
    }
    claim->spool = c->server->spool;
    strcpy(claim->name, c->name);
    ld_spool_path(c->server->spool, path);
    if (ld_copy_make(&copy, c->tenant, kind, path, is_stopping, c->server, p) == 0)
        reply_copy(c->request, &copy, content_type, claim);
    else
        let_go(claim);
    return p->status != 0;
}

/* POST /snapshot: it makes something, if only for the time that it takes to send it. */
bool api_snapshot_post(struct ld_call *c, struct ld_reply *out)
{
    return give_out(c, LD_COPY_FILE, "application/vnd.sqlite3", out->problem);
}

/* GET /personalizer/{v}/model. */
bool api_rank_model_get(struct ld_call *c, struct ld_reply *out)
{
    return give_out(c, LD_COPY_FILE, "application/octet-stream", out->problem);
}

bool api_export(struct ld_call *c, struct ld_reply *out)
{
    return give_out(c, LD_COPY_LOG, "application/x-ndjson", out->problem);
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

/* What a log asks of its server that servers of one log cannot do. */
static bool is_shareable(const struct ld_call *c, const struct ld_restored *restored, struct ld_problem *p)
{
    if (c->server->world.shared == NULL)
        return true;
    if (restored->is_relaxed)
        ld_problem_alone(p, "a tenant with `durability` relaxed");
    return p->status == 0;
}

/* From the body's file to a tenant's, and by `place` into the data folder; the files that were needed on the way are
 * gone afterwards. */
static void bring_in(struct ld_call *c, struct ld_restore *how, struct ld_restored *restored,
                     int (*place)(struct ld_tenants *, const char *, const struct ld_tenant_file *,
                                  struct ld_problem *),
                     struct ld_problem *p)
{
    struct ld_server *s = c->server;
    char snapshot[LD_PATH_MAX + 16];
    if (!claim_name(c, p))
        return;
    snprintf(snapshot, sizeof snapshot, "%s" LD_RESTORE_SNAPSHOT, how->path);
    how->max_line = 2 * s->limits.bulk_body;
    how->is_over = is_stopping;
    how->arg = s;
    if (ld_restore(how, restored, p) == 0 && is_shareable(c, restored, p))
        (void)place(s->tenants, c->name, &(struct ld_tenant_file){how->path, snapshot, is_stopping, s}, p);
    ld_spool_remove(how->path);
    ld_spool_let_go(s->spool, c->name);
}

static bool take_in(struct ld_call *c, struct ld_restore *how, struct ld_reply *out)
{
    struct ld_problem *p = out->problem;
    struct ld_restored restored;
    if (ld_request_body_file(c->request) == NULL)
        ld_problem_set(p, 503, "out of memory");
    else if (ld_call_may_make(c, c->name, p))
        bring_in(c, how, &restored, ld_tenants_adopt, p);
    if (p->status == 0)
        out->text = encode_restored(c->name, &restored, &out->n);
    out->status = 201;
    return true;
}

/* PUT /snapshot. The body's own file becomes the tenant's. */
bool api_snapshot_put(struct ld_call *c, struct ld_reply *out)
{
    return take_in(c, &(struct ld_restore){.path = ld_request_body_file(c->request)}, out);
}

/* The tenant can be opened, and pays. It is let go again, so that it can be closed. */
static bool pay_for_copy(struct ld_call *c, struct ld_problem *p)
{
    struct ld_size size;
    c->tenant = ld_tenants_get(c->server->tenants, c->name, p);
    if (c->tenant == NULL)
        return false;
    ld_tenant_size(c->tenant, &size);
    const bool is_paid = ld_charge(c, ld_price_work(&size, LD_WORK_COPY), p);
    ld_tenant_release(c->tenant);
    c->tenant = NULL;
    return is_paid;
}

/* PUT /personalizer/{v}/model: the tenant is what the file says, its log as well. Whoever manages it may not bring a
 * model that is larger than it could have become. */
bool api_rank_model_put(struct ld_call *c, struct ld_reply *out)
{
    struct ld_restore how = {.path = ld_request_body_file(c->request),
                             .max_bytes = atomic_load(&c->server->world.tenant_quota)};
    struct ld_problem *p = out->problem;
    struct ld_restored restored;
    if (how.path == NULL)
        ld_problem_set(p, 503, "out of memory");
    else if (pay_for_copy(c, p))
        bring_in(c, &how, &restored, ld_tenants_replace, p);
    if (p->status == 400)
        c->flag_code = "InvalidModelImportFormat";
    out->status = 204;
    return true;
}

/* POST /import. The lines stay in the body's file, the tenant's is made beside it. */
bool api_import(struct ld_call *c, struct ld_reply *out)
{
    char path[LD_PATH_MAX];
    ld_spool_path(c->server->spool, path);
    return take_in(c, &(struct ld_restore){.path = path, .lines = ld_request_body_file(c->request)}, out);
}
