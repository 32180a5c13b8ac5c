/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "machine/cores.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "machine/groups.h"
#include "machine/line.h"

/*
 * Of a last-level cache: what cores have where it is theirs, at most, and what they can count on
 * where it belongs to a package of many and the machine is a part of that.
 */
#define CORE_MOST (UINT64_C(16) << 20)
#define CORE_BYTES (UINT64_C(8) << 20)
#define CORE_OWN_BYTES (UINT64_C(1) << 20)
#define INDICES 8 /* of caches that the kernel tells of */
#define POSSIBLE_MOST (1u << 20) /* processors that a kernel might have */
#define ROOT "/sys/devices/system/cpu"

/* ---- Sets ------------------------------------------------------------------------------------ */

static void put(struct zero__cores *c, uint32_t cpu)
{
    if (cpu < ZERO__CORES_MOST)
        c->bits[cpu / 64] |= UINT64_C(1) << cpu % 64;
}

bool zero__cores_has(const struct zero__cores *c, uint32_t cpu)
{
    return cpu < ZERO__CORES_MOST && c->bits[cpu / 64] >> cpu % 64 & 1;
}

uint32_t zero__cores_read(struct zero__cores *c, const char *list)
{
    uint32_t n = 0, first, last;
    int used;

    memset(c, 0, sizeof *c);
    for (;; list++) {
        if (sscanf(list, "%" SCNu32 "%n", &first, &used) != 1)
            return 0;
        list += used;
        last = first;
        if (*list == '-') {
            if (sscanf(++list, "%" SCNu32 "%n", &last, &used) != 1 || last < first)
                return 0;
            list += used;
        }
        n += last - first + 1;
        for (uint32_t i = first; i <= last && i < ZERO__CORES_MOST; i++)
            put(c, i);
        if (*list != ',')
            return *list && *list != '\n' ? 0 : n;
    }
}

void zero__cores_here(struct zero__cores *c)
{
    long n = 0;
    int err = EINVAL;

    memset(c, 0, sizeof *c);
    /* A set with room for fewer processors than the kernel might have is refused. */
    for (uint32_t room = ZERO__CORES_MOST; err == EINVAL && room <= POSSIBLE_MOST; room *= 2) {
        size_t bytes = CPU_ALLOC_SIZE(room);
        cpu_set_t *set = CPU_ALLOC(room);
        err = !set ? ENOMEM : sched_getaffinity(0, bytes, set) ? errno : 0;
        for (uint32_t i = 0; i < room && !err; i++)
            if (CPU_ISSET_S(i, bytes, set)) {
                put(c, i);
                n++;
            }
        CPU_FREE(set);
    }
    if (zero__cores_count(c))
        return;
    n = n ? n : sysconf(_SC_NPROCESSORS_ONLN);
    for (uint32_t i = 0; i < (n > 0 ? (uint32_t)n : 1); i++)
        put(c, i);
}

void zero__cores_add(struct zero__cores *c, const struct zero__cores *more)
{
    for (uint32_t i = 0; i < ZERO__CORES_MOST / 64; i++)
        c->bits[i] |= more->bits[i];
}

uint32_t zero__cores_count(const struct zero__cores *c)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < ZERO__CORES_MOST / 64; i++)
        n += (uint32_t)__builtin_popcountll(c->bits[i]);
    return n;
}

/* ---- Time ------------------------------------------------------------------------------------ */

/* A file's first two numbers: 1 where there is but one, 0 where the first is none, "max" say. */
static int numbers_of(const char *folder, const char *file, long long x[2])
{
    char path[4096 + 32], line[64];

    snprintf(path, sizeof path, "%s/%s", folder, file);
    zero__line_read(path, "", line, sizeof line);
    return sscanf(line, "%lld %lld", &x[0], &x[1]);
}

/* How many processors a control group gives the whole time of. */
static uint64_t group_cores(const char *folder, bool first_version)
{
    long long x[2] = {0}, period[2] = {0};

    if (!first_version)
        return numbers_of(folder, "cpu.max", x) == 2 && x[0] > 0 && x[1] > 0
                   ? (uint64_t)(x[0] / x[1])
                   : UINT64_MAX;
    return numbers_of(folder, "cpu.cfs_quota_us", x) > 0 && x[0] > 0 &&
                   numbers_of(folder, "cpu.cfs_period_us", period) > 0 && period[0] > 0
               ? (uint64_t)(x[0] / period[0])
               : UINT64_MAX;
}

uint64_t zero__cores_time(const char *root, char *group)
{
    return zero__groups_least(root ? root : "", "cpu", group_cores, group);
}

uint32_t zero__cores_busy(const struct zero__cores *c, const char *root)
{
    uint64_t most = zero__cores_time(root, NULL);
    uint32_t n = zero__cores_count(c);

    return most < n ? (uint32_t)most : n;
}

/* ---- Caches ---------------------------------------------------------------------------------- */

/* A line of a file about processor `cpu`; "": there is none. */
static const char *line_of(const char *root, uint32_t cpu, const char *what, char text[512])
{
    char path[512];

    snprintf(path, sizeof path, "%s/cpu%u/%s", root, cpu, what);
    zero__line_read(path, "", text, 512);
    return text;
}

/* A number of a processor's cache, "2" or "32768K"; 0: not known. */
static uint64_t cache_number(const char *root, uint32_t cpu, int index, const char *what)
{
    char name[64], text[512];

    snprintf(name, sizeof name, "cache/index%d/%s", index, what);
    return strtoull(line_of(root, cpu, name, text), NULL, 10);
}

/* The largest cache of levels up to `level`, and which one it is, -1: none. */
static uint64_t cache_up_to(const char *root, uint32_t cpu, uint64_t level, int *index)
{
    uint64_t most = 0;

    *index = -1;
    for (int i = 0; i < INDICES; i++) {
        uint64_t bytes = cache_number(root, cpu, i, "size") << 10;
        if (cache_number(root, cpu, i, "level") <= level && bytes > most) {
            most = bytes;
            *index = i;
        }
    }
    return most;
}

/* Takes out of the set who is in a list like "0-3,8" of the kernel's, and processor `cpu`. */
static void take(struct zero__cores *c, uint32_t cpu, const char *list)
{
    struct zero__cores out;

    zero__cores_read(&out, list);
    put(&out, cpu);
    for (uint32_t i = 0; i < ZERO__CORES_MOST / 64; i++)
        c->bits[i] &= ~out.bits[i];
}

/* How many there are of what the list `what` of each processor says who shares it. */
static uint32_t n_shared(const char *root, const struct zero__cores *c, const char *what)
{
    struct zero__cores left = *c;
    char text[512];
    uint32_t n = 0;

    for (uint32_t cpu = 0; cpu < ZERO__CORES_MOST; cpu++)
        if (zero__cores_has(&left, cpu)) {
            take(&left, cpu, line_of(root, cpu, what, text));
            n++;
        }
    return n;
}

/*
 * The kernel is asked: the C library asks the processor, which in a virtual machine tells of the
 * caches of the whole package. The kernel may do so too: where it speaks of more than cores have,
 * the rest belongs to others.
 *
 * Sums stream earlier where the last level is shared with strangers: measured on two cores of a
 * Xeon with a part of 105 MiB, 4 MiB took 0.28 ms so and 0.35 otherwise; on two of an EPYC with
 * 32 MiB, 0.093 so and 0.066 otherwise.
 *
 * Of what is a quarter more than the last level most is still found there, and in the cores' own
 * caches, which on an EPYC hold other lines. Two cores of a Zen 4 that share one way to memory
 * write 27 GB/s past the caches: 32 MiB of traffic took 0.61 ms so and 0.33 otherwise, 40 MiB 0.74
 * and 0.49; of two with a way each 32 MiB took 0.33 and 0.22, 40 MiB 0.42 and 0.38, 48 MiB 0.51 and
 * 0.53.
 */
void zero__caches_find(struct zero__caches *out, const struct zero__cores *c, const char *root)
{
    uint32_t first = 0;
    char name[64];
    int index;

    root = root ? root : ROOT;
    while (first + 1 < ZERO__CORES_MOST && !zero__cores_has(c, first))
        first++;
    uint64_t most = cache_up_to(root, first, UINT64_MAX, &index);
    uint64_t core = cache_up_to(root, first, 2, &index), own = 0;
    uint64_t n_cores = n_shared(root, c, "topology/thread_siblings_list");
    n_cores = n_cores ? n_cores : 1;
    if (index >= 0) {
        snprintf(name, sizeof name, "cache/index%d/shared_cpu_list", index);
        own = core * n_shared(root, c, name); /* threads of a core have one together */
    }
    bool is_own = most && most <= n_cores * CORE_MOST;
    uint64_t share = n_cores * CORE_BYTES;

    out->all = is_own || (most && most < share) ? most : share;
    out->core = core ? core : CORE_OWN_BYTES;
    out->copies = out->all + (is_own ? most / 4 : 0);
    out->sums = is_own || !own || own > out->all ? out->all : own;
}
