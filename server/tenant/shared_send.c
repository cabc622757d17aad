/* Lines of a file beside those of a shared log, and on their way into it: see shared_send.h. */
#include "tenant/shared_send.h"

#include <string.h>
#include <sys/random.h>

#include "base/alloc.h"
#include "base/failpoint.h"
#include "json/json_out.h"

#define BATCH_BYTES ((size_t)1 << 20)
#define BATCH_LINES 1024u

int ld_shared_export_row(void *text, const struct ld_row *row)
{
    return ld_text_export(text, row->text, row->n_text, row->answer);
}

/* The first line, counted from 0, at which two bodies differ; either may end before it. */
static uint64_t first_difference(const struct ld_text *have, const struct ld_shared_batch *b)
{
    uint64_t n = 0;

    for (size_t i = 0; i < have->n && i < b->n_body && have->data[i] == b->body[i]; i++)
        n += b->body[i] == '\n';
    return n;
}

int ld_shared_first_other(struct ld_store *store, const struct ld_shared_batch *b, uint64_t *line)
{
    const uint64_t before = b->at.seq - b->n;
    struct ld_text have;

    ld_text_init(&have);
    const int rc = ld_store_read(store, before, b->n, ld_shared_export_row, &have);
    const bool is_same = rc == LD_STORE_OK && have.n == b->n_body && memcmp(have.data, b->body, have.n) == 0;
    *line = rc != LD_STORE_OK || is_same ? 0 : before + first_difference(&have, b) + 1;
    ld_text_close(&have);
    return rc;
}

uint64_t ld_shared_draw_nonce(void)
{
    uint64_t nonce = 0;

    while (getrandom(&nonce, sizeof nonce, 0) != (ssize_t)sizeof nonce)
        continue;
    return nonce;
}

struct ld_shared_batch ld_shared_last_sent(struct ld_shared_sender *s)
{
    struct ld_shared_batch b = {.at = s->at,
                                .n = s->n,
                                .at_ms = s->at_ms,
                                .node = s->node,
                                .nonce = ld_shared_draw_nonce(),
                                .body = s->body.data,
                                .n_body = s->body.n};

    ld_chain(b.at.hash, s->at.hash, b.body, b.n_body);
    return b;
}

int ld_shared_pack_row(void *pack, const struct ld_row *row)
{
    struct ld_shared_pack *p = pack;
    struct ld_shared_batch *b = p->n > 0 ? &p->batch[p->n - 1] : NULL;
    const size_t before = p->body.n;

    if (b == NULL || b->n == BATCH_LINES || b->n_body >= BATCH_BYTES) {
        if (kb_grow((void **)&p->batch, &p->cap, p->n + 1, 16, sizeof *p->batch) != 0)
            return LD_STORE_NOMEM;
        b = &p->batch[p->n++];
        *b = (struct ld_shared_batch){.node = p->node, .nonce = ld_shared_draw_nonce()};
    }
    (void)ld_text_export(&p->body, row->text, row->n_text, row->answer);
    b->at.seq = row->seq;
    b->at_ms = row->at_ms;
    b->n++;
    b->n_body += p->body.n - before;
    return p->body.is_failed ? LD_STORE_NOMEM : LD_STORE_OK;
}

void ld_shared_pack_end(struct ld_shared_pack *p)
{
    size_t at = 0;

    for (size_t i = 0; i < p->n; i++) {
        p->batch[i].body = p->body.data + at;
        at += p->batch[i].n_body;
    }
}

void ld_shared_pack_close(struct ld_shared_pack *p)
{
    ld_text_close(&p->body);
    kb_free(p->batch);
}

bool ld_shared_may_send(struct ld_shared_sender *s)
{
    if (s->rc == LD_SHARED_OK && s->log->ops->version(s->turn) < LD_LOG_VERSION)
        s->rc = (enum ld_shared_rc)ld_fail_as(LD_SHARED_DOWN, s->why,
                                              "there may be lines that older servers do not know: "
                                              "laplacectl cluster upgrade, and ask again");
    return s->rc == LD_SHARED_OK;
}

bool ld_shared_may_go_on(struct ld_shared_sender *s)
{
    if (s->rc == LD_SHARED_OK && s->is_over != NULL && s->is_over(s->arg))
        s->rc = (enum ld_shared_rc)ld_fail_as(LD_SHARED_DOWN, s->why, "the server is stopping");
    return s->rc == LD_SHARED_OK;
}

static bool put(struct ld_shared_sender *s)
{
    const struct ld_shared_batch b = ld_shared_last_sent(s);

    s->rc = s->log->ops->put(s->turn, &b, s->why);
    s->at = b.at;
    ld_text_close(&s->body);
    ld_text_init(&s->body);
    s->n = 0;
    return s->rc == LD_SHARED_OK;
}

int ld_shared_send_row(void *sender, const struct ld_row *row)
{
    struct ld_shared_sender *s = sender;

    ld_failpoint("mid_shared_send");
    if (!ld_shared_may_go_on(s) || (s->n > 0 && !put(s)))
        return 1;
    (void)ld_text_export(&s->body, row->text, row->n_text, row->answer);
    s->at.seq = row->seq;
    s->at_ms = row->at_ms;
    s->n = 1;
    if (s->body.is_failed)
        s->rc = LD_SHARED_NOMEM;
    return s->rc == LD_SHARED_OK ? 0 : 1;
}
