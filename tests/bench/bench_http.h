/* A server of a bench's own and clients that keep their connection, for benches over real sockets and real files. */
#ifndef BENCH_HTTP_H
#define BENCH_HTTP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A laplaced process on a folder; a second start on the same folder recovers what the first has left. */
struct bench_server {
    const char *program, *folder;
    const char *option[3]; /* up to two words more, NULL at the end */
    pid_t pid;
    int port;
    double start_cpu_s; /* processor time that it had had when it answered */
};

/* Returns when the server answers; the seconds that took. Ends the process when it does not start. */
double bench_server_start(struct bench_server *s);
void bench_server_stop(struct bench_server *s, int signal); /* SIGTERM or SIGKILL; waits for the end */

/* One connection; requests one after the other. */
struct bench_client {
    int port, fd;
    const char *tenant;
    char *buffer; /* the answer: head and body, NUL-terminated */
    size_t n, cap;
    const char *body;
};

void bench_client_open(struct bench_client *c, const struct bench_server *s, const char *tenant);
void bench_client_close(struct bench_client *c);

/* The status of the answer, whose body is in c->body. Ends the process when the connection breaks. */
int bench_call(struct bench_client *c, const char *method, const char *path, const char *type, const char *body,
               size_t n);

/* Times of one kind of request. */
struct bench_times {
    double *us;
    size_t n, cap;
};

double bench_now_us(void);
void bench_times_add(struct bench_times *t, double us);
void bench_times_join(struct bench_times *to, struct bench_times *from); /* `from` is empty then */
double bench_times_at(struct bench_times *t, double share);              /* 0.999: the p99.9; 1: the longest. Sorts. */
void bench_times_close(struct bench_times *t);

#endif
