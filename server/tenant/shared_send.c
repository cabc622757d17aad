/* Lines of a file on their way into a shared log: see shared_send.h. */
#include "tenant/shared_send.h"

#include <sys/random.h>

#include "json/json_out.h"

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

bool ld_shared_may_send(struct ld_shared_sender *s)
{
    if (s->rc == LD_SHARED_OK && s->log->ops->version(s->turn) < LD_LOG_VERSION)
        s->rc = (enum ld_shared_rc)ld_fail_as(LD_SHARED_DOWN, s->why,
                                              "there may be lines that older servers do not know: "
                                              "laplacectl cluster upgrade, and ask again");
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

    if (s->n > 0 && !put(s))
        return 1;
    (void)ld_text_export(&s->body, row->text, row->n_text, row->answer);
    s->at.seq = row->seq;
    s->at_ms = row->at_ms;
    s->n = 1;
    if (s->body.is_failed)
        s->rc = LD_SHARED_NOMEM;
    return s->rc == LD_SHARED_OK ? 0 : 1;
}
