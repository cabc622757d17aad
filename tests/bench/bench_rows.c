/* The ceiling of durable answers: the server's HTTP and a tenant's file, and nothing between them. A body is not looked
 * at; a line of the log such as a decision over a catalogue leaves is committed with those of all that came meanwhile,
 * and answered when it is on the disk. What laplaced takes beyond it is parsing, deciding and its model.
 *
 *   bench_rows FILE THREADS BYTES      FILE: the log, made; BYTES: of the answer's body; ends on SIGTERM or SIGINT
 *
 * The first line of standard output names the address, its fourth word being the URL. */
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "spec/event.h"
#include "http/http.h"
#include "base/metrics.h"
#include "store/store.h"
#include "base/ulid.h"

#define MOST 4096 /* connections, hence requests that wait */
#define LINE_BYTES 220
#define WAL_BYTES (8 << 20) /* moved into the file, as the server does */
#define LOOK_NS 100000000L

static struct ld_store *store;
static struct ld_metrics metrics;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t has_come = PTHREAD_COND_INITIALIZER;
static struct ld_request *waiting[MOST];
static size_t n_waiting, n_answer;
static char line[LINE_BYTES + 1];

static size_t admit(void *arg, struct ld_request *r)
{
    (void)arg, (void)r;
    return 1u << 20;
}

static void handle(void *arg, struct ld_request *r)
{
    (void)arg;
    pthread_mutex_lock(&lock);
    waiting[n_waiting++] = r;
    const bool is_first = n_waiting == 1;
    pthread_mutex_unlock(&lock);
    if (is_first)
        pthread_cond_signal(&has_come);
}

static void answer(void *arg)
{
    char *text = malloc(n_answer + 1);
    if (text != NULL)
        memset(text, ' ', n_answer);
    ld_reply(arg, &(struct ld_reply){.text = text, .n = n_answer});
}

static size_t take(struct ld_request **out)
{
    pthread_mutex_lock(&lock);
    while (n_waiting == 0)
        pthread_cond_wait(&has_come, &lock);
    const size_t n = n_waiting;
    memcpy(out, waiting, n * sizeof *out);
    n_waiting = 0;
    pthread_mutex_unlock(&lock);
    return n;
}

static void *commit(void *arg)
{
    static struct ld_request *taken[MOST];
    static struct ld_row row[MOST];
    static char id[MOST][LD_ULID_BYTES];
    struct ld_message why;
    (void)arg;
    for (uint64_t seq = 0;;) {
        const size_t n = take(taken);
        const int64_t now_ms = ld_now_ms();
        for (size_t i = 0; i < n; i++) {
            ld_ulid(now_ms, id[i]);
            row[i] = (struct ld_row){.seq = ++seq,
                                     .at_ms = now_ms,
                                     .type = KB_EV_DECIDED,
                                     .decision = id[i],
                                     .user = "u100",
                                     .arm = "a10",
                                     .reward = NAN,
                                     .text = line,
                                     .n_text = LINE_BYTES};
        }
        if (ld_store_append(store, row, n, why) != LD_STORE_OK) {
            fprintf(stderr, "bench_rows: %s\n", why.text);
            _exit(1);
        }
        ld_http_hold_replies();
        for (size_t i = 0; i < n; i++)
            ld_request_reply_by(taken[i], answer, taken[i]);
        ld_http_send_replies();
    }
    return NULL;
}

static void *move(void *arg)
{
    const struct timespec look = {.tv_nsec = LOOK_NS};
    (void)arg;
    for (;;) {
        nanosleep(&look, NULL);
        if (ld_store_wal_bytes(store) > WAL_BYTES)
            ld_store_checkpoint(store);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    static const struct ld_http_hooks hooks = {.admit = admit, .handle = handle};
    struct ld_http_options o = {
        .host = "127.0.0.1", .max_head = 16u << 10, .max_connections = MOST, .metrics = &metrics};
    struct ld_http *http;
    pthread_t thread;
    sigset_t ends;
    int signal;
    struct ld_message why = {"usage: bench_rows FILE THREADS BYTES"};

    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigprocmask(SIG_BLOCK, &ends, NULL); /* inherited by all threads */
    memset(line, 'x', LINE_BYTES);
    o.threads = argc == 4 ? (unsigned)strtoul(argv[2], NULL, 10) : 0;
    n_answer = argc == 4 ? strtoul(argv[3], NULL, 10) : 0;
    if (o.threads == 0 || ld_store_open(&store, argv[1], false, why) != LD_STORE_OK ||
        pthread_create(&thread, NULL, commit, NULL) != 0 || pthread_create(&thread, NULL, move, NULL) != 0 ||
        ld_http_start(&http, &o, &hooks, &why) != 0) {
        fprintf(stderr, "%s\n", why.text);
        return 1;
    }
    printf("rows listening on http://127.0.0.1:%d\n", ld_http_port(http));
    fflush(stdout);
    sigwait(&ends, &signal);
    _exit(0); /* its threads end with it */
}
