/* Memory and text of the client.
 *
 * Numbers are printed with the fewest of 15 to 17 significant digits that read back to the same double, so that
 * features and rewards reach the server bit for bit and files stay readable. Cost: one or two strtod per number.
 *
 * Everything here is for one thread at a time per object; lc_thousands has its buffers per thread.
 *
 * The tools keep no pools: every block is calloc's or realloc's and goes back by free, so leak checkers
 * see all.
 *
 * lc_room is the one growth rule of all arrays in the client; texts are arrays of bytes with a NUL
 * behind. */
#include "common/text.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

void lc_out_of_memory(size_t n, size_t size)
{
    fprintf(stderr, "laplacectl: out of memory (%zu x %zu bytes)\n", n, size);
    exit(1);
}

/* Zeroed, so that a half-filled array can be closed. A count of 0 gives a block of one item: NULL has one meaning. */
void *lc_alloc(size_t n, size_t size)
{
    void *p = calloc(n > 0 ? n : 1, size > 0 ? size : 1); /* calloc checks the product */
    if (p == NULL)
        lc_out_of_memory(n, size);
    return p;
}

/* realloc of 0 bytes may free; one byte is asked for instead. */
void *lc_regrow(void *ptr, size_t n, size_t size)
{
    void *p = NULL;
    if (size == 0 || n <= SIZE_MAX / size)
        p = realloc(ptr, n * size > 0 ? n * size : 1);
    if (p == NULL)
        lc_out_of_memory(n, size);
    return p;
}

char *lc_copy(const char *s)
{
    size_t n = strlen(s) + 1;
    char *out = lc_alloc(n, 1);
    memcpy(out, s, n);
    return out;
}

bool lc_ends_with(const char *s, const char *tail)
{
    const size_t n = strlen(s), m = strlen(tail);
    return n >= m && strcmp(s + n - m, tail) == 0;
}

void *lc_room(void *ptr, size_t *cap, size_t need, size_t size)
{
    size_t next = *cap > 0 ? *cap : 16;
    if (need <= *cap)
        return ptr;
    while (next < need)
        next = next <= SIZE_MAX / 2 ? next * 2 : need;
    char *moved = lc_regrow(ptr, next, size);
    memset(moved + *cap * size, 0, (next - *cap) * size);
    *cap = next;
    return moved;
}

/* --- growing text ----------------------------------------------------------------------------------- */

/* An empty text is fine. Called on every way out, so a text needs no flag for whether it was ever used. */
void lc_text_close(struct lc_text *t)
{
    free(t->data);
    *t = (struct lc_text){0};
}

/* Room for `more` bytes and the terminating NUL. n + more + 1 cannot wrap for texts that fit into memory. */
static void reserve_text(struct lc_text *t, size_t more)
{
    t->data = lc_room(t->data, &t->cap, t->n + more + 1, 1);
}

void lc_text_clear(struct lc_text *t)
{
    reserve_text(t, 0);
    t->n = 0;
    t->data[0] = '\0';
}

/* bytes must not point into t: growing may move it. NULs pass. n bytes, appended. */
void lc_text_put(struct lc_text *t, const void *bytes, size_t n)
{
    reserve_text(t, n);
    if (n > 0)
        memcpy(t->data + t->n, bytes, n);
    t->n += n;
    t->data[t->n] = '\0';
}

void lc_text_puts(struct lc_text *t, const char *s)
{
    lc_text_put(t, s, strlen(s));
}

/* Measures first, then writes: two passes over the format. Arguments may not point into t. */
static void print_args(struct lc_text *t, const char *fmt, va_list args)
{
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    if (n > 0) {
        reserve_text(t, (size_t)n);
        vsnprintf(t->data + t->n, (size_t)n + 1, fmt, again);
        t->n += (size_t)n;
    }
    va_end(again);
}

void lc_text_printf(struct lc_text *t, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    print_args(t, fmt, args);
    va_end(args);
}

/* --- for people ------------------------------------------------------------------------------------- */

void lc_text_shown(struct lc_text *t, const char *s, bool keeps_lines)
{
    const unsigned char *at = (const unsigned char *)s;
    for (size_t n; *at != '\0'; at += n > 0 ? n : 1) {
        n = ld_text_utf8_length(at);
        if (n == 0)
            lc_text_printf(t, "\\x%02x", *at);
        else if ((n == 1 && (*at < 0x20 || *at == 0x7f) && !(keeps_lines && *at == '\n')) ||
                 (n == 2 && at[0] == 0xc2 && at[1] < 0xa0))
            lc_text_printf(t, "\\u%04x", at[n - 1]); /* U+0080 to U+009F: the second byte is the number */
        else
            lc_text_put(t, at, n);
    }
}

static void print_line(FILE *out, const char *before, const char *fmt, va_list args)
{
    struct lc_text line = {0}, shown = {0};
    print_args(&line, fmt, args);
    lc_text_clear(&shown);
    lc_text_shown(&shown, line.data != NULL ? line.data : "", false);
    fprintf(out, "%s%s\n", before, shown.data);
    lc_text_close(&line);
    lc_text_close(&shown);
}

void lc_say(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    print_line(stdout, "", fmt, args);
    va_end(args);
}

void lc_note(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    print_line(stderr, "laplacectl: ", fmt, args);
    va_end(args);
}

int lc_fail(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    print_line(stderr, "laplacectl: ", fmt, args);
    va_end(args);
    return 1;
}

int lc_misuse(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    print_line(stderr, "laplacectl: ", fmt, args);
    va_end(args);
    return 2;
}

/* --- JSON values ------------------------------------------------------------------------------------ */

/* Only the quote, the backslash and control characters need an escape (RFC 8259, 7); UTF-8 passes as it is. Bytes that
 * are no UTF-8 pass too, and the server refuses them. */
void lc_text_json(struct lc_text *t, const char *s)
{
    lc_text_puts(t, "\"");
    for (; *s != '\0'; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            lc_text_printf(t, "\\%c", c);
        else if (c < 0x20)
            lc_text_printf(t, "\\u%04x", (unsigned)c);
        else
            lc_text_put(t, s, 1);
    }
    lc_text_puts(t, "\"");
}

/* Not for NaN or infinity, which JSON does not know. strtod of the text decides, so that no rule about digits has to be
 * trusted; 17 always do. */
void lc_text_number(struct lc_text *t, double v)
{
    char buf[40];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(buf, sizeof buf, "%.*g", digits, v);
        if (strtod(buf, NULL) == v)
            break;
    }
    lc_text_puts(t, buf);
}

void lc_text_vector(struct lc_text *t, const double *v, size_t n)
{
    lc_text_puts(t, "[");
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            lc_text_puts(t, ",");
        lc_text_number(t, v[i]);
    }
    lc_text_puts(t, "]");
}

void lc_put_key(struct lc_text *t, const char *key)
{
    lc_text_printf(t, "%s\"%s\":", t->n == 0 || strchr("{[", t->data[t->n - 1]) != NULL ? "" : ",", key);
}

void lc_put_text(struct lc_text *t, const char *key, const char *value)
{
    if (value == NULL)
        return;
    lc_put_key(t, key);
    lc_text_json(t, value);
}

void lc_put_number(struct lc_text *t, const char *key, double v)
{
    lc_put_key(t, key);
    if (isfinite(v))
        lc_text_number(t, v);
    else
        lc_text_puts(t, "null");
}

void lc_put_count(struct lc_text *t, const char *key, unsigned long long v)
{
    lc_put_key(t, key);
    lc_text_printf(t, "%llu", v);
}

/* Written from the right; a turn of eight buffers is enough for one printf. */
const char *lc_thousands(unsigned long long v)
{
    static _Thread_local char bufs[8][32];
    static _Thread_local unsigned turn;
    char *end = bufs[turn++ % 8] + 31;
    int digits = 0;
    *end = '\0';
    do {
        if (digits > 0 && digits % 3 == 0)
            *--end = ',';
        *--end = (char)('0' + v % 10);
        v /= 10;
        digits++;
    } while (v > 0);
    return end;
}

/* Until the end, so pipes and standard input work. After an error out may hold what came before. */
int lc_read_file(const char *path, struct lc_text *out, char *why)
{
    char chunk[65536];
    size_t got;
    FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    if (f == NULL) {
        snprintf(why, LC_WHY, "%s: %s", path, strerror(errno));
        return -1;
    }
    lc_text_clear(out);
    while ((got = fread(chunk, 1, sizeof chunk, f)) > 0)
        lc_text_put(out, chunk, got);
    int failed = ferror(f);
    if (failed)
        snprintf(why, LC_WHY, "%s: %s", path, strerror(errno));
    if (f != stdin)
        fclose(f);
    return failed ? -1 : 0;
}

int lc_part_open(struct lc_part *p, const char *path)
{
    struct lc_text name = {0};
    lc_text_printf(&name, "%s.part", path);
    *p = (struct lc_part){lc_copy(path), name.data, fopen(name.data, "wb")};
    if (p->file != NULL)
        return 0;
    free(p->path);
    free(p->name);
    return -1;
}

int lc_part_close(struct lc_part *p, bool is_whole)
{
    int rc = 0;
    if (is_whole && (fflush(p->file) != 0 || (fsync(fileno(p->file)) != 0 && errno != EINVAL)))
        rc = -1; /* a pipe has no disk: EINVAL */
    if (fclose(p->file) != 0 && rc == 0)
        rc = -1;
    if (rc == 0 && is_whole && rename(p->name, p->path) != 0)
        rc = -2;
    const int fault = errno;
    if (rc != 0 || !is_whole)
        (void)remove(p->name);
    free(p->path);
    free(p->name);
    errno = fault;
    return rc;
}

/* --- lines ------------------------------------------------------------------------------------------ */

enum lc_line lc_read_line(FILE *file, char **buffer, size_t *cap, size_t *n)
{
    int c = '\0';
    *n = 0;
    while (c != '\n' && (c = getc_unlocked(file)) != EOF) {
        if (*n > LC_MAX_LINE)
            return LC_LINE_LONG;
        if (*n + 2 > *cap)
            *buffer = lc_room(*buffer, cap, *n + 2, 1);
        (*buffer)[(*n)++] = (char)c;
    }
    if (*n == 0 || ferror(file))
        return ferror(file) ? LC_LINE_BROKEN : LC_LINE_END;
    (*buffer)[*n] = '\0';
    return *n <= LC_MAX_LINE ? LC_LINE : LC_LINE_LONG;
}
