/* Help for tests that look at files, or put others in their place. What fails ends the test. */
#ifndef KBT_FILES_H
#define KBT_FILES_H

#include <stddef.h>

/* Its bytes, with a zero behind them; for free(). */
unsigned char *kbt_read_file(const char *path, size_t *n);
void kbt_write_file(const char *path, const void *data, size_t n);
/* Nothing where there is none. */
void kbt_copy_file(const char *from, const char *to);

#endif
