/* The table behind the options: how each is spelled, what it takes, its default and its help. For options.c (parsing)
 * and option_table.c (the table itself, and what is printed from it). */
#ifndef LD_OPTION_TABLE_H
#define LD_OPTION_TABLE_H

#include "app/options.h"

/* What a value looks like: a text, a numeric HOST:PORT, a name, a whole number, one with an optional unit, any number,
 * a boolean, a level's name. All but the first three end up in a number. */
enum ld_option_kind {
    LD_OPTION_TEXT,
    LD_OPTION_ADDRESS,
    LD_OPTION_TENANT, /* a name that a tenant may have */
    LD_OPTION_COUNT,
    LD_OPTION_SIZE,
    LD_OPTION_REAL,
    LD_OPTION_FLAG,
    LD_OPTION_LEVEL,
    LD_OPTION_WORD /* one of those that stand in `value`, with bars between them; counted from 0 */
};

/* When a value that changed in the configuration file counts: after a restart, or at once, on SIGHUP (reload.c). */
enum ld_option_when { LD_AT_START, LD_LIVE };

/* One option. `preset` is parsed like any other value, so a default cannot be out of its own range unnoticed. */
struct ld_option_row {
    const char *name, *value; /* value: what --help calls the argument */
    enum ld_option_kind kind;
    size_t at, bytes;  /* of the field in struct ld_options; bytes of a text */
    uint64_t min, max; /* of a real: powers of ten */
    const char *preset, *help;
    enum ld_option_when when;
};

/* Row LD_CONFIG_ROW names the file that the others may come from. */
enum { LD_CONFIG_ROW = 0 };
extern const struct ld_option_row ld_option_table[];
extern const size_t ld_n_options; /* rows; at most LD_MAX_OPTIONS */

/* Word i of an LD_OPTION_WORD; false: there is none. */
bool ld_option_word(const struct ld_option_row *row, size_t i, char out[32]);

/* Whether its field holds a text. */
bool ld_option_is_text(const struct ld_option_row *row);

/* LAPLACED_NAME, capitals and underscores. */
void ld_option_env_name(const struct ld_option_row *row, char out[64]);

/* The value of row i in force. */
#define LD_OPTION_TEXT_BYTES 512
void ld_option_text(const struct ld_options *o, size_t i, char out[LD_OPTION_TEXT_BYTES]);

/* Whether both have the same value of row i; *to gets it from *from. */
bool ld_option_is_same(const struct ld_options *a, const struct ld_options *b, size_t i);
void ld_option_copy(struct ld_options *to, const struct ld_options *from, size_t i);

#endif
