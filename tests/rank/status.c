/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zero_status() on every rank of a job: 0 while it goes on, also in other threads and beside calls;
 * the job's error, without a call that meets it, when a rank has been killed, has aborted or has
 * failed; and later calls return that error.
 */
#include "ranks.h"
#include "toy.h"

#include <stdlib.h>

#define RANKS 3
#define WAIT_MS 20000

enum how { KILLED, ABORTED, FAILED };
static const char *const how_name[] = {"is killed", "aborts", "has a bad initialiser"};

struct seen {
    enum how how;
    struct rank *r;
    atomic_int *looking; /* ranks that wait for the job's end; all share it */
    char job[64];
    int err;
    char text[512];
};

/* Waits for the job's end without any other call. */
static void look(const struct zero_runtime *rt, struct seen *s)
{
    const int64_t until = now_ms() + WAIT_MS;

    while (!(s->err = zero_status(rt)) && now_ms() < until)
        sleep_ms(1);
    snprintf(s->text, sizeof s->text, "%s", zero_last_error());
}

/* Rank 1 ends the job when no other rank is in a call. */
static void end(struct zero_runtime *rt, const struct seen *s)
{
    while (atomic_load(s->looking) < RANKS - 1)
        sleep_ms(1);
    if (s->how == KILLED)
        raise(SIGKILL);
    zero_abort(rt, "rank 1 has had enough");
}

static void stepped(struct zero_runtime *rt, int rank, int step, const struct zero_step_info *info,
                    void *arg)
{
    struct seen *s = arg;

    (void)info;
    want(s->r, zero_status(rt) == 0, "after step %d: %s", step, zero_last_error());
    if (step < 2 || s->how == FAILED)
        return;
    if (rank == 1)
        end(rt, s);
    else
        atomic_fetch_add(s->looking, 1);
    look(rt, s);
}

static int refuse(void *arg, uint64_t first, uint64_t count, float *values)
{
    (void)arg, (void)first, (void)count, (void)values;
    return -EIO;
}

static void registered(struct zero_runtime *rt, int rank, void *arg)
{
    struct seen *s = arg;
    uint32_t unit, param;
    struct zero_param_desc d = {.size = sizeof d, .name = "bad.w", .dtype = ZERO_F32,
                                .init = {.kind = ZERO_INIT_CALLBACK, .fn = refuse}};

    (void)rank;
    want(s->r, zero_status(rt) == 0, "before commit: %s", zero_last_error());
    want(s->r, !zero_barrier(rt), "a barrier before commit: %s", zero_last_error());
    if (s->how == FAILED)
        want(s->r, !zero_unit_add(rt, "bad", &unit) && !zero_param_add(rt, unit, &d, &param), "%s",
             zero_last_error());
}

static void lost(struct zero_runtime *rt, int rank, int err, const char *error, void *arg)
{
    struct seen *s = arg;
    char text[512];
    void *stream;

    (void)rank;
    if (s->how == FAILED)
        look(rt, s);
    want(s->r, err == s->err, "a call returns %d, \"%s\"; the status was %d", err, error, s->err);
    want(s->r, zero_status(rt) == err, "the status is %d then", zero_status(rt));
    snprintf(text, sizeof text, "%s", zero_last_error());
    want(s->r, !strcmp(text, s->text), "\"%s\", and first \"%s\"", text, s->text);
    want(s->r,
         !zero_stream_create(rt, &stream) && !zero_stream_sync(rt, stream) &&
             !zero_stream_destroy(rt, stream),
         "a stream after the end: %s", zero_last_error());
}

static void part(struct rank *r)
{
    static const char *const words[] = {"rank 1", "rank 1 has had enough", "bad.w"};
    static const int errors[] = {-ECONNRESET, -ECANCELED, -EIO};
    struct seen s = *(const struct seen *)r->arg;
    const struct zero_setting settings[] = {{"timeout", "20"}, {"stage", "1"}};
    struct toy t = {.ranks = RANKS, .layers = 3, .steps = 1000, .dtype = ZERO_F32, .width = 600,
                    .settings = settings, .n_settings = 2, .seed = 5, .registered = registered,
                    .stepped = stepped, .lost = lost, .arg = &s};
    struct toy_result result;

    s.r = r;
    toy_rank(&t, r->rank, s.job, &result);
    want(r, s.err == errors[s.how] && strstr(s.text, words[s.how]), "status %d, \"%s\"", s.err,
         s.text);
}

static void ends(enum how how, enum ranks_how as)
{
    struct seen s = {.how = how, .looking = shared_memory(sizeof *s.looking)};
    struct rank *all;

    snprintf(s.job, sizeof s.job, "status-%d-%d-%d", (int)getpid(), (int)how, (int)as);
    all = ranks_run(RANKS, as, part, &s);
    if (how == KILLED) /* as it should be */
        all[1].status = all[1].status == SIGKILL ? 0 : -1;
    munmap(s.looking, sizeof *s.looking);
    ranks_good(all, RANKS, "a rank %s: all others see why, as %s", how_name[how],
               ranks_how_name[as]);
}

int main(void)
{
    if (RANKS_PROCESSES)
        for (int how = KILLED; how <= FAILED; how++)
            ends((enum how)how, AS_PROCESSES);
    ends(ABORTED, AS_THREADS);
    ends(FAILED, AS_THREADS);
    done();
}
