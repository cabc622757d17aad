/* The ceiling of every HTTP figure: a handler on the same server library, started as server/http.c starts it, that
 * reads the body, looks at none of it and answers a fixed one. What laplaced takes beyond it is laplaced's own.
 *
 *   bench_empty THREADS BYTES      BYTES: of the answer's body; ends on SIGTERM or SIGINT
 *
 * The first line of standard output names the address, its fourth word being the URL. */
#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char answer[1 << 16];
static size_t n_answer;

/* A reply is made for each request, as the server does; the body is copied neither here nor there. */
static enum MHD_Result serve(void *arg, struct MHD_Connection *c, const char *url, const char *method,
                             const char *version, const char *data, size_t *n, void **slot)
{
    static int seen;
    (void)arg, (void)url, (void)method, (void)version, (void)data;

    if (*slot == NULL) {
        *slot = &seen;
        return MHD_YES;
    }
    if (*n > 0) {
        *n = 0;
        return MHD_YES;
    }
    struct MHD_Response *r = MHD_create_response_from_buffer(n_answer, answer, MHD_RESPMEM_PERSISTENT);
    if (r == NULL)
        return MHD_NO;
    MHD_add_response_header(r, "Content-Type", "application/json");
    const enum MHD_Result rc = MHD_queue_response(c, 200, r);
    MHD_destroy_response(r);
    return rc;
}

static struct MHD_Daemon *start(unsigned threads)
{
    const struct MHD_OptionItem pool[] = {
        {threads > 1 ? MHD_OPTION_THREAD_POOL_SIZE : MHD_OPTION_END, (intptr_t)threads, NULL},
        {MHD_OPTION_END, 0, NULL}};
    const struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    return MHD_start_daemon(flags, 0, NULL, NULL, serve, NULL, MHD_OPTION_SOCK_ADDR, &at,
                            MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)32 << 10, MHD_OPTION_CONNECTION_LIMIT,
                            4096u * (threads > 0 ? threads : 1), MHD_OPTION_ARRAY, pool, MHD_OPTION_END);
}

int main(int argc, char **argv)
{
    sigset_t ends;
    int signal;

    if (argc != 3 || (n_answer = strtoul(argv[2], NULL, 10)) > sizeof answer) {
        fprintf(stderr, "usage: bench_empty THREADS BYTES\n");
        return 2;
    }
    memset(answer, ' ', sizeof answer);
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigprocmask(SIG_BLOCK, &ends, NULL); /* inherited by the library's threads */
    struct MHD_Daemon *d = start((unsigned)strtoul(argv[1], NULL, 10));
    const union MHD_DaemonInfo *info = d != NULL ? MHD_get_daemon_info(d, MHD_DAEMON_INFO_BIND_PORT) : NULL;
    if (info == NULL) {
        fprintf(stderr, "bench_empty: no server\n");
        return 1;
    }
    printf("empty listening on http://127.0.0.1:%u\n", (unsigned)info->port);
    fflush(stdout);
    sigwait(&ends, &signal);
    MHD_stop_daemon(d);
    return 0;
}
