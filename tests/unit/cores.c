/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets of processors, and what caches the processors of made-up machines have for ranks that may
 * use a part of them.
 */
#define _GNU_SOURCE
#include "machine/cores.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/tap.h"

#define MIB (UINT64_C(1) << 20)

static char root[] = "/tmp/zero-cores-XXXXXX";

/* Writes ROOT/cpu<cpu>/what. */
__attribute__((format(printf, 3, 4))) static void tell(unsigned cpu, const char *what,
                                                       const char *fmt, ...)
{
    char path[256];
    va_list ap;

    snprintf(path, sizeof path, "%s/cpu%u/%s", root, cpu, what);
    for (char *at = path + sizeof root; (at = strchr(at, '/')); at++) {
        *at = 0;
        mkdir(path, 0700);
        *at = '/';
    }
    FILE *f = fopen(path, "w");
    if (!f)
        bail("no file for a made-up processor");
    va_start(ap, fmt);
    vfprintf(f, fmt, ap);
    va_end(ap);
    fclose(f);
}

/* `n` processors, two to a core as x86 numbers them (0 and n/2) where `smt`. */
static void machine_make(unsigned n, bool smt, unsigned l2_kib, unsigned l3_kib)
{
    for (unsigned cpu = 0; cpu < n; cpu++) {
        unsigned half = smt ? n / 2 : n, low = cpu % half;
        char pair[32], all[32];

        snprintf(pair, sizeof pair, smt ? "%u,%u" : "%u", low, low + half);
        snprintf(all, sizeof all, "0-%u", n - 1);
        tell(cpu, "topology/thread_siblings_list", "%s\n", pair);
        for (unsigned i = 0; i < 3; i++) {
            char name[64];
            snprintf(name, sizeof name, "cache/index%u/level", i);
            tell(cpu, name, "%u\n", i + 1);
            snprintf(name, sizeof name, "cache/index%u/size", i);
            tell(cpu, name, "%uK\n", i == 0 ? 48 : i == 1 ? l2_kib : l3_kib);
            snprintf(name, sizeof name, "cache/index%u/shared_cpu_list", i);
            tell(cpu, name, "%s\n", i == 2 ? all : pair);
        }
    }
}

static void machine_forget(void)
{
    char command[64];

    snprintf(command, sizeof command, "rm -rf %s/*", root);
    if (system(command))
        bail("a made-up machine stays");
}

static struct zero__cores set(unsigned first, unsigned n)
{
    struct zero__cores c = {{0}};

    for (unsigned i = first; i < first + n; i++)
        c.bits[i / 64] |= UINT64_C(1) << i % 64;
    return c;
}

static struct zero__caches caches(const struct zero__cores *c)
{
    struct zero__caches found;

    zero__caches_find(&found, c, root);
    return found;
}

static void test_sets(void)
{
    struct zero__cores here, both = set(0, 2), more = set(1, 2);
    cpu_set_t one;

    zero__cores_here(&here);
    ok(zero__cores_count(&here) >= 1, "this thread may use a processor");
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!zero__cores_has(&here, (uint32_t)cpu))
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        sched_setaffinity(0, sizeof one, &one);
        zero__cores_here(&here);
        ok(zero__cores_count(&here) == 1 && zero__cores_has(&here, (uint32_t)cpu),
           "and that one alone when it is bound to it");
        break;
    }
    zero__cores_add(&both, &more);
    is_int(zero__cores_count(&both), 3, "what two sets have in common counts once");
    ok(!zero__cores_has(&both, 3) && !zero__cores_has(&both, ZERO__CORES_MOST),
       "and nothing else is in them");
}

/* The kernel's, or that of a machine that might have 5,000 processors, of which we may use one. */
static bool is_large, is_far;

int sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set)
{
    if (!is_large) {
        long n = syscall(SYS_sched_getaffinity, pid, bytes, set);
        if (n > 0 && (size_t)n < bytes)
            memset((char *)set + n, 0, bytes - (size_t)n);
        return n < 0 ? -1 : 0;
    }
    if (bytes < 5000 / 8) {
        errno = EINVAL;
        return -1;
    }
    memset(set, 0, bytes);
    CPU_SET_S(is_far ? 4000 : 3, bytes, set);
    return 0;
}

static void test_many(void)
{
    struct zero__cores here;

    is_large = true;
    zero__cores_here(&here);
    ok(zero__cores_count(&here) == 1 && zero__cores_has(&here, 3),
       "of a machine that might have 5,000 processors this thread may use one");
    is_far = true;
    zero__cores_here(&here);
    is_int(zero__cores_count(&here), 1, "one whose number is too high counts, too");
    is_large = is_far = false;
}

/* Writes ROOT/what. */
static void group_tell(const char *what, const char *text)
{
    char path[256];

    snprintf(path, sizeof path, "%s/%s", root, what);
    for (char *at = path + sizeof root; (at = strchr(at, '/')); at++) {
        *at = 0;
        mkdir(path, 0700);
        *at = '/';
    }
    FILE *f = fopen(path, "w");
    if (!f || fputs(text, f) < 0 || fclose(f))
        bail("no file of a made-up control group");
}

static void test_groups(void)
{
    struct zero__cores eight = set(0, 8);

    is_int(zero__cores_busy(&eight, root), 8, "no control group: all of them can be busy");
    group_tell("proc/self/cgroup", "0::/job/rank\n");
    group_tell("sys/fs/cgroup/job/rank/cpu.max", "max 100000\n");
    is_int(zero__cores_busy(&eight, root), 8, "nor with one that does not limit");
    group_tell("sys/fs/cgroup/job/cpu.max", "350000 100000\n");
    is_int(zero__cores_busy(&eight, root), 3, "the group above it gives the time of 3.5");
    group_tell("sys/fs/cgroup/job/rank/cpu.max", "50000 100000\n");
    is_int(zero__cores_busy(&eight, root), 0, "or it that of half a one");
    group_tell("sys/fs/cgroup/job/rank/cpu.max", "1600000 100000\n");
    group_tell("sys/fs/cgroup/job/cpu.max", "1600000 100000\n");
    is_int(zero__cores_busy(&eight, root), 8, "of more than there are it gives all");
    machine_forget();
    group_tell("proc/self/cgroup", "4:memory:/a\n2:cpuacct,cpu:/job\n0::/\n");
    group_tell("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "-1\n");
    group_tell("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
    is_int(zero__cores_busy(&eight, root), 8, "of the first version: none");
    group_tell("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "200000\n");
    is_int(zero__cores_busy(&eight, root), 2, "and two");
    machine_forget();
}

static void test_caches(void)
{
    struct zero__cores all = set(0, 64), two = set(0, 2), one = set(0, 1), threads = set(0, 1);
    struct zero__cores second = set(32, 1);

    zero__cores_add(&threads, &second);
    machine_make(64, true, 1024, 32 << 10);
    ok(caches(&all).all == 32 * MIB && caches(&all).core == MIB,
       "a last level of 32 MiB is the own one of many cores");
    ok(caches(&two).all == 32 * MIB && caches(&two).sums == 32 * MIB,
       "and that of two, sums count on it, too");
    ok(caches(&two).copies == 40 * MIB, "and a quarter more is mostly there");
    ok(caches(&one).copies == 8 * MIB && caches(&one).sums == MIB,
       "it is not that of one core, whose sums have its own cache");
    ok(caches(&threads).all == 8 * MIB && caches(&threads).sums == MIB,
       "and two threads of a core are one core with one cache");
    machine_forget();

    machine_make(4, false, 2048, 105 << 10);
    ok(caches(&two).copies == 16 * MIB && caches(&two).sums == 4 * MIB,
       "of a cache that others use as well two cores count on a part");
    struct zero__cores four = set(0, 4);
    ok(caches(&four).copies == 32 * MIB && caches(&four).sums == 8 * MIB, "four on more");
    machine_forget();

    ok(caches(&two).copies == 16 * MIB && caches(&two).sums == 16 * MIB && caches(&two).core == MIB,
       "where nothing is known there are guesses");
    struct zero__cores none = set(0, 0), here;
    ok(caches(&none).copies == 8 * MIB, "of no processors, too");
    struct zero__caches own;
    zero__cores_here(&here);
    zero__caches_find(&own, &here, NULL);
    ok(own.sums >= 1 << 16 && own.all >= own.sums && own.copies >= own.all,
       "this machine has caches of some size");
}

int main(void)
{
    if (!mkdtemp(root))
        bail("no folder");
    test_sets();
    test_many();
    test_groups();
    test_caches();
    rmdir(root);
    done();
}
