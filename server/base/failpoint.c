/* Failpoints: see failpoint.h. The table of names makes a misspelt one an error at the first passage instead of a
 * crash test that never crashes. Cost when none is set: a pthread_once and one comparison.
 *
 * The tests in tests/crash/ start the server with one armed, let it die, start it again and ask what it still knows.
 * In production the variable is not set, and a point costs what is said above; it is part of every build, so that
 * what is tested is what is shipped. */
#include "base/failpoint.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"

static const char *const NAMES[] = {"before_append",
                                    "after_append",
                                    "after_commit",
                                    "after_apply",
                                    "mid_snapshot",
                                    "mid_migration",
                                    "mid_graph",
                                    "mid_pieces",
                                    "mid_build",
                                    "mid_erasure",
                                    "mid_compaction",
                                    "mid_recovery",
                                    "mid_refold",
                                    "in_tick",
                                    "mid_key",
                                    "before_take",
                                    "after_take",
                                    "mid_follow",
                                    "before_shared_append",
                                    "after_shared_commit",
                                    "before_shared_erasure",
                                    "before_shared_rewrite",
                                    "after_shared_erasure",
                                    "mid_renewal",
                                    "before_renewal",
                                    "before_shared_summary",
                                    "before_shared_compaction",
                                    "after_shared_summary",
                                    "mid_shared_send",
                                    "before_shared_push",
                                    "after_shared_drop",
                                    "before_exchange",
                                    "after_exchange",
                                    "before_rewind"};

/* What the environment asked for. Written once, before any reader. */
static const char *armed;
static int armed_length;
static atomic_long passages_left;
static const char *gate; /* NULL: the point kills */

/* Whether the first n bytes of text are a failpoint's name. The table must name every point of failpoint.h; a name in
 * the code that is missing here can never be armed. */
static bool is_known(const char *text, size_t n)
{
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++)
        if (strlen(NAMES[i]) == n && memcmp(NAMES[i], text, n) == 0)
            return true;
    return false;
}

/* Strict on purpose: a count that does not parse would otherwise be a test of nothing. Depends on nothing but the
 * text: the tests try spellings without a process to kill. */
bool ld_failpoint_parse(const char *text, int *name_length, long *count)
{
    const size_t n = strcspn(text, ":@");
    char *end = NULL;

    if (!is_known(text, n))
        return false;
    *name_length = (int)n;
    *count = text[n] == '@' ? 0 : 1;
    if (text[n] == '\0' || text[n] == '@')
        return text[n] == '\0' || text[n + 1] != '\0';
    *count = strtol(text + n + 1, &end, 10);
    return end != text + n + 1 && *end == '\0' && *count >= 1;
}

/* Once in a process. A failpoint that does not exist ends it at once, and loudly: whoever set it wanted a death.
 * pthread_once makes the three variables visible to every thread that asks afterwards. */
static void arm(void)
{
    const char *text = getenv("LAPLACED_FAILPOINT");
    long count = 0;

    if (text == NULL || text[0] == '\0')
        return;
    if (!ld_failpoint_parse(text, &armed_length, &count)) {
        ld_log(LD_LOG_ERROR, "LAPLACED_FAILPOINT=%s: no such failpoint", text);
        abort();
    }
    passages_left = count;
    gate = count == 0 ? text + armed_length + 1 : NULL;
    armed = text;
    ld_log(LD_LOG_WARN, "failpoint armed: %s", text);
}

/* Whoever comes by waits: a disk that does not answer, a loop that hangs. */
static void wait_at_gate(void)
{
    const struct timespec pause = {.tv_nsec = 2000000};

    while (access(gate, F_OK) == 0)
        nanosleep(&pause, NULL);
}

/* Passages are counted over all tenants and threads; only the one that takes the counter from 1 to 0 dies, and it
 * takes everybody along. SIGKILL cannot be caught: no buffer is flushed, no lock released, as in a power cut, but
 * that what was written has reached the kernel. */
void ld_failpoint(const char *name)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, arm);
    if (armed == NULL)
        return;
    if (strlen(name) != (size_t)armed_length || memcmp(name, armed, (size_t)armed_length) != 0)
        return;
    if (gate != NULL)
        wait_at_gate();
    else if (atomic_fetch_sub(&passages_left, 1) == 1)
        raise(SIGKILL);
}
