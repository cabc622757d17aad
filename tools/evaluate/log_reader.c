/* What all formats of logs share: the file and its lines.
 *
 * A file is read more than once, so standard input is copied to a file without a name first. Packed files are unpacked
 * on the way (unpack.c). */
#include "evaluate/log_reader.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/csv.h"
#include "evaluate/unpack.h"

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
    snprintf(log->base.why.text, sizeof log->base.why.text, "%.160s: %s", name_of(log), strerror(errno));
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
    ld_decisions_begin(&log->base);
    log->is_read = false;
    if (open_file(log) != 0)
        return -1;
    log->state = lc_alloc(1, log->ops->state_bytes);
    return log->ops->open(log);
}

static int pass_over(struct ld_decisions *d, const struct ld_decisions_pass *pass)
{
    struct lc_log *log = (struct lc_log *)d;
    struct ld_logged ev;
    int rc = log->is_read ? lc_log_rewind(log) : 0;

    log->pass = pass;
    while (rc == 0 && (rc = lc_log_next(log, &ev)) == 1)
        rc = pass->decision(pass->arg, &ev);
    log->pass = NULL;
    return rc;
}

int lc_log_open(struct lc_log *log, const struct lc_log_reader_ops *ops, const struct lc_log_options *o)
{
    *log = (struct lc_log){.ops = ops, .o = *o, .spool = o->input};
    const int rc = ld_decisions_init(&log->base, &o->read);
    log->base.pass = pass_over;
    log->base.format = ops->name;
    log->base.title = name_of(log);
    if (rc != 0)
        return -1;
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
    free(log->buffer);
    ld_names_close(&log->names);
    ld_decisions_close(&log->base);
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
            ld_decisions_fail(&log->base, NULL, "%s",
                              errno == EBADMSG ? "the packed data are damaged or cut" : strerror(errno));
            return LD_DECISIONS_BROKEN;
        }
        log->base.line++;
        if (got == LC_LINE_LONG) {
            ld_decisions_fail(&log->base, NULL, LC_LINE_TOO_LONG);
            return LD_DECISIONS_BROKEN;
        }
        while (*n > 0 && strchr(" \t\r\n", log->buffer[*n - 1]) != NULL)
            log->buffer[--*n] = '\0';
        if (*n > 0)
            return 1;
    }
}

int lc_log_next(struct lc_log *log, struct ld_logged *ev)
{
    int rc = -1;

    log->is_read = true;
    while (rc == -1) {
        *ev = (struct ld_logged){.propensity = (double)NAN};
        rc = ld_decisions_judge(&log->base, ev, log->ops->next(log, ev));
    }
    return rc >= 0 ? rc : -1;
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
