/* Preloaded into a server (b44_stream.py): an answer of unknown length, as a stream is, takes LD_STREAM_DELAY_MS before
 * it begins, as it may on a machine that is busy. */
#include <dlfcn.h>
#include <microhttpd.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct MHD_Response *create(uint64_t, size_t, MHD_ContentReaderCallback, void *, MHD_ContentReaderFreeCallback);

struct MHD_Response *MHD_create_response_from_callback(uint64_t size, size_t block, MHD_ContentReaderCallback reader,
                                                       void *arg, MHD_ContentReaderFreeCallback done)
{
    create *real = (create *)dlsym(RTLD_NEXT, "MHD_create_response_from_callback");
    const char *ms = getenv("LD_STREAM_DELAY_MS");

    if (size == MHD_SIZE_UNKNOWN && ms != NULL)
        usleep((useconds_t)strtoul(ms, NULL, 10) * 1000);
    return real(size, block, reader, arg, done);
}
