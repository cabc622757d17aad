/* What all formats of logs share: the file and its lines, arms and who is offered, faulty lines.
 *
 * A file is read more than once, so standard input is copied to a file without a name first. Packed files are unpacked
 * on the way (unpack.c). */
#include "evaluate/log_reader.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/csv.h"
#include "common/network.h"
#include "base/hash_key.h"
#include "evaluate/hashing.h"
#include "evaluate/unpack.h"

#define MAX_NAME 60            /* bytes of a path in a message */
#define MS_FROM 100000000000.0 /* plain numbers from here on are milliseconds: as seconds they were the year 5138 */

const struct lc_log_reader_ops *lc_log_format(const char *name)
{
    static const struct lc_log_reader_ops *const formats[] = {&lc_log_obd, &lc_log_dsjson, &lc_log_ndjson, &lc_log_csv};

    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        if (strcmp(formats[i]->name, name) == 0)
            return formats[i];
    return NULL;
}

static const char *name_of(const struct lc_log *log)
{
    return strcmp(log->o.path, "-") == 0 ? "standard input" : log->o.path;
}

int lc_log_fail(struct lc_log *log, const char *field, const char *fmt, ...)
{
    char text[160];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    const char *name = name_of(log);
    if (strlen(name) > MAX_NAME)
        name += strlen(name) - MAX_NAME; /* its end says more than its beginning */
    snprintf(log->why, sizeof log->why, "%.60s:%zu: %.30s%s%s", name, log->line, field != NULL ? field : "",
             field != NULL ? ": " : "", text);
    return -1;
}

/* --- file --------------------------------------------------------------------------------------------- */

/* All of standard input in a file that goes away with the program. */
static FILE *spool_input(void)
{
    char piece[1u << 15];
    size_t n;
    FILE *f = tmpfile();

    while (f != NULL && (n = fread(piece, 1, sizeof piece, stdin)) > 0)
        if (fwrite(piece, 1, n, f) != n) {
            fclose(f);
            return NULL;
        }
    return f;
}

/* A file of its own for each pass; that of standard input is the same description, set back to its beginning. */
static FILE *open_pass(struct lc_log *log)
{
    if (strcmp(log->o.path, "-") != 0)
        return fopen(log->o.path, "rb");
    if (log->spool == NULL)
        log->spool = spool_input();
    if (log->spool == NULL || fflush(log->spool) != 0 || fseek(log->spool, 0, SEEK_SET) != 0)
        return NULL;
    const int fd = dup(fileno(log->spool));
    return fd >= 0 ? fdopen(fd, "rb") : NULL;
}

static int open_file(struct lc_log *log)
{
    FILE *f = open_pass(log);

    log->file = f != NULL ? lc_unpack(f) : NULL;
    if (log->file != NULL)
        return 0;
    snprintf(log->why, sizeof log->why, "%.160s: %s", name_of(log), strerror(errno));
    return -1;
}

static void close_pass(struct lc_log *log)
{
    if (log->state != NULL)
        log->ops->close(log);
    free(log->state);
    log->state = NULL;
    if (log->file != NULL)
        fclose(log->file);
    log->file = NULL;
}

static int open_format(struct lc_log *log)
{
    log->line = log->n_events = log->n_bad = 0;
    memset(log->skipped, 0, sizeof log->skipped);
    if (open_file(log) != 0)
        return -1;
    log->state = lc_alloc(1, log->ops->state_bytes);
    return log->ops->open(log);
}

int lc_log_open(struct lc_log *log, const struct lc_log_reader_ops *ops, const struct lc_log_options *o)
{
    *log = (struct lc_log){.ops = ops, .o = *o, .spool = o->input, .epoch = 1};
    kb_ids_init(&log->arms, ld_hash_key());
    log->context = lc_alloc((size_t)o->context_dim + 1, sizeof *log->context);
    return open_format(log);
}

int lc_log_rewind(struct lc_log *log)
{
    close_pass(log);
    return open_format(log);
}

void lc_log_close(struct lc_log *log)
{
    close_pass(log);
    if (log->spool != NULL)
        fclose(log->spool);
    for (size_t i = 0; i < log->cap_features; i++)
        free(log->features[i]);
    free(log->features);
    free(log->is_offered);
    free(log->offered);
    free(log->offered_features);
    free(log->place);
    free(log->named);
    free((void *)log->named_features);
    free(log->vectors);
    free(log->context);
    free(log->buffer);
    kb_ids_close(&log->arms);
    *log = (struct lc_log){.ops = log->ops};
}

int lc_log_line(struct lc_log *log, size_t *n)
{
    for (;;) {
        errno = 0;
        const enum lc_line got = lc_read_line(log->file, &log->buffer, &log->cap_buffer, n);

        if (got == LC_LINE_END)
            return 0;
        if (got == LC_LINE_BROKEN) {
            lc_log_fail(log, NULL, "%s", errno == EBADMSG ? "the packed data are damaged or cut" : strerror(errno));
            return LC_LOG_BROKEN;
        }
        log->line++;
        if (got == LC_LINE_LONG) {
            lc_log_fail(log, NULL, LC_LINE_TOO_LONG);
            return LC_LOG_BROKEN;
        }
        while (*n > 0 && strchr(" \t\r\n", log->buffer[*n - 1]) != NULL)
            log->buffer[--*n] = '\0';
        if (*n > 0)
            return 1;
    }
}

/* --- events ------------------------------------------------------------------------------------------- */

/* Reasons are constants of the formats, so they are compared as pointers; a format has fewer than there is room for. */
void lc_log_skip(struct lc_log *log, const char *reason)
{
    for (size_t i = 0; i < LC_LOG_MAX_REASONS; i++)
        if (log->skipped[i].reason == NULL || strcmp(log->skipped[i].reason, reason) == 0) {
            log->skipped[i].reason = reason;
            log->skipped[i].n++;
            return;
        }
}

/* What the caller says of a log without propensities. It must not overrule one that has them. 1 or LC_LOG_BROKEN. */
static int say_propensity(struct lc_log *log, struct lc_logged *ev)
{
    if (log->o.propensity == 0)
        return 1;
    if (!isnan(ev->propensity)) {
        lc_log_fail(log, NULL, "this decision has a propensity of its own, %g: leave --propensity out", ev->propensity);
        return LC_LOG_BROKEN;
    }
    ev->propensity = log->o.propensity > 0 ? log->o.propensity : 1 / (double)ev->n;
    return 1;
}

int lc_log_next(struct lc_log *log, struct lc_logged *ev)
{
    for (;;) {
        *ev = (struct lc_logged){.propensity = (double)NAN};
        int rc = log->ops->next(log, ev);

        if (rc == 1)
            rc = say_propensity(log, ev);
        if (rc == 1) {
            ev->line = log->line;
            log->n_events++;
        }
        if (rc >= 0 || rc == LC_LOG_BROKEN || log->n_bad >= log->o.skip_bad)
            return rc >= 0 ? rc : -1;
        if (log->n_bad++ == 0)
            memcpy(log->first_bad, log->why, sizeof log->first_bad);
    }
}

int lc_log_check(struct lc_log *log, const struct lc_logged *ev)
{
    if (!isnan(ev->propensity) && !(ev->propensity > 0.0 && ev->propensity <= 1.0 + 1e-6))
        return lc_log_fail(log, "propensity", "%g is not in (0, 1]", ev->propensity);
    if (!isfinite(ev->reward))
        return lc_log_fail(log, "reward", "expected a finite number");
    return 0;
}

/* --- arms --------------------------------------------------------------------------------------------- */

uint32_t lc_log_arm(struct lc_log *log, const char *id)
{
    uint32_t arm = kb_ids_find(&log->arms, id);
    const size_t n = strlen(id);

    if (arm != KB_ID_NONE)
        return arm;
    if (n == 0 || n > KB_ID_MAX_BYTES) {
        lc_log_fail(log, "arm", "expected an id of 1 to %u bytes", KB_ID_MAX_BYTES);
        return KB_ID_NONE;
    }
    arm = lc_intern(&log->arms, id);
    log->features = lc_room(log->features, &log->cap_features, (size_t)arm + 1, sizeof *log->features);
    log->is_offered = lc_room(log->is_offered, &log->cap_offered, (size_t)arm + 1, sizeof *log->is_offered);
    const struct lc_hasher by_name = {log->o.arm_dim, log->o.hash_seed};
    double *x = lc_log_arm_features(log, arm);
    lc_hash_category(&by_name, "arm", id, x);
    return arm;
}

double *lc_log_arm_features(struct lc_log *log, uint32_t arm)
{
    if (log->o.arm_dim == 0)
        return NULL;
    if (log->features[arm] == NULL)
        log->features[arm] = lc_alloc(log->o.arm_dim, sizeof(double));
    memset(log->features[arm], 0, log->o.arm_dim * sizeof(double));
    return log->features[arm];
}

void lc_log_offer(struct lc_log *log, uint32_t arm, bool is_offered)
{
    if (log->is_offered[arm] != is_offered)
        log->epoch++;
    log->is_offered[arm] = is_offered;
}

static void list_offered(struct lc_log *log)
{
    const size_t n = log->arms.n;

    if (log->cap_list < n) {
        log->offered = lc_regrow(log->offered, n, sizeof *log->offered);
        log->offered_features = lc_regrow((void *)log->offered_features, n, sizeof *log->offered_features);
        log->place = lc_regrow(log->place, n, sizeof *log->place);
        log->cap_list = n;
    }
    log->n_offered = 0;
    for (uint32_t i = 0; i < n; i++) {
        log->place[i] = SIZE_MAX;
        if (!log->is_offered[i])
            continue;
        log->place[i] = log->n_offered;
        log->offered_features[log->n_offered] = log->features[i];
        log->offered[log->n_offered++] = i;
    }
    log->list_epoch = log->epoch;
}

void lc_log_candidates(struct lc_log *log, uint32_t chosen, struct lc_logged *ev)
{
    lc_log_offer(log, chosen, true);
    if (log->list_epoch != log->epoch)
        list_offered(log);
    ev->epoch = log->epoch;
    ev->n = log->n_offered;
    ev->arm = log->offered;
    ev->features = log->o.arm_dim > 0 ? log->offered_features : NULL;
    ev->chosen = log->place[chosen];
}

void lc_log_name(struct lc_log *log, size_t n, struct lc_logged *ev)
{
    const size_t dim = log->o.arm_dim;

    if (n > log->cap_named) {
        log->named = lc_regrow(log->named, n, sizeof *log->named);
        log->named_features = lc_regrow((void *)log->named_features, n, sizeof *log->named_features);
        log->vectors = lc_regrow(log->vectors, n * dim + 1, sizeof *log->vectors);
        log->cap_named = n;
    }
    for (size_t i = 0; i < n; i++)
        log->named_features[i] = log->vectors + i * dim;
    ev->n = n;
    ev->arm = log->named;
    ev->features = dim > 0 ? log->named_features : NULL;
}

size_t lc_log_name_arm(struct lc_log *log, size_t i, uint32_t arm)
{
    size_t k = 0;

    log->named[i] = arm;
    while (log->named[k] != arm)
        k++;
    return k;
}

/* --- time --------------------------------------------------------------------------------------------- */

/* "Z", "+01:00" or nothing (taken for UTC), in minutes; false when there is something else. */
static bool read_zone(const char *text, int *minutes)
{
    int h = 0, m = 0, n = 0;
    const char sign = *text;

    *minutes = 0;
    if (*text == '\0' || strcmp(text, "Z") == 0)
        return true;
    if ((sign != '+' && sign != '-') || sscanf(text + 1, "%2d:%2d%n", &h, &m, &n) != 2 || text[1 + n] != '\0')
        return false;
    *minutes = (sign == '-' ? -1 : 1) * (60 * h + m);
    return true;
}

/* Downwards, but for what binary fractions miss of a whole number: 2.002 s are 2001.9999999999998 ms. */
static int64_t whole_ms(double ms)
{
    return (int64_t)floor(ms + 1e-3);
}

bool lc_log_time(const char *text, int64_t *at_ms)
{
    struct tm tm = {0};
    int zone, n = 0;
    double second = 0;
    char *rest;

    if (lc_is_number(text)) {
        const double v = strtod(text, NULL);
        if (!(v >= 0.0 && v < 1e15))
            return false;
        *at_ms = whole_ms(v < MS_FROM ? v * 1000.0 : v);
        return true;
    }
    if (sscanf(text, "%4d-%2d-%2d%*1[T ]%2d:%2d:%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour, &tm.tm_min,
               &n) != 5 ||
        n == 0)
        return false;
    second = strtod(text + n, &rest);
    if (rest == text + n || !(second >= 0.0 && second < 61.0) || tm.tm_year < 1970 || tm.tm_mon < 1 || tm.tm_mon > 12)
        return false;
    if (!read_zone(rest, &zone))
        return false;
    tm.tm_year -= 1900;
    tm.tm_mon--;
    *at_ms = ((int64_t)timegm(&tm) - zone * 60) * 1000 + whole_ms(second * 1000.0);
    return true;
}
