/* The ceiling of every HTTP figure: a handler on the same server library, started as server/http/http.c starts it, that
 * reads the body, looks at none of it and answers a fixed one. What laplaced takes beyond it is laplaced's own.
 *
 *   bench_empty THREADS BYTES      BYTES: of the answer's body; ends on SIGTERM or SIGINT
 *
 * The first line of standard output names the address, its fourth word being the URL. */
#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

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

#define MOST_THREADS 256

static struct MHD_Daemon *daemon_of[MOST_THREADS];
static unsigned n_threads;

static int start_all(void)
{
    const unsigned flags =
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;

    for (unsigned i = 0; i < n_threads; i++) {
        daemon_of[i] = MHD_start_daemon(flags, 0, NULL, NULL, serve, NULL, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                                        (size_t)32 << 10, MHD_OPTION_CONNECTION_LIMIT, 4096u, MHD_OPTION_END);
        if (daemon_of[i] == NULL)
            return -1;
    }
    return 0;
}

static int listen_on(unsigned *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    const int fd = socket(AF_INET, SOCK_STREAM, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&at, n) != 0 || listen(fd, 4096) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &n) != 0)
        return -1;
    *port = ntohs(at.sin_port);
    return fd;
}

/* Connections in turn to the threads, as server/http/http_accept.c has it, so that the ceiling uses every core, too. */
static void *accept_all(void *arg)
{
    const int listener = *(const int *)arg;

    for (unsigned i = 0;; i = (i + 1) % n_threads) {
        struct sockaddr_storage from;
        socklen_t n = sizeof from;
        const int fd = accept(listener, (struct sockaddr *)&from, &n);

        if (fd >= 0)
            MHD_add_connection(daemon_of[i], fd, (struct sockaddr *)&from, n);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    sigset_t ends;
    pthread_t accepting;
    unsigned port = 0;
    int signal;

    if (argc != 3 || (n_answer = strtoul(argv[2], NULL, 10)) > sizeof answer ||
        (n_threads = (unsigned)strtoul(argv[1], NULL, 10)) > MOST_THREADS) {
        fprintf(stderr, "usage: bench_empty THREADS BYTES\n");
        return 2;
    }
    n_threads += n_threads == 0;
    memset(answer, ' ', sizeof answer);
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigprocmask(SIG_BLOCK, &ends, NULL); /* inherited by all threads */
    int listener = listen_on(&port);
    if (listener < 0 || start_all() != 0 || pthread_create(&accepting, NULL, accept_all, &listener) != 0) {
        fprintf(stderr, "bench_empty: no server\n");
        return 1;
    }
    printf("empty listening on http://127.0.0.1:%u\n", port);
    fflush(stdout);
    sigwait(&ends, &signal);
    return 0; /* its threads end with it */
}
