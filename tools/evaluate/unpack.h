/* Streams of bytes from files that may be packed: plain, gzip or zstd, told apart by their first bytes. */
#ifndef LC_UNPACK_H
#define LC_UNPACK_H

#include <stdio.h>

/* A stream of what `file` holds, unpacked when it is packed. It takes the file over: fclose of the stream closes it,
 * and so does a failure. NULL: no memory. Reading ends with ferror and errno EBADMSG where packed data are damaged or
 * cut. It cannot seek. */
FILE *lc_unpack(FILE *file);

#endif
