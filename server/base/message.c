#include "base/message.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int ld_fail(struct ld_message *why, const char *fmt, ...)
{
    char text[sizeof why->text];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    strcpy(why->text, text);
    return -1;
}
