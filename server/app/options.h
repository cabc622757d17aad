/* The server's options: flags, environment, configuration file, defaults, in that order of precedence. One table
 * (option_table.h) drives parsing, --help and --check-config alike. */
#ifndef LD_OPTIONS_H
#define LD_OPTIONS_H

#include "app/option_table.h"
#include "base/message.h"

/* Reads all sources. env_of is getenv, or a test's. 0, or -1 with why naming the source and option. */
int ld_options_parse(struct ld_options *o, int argc, char *const *argv, char *(*env_of)(const char *name),
                     struct ld_message *why);

/* Where a service manager has handed a socket over, its address is where the server listens, whatever --listen says.
 * Before the rules are checked; 0, or -1 with why it cannot be served. */
int ld_options_take_socket(struct ld_options *o, char *(*env_of)(const char *name), struct ld_message *why);

/* The rules between options: an address that others can reach wants keys. 0 or -1 with why. */
int ld_options_check(const struct ld_options *o, struct ld_message *why);
void ld_options_refuse_keyless(const struct ld_options *o, struct ld_message *why); /* why that address is refused */

#endif
