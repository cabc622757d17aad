/* OpenBLAS's work memory (blas_memory.h).
 *
 * Each of its calls that needs a buffer asks `blas_memory_alloc`, a function that the library exports and calls through
 * its own table of symbols. The one below stands before it: it waits for one of n places and then calls the library's.
 * The library hands out the first buffer that is free, under a lock, so n calls at a time never get beyond the first n,
 * and those are mapped.
 *
 * A call that waits holds no place, and one that has a place waits for nothing, so they cannot wait for each other: no
 * call of the library takes a second buffer (test: every_call_takes_one_buffer_at_a_time).
 *
 * Cost: a semaphore's two atomic operations, for calls of microseconds and more. */
#include "app/blas_memory.h"

#include <assert.h>
#include <dlfcn.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MOST_BUFFERS 48u /* any build of the library has places for so many */
#define USUAL_BYTES ((size_t)128 << 20)
#define PIECE_BYTES ((size_t)16 << 20)

/* The library's names; its header that declares them is not installed. */
void *blas_memory_alloc(int position);
void blas_memory_free(void *buffer);

static sem_t place;
static _Atomic bool is_limited;
static _Atomic size_t n_taken;

/* A function cannot be converted to what dlsym returns, hence the bytes. */
static void *library_alloc(int position)
{
    static _Atomic(void *(*)(int)) known;
    void *(*alloc)(int) = atomic_load_explicit(&known, memory_order_relaxed);

    if (alloc == NULL) {
        void *found = dlsym(RTLD_NEXT, "blas_memory_alloc");
        assert(found != NULL);
        memcpy(&alloc, &found, sizeof found);
        atomic_store_explicit(&known, alloc, memory_order_relaxed);
    }
    return alloc(position);
}

static void library_free(void *buffer)
{
    static _Atomic(void (*)(void *)) known;
    void (*release)(void *) = atomic_load_explicit(&known, memory_order_relaxed);

    if (release == NULL) {
        void *found = dlsym(RTLD_NEXT, "blas_memory_free");
        assert(found != NULL);
        memcpy(&release, &found, sizeof found);
        atomic_store_explicit(&known, release, memory_order_relaxed);
    }
    release(buffer);
}

void *blas_memory_alloc(int position)
{
    atomic_fetch_add_explicit(&n_taken, 1, memory_order_relaxed);
    if (atomic_load_explicit(&is_limited, memory_order_acquire))
        while (sem_wait(&place) != 0)
            continue; /* a signal */
    return library_alloc(position);
}

void blas_memory_free(void *buffer)
{
    library_free(buffer);
    if (atomic_load_explicit(&is_limited, memory_order_acquire))
        sem_post(&place);
}

size_t ld_blas_memory_n_taken(void)
{
    return atomic_load_explicit(&n_taken, memory_order_relaxed);
}

/* ---- the reserve ------------------------------------------------------------------------------------------ */

/* Addresses of the process in bytes; 0 where the kernel does not tell. */
static size_t address_bytes(void)
{
    unsigned long n_pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");

    if (f == NULL || fscanf(f, "%lu", &n_pages) != 1)
        n_pages = 0;
    if (f != NULL)
        fclose(f);
    return (size_t)n_pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* Whether so much could be mapped now. What the library maps is private and writable, as stacks are, and so is this: a
 * kernel that counts what it has promised says no to all or to none. In pieces, since one that only looks for what is
 * obviously too much looks at each by itself. A piece has the place of the one before in its first word. */
static bool has_room(size_t bytes)
{
    void *last = NULL;
    bool is_there = true;

    for (size_t n = 0; is_there && n < bytes; n += PIECE_BYTES) {
        void **at = mmap(NULL, PIECE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        is_there = at != MAP_FAILED;
        if (is_there) {
            *at = last;
            last = at;
        }
    }
    while (last != NULL) {
        void *before = *(void **)last;

        (void)munmap(last, PIECE_BYTES);
        last = before;
    }
    return is_there;
}

size_t ld_blas_memory_reserve(size_t n, size_t spare, size_t *bytes)
{
    void *buffer[MOST_BUFFERS];
    const size_t before = address_bytes(), most = n < MOST_BUFFERS ? n : MOST_BUFFERS;
    size_t n_mapped = 0;

    for (*bytes = USUAL_BYTES; n_mapped < most && has_room(*bytes + spare); n_mapped++) {
        buffer[n_mapped] = library_alloc(0);
        if (n_mapped == 0 && address_bytes() > before + *bytes)
            *bytes = address_bytes() - before; /* another build's */
    }
    for (size_t i = 0; i < n_mapped; i++)
        library_free(buffer[i]);
    sem_init(&place, 0, (unsigned)n_mapped);
    atomic_store_explicit(&is_limited, n_mapped > 0, memory_order_release);
    return n_mapped;
}
