/* See names.h. */
#include "base/names.h"

#include <ctype.h>
#include <string.h>

/* Names become file names: no separator, no leading dot or dash, and nothing that a shell would look at twice. Case
 * counts, as it does in file names here. ASCII only: the server sets no locale. */
int ld_tenant_name_is_valid(const char *name)
{
    const size_t n = strlen(name);

    if (n == 0 || n > LD_NAME_MAX || !isalnum((unsigned char)name[0]))
        return 0;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)name[i]) && strchr("._-", name[i]) == NULL)
            return 0;
    return 1;
}
