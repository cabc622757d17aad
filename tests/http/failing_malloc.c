/* Preloaded into a server (e51_failing_malloc.py): one allocation in LD_FAIL_ONE_IN fails, in each library alike, from
 * the first SIGUSR2 to the second. */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

/* The C library's own, by names that nobody else has. */
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *memory, size_t n);

static atomic_uint one_in, wanted;
static _Thread_local uint64_t state;

static void turn(int signal)
{
    (void)signal;
    one_in = one_in != 0 ? 0 : wanted;
}

static __attribute__((constructor)) void begin(void)
{
    const char *text = getenv("LD_FAIL_ONE_IN");
    struct sigaction action = {.sa_handler = turn, .sa_flags = SA_RESTART};

    wanted = text != NULL ? (unsigned)strtoul(text, NULL, 10) : 0;
    sigaction(SIGUSR2, &action, NULL);
}

/* A xorshift of each thread's own. */
static int fails(void)
{
    const unsigned n = one_in;

    if (n == 0)
        return 0;
    if (state == 0)
        state = (uint64_t)gettid() * 0x9e3779b97f4a7c15u | 1;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    if ((state >> 20) % n != 0)
        return 0;
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t n)
{
    return fails() ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    return fails() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *memory, size_t n)
{
    return n > 0 && fails() ? NULL : __libc_realloc(memory, n);
}
