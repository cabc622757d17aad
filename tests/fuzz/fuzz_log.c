/* A log: each line is decoded under the dimensions in force and folded. A line that was taken reads the same when it is
 * written and read again; one that was refused has left the engine as it was; and a snapshot of what came of it all is
 * the same engine. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "tenant/fold.h"
#include "json/json_in.h"
#include "json/json_out.h"
#include "targets.h"
#include "model/commit.h"
#include "model/engine_write.h"

#define MOST_DIM 64u /* longer vectors cost memory, not thought */

static char *encode(const struct kb_event *ev, const struct kb_spec *spec, size_t *n)
{
    const struct ld_settings *settings = ld_line_settings(ev);

    return ld_encode_event(ev, settings != NULL ? settings->spec.context_dim : spec->context_dim,
                           settings != NULL ? settings->spec.arm_dim : spec->arm_dim, settings, n);
}

/* Written, read, and written once more. */
static void check_round_trip(const struct kb_event *ev, const struct kb_spec *spec)
{
    struct ld_problem p;
    struct ld_doc *doc = NULL;
    struct kb_event again;
    size_t n = 0, n_again = 0;
    char *text = encode(ev, spec, &n), *second = NULL;

    ld_problem_init(&p);
    FUZZ_EXPECT(text != NULL && ld_doc_parse(&doc, text, n, false, &p) == 0);
    FUZZ_EXPECT(ld_decode_event(doc, spec->context_dim, spec->arm_dim, &again, &p) == 0);
    second = encode(&again, spec, &n_again);
    FUZZ_EXPECT(second != NULL && n == n_again && memcmp(text, second, n) == 0);
    free(text);
    free(second);
    ld_doc_free(doc);
}

static bool is_large(const struct kb_event *ev)
{
    const struct kb_spec *spec = NULL;

    if (ev->type == KB_EV_CONFIGURED)
        spec = ev->as.configured.spec;
    else if (ev->type == KB_EV_SUMMARY && ev->as.summary->part == KB_PART_BEGIN)
        spec = ev->as.summary->spec;
    return spec != NULL &&
           (spec->context_dim > MOST_DIM || spec->arm_dim > MOST_DIM || spec->user_kernel.n_features > 4 * MOST_DIM);
}

/* False when the rest of the log is of no interest. */
static bool fold_line(struct kb_engine *e, const char *line, size_t n, uint64_t *seq)
{
    const struct kb_spec *spec = kb_engine_spec(e);
    struct kb_errmsg msg = {.text = ""};
    struct ld_problem p;
    struct ld_doc *doc = NULL;
    struct kb_event ev;
    bool goes_on = true;

    ld_problem_init(&p);
    if (ld_doc_parse(&doc, line, n, false, &p) == 0 &&
        ld_decode_event(doc, spec->context_dim, spec->arm_dim, &ev, &p) == 0) {
        const uint64_t before = kb_engine_digest(e);

        check_round_trip(&ev, spec);
        goes_on = !is_large(&ev);
        if (*seq > 0 || ev.type != KB_EV_SUMMARY) /* which has the number that the events before it had */
            ev.seq = *seq + 1;
        if (goes_on && kb_engine_fold(e, &ev, &msg) == KB_OK)
            *seq = ev.seq;
        else
            FUZZ_EXPECT(kb_engine_digest(e) == before);
    } else {
        FUZZ_EXPECT(p.status >= 400);
    }
    ld_doc_free(doc);
    return goes_on;
}

static void check_reload(const struct kb_engine *e)
{
    struct kb_engine *copy = NULL;
    struct kb_writer w;

    kb_writer_init(&w);
    if (kb_engine_save(e, &w) == KB_OK) {
        FUZZ_EXPECT(kb_engine_new(&copy, (struct kb_hash_key){{1, 2}}) == KB_OK &&
                    kb_engine_load(copy, w.data, w.n) == KB_OK);
        FUZZ_EXPECT(kb_engine_digest(copy) == kb_engine_digest(e));
        kb_engine_free(copy);
    }
    kb_writer_close(&w);
}

struct kb_engine *fuzz_fold_log(const uint8_t *data, size_t n, uint64_t *n_events)
{
    const char *at = (const char *)data, *end = at + n;
    struct kb_engine *e = NULL;

    *n_events = 0;
    FUZZ_EXPECT(kb_engine_new(&e, (struct kb_hash_key){{1, 2}}) == KB_OK);
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        const size_t length = stop != NULL ? (size_t)(stop - at) : (size_t)(end - at);

        if (!fold_line(e, at, length, n_events))
            break;
        at += length + 1;
    }
    return e;
}

int fuzz_log(const uint8_t *data, size_t n)
{
    uint64_t n_events;
    struct kb_engine *e = fuzz_fold_log(data, n, &n_events);

    if (n_events > 0)
        check_reload(e);
    kb_engine_free(e);
    return 0;
}
