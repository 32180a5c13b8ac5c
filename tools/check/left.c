/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stays behind of contexts and stores that were closed: descriptors and threads. Libraries may
 * keep some for good after the first, so what counts is that each further one leaves none.
 */
#include <dirent.h>

#include "check.h"
#include "machine/line.h"

#define SLAB (UINT64_C(1) << 20)
#define AGAIN 4        /* contexts after the first */
#define LINGER_MS 3000 /* for threads of the system and of libraries that work for nobody */

int check_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;

    while (dir && readdir(dir))
        n++;
    if (dir)
        closedir(dir);
    return n;
}

int check_threads(void)
{
    uint64_t n = 0;

    zero__number_read("/proc/self/status", "Threads:", &n);
    return (int)n;
}

int check_lingering(int (*count)(void), int allowed)
{
    int64_t until = check_now_ms() + LINGER_MS;
    int n;

    while ((n = count()) > allowed && check_now_ms() < until)
        check_sleep_ms(10);
    return n;
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

/* Every rank counts while none has a context open, and leaves out no meeting. */
void check_case_left(struct check_rank *r)
{
    int descriptors, threads, now;

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
    now = check_lingering(check_descriptors, descriptors + AGAIN - 1);
    want(r, now < descriptors + AGAIN, "%d descriptors are open after %d contexts, %d after one",
         now, 1 + AGAIN, descriptors);
    now = check_lingering(check_threads, threads + AGAIN - 1);
    want(r, now < threads + AGAIN, "%d threads run after %d contexts, %d after one", now, 1 + AGAIN,
         threads);
    meet(r);
}
