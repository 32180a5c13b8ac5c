/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals are for the application's threads: all that the library and a plugin start for a job
 * block them, while a model trains through all of them; but not those of a thread's own faults,
 * which reach the handler.
 */
#define _GNU_SOURCE
#include "../tap.h"

#include <dirent.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "folder.h"
#include "machine/thread.h"
#include "toy.h"

#define RANKS 2

static char path[4096];

struct count {
    int all, open, deaf; /* threads; those that take a signal; that would not hear of their fault */
};

static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};

static struct count threads_count(void)
{
    DIR *d = opendir("/proc/self/task");
    struct count n = {0};

    for (const struct dirent *e; d && (e = readdir(d));) {
        char file[300], line[300];
        uint64_t blocked = 0;
        snprintf(file, sizeof file, "/proc/self/task/%s/status", e->d_name);
        FILE *f = e->d_name[0] == '.' ? NULL : fopen(file, "r");
        if (!f)
            continue;
        while (fgets(line, sizeof line, f))
            if (sscanf(line, "SigBlk: %" SCNx64, &blocked) == 1)
                break;
        fclose(f);
        n.all++;
        n.open += !(blocked & UINT64_C(1) << (SIGUSR1 - 1));
        uint64_t own = 0;
        for (unsigned i = 0; i < sizeof faults / sizeof *faults; i++)
            own |= UINT64_C(1) << (faults[i] - 1);
        n.deaf += (blocked & own) != 0;
    }
    if (d)
        closedir(d);
    return n;
}

static void look(struct zero_runtime *rt, int rank, int step, const struct zero_step_info *info,
                 void *arg)
{
    (void)rt, (void)info;
    if (rank == 0 && step == 1)
        *(struct count *)arg = threads_count();
}

static char *page; /* that may not be written to, until the handler comes */
static volatile sig_atomic_t handled;

static void handler(int sig)
{
    (void)sig;
    handled++;
    if (mprotect(page, 4096, PROT_READ | PROT_WRITE))
        _exit(1);
}

static void *fault(void *arg)
{
    *(volatile char *)page = 1;
    return arg;
}

/* Where the signal is blocked the process ends here. */
static void handler_called(void)
{
    struct sigaction act = {.sa_handler = handler}, before;
    pthread_t thread;

    page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED || sigaction(SIGSEGV, &act, &before))
        bail("no page and no handler");
    if (zero__thread_create(&thread, NULL, fault, NULL))
        bail("no thread");
    pthread_join(thread, NULL);
    sigaction(SIGSEGV, &before, NULL);
    ok(handled == 1 && *page == 1, "a thread that faults is given to the handler, and goes on");
    munmap(page, 4096);
}

int main(void)
{
    struct zero_setting s[] = {{"offload", "optimizer:nvme"}, {"nvme_engine", "threads"},
                               {"nvme_path", path}, {"timeout", "20"}, {"tile_bytes", "64K"},
                               {"threads", "2"}};
    struct count n = {0};
    struct toy t = {.ranks = RANKS, .layers = 3, .steps = 3, .dtype = ZERO_BF16, .width = 40000,
                    .settings = s, .n_settings = 6, .seed = 7, .stepped = look, .arg = &n};
    struct toy_result r;
    int own = threads_count().open;

    folder_make("signals", path);
    is_int(toy_train(&t, &r), 0, "a model trains, its states on a disk");
    ok(n.all > own + RANKS && n.open <= own + RANKS,
       "of %d threads %d take signals, %d of them the application's", n.all, n.open, own + RANKS);
    is_int(n.deaf, 0, "none blocks the signals of its own faults");
    handler_called();
    if (r.err)
        diag("%s", r.error);
    rmdir(path);
    done();
}
