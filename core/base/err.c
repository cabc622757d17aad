/* Texts of the error codes and the message builder (err.h): the only file of the core that formats text.
 *
 * The table is made from KB_ERR_MAP, so a code without a text cannot exist. A message longer than its field
 * is cut at a byte that keeps it NUL-terminated; nothing here allocates or prints.
 *
 * Codes travel up through the engine; the server turns them into HTTP statuses and the message into the
 * faults of a problem document. */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A switch and no array: codes are negative and need not be without gaps. Takes an int, so that any number
 * can be asked for. */
const char *kb_strerror(int rc)
{
    switch (rc) {
    case KB_OK:
        return "ok";
#define KB_ERR_CASE(name, value, text)                                                                                 \
    case name:                                                                                                         \
        return text;
        KB_ERR_MAP(KB_ERR_CASE)
#undef KB_ERR_CASE
    default:
        return "unknown error";
    }
}

/* `pointer` NULL stands for the whole body, as "" does. */
enum kb_err kb_fail(enum kb_err rc, struct kb_errmsg *msg, const char *pointer, const char *fmt, ...)
{
    if (msg == NULL)
        return rc;
    va_list args;
    va_start(args, fmt);
    /* The results are not looked at on purpose: a cut message is still a message. */
    (void)snprintf(msg->pointer, sizeof msg->pointer, "%s", pointer != NULL ? pointer : "");
    (void)vsnprintf(msg->text, sizeof msg->text, fmt, args);
    va_end(args);
    return rc;
}

enum kb_err kb_fail_within(enum kb_err rc, struct kb_errmsg *msg, const char *prefix, size_t index)
{
    char inner[sizeof msg->pointer];
    if (rc == KB_OK || msg == NULL)
        return rc;
    memcpy(inner, msg->pointer, sizeof inner);
    (void)snprintf(msg->pointer, sizeof msg->pointer, "%.40s/%zu%.60s", prefix, index, inner);
    return rc;
}
