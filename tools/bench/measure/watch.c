/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of processor time; see watch.h. */
#include "config.h"

#include "watch.h"

#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "machine/clock.h"
#include "machine/cores.h"

double bench_watch_busy(FILE *stat, const struct zero__cores *mine)
{
    unsigned long long user, nice, system, idle, iowait, irq, softirq, steal, ticks = 0;
    bool any = false;
    char line[512];
    uint32_t cpu;

    while (fgets(line, sizeof line, stat) && strncmp(line, "cpu", 3) == 0) {
        if (line[3] == ' ' || /* the sum of all */
            sscanf(line, "cpu%" SCNu32 " %llu %llu %llu %llu %llu %llu %llu %llu", &cpu, &user,
                   &nice, &system, &idle, &iowait, &irq, &softirq, &steal) != 9 ||
            !zero__cores_has(mine, cpu))
            continue;
        ticks += user + nice + system + irq + softirq + steal;
        any = true;
    }
    return any ? (double)ticks / (double)sysconf(_SC_CLK_TCK) : -1;
}

static double busy_s(void)
{
    struct zero__cores mine;
    FILE *f = fopen("/proc/stat", "re");

    zero__cores_here(&mine);
    double busy = f ? bench_watch_busy(f, &mine) : -1;
    if (f)
        fclose(f);
    return busy;
}

double bench_used_s(int who)
{
    struct rusage u;

    if (getrusage(who, &u))
        return 0;
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

void bench_watch_begin(struct bench_watch *w)
{
    *w = (struct bench_watch){(double)zero__now_ns() * 1e-9, busy_s(),
                              bench_used_s(RUSAGE_SELF) + bench_used_s(RUSAGE_CHILDREN)};
}

double bench_watch_others(const struct bench_watch *w)
{
    struct bench_watch now;

    bench_watch_begin(&now);
    double took = now.at_s - w->at_s, others = now.busy_s - w->busy_s - (now.ours_s - w->ours_s);
    if (w->busy_s < 0 || now.busy_s < 0)
        return -1;
    took = took > 1 ? took : 1; /* the kernel counts in hundredths of a second */
    return others > 0 ? others / took : 0;
}

void bench_watch_tell(const struct bench_watch *w, bool json)
{
    double others = bench_watch_others(w);

    if (others > BENCH_MOST_OTHERS)
        fprintf(json ? stderr : stdout,
                "others took %.0f %% of a processor meanwhile: figures are worse by what they "
                "kept from this\n",
                others * 100);
}

void bench_spread_tell(unsigned n_wide)
{
    if (n_wide)
        printf("%u row%s a spread above %.0f %%: %s median is worth little; measure again when "
               "nothing else runs, or with more --reps\n",
               n_wide, n_wide == 1 ? " has" : "s have", BENCH_WIDE_SPREAD * 100,
               n_wide == 1 ? "its" : "their");
}
