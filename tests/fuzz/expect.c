/* See targets.h. */
#include <stdio.h>
#include <stdlib.h>

#include "targets.h"

void fuzz_expect(int is_kept, const char *promise)
{
    if (is_kept)
        return;
    fprintf(stderr, "broken: %s\n", promise);
    abort();
}
