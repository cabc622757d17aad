/* Requests that pay for their work (price.h) from their tenant's bucket (limit.h), before any of it is done. */
#ifndef LD_CHARGE_H
#define LD_CHARGE_H

#include <stdbool.h>

#include "base/problem.h"

struct ld_app;
struct ld_route;
struct ld_tenant;

/* Takes the tokens. False: they are not there; then none was taken, and p says 429 and when to come again. */
bool ld_charge(struct ld_app *app, struct ld_tenant *t, double tokens, struct ld_problem *p);

/* The same for a request whose body nobody has looked at: takes what the route costs or, where that depends on the
 * body, looks whether the least of it is there, so that a tenant over its rate costs next to nothing. */
bool ld_charge_route(struct ld_app *app, struct ld_tenant *t, const struct ld_route *route, struct ld_problem *p);

#endif
