/* Whether this is the server, or the one that `make bench-checks` sets beside it: MODE=unchecked leaves out what the
 * front door asks of every request (keys and roles, rates, deadlines, members that nobody knows, counting), so that the
 * price of asking can be measured (docs/SPEED.md). Write `if (LD_CHECKED && ...)`: both are compiled always, one is
 * left out. */
#ifndef LD_CHECKED_H
#define LD_CHECKED_H

#ifdef LD_UNCHECKED
enum { LD_CHECKED = 0 };
#else
enum { LD_CHECKED = 1 };
#endif

#endif
