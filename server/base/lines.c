/* The lines of a file: see lines.h. */
#include "base/lines.h"

#include <stdlib.h>
#include <unistd.h>

#define FIRST_BYTES ((size_t)65536)

int ld_lines_open(struct ld_lines *l, int fd, size_t max)
{
    *l = (struct ld_lines){.file = fd >= 0 ? fdopen(fd, "rb") : NULL, .max = max};
    if (l->file == NULL && fd >= 0)
        (void)close(fd);
    return l->file != NULL ? 0 : -1;
}

void ld_lines_close(struct ld_lines *l)
{
    if (l->file != NULL)
        (void)fclose(l->file);
    free(l->text);
    *l = (struct ld_lines){.file = NULL};
}

static int grow(struct ld_lines *l)
{
    const size_t more = l->cap > 0 ? 2 * l->cap : FIRST_BYTES;
    char *grown = l->cap < l->max ? realloc(l->text, more) : NULL;

    if (grown == NULL)
        return -1;
    l->text = grown;
    l->cap = more;
    return 0;
}

/* Blanks at the end go: the carriage returns of other systems. */
enum ld_lines_status ld_lines_next(struct ld_lines *l)
{
    int c = getc_unlocked(l->file);

    l->n = 0;
    if (c == EOF)
        return ferror(l->file) ? LD_LINES_BROKEN : LD_LINES_END;
    for (; c != EOF && c != '\n'; c = getc_unlocked(l->file)) {
        if (l->n == l->cap && grow(l) != 0)
            return LD_LINES_LONG;
        l->text[l->n++] = (char)c;
    }
    if (c == EOF && ferror(l->file))
        return LD_LINES_BROKEN;
    l->n_bytes += l->n + 1;
    l->n_lines++;
    while (l->n > 0 && (l->text[l->n - 1] == ' ' || l->text[l->n - 1] == '\t' || l->text[l->n - 1] == '\r'))
        l->n--;
    return LD_LINES_LINE;
}
