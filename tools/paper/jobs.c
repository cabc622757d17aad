/* One child process per run: runs share nothing, a crash is one failed run, and a record comes back as the bytes of its
 * struct (parent and child are one program, so its pointers to names mean the same in both).
 *
 * Processes rather than threads: CPU time is then a run's own by CLOCK_PROCESS_CPUTIME_ID, the allocator and caches of
 * one run do not see the other's, and OpenBLAS with one thread has nothing that a fork could break. A run is seconds to
 * minutes, a fork less than a millisecond.
 *
 * The parent waits with poll() on the pipes. A pipe that closes without a whole record is a run that failed; what the
 * child had to say stands on stderr. */
#include "paper/frame.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"

#define TICK_MS 200

/* A child at work: its pipe, and what came through it so far. */
struct job {
    pid_t pid; /* 0: free */
    int fd;
    size_t task, n_read;
    struct pb_record record;
};

/* ---- the child -------------------------------------------------------------------------------------------- */

/* A pipe takes a record in one piece as long as it is empty, but nothing promises it. */
static bool write_all(int fd, const void *data, size_t n)
{
    for (size_t done = 0; done < n;) {
        const ssize_t k = write(fd, (const char *)data + done, n - done);

        if (k < 0 && errno != EINTR)
            return false;
        done += k > 0 ? (size_t)k : 0;
    }
    return true;
}

/* Does not return. _exit: what the parent has buffered is the parent's to write. */
static void run_child(const struct pb_results *results, const struct pb_task *task, int fd)
{
    struct pb_record r;

    prctl(PR_SET_PDEATHSIG, SIGKILL); /* nobody would read the record of an orphan */
    const enum kb_err rc = pb_run(task->setting, task->algorithm, task->seed, task->rounds, &r);

    if (rc != KB_OK) {
        fprintf(stderr, "paperbench: %s/%s, seed %llu: %s\n", task->setting->name, task->algorithm->name,
                (unsigned long long)task->seed, kb_strerror(rc));
        _exit(1);
    }
    r.experiment = results->experiment->name;
    _exit(write_all(fd, &r, sizeof r) ? 0 : 1);
}

/* ---- the parent ------------------------------------------------------------------------------------------- */

/* KB_ELIMIT when the system gives no pipe or process. What is buffered is flushed before the fork, or the child would
 * hold a second copy of it. */
static enum kb_err start(struct job *job, const struct pb_results *results, size_t task)
{
    int fds[2];

    if (pipe(fds) != 0)
        return KB_ELIMIT;
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        close(fds[0]);
        run_child(results, &results->task[task], fds[1]);
    }
    close(fds[1]);
    if (pid < 0) {
        close(fds[0]);
        return KB_ELIMIT;
    }
    *job = (struct job){.pid = pid, .fd = fds[0], .task = task};
    return KB_OK;
}

static void finish(struct job *job, struct pb_results *results)
{
    struct pb_task *task = &results->task[job->task];
    int status = 0;

    close(job->fd);
    while (waitpid(job->pid, &status, 0) < 0 && errno == EINTR)
        continue;
    task->is_done = job->n_read == sizeof job->record && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (task->is_done)
        task->record = job->record;
    else
        results->n_failed++;
    if (WIFSIGNALED(status)) /* it could not say so itself */
        fprintf(stderr, "paperbench: %s/%s, seed %llu: killed by %s\n", task->setting->name, task->algorithm->name,
                (unsigned long long)task->seed, strsignal(WTERMSIG(status)));
    job->pid = 0;
}

static bool drain(struct job *job)
{
    char *at = (char *)&job->record + job->n_read;
    const ssize_t k = read(job->fd, at, sizeof job->record - job->n_read);

    if (k < 0)
        return errno != EINTR && errno != EAGAIN;
    job->n_read += (size_t)k;
    return k == 0 || job->n_read == sizeof job->record;
}

static void attend(struct job *job, size_t n_parallel, struct pollfd *fds, struct pb_results *results,
                   void (*done)(void *arg, const struct pb_task *task), void *arg)
{
    for (size_t i = 0; i < n_parallel; i++)
        fds[i] = (struct pollfd){.fd = job[i].pid != 0 ? job[i].fd : -1, .events = POLLIN};
    if (poll(fds, (nfds_t)n_parallel, TICK_MS) <= 0)
        return;
    for (size_t i = 0; i < n_parallel; i++) {
        if (fds[i].revents == 0 || !drain(&job[i]))
            continue;
        finish(&job[i], results);
        done(arg, &results->task[job[i].task]);
    }
}

/* Starts tasks while there are free places; returns the number of children at work. */
static enum kb_err fill_places(struct job *job, size_t n_parallel, struct pb_results *results, size_t *next,
                               size_t *n_busy)
{
    enum kb_err rc = KB_OK;

    *n_busy = 0;
    for (size_t i = 0; i < n_parallel; i++) {
        while (*next < results->n && results->task[*next].is_done)
            ++*next;
        if (job[i].pid == 0 && *next < results->n)
            KB_TRY(start(&job[i], results, (*next)++));
        *n_busy += job[i].pid != 0;
    }
out:
    return rc;
}

/* Children that are left when something failed here; nobody would read what they say. */
static void stop_all(struct job *job, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (job[i].pid == 0)
            continue;
        kill(job[i].pid, SIGTERM);
        waitpid(job[i].pid, NULL, 0);
        close(job[i].fd);
    }
}

/* Order of starting is the order of tasks; order of ending is chance. Nothing that is reported depends on it. */
enum kb_err pb_jobs_run(struct pb_results *results, size_t n_parallel,
                        void (*done)(void *arg, const struct pb_task *task), void (*tick)(void *arg), void *arg)
{
    struct job *job = kb_array(n_parallel, 1, sizeof *job);
    struct pollfd *fds = kb_array(n_parallel, 1, sizeof *fds);
    size_t next = 0, n_busy = 0;
    enum kb_err rc = KB_ENOMEM;

    if (job == NULL || fds == NULL)
        goto out;
    for (;;) {
        KB_TRY(fill_places(job, n_parallel, results, &next, &n_busy));
        if (n_busy == 0)
            break;
        attend(job, n_parallel, fds, results, done, arg);
        tick(arg);
    }
out:
    if (rc != KB_OK && job != NULL)
        stop_all(job, n_parallel);
    kb_free(job);
    kb_free(fds);
    return rc;
}
