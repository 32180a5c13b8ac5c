/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stays behind of contexts and stores that were closed: descriptors and threads. Libraries may
 * keep some for good after the first, so what counts is that each further one leaves none.
 */
#include <dirent.h>
#include <limits.h>

#include "machine/line.h"
#include "rank.h"

#define SLAB (UINT64_C(1) << 20)
#define AGAIN 4        /* contexts after the first */
#define LINGER_MS 3000 /* for threads of the system and of libraries that work for nobody */

int check_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;

    if (!dir)
        return INT_MAX;
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

int check_threads(void)
{
    uint64_t n = INT_MAX;

    zero__number_read("/proc/self/status", "Threads:", &n);
    return (int)n;
}

/* How many there are once so few as allowed are left, or after some seconds. */
static int lingering(int (*count)(void), int allowed)
{
    int64_t until = check_now_ms() + LINGER_MS;
    int n;

    while ((n = count()) > allowed && check_now_ms() < until)
        check_sleep_ms(10);
    return n;
}

void check_left(struct check_rank *r, int (*count)(void), const char *what, int before, int more,
                int n, const char *of)
{
    int now;

    if (!want(r, before < INT_MAX, "how many %s cannot be counted: /proc cannot be read", what))
        return;
    now = lingering(count, before + more);
    if (want(r, now < INT_MAX, "how many %s after %d %s cannot be counted, unlike after one: are "
             "there descriptors left to read /proc with?", what, n, of))
        want(r, now <= before + more, "%d %s after %d %s, %d after one", now, what, n, of, before);
}

/* All ranks are here; they may be threads of one process. No context is open. */
static bool meet(struct check_rank *r)
{
    int64_t until = check_now_ms() + CHECK_WAIT_NS / 1000000;
    char all[CHECK_RANKS], mine = 0;
    int err;

    if (r->ranks == 1)
        return true;
    err = r->oob->post(r->oob->ctx, &mine, sizeof mine);
    while (!err && (err = r->oob->test(r->oob->ctx, all)) == -EINPROGRESS) {
        if (check_now_ms() >= until)
            break;
        err = 0;
        check_sleep_ms(1);
    }
    return want(r, !err, "the ranks do not meet between contexts: %s", check_value(r, err));
}

static void open_and_close(struct check_rank *r)
{
    struct check_comm c;

    if (check_open(r, &c, SLAB))
        want(r, check_meet(&c, c.world) == 0, "meeting: %s", r->ended);
    check_close(&c);
}

/*
 * Every rank counts while none has a context open. One that has not met the others in time goes,
 * and they do not meet it either.
 */
void check_case_left(struct check_rank *r)
{
    int descriptors, threads;

    open_and_close(r);
    if (!meet(r))
        return;
    descriptors = check_descriptors();
    threads = check_threads();
    for (int i = 0; i < AGAIN; i++) {
        if (!meet(r))
            return;
        open_and_close(r);
    }
    if (!meet(r))
        return;
    check_left(r, check_descriptors, "descriptors are open", descriptors, AGAIN - 1, 1 + AGAIN,
               "contexts");
    check_left(r, check_threads, "threads run", threads, AGAIN - 1, 1 + AGAIN, "contexts");
    meet(r);
}
