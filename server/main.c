/* laplaced: options, kernels, server. Everything else has a file of its own.
 *
 * Exit statuses: 0 after an orderly stop and for --help and the like, 1 when the server could not start, 2 when the
 * options do not make sense. */
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "app.h"
#include "auth.h"
#include "blas_core.h"
#include "log.h"
#include "options.h"
#include "tls.h"
#include "version.h"

/* Exit statuses: 1 could not run, 2 was asked for something impossible. */
enum { EXIT_USAGE = 2 };

/* Everything that ends the program before it serves is one line on stderr. */
static int fail(int status, const char *why)
{
    fprintf(stderr, "laplaced: %s\n", why);
    return status;
}

/* --check-config: what would be in force, keys and certificate included, which are read as a start would read them.
 * Nothing is opened for writing, so it can run beside a server. */
static int check(const struct ld_options *options)
{
    struct ld_auth *auth;
    struct ld_tls *tls;
    char why[LD_WHY_BYTES];
    ld_options_print(options, stdout);
    if (ld_auth_open(&auth, options->admin_key_file, why) != 0)
        return fail(EXIT_FAILURE, why);
    ld_auth_close(auth);
    if (options->tls_cert[0] == '\0')
        return EXIT_SUCCESS;
    if (ld_tls_open(&tls, options->tls_cert, options->tls_key, NULL, why) != 0)
        return fail(EXIT_FAILURE, why);
    ld_tls_close(tls);
    return EXIT_SUCCESS;
}

/* What one request frees the next one asks for: the ends of the C library's heaps are given back to the kernel in
 * pieces of megabytes, not of the 128 KiB that a few documents make, which would have each request's first touch of its
 * memory be a page fault. Setting any of these ends the library's own adaption, so the third keeps large arrays apart.
 */
static void settle_heap(void)
{
    mallopt(M_TRIM_THRESHOLD, 8 << 20);
    mallopt(M_TOP_PAD, 1 << 20);
    mallopt(M_MMAP_THRESHOLD, 4 << 20);
}

/* Options first: --help must work on a machine where nothing else does. The kernels are settled before any thread
 * exists, since that may start the program anew. The level of the log is set before the first line that may be
 * logged. Everything that follows belongs to app.c. */
int main(int argc, char **argv)
{
    struct ld_options options;
    char why[LD_WHY_BYTES];
    if (ld_options_parse(&options, argc, argv, getenv, why) != 0)
        return fail(EXIT_USAGE, why);
    if (options.action == LD_DO_HELP) {
        ld_options_help(stdout);
        return EXIT_SUCCESS;
    }
    if (options.action == LD_DO_VERSION) {
        puts("laplaced " LD_VERSION);
        return EXIT_SUCCESS;
    }
    if (ld_options_check(&options, why) != 0)
        return fail(EXIT_USAGE, why);
    ld_log_set_level((enum ld_log_level)options.log_level);
    if (options.action == LD_DO_CHECK)
        return check(&options);
    signal(SIGPIPE, SIG_IGN); /* a client that left shows as a failed write */
    signal(SIGXFSZ, SIG_IGN); /* a file size limit shows as a full disk, which is answered with 503 */
    ld_log_open(options.log_format == LD_LOG_JSON);
    ld_blas_core_settle(argv);
    settle_heap();
    return ld_app_run(&options, argc, argv);
}
