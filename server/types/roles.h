/* What a key may be good for, and who asks. A route wants one role (route.c), a key has a set of them. */
#ifndef LD_ROLES_H
#define LD_ROLES_H

#include <stdbool.h>
#include <stddef.h>

/* Bits; the numbers stand in the registry file. No role is 0: a row of the route table that forgot its own must not
 * be open to everybody. */
enum ld_role {
    LD_ROLE_DECIDE = 1,  /* select, reward, activate, observe */
    LD_ROLE_READ = 2,    /* model, statistics, log, graph, catalogue, configuration */
    LD_ROLE_MANAGE = 4,  /* changes all of these, and the tenant's keys */
    LD_ROLE_METRICS = 8, /* GET /metrics */
    LD_ROLE_ADMIN = 16,  /* everything: every tenant, and which tenants and keys there are */
    LD_ROLE_PUBLIC = 32  /* of routes only: no key is asked for */
};

#define LD_TENANT_ROLES ((unsigned)(LD_ROLE_DECIDE | LD_ROLE_READ | LD_ROLE_MANAGE))
#define LD_SERVER_ROLES ((unsigned)(LD_ROLE_METRICS | LD_ROLE_ADMIN))
#define LD_ALL_ROLES (LD_TENANT_ROLES | LD_SERVER_ROLES)
#define LD_N_ROLES 5

/* Name of bit i < LD_N_ROLES, as in the contract; and the bit of a name, 0 when there is none. */
const char *ld_role_name(size_t i);
unsigned ld_role_from_name(const char *name);

/* Names of tenants that a key spans, or the beginnings of some with `*` behind them; commas between them. */
#define LD_MAX_PATTERNS 8
#define LD_PATTERN_BYTES 65 /* a name and a star */
#define LD_PATTERNS_BYTES (LD_MAX_PATTERNS * (LD_PATTERN_BYTES + 1))

/* Who sent a request: what their key says of them. Without keys everybody is an admin. */
struct ld_caller {
    unsigned roles;                   /* an admin has them all */
    char tenant[65];                  /* the one that the key stands for; "": of no tenant, hence of any */
    char patterns[LD_PATTERNS_BYTES]; /* "": no others; else the key is good for the tenants that these name alone */
    char key[17];                     /* its id; "": of a key in the file, or none was asked for */
};

/* A caller of these roles, of no tenant and by no key. */
void ld_caller_set(struct ld_caller *caller, unsigned roles);

/* Whether it may ask about that tenant. "" is no tenant: who spans several has then named none yet. */
bool ld_caller_spans(const struct ld_caller *caller, const char *tenant);

#endif
