/* The server and the clients of HTTP benches (bench_http.h).
 *
 * A client writes a request in one call and reads the answer by its Content-Length. Whatever goes wrong ends the bench:
 * its figures would mean nothing. */
#include "bench_http.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench_machine.h"

#define HEAD_BYTES 1024

double bench_now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* --- the server --------------------------------------------------------------------------------------------- */

/* Its standard output is a pipe, whose first line names the port; its log goes to FOLDER.log. */
static void run_server(const struct bench_server *s, int out)
{
    char log[4096];

    snprintf(log, sizeof log, "%s.log", s->folder);
    dup2(out, STDOUT_FILENO);
    if (freopen(log, "a", stderr) == NULL)
        _exit(1);
    execl(s->program, s->program, "--data", s->folder, "--listen", "127.0.0.1:0", s->option[0], s->option[1],
          (char *)NULL);
    _exit(127);
}

/* The greeting stands when the tenants are open. */
static int greeting_port(int fd)
{
    char line[256];
    size_t n = 0;

    while (n + 1 < sizeof line && read(fd, line + n, 1) == 1 && line[n] != '\n')
        n++;
    line[n] = '\0';
    const char *colon = strrchr(line, ':');
    return strstr(line, "listening") != NULL && colon != NULL ? atoi(colon + 1) : 0;
}

/* User and system time: unlike the clock's, hardly longer on a machine that has other things to do. */
static double cpu_seconds(pid_t pid)
{
    char path[64];
    unsigned long user = 0, system = 0;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return 0;
    if (fscanf(f, "%*d %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %lu %lu", &user, &system) != 2)
        user = system = 0;
    fclose(f);
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

double bench_server_start(struct bench_server *s)
{
    const double start_us = bench_now_us();
    int ends[2];
    struct bench_client c;

    if (pipe(ends) != 0 || (s->pid = fork()) < 0)
        bench_die("bench", "starting the server");
    if (s->pid == 0)
        run_server(s, ends[1]);
    close(ends[1]);
    s->port = greeting_port(ends[0]);
    close(ends[0]);
    if (s->port == 0)
        bench_die("bench", "the server's start (see the log beside its folder)");
    bench_client_open(&c, s, "default");
    while (bench_call(&c, "GET", "/readyz", NULL, "", 0) != 200)
        usleep(1000);
    bench_client_close(&c);
    s->start_cpu_s = cpu_seconds(s->pid);
    return (bench_now_us() - start_us) * 1e-6;
}

void bench_server_stop(struct bench_server *s, int signal)
{
    kill(s->pid, signal);
    waitpid(s->pid, NULL, 0);
    s->pid = 0;
}

/* --- a client ------------------------------------------------------------------------------------------------- */

void bench_client_open(struct bench_client *c, const struct bench_server *s, const char *tenant)
{
    const struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)s->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int on = 1;

    *c = (struct bench_client){.port = s->port, .tenant = tenant, .fd = socket(AF_INET, SOCK_STREAM, 0)};
    if (c->fd < 0 || connect(c->fd, (const struct sockaddr *)&at, sizeof at) != 0)
        bench_die("bench", "connect");
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

void bench_client_close(struct bench_client *c)
{
    close(c->fd);
    free(c->buffer);
    *c = (struct bench_client){.fd = -1};
}

static void need(struct bench_client *c, size_t n)
{
    if (n <= c->cap)
        return;
    c->cap = 2 * n;
    c->buffer = realloc(c->buffer, c->cap);
    if (c->buffer == NULL)
        bench_die("bench", "memory");
}

static void write_all(struct bench_client *c, const char *bytes, size_t n)
{
    while (n > 0) {
        const ssize_t done = send(c->fd, bytes, n, MSG_NOSIGNAL);

        if (done <= 0)
            bench_die("bench", "sending a request");
        bytes += done;
        n -= (size_t)done;
    }
}

static void read_some(struct bench_client *c)
{
    need(c, c->n + 65536);
    const ssize_t got = recv(c->fd, c->buffer + c->n, c->cap - c->n - 1, 0);

    if (got <= 0)
        bench_die("bench", "reading an answer");
    c->n += (size_t)got;
    c->buffer[c->n] = '\0';
}

/* The head ends at an empty line, the body after as many bytes as the head says. */
static int read_answer(struct bench_client *c)
{
    const char *end = NULL;
    size_t n_body = 0;
    int status = 0;

    c->n = 0;
    do
        read_some(c);
    while ((end = strstr(c->buffer, "\r\n\r\n")) == NULL);
    const size_t n_head = (size_t)(end - c->buffer) + 4;
    const char *length = strcasestr(c->buffer, "\r\nContent-Length:");
    if (length != NULL && length < end)
        n_body = strtoul(length + 17, NULL, 10);
    while (c->n < n_head + n_body)
        read_some(c);
    c->body = c->buffer + n_head;
    return sscanf(c->buffer, "HTTP/1.1 %d", &status) == 1 ? status : 0;
}

int bench_call(struct bench_client *c, const char *method, const char *path, const char *type, const char *body,
               size_t n)
{
    need(c, n + HEAD_BYTES);
    const int n_head =
        snprintf(c->buffer, HEAD_BYTES,
                 "%s %s HTTP/1.1\r\nHost: bench\r\nLaplaced-Tenant: %s\r\nContent-Length: %zu\r\n%s%s\r\n\r\n", method,
                 path, c->tenant, n, type != NULL ? "Content-Type: " : "Accept: */*", type != NULL ? type : "");

    if (n_head < 0 || n_head >= HEAD_BYTES)
        bench_die("bench", "a request's head");
    if (n > 0)
        memcpy(c->buffer + n_head, body, n);
    write_all(c, c->buffer, (size_t)n_head + n);
    return read_answer(c);
}

/* --- times ------------------------------------------------------------------------------------------------------ */

void bench_times_add(struct bench_times *t, double us)
{
    if (t->n == t->cap) {
        t->cap = t->cap > 0 ? 2 * t->cap : 4096;
        t->us = realloc(t->us, t->cap * sizeof *t->us);
        if (t->us == NULL)
            bench_die("bench", "memory");
    }
    t->us[t->n++] = us;
}

void bench_times_join(struct bench_times *to, struct bench_times *from)
{
    for (size_t i = 0; i < from->n; i++)
        bench_times_add(to, from->us[i]);
    bench_times_close(from);
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_times_at(struct bench_times *t, double share)
{
    if (t->n == 0)
        return 0;
    qsort(t->us, t->n, sizeof *t->us, compare);
    const size_t i = (size_t)(share * (double)t->n);
    return t->us[i < t->n ? i : t->n - 1];
}

void bench_times_close(struct bench_times *t)
{
    free(t->us);
    *t = (struct bench_times){0};
}
