/* laplaced: options, kernels, server. Everything else has a file of its own.
 *
 * Exit statuses: 0 after an orderly stop and for --help and the like, 1 when the server could not start, 2 when the
 * options do not make sense. */
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "app/app.h"
#include "keys/auth.h"
#include "app/blas_core.h"
#include "app/blas_memory.h"
#include "base/log.h"
#include "app/options.h"
#include "http/tls.h"
#include "base/version.h"

/* Exit statuses: 1 could not run, 2 was asked for something impossible. */
enum { EXIT_USAGE = 2 };

#define LEAST_HEAP ((size_t)64 << 20)

/* Everything that ends the program before it serves is one line on stderr. */
static int fail(int status, const struct ld_message *why)
{
    fprintf(stderr, "laplaced: %s\n", why->text);
    return status;
}

/* --check-config: what would be in force, keys and certificate included, which are read as a start would read them.
 * Nothing is opened for writing, so it can run beside a server. */
static int check(const struct ld_options *options)
{
    struct ld_auth *auth;
    struct ld_tls *tls;
    struct ld_message why = {""};
    ld_options_print(options, stdout);
    if (ld_auth_open(&auth, options->admin_key_file, &why) != 0)
        return fail(EXIT_FAILURE, &why);
    ld_auth_close(auth);
    if (options->tls_cert[0] == '\0')
        return EXIT_SUCCESS;
    if (ld_tls_open(&tls, options->tls_cert, options->tls_key, NULL, &why) != 0)
        return fail(EXIT_FAILURE, &why);
    ld_tls_close(tls);
    return EXIT_SUCCESS;
}

/* What one request frees the next one asks for: the ends of the C library's heaps are given back to the kernel in
 * pieces of megabytes, not of the 128 KiB that a few documents make, which would have each request's first touch of its
 * memory be a page fault. Setting any of these ends the library's own adaption, so the third keeps large arrays apart.
 * Where addresses are limited there is one heap for all threads: each further one would take 64 MB of them. */
static void settle_heap(void)
{
    struct rlimit addresses;

    if (getrlimit(RLIMIT_AS, &addresses) == 0 && addresses.rlim_cur != RLIM_INFINITY)
        mallopt(M_ARENA_MAX, 1);
    mallopt(M_TRIM_THRESHOLD, 8 << 20);
    mallopt(M_TOP_PAD, 1 << 20);
    mallopt(M_MMAP_THRESHOLD, 4 << 20);
}

/* Room for as many computations at a time as there are cores to make them, twice, and for those that are niced behind
 * them; what is left is for the stacks of all threads, those that libuv and we start later among them, and for a heap
 * to start with. */
static int reserve_blas_memory(const struct ld_options *options, struct ld_message *why)
{
    const size_t n_cores = (size_t)sysconf(_SC_NPROCESSORS_ONLN), n_threads = options->threads + 3 * n_cores + 24;
    const size_t want = options->threads + 2 * n_cores + 4;
    pthread_attr_t attr;
    size_t stack = 8 << 20, bytes;

    if (pthread_attr_init(&attr) == 0)
        pthread_attr_getstacksize(&attr, &stack);
    const size_t n = ld_blas_memory_reserve(want, n_threads * stack + LEAST_HEAP, &bytes);
    if (n == 0)
        ld_fail(why,
                "not enough memory may be mapped: threads want %zu MB of addresses, and a computation %zu MB "
                "(ulimit -v, ulimit -s, or vm.overcommit_memory = 2)",
                (n_threads * stack + LEAST_HEAP) >> 20, bytes >> 20);
    else if (n < want && n < n_cores + 2)
        ld_log(LD_LOG_WARN,
               "room for %zu computations at a time: each maps %zu MB (ulimit -v, or vm.overcommit_memory = 2)", n,
               bytes >> 20);
    return n > 0 ? 0 : -1;
}

/* Options first: --help must work on a machine where nothing else does. The kernels are settled before any thread
 * exists, since that may start the program anew. The level of the log is set before the first line that may be
 * logged. Everything that follows belongs to app.c. */
int main(int argc, char **argv)
{
    struct ld_options options;
    struct ld_message why = {""};
    if (ld_options_parse(&options, argc, argv, getenv, &why) != 0)
        return fail(EXIT_USAGE, &why);
    if (options.action == LD_DO_HELP) {
        ld_options_help(stdout);
        return EXIT_SUCCESS;
    }
    if (options.action == LD_DO_VERSION) {
        puts("laplaced " LD_VERSION);
        return EXIT_SUCCESS;
    }
    if (options.action == LD_DO_SERVE && ld_options_take_socket(&options, getenv, &why) != 0)
        return fail(EXIT_USAGE, &why);
    if (ld_options_check(&options, &why) != 0)
        return fail(EXIT_USAGE, &why);
    ld_log_set_level((enum ld_log_level)options.log_level);
    if (options.action == LD_DO_CHECK)
        return check(&options);
    signal(SIGPIPE, SIG_IGN); /* a client that left shows as a failed write */
    signal(SIGXFSZ, SIG_IGN); /* a file size limit shows as a full disk, which is answered with 503 */
    ld_log_open(options.log_format == LD_LOG_JSON);
    ld_blas_core_settle(argv);
    settle_heap();
    if (reserve_blas_memory(&options, &why) != 0)
        return fail(EXIT_FAILURE, &why);
    return ld_app_run(&options, argc, argv);
}
