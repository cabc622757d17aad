/* fsync and fdatasync that promise and do nothing, or only take their time (FSYNC_US): preloaded into a server, for
 * benches to compare durable commits with. A sleeping disk is the same at every hour, which a shared one is not. */
#include <stdlib.h>
#include <unistd.h>

static int pretend(void)
{
    const char *us = getenv("FSYNC_US");

    if (us != NULL)
        usleep((useconds_t)strtoul(us, NULL, 10));
    return 0;
}

int fsync(int fd)
{
    (void)fd;
    return pretend();
}

int fdatasync(int fd)
{
    (void)fd;
    return pretend();
}
