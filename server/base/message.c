#include "base/message.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void write(struct ld_message *why, const char *fmt, va_list args)
{
    char text[sizeof why->text];
    vsnprintf(text, sizeof text, fmt, args);
    strcpy(why->text, text);
}

int ld_fail(struct ld_message *why, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    write(why, fmt, args);
    va_end(args);
    return -1;
}

int ld_fail_as(int status, struct ld_message *why, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    write(why, fmt, args);
    va_end(args);
    return status;
}
