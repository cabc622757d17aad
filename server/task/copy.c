/* clang-format off */
/* Copies of a tenant: see copy.h.
 *
 *     moment    a read transaction on the log, opened under the tenant's read lock while the model has applied all that
 *               is in it: so the digest is that of the copy's fold
 *     write     pages (store_copy.c) or lines, beside the writer, without any lock
 *     hand on   the file is opened for reading and loses its name
 *
 * The digest is a pass over the history under the read lock, as for GET /model: changes wait for it, decisions do not.
 * Memory does not depend on the length of the log. */
/* clang-format on */
#include "task/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "store/spool.h"
#include "store/sqlite_util.h"
#include "base/text.h"
#include "json/json_out.h"

#define MOMENT_TRIES 200 /* a millisecond apart */
#define FLUSH_BYTES ((size_t)256 << 10)

/* --- the moment -------------------------------------------------------------------------------------------- */

/* Under the read lock nothing is applied; what is committed and waits to be applied shows as a longer log. */
static int look(struct ld_copy *out, struct ld_tenant *t, struct ld_store_view **view)
{
    struct kb_engine_counts counts;
    const struct kb_engine *e = ld_tenant_read_lock(t, NULL);
    const int rc = ld_store_view_open(view, ld_tenant_store(t), &out->seq);

    kb_engine_counts(e, &counts);
    out->has_digest = rc == LD_STORE_OK && counts.seq == out->seq;
    if (out->has_digest)
        out->digest = kb_engine_digest(e);
    ld_tenant_read_unlock(t);
    return rc;
}

/* A writer that commits one batch behind the other may be ahead each time: the last look is taken without a digest. */
static int open_moment(struct ld_copy *out, struct ld_tenant *t, struct ld_store_view **view)
{
    const struct timespec ms = {.tv_nsec = 1000000};
    int rc = look(out, t, view);

    for (int i = 0; i < MOMENT_TRIES && rc == LD_STORE_OK && !out->has_digest; i++) {
        ld_store_view_close(*view);
        *view = NULL;
        nanosleep(&ms, NULL);
        rc = look(out, t, view);
    }
    return rc;
}

/* --- lines ------------------------------------------------------------------------------------------------- */

/* Lines on their way into the file. */
struct lines {
    struct ld_text text; /* not written yet */
    int fd;
    bool (*is_over)(void *arg);
    void *arg;
};

static int flush(struct lines *l)
{
    const int rc = ld_write_all(l->fd, l->text.data, l->text.n);

    l->text.n = 0;
    return rc == 0 ? LD_STORE_OK : LD_STORE_IO;
}

/* For ld_store_view_read, which it ends by a code. */
static int add_line(void *arg, const struct ld_row *row)
{
    struct lines *l = arg;

    if (l->is_over(l->arg))
        return LD_STORE_IO;
    if (ld_text_export(&l->text, row->text, row->n_text, row->answer) != 0)
        return LD_STORE_NOMEM;
    return l->text.n >= FLUSH_BYTES ? flush(l) : LD_STORE_OK;
}

static int write_lines(struct ld_store_view *view, const char *path, bool (*is_over)(void *arg), void *arg,
                       struct ld_message *why)
{
    struct lines l = {.is_over = is_over, .arg = arg};
    int rc;

    l.fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (l.fd < 0)
        return ld_fail_as(LD_STORE_IO, why, "%.300s: %s", path, strerror(errno));
    ld_text_init(&l.text);
    rc = ld_store_view_read(view, add_line, &l);
    if (rc == LD_STORE_OK)
        rc = flush(&l);
    ld_fail(why, "%.300s: the log cannot be read, or the copy written", path);
    ld_text_close(&l.text);
    close(l.fd);
    return rc;
}

/* --- both -------------------------------------------------------------------------------------------------- */

/* -1 with the problem. The copy that cannot be opened again is as good as none. */
static int open_copy(struct ld_copy *out, const char *path, struct ld_problem *p)
{
    struct stat st;

    out->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (out->fd >= 0 && fstat(out->fd, &st) == 0) {
        out->bytes = (uint64_t)st.st_size;
        return 0;
    }
    if (out->fd >= 0)
        close(out->fd);
    ld_problem_set(p, 503, "the copy cannot be read");
    return -1;
}

static void refuse(struct ld_problem *p, const struct ld_tenant *t, int rc, bool is_over, const char *why)
{
    if (is_over)
        ld_problem_set(p, 503, "the server is stopping");
    else if (rc == LD_STORE_IO)
        ld_problem_set(p, 507, "the copy cannot be written; the disk may be full");
    else
        ld_problem_set(p, 503, rc == LD_STORE_NOMEM ? "out of memory" : "the tenant's file cannot be read");
    ld_log(LD_LOG_WARN, "tenant %s: no copy: %s", ld_tenant_name(t), why);
}

int ld_copy_make(struct ld_copy *out, struct ld_tenant *t, enum ld_copy_kind kind, const char *path,
                 bool (*is_over)(void *arg), void *arg, struct ld_problem *p)
{
    struct ld_store_view *view = NULL;
    struct ld_message why = {"the log cannot be read"};
    int rc = open_moment(out, t, &view);

    if (rc != LD_STORE_OK) {
        ld_problem_set(p, 503, "the tenant's file cannot be read now");
        return -1;
    }
    rc = kind == LD_COPY_FILE ? ld_store_view_copy(view, path, is_over, arg, &why)
                              : write_lines(view, path, is_over, arg, &why);
    ld_store_view_close(view);
    if (rc != LD_STORE_OK)
        refuse(p, t, rc, is_over(arg), why.text);
    else
        rc = open_copy(out, path, p);
    ld_spool_remove(path);
    return rc == LD_STORE_OK ? 0 : -1;
}
