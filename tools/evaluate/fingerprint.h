/* What a file was, so that a report can be made again: its name without the folder, its size and SHA-256. */
#ifndef LC_FINGERPRINT_H
#define LC_FINGERPRINT_H

#include <stdio.h>

struct ld_ope_report_file;

/* `role` and `path` are borrowed. f: read from its beginning in place of the file at path; NULL: none. 0, or -1 with
 * `why` (LC_WHY bytes). Reads the file once. */
int lc_fingerprint(struct ld_ope_report_file *out, const char *role, const char *path, FILE *f, char *why);

/* The SHA-256 of a text in base64, as a page's policy names a script. */
#define LC_DIGEST_BYTES 45
void lc_digest(const char *text, char out[LC_DIGEST_BYTES]);

#endif
