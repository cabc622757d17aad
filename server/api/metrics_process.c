/* What the kernel knows of this process, under the names that every program has in Prometheus (process_...).
 *
 * Read from /proc at each scrape; what cannot be read is left out, so that a container without /proc has fewer series
 * and no wrong ones. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "api/metrics_text.h"

static void put(struct ld_text *t, const char *name, const char *type, const char *help, double value)
{
    ld_metrics_put(t, "# HELP %s %s\n# TYPE %s %s\n%s %.15g\n", name, help, name, type, name, value);
}

/* The fields of /proc/self/stat from the third on: the second, the program's name, may hold blanks and brackets, so
 * they are counted from its last bracket. False: no /proc. */
static bool read_stat(uint64_t *start_ticks, double *cpu_s, double *resident, double *virtual)
{
    char line[1024];
    unsigned long long utime, stime, start, size;
    long long pages;
    FILE *f = fopen("/proc/self/stat", "re");
    if (f == NULL)
        return false;
    const char *fields = fgets(line, sizeof line, f) != NULL ? strrchr(line, ')') : NULL;
    fclose(f);
    if (fields == NULL || sscanf(fields + 1,
                                 " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d %*d %*d %*d %llu "
                                 "%llu %lld",
                                 &utime, &stime, &start, &size, &pages) != 5)
        return false;
    const double hz = (double)sysconf(_SC_CLK_TCK);
    *start_ticks = start;
    *cpu_s = (double)(utime + stime) / hz;
    *resident = (double)pages * (double)sysconf(_SC_PAGESIZE);
    *virtual = (double)size;
    return true;
}

/* Seconds since 1970 at which the machine started; 0: unknown. */
static double boot_time(void)
{
    char line[256];
    unsigned long long seconds = 0;
    FILE *f = fopen("/proc/stat", "re");
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (sscanf(line, "btime %llu", &seconds) == 1)
            break;
    if (f != NULL)
        fclose(f);
    return (double)seconds;
}

/* Those that the counting itself opens are not counted. -1: no /proc. */
static int open_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = -1;
    if (dir == NULL)
        return -1;
    for (const struct dirent *e; (e = readdir(dir)) != NULL;)
        n += e->d_name[0] != '.';
    closedir(dir);
    return n;
}

/* A few system calls a scrape, and one for each hundred descriptors. */
void ld_metrics_put_process(struct ld_text *t)
{
    uint64_t start_ticks;
    double cpu_s, resident, virtual;
    struct rlimit limit;
    const double boot = boot_time();
    const int n_fds = open_fds();
    if (read_stat(&start_ticks, &cpu_s, &resident, &virtual)) {
        put(t, "process_cpu_seconds_total", "counter", "Processor time, user and system.", cpu_s);
        put(t, "process_resident_memory_bytes", "gauge", "Resident memory.", resident);
        put(t, "process_virtual_memory_bytes", "gauge", "Virtual memory.", virtual);
        if (boot > 0)
            put(t, "process_start_time_seconds", "gauge", "When the process started, in seconds since 1970.",
                boot + (double)start_ticks / (double)sysconf(_SC_CLK_TCK));
    }
    if (n_fds >= 0)
        put(t, "process_open_fds", "gauge", "Open file descriptors.", n_fds);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        put(t, "process_max_fds", "gauge", "Most file descriptors that may be open.", (double)limit.rlim_cur);
}
