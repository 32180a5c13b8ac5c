/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads that ranks take by themselves, on machines that are made up: the functions below
 * stand in for the C library's, so that a rank sees the cores and control groups that a case gives
 * it.
 */
#include "config.h"

#include "host.h"
#include "ranks.h"

#include <dlfcn.h>
#include <sched.h>

#include <zero/zero.h>

#define SHOWN 4

struct scene {
    const char *name;
    int ranks;
    struct {
        int first, n;
    } cores[SHOWN];
    const char *threads[SHOWN];
    const char *option; /* of rank 0, NULL: none */
    int hosts[SHOWN];   /* 0: this one */
    struct {
        char name;      /* of its control group, 0: none that limits */
        double cores;   /* of which it has the time */
    } groups[SHOWN];
};

static const struct scene scenes[] = {
    {"one rank takes all", 1, {{0, 6}}, {"6"}, NULL, {0}, {{0}}},
    {"ranks that roam divide the machine", 2, {{0, 16}, {0, 16}}, {"8", "8"}, NULL, {0}, {{0}}},
    {"ranks with cores of their own take all of them", 2, {{0, 8}, {8, 8}}, {"8", "8"}, NULL, {0},
     {{0}}},
    {"uneven parts", 2, {{0, 3}, {3, 5}}, {"3", "5"}, NULL, {0}, {{0}}},
    {"three on one set of cores", 3, {{0, 3}, {0, 3}, {0, 3}}, {"1", "1", "1"}, NULL, {0}, {{0}}},
    {"one overlaps two", 3, {{0, 4}, {4, 4}, {0, 8}}, {"2", "2", "4"}, NULL, {0}, {{0}}},
    {"more ranks than cores", 4, {{0, 1}, {1, 1}, {0, 1}, {1, 1}}, {"1", "1", "1", "1"}, NULL, {0},
     {{0}}},
    {"a rank that was told a number", 2, {{0, 4}, {0, 4}}, {"3", "2"}, "3", {0}, {{0}}},
    {"cores of another host are others", 2, {{0, 4}, {0, 4}}, {"4", "4"}, NULL, {1, 2}, {{0}}},
    {"two hosts, two ranks on one", 3, {{0, 4}, {0, 4}, {0, 4}}, {"2", "4", "2"}, NULL, {1, 2, 1},
     {{0}}},
    {"a container with the time of three", 1, {{0, 16}}, {"3"}, NULL, {0}, {{'a', 3}}},
    {"of more than there are", 1, {{0, 4}}, {"4"}, NULL, {0}, {{'a', 9}}},
    {"of less than one", 1, {{0, 4}}, {"1"}, NULL, {0}, {{'a', 0.5}}},
    {"ranks in one container divide its time", 2, {{0, 16}, {0, 16}}, {"3", "3"}, NULL, {0},
     {{'a', 7}, {'a', 7}}},
    {"each in its own", 2, {{0, 16}, {0, 16}}, {"7", "2"}, NULL, {0}, {{'a', 7}, {'b', 2}}},
    {"one of two in one", 2, {{0, 16}, {0, 16}}, {"8", "2"}, NULL, {0}, {{0, 0}, {'b', 2}}},
    {"of one name on two hosts", 2, {{0, 16}, {0, 16}}, {"4", "4"}, NULL, {1, 2},
     {{'a', 4}, {'a', 4}}},
};

static char job[64];
static _Thread_local const struct scene *seen;
static _Thread_local int seen_by;

int sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set)
{
    const struct scene *s = seen ? seen : &scenes[0];

    (void)pid;
    CPU_ZERO_S(bytes, set);
    for (int i = 0; i < s->cores[seen_by].n; i++)
        CPU_SET_S((size_t)(s->cores[seen_by].first + i), bytes, set);
    return 0;
}

/* Of control groups the kernel tells what the case says, whatever this machine's are. */
FILE *fopen(const char *path, const char *mode)
{
    FILE *(*real)(const char *, const char *) =
        (FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, "fopen");
    char limits[32], text[64] = "\n";

    if (!seen)
        return real(path, mode);
    const char name = seen->groups[seen_by].name;
    snprintf(limits, sizeof limits, "/sys/fs/cgroup/%c/cpu.max", name);
    if (!strcmp(path, "/proc/self/cgroup")) {
        if (name)
            snprintf(text, sizeof text, "0::/%c\n", name);
    } else if (name && !strcmp(path, limits)) {
        snprintf(text, sizeof text, "%.0f 100000\n", 1e5 * seen->groups[seen_by].cores);
    } else {
        return real(path, mode);
    }
    FILE *f = fmemopen(NULL, sizeof text, "w+");
    if (f) {
        fputs(text, f);
        rewind(f);
    }
    return f;
}

static void rank_main(struct rank *r)
{
    const struct scene *s = r->arg;
    /* Hosts that are made up do share memory. */
    struct zero_setting options[] = {{"comm", r->ranks > 1 ? "shm" : "self"},
                                     {"threads", s->option}};
    struct zero_config c = ZERO_CONFIG_INIT;
    struct zero_runtime *rt;

    seen = s;
    seen_by = r->rank;
    host_seen = s->hosts[r->rank];
    c.job = job;
    c.rank = r->rank;
    c.ranks = r->ranks;
    c.settings = options;
    c.n_settings = r->rank == 0 && s->option ? 2 : 1;
    if (!want(r, !zero_create(&c, &rt), "create: %s", zero_last_error()))
        return;
    want(r, !strcmp(zero_option(rt, "threads"), s->threads[r->rank]), "threads are %s, not %s",
         zero_option(rt, "threads"), s->threads[r->rank]);
    zero_destroy(rt);
}

int main(void)
{
    unsetenv("ZERO_THREADS");
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
        struct scene s = scenes[i];
        for (int how = AS_THREADS; how <= AS_PROCESSES; how++) {
            snprintf(job, sizeof job, "threads-%d-%zu-%d", (int)getpid(), i, how);
            ranks_good(ranks_run(s.ranks, (enum ranks_how)how, rank_main, &s), s.ranks, "%s, %s",
                       s.name, ranks_how_name[how]);
        }
    }
    done();
}
