/* What the front door asks of each request, left out: linked into a server of its own by `make bench-checks` (ld
 * --wrap), which measures the price of asking. The server itself has no such switch. */
#include <stdio.h>

#include "api/call.h"
#include "http/http_impl.h"

bool __wrap_ld_access_identify(struct ld_call *c, struct ld_problem *p);
bool __wrap_ld_access_allow(const struct ld_call *c, struct ld_problem *p);
bool __wrap_ld_charge(struct ld_call *c, double tokens, struct ld_problem *p);
bool __wrap_ld_charge_route(struct ld_call *c, struct ld_problem *p);
bool __wrap_ld_request_check_head(struct ld_request *r, const struct request_line *line);
bool __wrap_ld_connection_enter(struct ld_connection *c, enum connection_phase phase);
void __wrap_ld_connections_sweep(struct ld_connections *all, uint64_t now_ms);
void __wrap_ld_server_completed(void *arg, const struct ld_request *r, const struct ld_outcome *o);

__attribute__((constructor)) static void warn(void)
{
    fprintf(stderr, "built for a bench, without what the front door asks: everybody may do everything\n");
}

/* Whose key it is and what it may do. */
bool __wrap_ld_access_identify(struct ld_call *c, struct ld_problem *p)
{
    (void)p;
    c->caller = (struct ld_caller){.roles = LD_ALL_ROLES};
    return true;
}

bool __wrap_ld_access_allow(const struct ld_call *c, struct ld_problem *p)
{
    (void)c;
    (void)p;
    return true;
}

/* The tenant's rate. */
bool __wrap_ld_charge(struct ld_call *c, double tokens, struct ld_problem *p)
{
    (void)c;
    (void)tokens;
    (void)p;
    return true;
}

bool __wrap_ld_charge_route(struct ld_call *c, struct ld_problem *p)
{
    (void)c;
    (void)p;
    return true;
}

/* The form of the head. */
bool __wrap_ld_request_check_head(struct ld_request *r, const struct request_line *line)
{
    (void)r;
    (void)line;
    return true;
}

/* Deadlines. */
bool __wrap_ld_connection_enter(struct ld_connection *c, enum connection_phase phase)
{
    (void)c;
    (void)phase;
    return true;
}

void __wrap_ld_connections_sweep(struct ld_connections *all, uint64_t now_ms)
{
    (void)all;
    (void)now_ms;
}

/* Counting and logging. */
void __wrap_ld_server_completed(void *arg, const struct ld_request *r, const struct ld_outcome *o)
{
    (void)arg;
    (void)r;
    (void)o;
}
