/* See log_strict.h. */
#include "evaluate/log_strict.h"

int lc_log_strictly(struct lc_log *log, size_t n, const char *field,
                    enum kb_err (*take)(void *to, struct ld_line *line, struct kb_errmsg *msg), void *to)
{
    static const uint32_t no_vectors = 0;
    struct ld_fold f = {.sink = {.take = take, .to = to, .context_dim = &no_vectors, .arm_dim = &no_vectors}};
    const struct ld_problem_error *fault = &f.fault.errors[0];

    if (ld_fold_text(&f, 1, log->buffer, n) == 0)
        return 0;
    return ld_decisions_fail(&log->base, field, "%.80s%s%.170s", fault->pointer, fault->pointer[0] != '\0' ? " " : "",
                             f.fault.n_errors > 0 ? fault->detail : f.fault.detail);
}

struct reader {
    void (*take)(void *arg, const struct ld_settings *s);
    void *arg;
};

static enum kb_err tell_settings(void *to, struct ld_line *line, struct kb_errmsg *msg)
{
    const struct reader *r = to;
    const struct ld_settings *s = ld_line_settings(&line->ev);

    (void)msg;
    if (s != NULL)
        r->take(r->arg, s);
    return KB_OK;
}

int lc_log_settings(struct lc_log *log, size_t n, void (*take)(void *arg, const struct ld_settings *s), void *arg)
{
    struct reader r = {take, arg};

    return lc_log_strictly(log, n, "configuration", tell_settings, &r);
}
