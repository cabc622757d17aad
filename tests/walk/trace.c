/* Writes down which functions of the server are entered, one behind the other, so that walk.py can count the files of a
 * request's walk. Linked into the build MODE=walk alone, in which gcc calls the function below at each entry of a
 * function of server/. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MOST ((size_t)1 << 21)

/* A line of the file that LAPLACED_WALK names: walk.py reads them by this layout. */
struct entry {
    uint64_t function, thread;
};

static struct entry *entries;
static atomic_size_t n_entries;

static __attribute__((constructor)) void begin(void)
{
    const char *path = getenv("LAPLACED_WALK");
    const int fd = path != NULL ? open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600) : -1;

    if (fd < 0 || ftruncate(fd, MOST * sizeof *entries) != 0)
        return;
    void *map = mmap(NULL, MOST * sizeof *entries, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    entries = map != MAP_FAILED ? map : NULL;
    close(fd);
}

void __cyg_profile_func_enter(void *function, void *site);
void __cyg_profile_func_exit(void *function, void *site);

void __cyg_profile_func_enter(void *function, void *site)
{
    (void)site;
    const size_t i = entries != NULL ? atomic_fetch_add(&n_entries, 1) : MOST;
    if (i < MOST)
        entries[i] = (struct entry){(uint64_t)(uintptr_t)function, (uint64_t)syscall(SYS_gettid)};
}

void __cyg_profile_func_exit(void *function, void *site)
{
    (void)function;
    (void)site;
}
