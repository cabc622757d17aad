/* The tenants of a server, in order of name: life, the table, look-ups. registry_impl.h has the other parts, folder.h
 * the files.
 *
 * A look-up takes the read lock for a binary search; whatever changes a member takes the write lock for a few
 * instructions. Nobody waits for a disk under either.
 *
 * Failure modes: a start that cannot read the registry opens nothing and names the file. A tenant that cannot be opened
 * answers its own requests with the reason and is tried again; the others are served (with --open-all, or --verify, it
 * stops the start). A creation or removal that fails answers 503 and is finished or undone by the next start. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "tenants/registry_impl.h"

/* As clients and metrics call it. */
const char *ld_tenant_state_name(enum ld_tenant_state state)
{
    static const char *const names[LD_N_TENANT_STATES] = {"closed", "waiting", "opening", "open", "closing", "failed"};

    return names[state];
}

/* ---- table ----------------------------------------------------------------------------------------- */

/* Index of the first member not before name. Some lock held. r->n when all come before it. */
static size_t lower_bound(const struct ld_tenants *r, const char *name)
{
    size_t lo = 0, hi = r->n;

    while (lo < hi) {
        const size_t mid = (lo + hi) / 2;

        if (strcmp(r->item[mid]->name, name) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

struct ld_member *ld_member_find(struct ld_tenants *r, const char *name)
{
    const size_t i = lower_bound(r, name);

    return i < r->n && strcmp(r->item[i]->name, name) == 0 ? r->item[i] : NULL;
}

/* O(n) moves of a pointer. An open tenant enters as such: nobody may open its file a second time. */
struct ld_member *ld_member_add(struct ld_tenants *r, const char *name, struct ld_tenant *t)
{
    struct ld_member *member = calloc(1, sizeof *member);
    bool is_in = false;

    if (member == NULL)
        return NULL;
    snprintf(member->name, sizeof member->name, "%s", name);
    member->state = t != NULL ? LD_TENANT_OPEN : LD_TENANT_CLOSED;
    ld_member_use(r, member);
    pthread_rwlock_wrlock(&r->lock);
    if (ld_member_find(r, name) == NULL &&
        kb_grow((void **)&r->item, &r->cap, r->n + 1, 16, sizeof(struct ld_member *)) == 0) {
        const size_t i = lower_bound(r, name);

        memmove(r->item + i + 1, r->item + i, (r->n - i) * sizeof(struct ld_member *));
        member->tenant = t;
        r->item[i] = member;
        r->n++;
        is_in = true;
    }
    pthread_rwlock_unlock(&r->lock);
    if (is_in)
        return member;
    ld_member_free(member);
    return NULL;
}

void ld_member_take_out(struct ld_tenants *r, struct ld_member *member)
{
    const size_t i = lower_bound(r, member->name);

    memmove(r->item + i, r->item + i + 1, (--r->n - i) * sizeof(struct ld_member *));
    member->is_removed = true;
}

/* Out of the table or at its end; nobody waits there. Its tenant is let go. */
void ld_member_free(struct ld_member *member)
{
    ld_tenant_release(member->tenant);
    free(member->why);
    free(member);
}

/* Some lock held. Written only when it changes: a busy tenant's member stays in every core's cache. */
void ld_member_use(struct ld_tenants *r, struct ld_member *member)
{
    const uint64_t now = atomic_load_explicit(&r->tick, memory_order_relaxed);

    if (atomic_load_explicit(&member->used_at, memory_order_relaxed) != now)
        atomic_store_explicit(&member->used_at, now, memory_order_relaxed);
}

/* ---- look-ups --------------------------------------------------------------------------------------- */

/* O(log n) under the read lock, and one atomic increment. The hold is taken under the lock, so the tenant cannot be
 * closed or freed in between. */
struct ld_tenant *ld_tenants_find_open(struct ld_tenants *r, const char *name)
{
    struct ld_tenant *t = NULL;

    pthread_rwlock_rdlock(&r->lock);
    struct ld_member *member = ld_member_find(r, name);
    if (member != NULL && member->state == LD_TENANT_OPEN) {
        t = ld_tenant_hold(member->tenant);
        ld_member_use(r, member);
    }
    pthread_rwlock_unlock(&r->lock);
    return t;
}

uint64_t ld_tenants_tip(struct ld_tenants *r, const char *name)
{
    pthread_rwlock_rdlock(&r->lock);
    const struct ld_member *member = ld_member_find(r, name);
    const bool is_open = member != NULL && member->state == LD_TENANT_OPEN;
    const uint64_t tip = is_open ? ld_tenant_tip(member->tenant) : member != NULL ? atomic_load(&member->tip) : 0;
    pthread_rwlock_unlock(&r->lock);
    return tip;
}

bool ld_tenants_has(struct ld_tenants *r, const char *name)
{
    pthread_rwlock_rdlock(&r->lock);
    const bool is_there = ld_member_find(r, name) != NULL;
    pthread_rwlock_unlock(&r->lock);
    return is_there;
}

/* fn runs outside the lock, on a held copy of the table: it may take its time. Without memory for the copy fn is not
 * called at all. Tenants made or taken out meanwhile may be missed or still visited. */
void ld_tenants_each(struct ld_tenants *r, void (*fn)(void *arg, struct ld_tenant *t), void *arg)
{
    struct ld_tenant **copy;
    size_t n = 0;

    pthread_rwlock_rdlock(&r->lock);
    copy = kb_array(r->n > 0 ? r->n : 1, 1, sizeof(struct ld_tenant *));
    for (size_t i = 0; copy != NULL && i < r->n; i++)
        if (r->item[i]->state == LD_TENANT_OPEN)
            copy[n++] = ld_tenant_hold(r->item[i]->tenant);
    pthread_rwlock_unlock(&r->lock);
    for (size_t i = 0; i < n; i++) {
        fn(arg, copy[i]);
        ld_tenant_release(copy[i]);
    }
    kb_free(copy);
}

struct row {
    char name[LD_NAME_MAX + 1];
    enum ld_tenant_state state;
    struct ld_tenant *t;
    char *why;
};

/* Some lock held. A reason that cannot be copied is left out. */
static struct row row_of(const struct ld_member *member)
{
    struct row row = {.state = member->state};

    snprintf(row.name, sizeof row.name, "%s", member->name);
    if (member->state == LD_TENANT_OPEN)
        row.t = ld_tenant_hold(member->tenant);
    if (member->state == LD_TENANT_FAILED && member->why != NULL)
        row.why = strdup(member->why);
    return row;
}

/* Like ld_tenants_each, on a copy. Of one tenant alone it costs a look-up: how many others there are shows in no time.
 */
bool ld_tenants_list(struct ld_tenants *r, const char *only,
                     void (*fn)(void *arg, const char *name, enum ld_tenant_state state, struct ld_tenant *t,
                                const char *why),
                     void *arg)
{
    struct row *copy;
    size_t n = 0;

    pthread_rwlock_rdlock(&r->lock);
    const size_t first = only[0] != '\0' ? lower_bound(r, only) : 0;
    const size_t end = only[0] == '\0' ? r->n : first + (ld_member_find(r, only) != NULL);
    copy = calloc(end - first + 1, sizeof *copy);
    for (; copy != NULL && first + n < end; n++)
        copy[n] = row_of(r->item[first + n]);
    pthread_rwlock_unlock(&r->lock);
    for (size_t i = 0; i < n; i++) {
        fn(arg, copy[i].name, copy[i].state, copy[i].t, copy[i].why != NULL ? copy[i].why : "");
        ld_tenant_release(copy[i].t);
        free(copy[i].why);
    }
    const bool is_ok = copy != NULL;
    free(copy);
    return is_ok;
}

/* O(n), one atomic load a tenant. */
void ld_tenants_count(struct ld_tenants *r, struct ld_tenants_counts *out)
{
    memset(out, 0, sizeof *out);
    pthread_rwlock_rdlock(&r->lock);
    for (size_t i = 0; i < r->n; i++) {
        out->n[r->item[i]->state]++;
        if (r->item[i]->state == LD_TENANT_OPEN)
            out->bytes += ld_tenant_bytes(r->item[i]->tenant);
    }
    pthread_rwlock_unlock(&r->lock);
}

/* ---- life ------------------------------------------------------------------------------------------- */

void ld_tenants_on_removal(struct ld_tenants *r, void (*fn)(void *arg, const char *name, bool is_replaced), void *arg)
{
    r->on_removal = fn;
    r->on_removal_arg = arg;
}

struct ld_registry_file *ld_tenants_registry(struct ld_tenants *r)
{
    return r->file;
}

/* Releases everything; the files stay as the last commits left them. The folder's lock is let go after the last file
 * is closed. */
static void tenants_free(struct ld_tenants *r)
{
    ld_nodes_free(r);
    for (size_t i = 0; i < r->n; i++)
        ld_member_free(r->item[i]);
    kb_free(r->item);
    ld_registry_close(r->file);
    if (r->lock_fd >= 0)
        close(r->lock_fd);
    pthread_mutex_destroy(&r->change_lock);
    pthread_rwlock_destroy(&r->lock);
    free(r);
}

/* On failure nothing is left open, the lock included. */
int ld_tenants_open(struct ld_tenants **out, const struct ld_world *world, struct ld_message *why)
{
    struct ld_tenants *r = calloc(1, sizeof *r);

    if (r == NULL)
        return ld_fail(why, "out of memory");
    r->world = world;
    r->lock_fd = -1;
    pthread_mutex_init(&r->change_lock, NULL);
    pthread_rwlock_init(&r->lock, NULL);
    if (world->shared != NULL && ld_nodes_new(r) != 0) {
        tenants_free(r);
        return ld_fail(why, "out of memory");
    }
    const int rc = ld_tenants_read_folder(r, why);
    if (rc != 0) {
        tenants_free(r);
        r = NULL;
    }
    *out = r;
    return rc;
}

void ld_tenants_leave(struct ld_tenants *r)
{
    atomic_store(&r->is_left, true);
}

static void checkpoint(void *arg, struct ld_tenant *t)
{
    (void)arg;
    ld_tenant_checkpoint(t);
}

/* No request may be in flight. Each gets a last snapshot first, so that the next opening folds nothing. */
void ld_tenants_close(struct ld_tenants *r)
{
    if (r == NULL)
        return;
    ld_nodes_free(r);
    if (!atomic_load(&r->is_left))
        ld_tenants_each(r, checkpoint, NULL);
    tenants_free(r);
}
