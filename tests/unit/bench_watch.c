/* SPDX-License-Identifier: Apache-2.0 */
/* Whose time counts as taken from a benchmark: that of the processors which it may use. */
#include "tools/bench/measure/watch.h"

#include <string.h>
#include <unistd.h>

#include "../tap.h"
#include "machine/cores.h"

/* user nice system idle iowait irq softirq steal guest guest_nice */
static char text[] = "cpu  11 33 55 9000 9000 77 99 111 1 1\n"
                     "cpu0 1 3 5 4000 4000 7 9 11 1 1\n"
                     "cpu10 10 30 50 5000 5000 70 90 100 0 0\n"
                     "intr 5 6\n"
                     "cpu12 1000 0 0 0 0 0 0 0 0 0\n";

static int ticks(uint64_t set)
{
    const struct zero__cores mine = {.bits = {set}};
    FILE *f = fmemopen(text, strlen(text), "r");

    if (!f)
        bail("no file in memory");
    double s = bench_watch_busy(f, &mine);
    fclose(f);
    return s < 0 ? -1 : (int)(s * (double)sysconf(_SC_CLK_TCK) + 0.5);
}

int main(void)
{
    struct bench_watch w;

    is_int(ticks(1), 36, "a processor that works, or is kept from it, and neither idles nor waits");
    is_int(ticks(1 << 10), 350, "another one");
    is_int(ticks(1 | 1 << 10 | 1 << 11), 386, "both, but nothing that may not be used");
    is_int(ticks(1 << 11), -1, "nothing is known of one that is not there");
    is_int(ticks(1 << 12), -1, "nor is anything behind the processors' lines one");
    bench_watch_begin(&w);
    ok(w.busy_s > 0 && bench_watch_others(&w) >= 0, "the kernel's own file is understood");
    done();
}
