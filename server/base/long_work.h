/* Threads for work that takes seconds: models that are built, users that are erased. They are apart from the tenants'
 * writers and from the work pool, and behind both at the processor (a higher nice value), so that no amount of long
 * work keeps a decision or a commit waiting for a thread. */
#ifndef LD_LONG_WORK_H
#define LD_LONG_WORK_H

#include <stddef.h>

struct ld_long_work;

/* n_threads >= 1; none is started before there is work. after(arg) is called in a worker's thread after each job. */
int ld_long_work_new(struct ld_long_work **out, unsigned n_threads, void (*after)(void *arg), void *arg);
/* Runs what was given to its end, and ends the threads. NULL is fine. */
void ld_long_work_free(struct ld_long_work *w);

/* fn(arg) in a worker's thread, in order of arrival. From any thread. 0, or -1 without memory or threads, or when
 * `most` jobs wait already. */
int ld_long_work_add(struct ld_long_work *w, void (*fn)(void *arg), void *arg, size_t most);

#endif
