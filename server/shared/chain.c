/* The hash that chains the batches of a shared log, and words for its outcomes: see shared_log.h. */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "shared/shared_log.h"

void ld_chain(unsigned char out[LD_CHAIN_BYTES], const unsigned char before[LD_CHAIN_BYTES], const char *body,
              size_t n_body)
{
    crypto_generichash_state state;

    crypto_generichash_init(&state, NULL, 0, LD_CHAIN_BYTES);
    crypto_generichash_update(&state, before, LD_CHAIN_BYTES);
    crypto_generichash_update(&state, (const unsigned char *)body, n_body);
    crypto_generichash_final(&state, out, LD_CHAIN_BYTES);
}

const char *ld_shared_behind(const char *body, size_t n_body, uint64_t n)
{
    const char *at = body, *end = body + n_body;

    for (uint64_t i = 0; i < n && at != NULL; i++) {
        at = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
        at = at != NULL ? at + 1 : NULL;
    }
    return at != end ? at : NULL;
}

bool ld_shared_replace(struct ld_text *out, const struct ld_shared_batch *batch, const struct ld_shared_line *line,
                       size_t n, size_t *at)
{
    const char *from = batch->body, *end = batch->body + batch->n_body;

    for (uint64_t seq = batch->at.seq - batch->n + 1; seq <= batch->at.seq; seq++) {
        const char *stop = from < end ? memchr(from, '\n', (size_t)(end - from)) : NULL;

        if (stop == NULL)
            return false;
        if (*at < n && line[*at].seq == seq) {
            ld_text_raw(out, line[*at].text, line[*at].n_text);
            ld_text_raw(out, "\n", 1);
            ++*at;
        } else {
            ld_text_raw(out, from, (size_t)(stop + 1 - from));
        }
        from = stop + 1;
    }
    return from == end && !out->is_failed;
}

unsigned ld_log_version(void)
{
    const char *text = getenv("LAPLACED_LOG_VERSION");
    const long n = text != NULL ? strtol(text, NULL, 10) : 0;

    return n > 0 && n < (long)LD_LOG_VERSION ? (unsigned)n : LD_LOG_VERSION;
}

const char *ld_shared_say(enum ld_shared_rc rc)
{
    static const char *const said[] = {
        [LD_SHARED_OK] = "done",
        [LD_SHARED_NONE] = "there is no such tenant in the shared log",
        [LD_SHARED_BEHIND] = "the turn was lost; nothing was recorded",
        [LD_SHARED_UNKNOWN] = "it is not known whether it was recorded: ask again with the same id",
        [LD_SHARED_DOWN] = "the shared log cannot be written; nothing was recorded",
        [LD_SHARED_FORKED] = "the shared log has other lines than this server",
        [LD_SHARED_NOMEM] = "out of memory",
        [LD_SHARED_REWRITTEN] = "lines of the shared log were rewritten, and this server's copy is being renewed",
        [LD_SHARED_NEWER] =
            "the shared log has lines of a version that this server does not know: it is to be upgraded",
    };

    return said[rc];
}
