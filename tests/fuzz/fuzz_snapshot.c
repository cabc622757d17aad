/* The body of a snapshot whose checksum is right and whose content is anything: refused, or an engine that can be
 * asked, saved and read again. */
#include <stdlib.h>

#include "buf.h"
#include "engine.h"
#include "targets.h"

/* Arms of the catalogue, for a user from nowhere. */
static void ask(const struct kb_engine *e)
{
    const struct kb_spec *spec = kb_engine_spec(e);
    double *context = calloc(spec->context_dim + 1u, sizeof *context);
    const struct kb_query q = {.user = "nobody", .context = context, .key = 1};
    struct kb_scratch *s = NULL;
    struct kb_decision d;

    FUZZ_EXPECT(context != NULL && kb_engine_scratch_new(&s) == KB_OK);
    if (kb_engine_fit_scratch(e, s, 0, 0) == KB_OK && kb_engine_decide(e, &q, s, &d, NULL) == KB_OK)
        FUZZ_EXPECT(d.chosen < d.n);
    kb_engine_scratch_free(s);
    free(context);
}

int fuzz_snapshot(const uint8_t *data, size_t n)
{
    struct kb_engine *e = NULL, *copy = NULL;
    struct kb_writer w;

    FUZZ_EXPECT(kb_engine_new(&e) == KB_OK);
    if (kb_engine_load(e, data, n) == KB_OK) {
        kb_writer_init(&w);
        FUZZ_EXPECT(kb_engine_save(e, &w) == KB_OK && w.rc == KB_OK && kb_engine_new(&copy) == KB_OK);
        FUZZ_EXPECT(kb_engine_load(copy, w.data, w.n) == KB_OK && kb_engine_digest(copy) == kb_engine_digest(e));
        ask(e);
        kb_engine_free(copy);
        kb_writer_close(&w);
    }
    kb_engine_free(e);
    return 0;
}
