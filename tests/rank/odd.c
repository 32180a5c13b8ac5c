/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank's step program is not that of the others: an operation is smaller, of another type,
 * earlier or missing; or it was given another learning rate. The crash reports of three ranks name
 * it, whichever it is; those of two show both collectives and blame nobody.
 */
#include "../tap.h"

#include <dirent.h>
#include <errno.h>
#include <unistd.h>

#include "engine/runtime.h"
#include "run/runner.h"
#include "toy.h"

#define LATE_US 200000 /* the others have posted theirs by then */

enum difference { SIZE, DTYPE, ORDER, SKIP, RATE, N_DIFFERENT };
static const char *const names[] = {"size", "dtype", "order", "skip", "its learning rate"};

struct odd {
    enum difference what;
    int rank, spoiled;
};

static bool is_idle(struct zero_runtime *rt)
{
    bool idle = true;

    pthread_mutex_lock(&rt->run->lock);
    for (uint32_t q = 0; q < ZERO__N_QUEUES; q++)
        idle &= rt->run->lanes[q].done == rt->run->lanes[q].issued;
    pthread_mutex_unlock(&rt->run->lock);
    return idle;
}

/* Two gathers of a step, of different units. */
static bool find(struct zero__body *b, struct zero__op *found[2])
{
    int n = 0;

    for (uint32_t i = 0; i < b->n_ops && n < 2; i++)
        if (b->ops[i].kind == ZERO__GATHER && (!n || b->ops[i].unit != found[0]->unit))
            found[n++] = &b->ops[i];
    return n == 2;
}

/* All gathers of a segment: the next may be posted before the first is found to differ. */
static void smaller(struct zero_runtime *rt, struct zero__body *b, uint32_t segment)
{
    uint64_t bytes = zero_dtype_bytes(rt->site.model.segments[segment].dtype);

    rt->site.model.segments[segment].shard--;
    for (uint32_t i = 0; i < b->n_ops; i++) {
        struct zero__access *x = &b->accesses[b->ops[i].first_access];
        for (uint32_t k = 0; b->ops[i].kind == ZERO__GATHER && k < b->ops[i].n_accesses; k += 2)
            if (x[k].segment == segment) {
                x[k].bytes -= bytes;
                x[k + 1].bytes -= bytes * (uint64_t)rt->site.ranks;
            }
    }
}

static bool spoil(struct zero_runtime *rt, enum difference what)
{
    struct zero__body *b = &rt->site.programs[0]->bodies[ZERO__LAST];
    struct zero__op *ops[2], old;

    if (!find(b, ops))
        return false;
    struct zero__access *x = &b->accesses[ops[0]->first_access];
    old = *ops[0];
    if (what == SIZE) {
        smaller(rt, b, x->segment);
    } else if (what == DTYPE) {
        rt->site.model.segments[x->segment].dtype = ZERO_F16;
    } else if (what == SKIP) {
        ops[0]->n_accesses = 0;
    } else {
        ops[0]->first_access = ops[1]->first_access;
        ops[0]->n_accesses = ops[1]->n_accesses;
        ops[1]->first_access = old.first_access;
        ops[1]->n_accesses = old.n_accesses;
    }
    return true;
}

static void stepped(struct zero_runtime *rt, int rank, int step, const struct zero_step_info *info,
                    void *arg)
{
    struct odd *o = arg;

    (void)info;
    if (rank != o->rank || step != 1)
        return;
    while (!is_idle(rt))
        usleep(1000);
    usleep(LATE_US);
    o->spoiled = o->what == RATE ? !zero_set_lr(rt, 0, 0.5f) : spoil(rt, o->what);
}

/* What the command says about the folder, which is emptied; its status. */
static int report(const char *dir, char *text, size_t room)
{
    const char *build = getenv("ZERO_TEST_BUILD");
    char command[1024];

    snprintf(command, sizeof command, "%s/zero report crash %s 2>&1; s=$?; rm -f %s/*; exit $s",
             build ? build : ".", dir, dir);
    FILE *f = popen(command, "r");
    size_t n = f ? fread(text, 1, room - 1, f) : 0;
    text[n] = 0;
    return f ? pclose(f) : -1;
}

static bool names_alone(const char *text, int ranks, int odd)
{
    char who[64];

    if (ranks == 2)
        return strstr(text, "culprit: the reports do not tell") && strstr(text, "\n  rank 0: ") &&
               strstr(text, "\n  rank 1: ");
    snprintf(who, sizeof who, "\nculprit: rank %d\n", odd);
    return strstr(text, who) && strstr(text, "\n  ranks ");
}

static void one(const char *comm, const char *dir, int ranks, int odd, enum difference what)
{
    struct odd o = {.what = what, .rank = odd};
    struct zero_setting settings[] = {{"comm", comm}, {"stage", "3"}, {"timeout", "20"},
                                      {"map", "0"}, {"crash_dir", dir}};
    struct toy t = {.ranks = ranks,
                    .layers = 4,
                    .steps = 4,
                    .dtype = ZERO_BF16,
                    .width = 600,
                    .settings = settings,
                    .n_settings = 5,
                    .seed = 3,
                    .stepped = stepped,
                    .arg = &o};
    struct toy_result r;
    char text[16384];

    toy_train(&t, &r);
    int status = report(dir, text, sizeof text);
    bool good = o.spoiled && r.err == -EPROTO && names_alone(text, ranks, odd) &&
                (status == 0) == (ranks > 2);
    if (!ok(good, "%s, %d ranks, rank %d differs in %s", comm, ranks, odd, names[what]))
        diag("%d, status %d, \"%s\"\n%s", o.spoiled, status, r.error, text);
}

int main(void)
{
    char dir[] = "/tmp/zero-odd-XXXXXX";

    if (!mkdtemp(dir))
        bail("cannot make a folder");
    alarm(120);
    for (int what = SIZE; what < N_DIFFERENT; what++) {
        for (int odd = 0; odd < 3; odd++)
            one("shm", dir, 3, odd, (enum difference)what);
        for (int odd = 0; odd < 2; odd++)
            one("shm", dir, 2, odd, (enum difference)what);
    }
    rmdir(dir);
    done();
}
