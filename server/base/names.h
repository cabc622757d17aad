/* Names of tenants, which are names of files too: what one may be, and how long names and paths may get. */
#ifndef LD_NAMES_H
#define LD_NAMES_H

#define LD_PATH_MAX 4096
#define LD_NAME_MAX 64

int ld_tenant_name_is_valid(const char *name); /* [A-Za-z0-9][A-Za-z0-9._-]{0,63} */

#endif
