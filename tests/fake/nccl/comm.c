/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A communicator: one thread that begins it, splits it and launches late; one that is the kernels
 * on its streams. A launch is a function in the stream, which says that the stream is there, and a
 * wait for the number of collectives that have run.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "inside.h"

/* ---- Devices --------------------------------------------------------------------------------- */

#define LONGEST_MS 15000 /* NCCL would wait for ever */

static pthread_mutex_t alive_lock = PTHREAD_MUTEX_INITIALIZER;
static nccl_comm alive;

static void alive_add(nccl_comm c)
{
    pthread_mutex_lock(&alive_lock);
    c->alive = alive;
    alive = c;
    pthread_mutex_unlock(&alive_lock);
}

static void alive_remove(nccl_comm c)
{
    pthread_mutex_lock(&alive_lock);
    for (nccl_comm *at = &alive; *at; at = &(*at)->alive)
        if (*at == c) {
            *at = c->alive;
            break;
        }
    pthread_mutex_unlock(&alive_lock);
}

/* Does a kernel of another communicator run on its device? */
static bool device_works(nccl_comm c)
{
    bool works = false;

    pthread_mutex_lock(&alive_lock);
    for (nccl_comm o = alive; o && !works; o = o->alive) {
        if (o == c || o->device != c->device || atomic_load(&o->ending))
            continue;
        pthread_mutex_lock(&o->lock);
        works = o->run != o->launched;
        pthread_mutex_unlock(&o->lock);
    }
    pthread_mutex_unlock(&alive_lock);
    return works;
}

static void device_await(nccl_comm c)
{
    int ms = 0;

    for (; device_works(c) && ms < LONGEST_MS; ms++)
        fake_nap(1000);
    if (ms == LONGEST_MS)
        fake_misuse("the end of a communicator waits for the kernels of another");
}

/* ---- Beginning ------------------------------------------------------------------------------- */

static uint64_t host_of(void)
{
    const char *id = getenv("NCCL_HOSTID");
    uint64_t h = 5381;

    for (const char *p = id ? id : "this"; *p; p++)
        h = h * 33 + (unsigned char)*p;
    return h;
}

/* Where there is one GPU, ranks of one host may not share it. */
static bool shares_gpu(nccl_comm c)
{
    if (!getenv("FAKE_NCCL_DUPLICATE"))
        return false;
    for (int p = 0; p < c->ranks; p++)
        if (p != c->rank && c->seg->host[p] == c->seg->host[c->rank])
            return true;
    return false;
}

static bool join(nccl_comm c)
{
    c->seg = fake_segment_open(c->name);
    if (!c->seg) {
        fake_comm_set(c, NCCL_SYSTEM_ERROR);
        return false;
    }
    c->seg->host[c->rank] = host_of();
    if (!fake_meet(c, true))
        return false;
    if (atomic_fetch_add(&c->seg->joined, 1) == 0)
        fake_segment_unlink(c->name);
    if (!shares_gpu(c))
        return true;
    fake_comm_set(c, NCCL_BAD_USAGE);
    return false;
}

/* ---- Launching ------------------------------------------------------------------------------- */

void fake_arrive(void *arg)
{
    struct fake_op *op = arg;
    nccl_comm c = op->comm;

    pthread_mutex_lock(&c->lock);
    atomic_store(&op->there, 1);
    pthread_cond_broadcast(&c->moved);
    pthread_mutex_unlock(&c->lock);
}

/* Puts the next one that is queued on its stream. */
static int launch_one(nccl_comm c)
{
    struct fake_op *op = &c->ops[c->launched % FAKE_OPS];

    op->number = c->launched + 1;
    int err = fake_put(c, op);
    pthread_mutex_lock(&c->lock);
    c->launched++;
    pthread_cond_broadcast(&c->moved);
    pthread_mutex_unlock(&c->lock);
    return err ? NCCL_CUDA_ERROR : NCCL_OK;
}

/* ---- What takes its time --------------------------------------------------------------------- */

static int split_now(nccl_comm c)
{
    struct fake_segment *seg = c->seg;
    int rank = 0, ranks = 0;
    char name[2 * NAME_BYTES];

    seg->wish[c->rank].color = c->split.color;
    seg->wish[c->rank].key = c->split.key;
    if (!fake_meet(c, true))
        return atomic_load(&c->state);
    for (int p = 0; p < c->ranks; p++) {
        int key = seg->wish[p].key;
        if (seg->wish[p].color != c->split.color)
            continue;
        ranks++;
        rank += key < c->split.key || (key == c->split.key && p < c->rank);
    }
    snprintf(name, sizeof name, "%.80s-%u.%d", c->name, ++c->n_splits, c->split.color);
    if (!fake_meet(c, true))
        return atomic_load(&c->state);
    if (c->split.color != NCCL_NO_COLOR)
        *c->split.out = fake_comm_make(c->device, name, rank, ranks);
    c->split.out = NULL;
    return NCCL_OK;
}

static void *launcher_main(void *arg)
{
    nccl_comm c = arg;
    int r = join(c) ? NCCL_OK : atomic_load(&c->state);

    pthread_mutex_lock(&c->lock);
    while (!atomic_load(&c->ending)) {
        bool splits = c->split.wanted;
        c->split.wanted = false;
        if (!c->late && !splits) {
            if (atomic_load(&c->state) == NCCL_IN_PROGRESS)
                atomic_store(&c->state, r);
            pthread_cond_wait(&c->moved, &c->lock);
            r = NCCL_OK;
            continue;
        }
        pthread_mutex_unlock(&c->lock);
        fake_nap(rand_r(&c->random) % 300);
        r = splits ? split_now(c) : r;
        while (c->late && c->launched != c->queued && r == NCCL_OK && !atomic_load(&c->ending))
            r = launch_one(c);
        pthread_mutex_lock(&c->lock);
        c->late = false;
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

nccl_comm fake_comm_make(struct CUctx_st *device, const char *name, int rank, int ranks)
{
    const char *slow = getenv("FAKE_NCCL_SLOW");
    nccl_comm c = calloc(1, sizeof *c);

    if (c)
        c->ops = calloc(FAKE_OPS, sizeof *c->ops);
    if (!c || !c->ops) {
        free(c);
        return NULL;
    }
    fake_count(1);
    snprintf(c->name, sizeof c->name, "%s", name);
    c->device = device;
    c->rank = rank;
    c->ranks = ranks;
    c->random = (slow ? (unsigned)atoi(slow) : 1) * 64 + (unsigned)rank;
    atomic_store(&c->state, NCCL_IN_PROGRESS);
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->moved, NULL);
    alive_add(c);
    c->kernel_runs = !pthread_create(&c->kernel, NULL, fake_kernel_main, c);
    c->launcher_runs = !pthread_create(&c->launcher, NULL, launcher_main, c);
    if (!c->kernel_runs || !c->launcher_runs)
        fake_comm_set(c, NCCL_SYSTEM_ERROR);
    return c;
}

void fake_comm_split(nccl_comm c, int color, int key, nccl_comm *out)
{
    pthread_mutex_lock(&c->lock);
    c->split.wanted = true;
    c->split.color = color;
    c->split.key = key;
    c->split.out = out;
    atomic_store(&c->state, NCCL_IN_PROGRESS);
    pthread_cond_broadcast(&c->moved);
    pthread_mutex_unlock(&c->lock);
}

int fake_comm_launch(nccl_comm c, const struct fake_op *ops, unsigned n, bool late)
{
    int r = NCCL_OK;

    pthread_mutex_lock(&c->lock);
    if (c->queued + n - c->run > FAKE_OPS)
        r = NCCL_INTERNAL_ERROR;
    for (unsigned i = 0; i < n && r == NCCL_OK; i++)
        c->ops[c->queued++ % FAKE_OPS] = ops[i];
    late = late || (getenv("FAKE_NCCL_SLOW") && rand_r(&c->random) % 2);
    if (late && r == NCCL_OK) {
        c->late = true;
        atomic_store(&c->state, NCCL_IN_PROGRESS);
        pthread_cond_broadcast(&c->moved);
    }
    pthread_mutex_unlock(&c->lock);
    if (late)
        return r == NCCL_OK ? NCCL_IN_PROGRESS : r;
    for (unsigned i = 0; i < n && r == NCCL_OK; i++)
        r = launch_one(c);
    return r;
}

/* ---- Questions and ends ---------------------------------------------------------------------- */

struct CUctx_st *fake_comm_context(nccl_comm c)
{
    return c->device;
}

int fake_comm_state(nccl_comm c)
{
    return atomic_load(&c->state);
}

void fake_comm_set(nccl_comm c, int state)
{
    atomic_store(&c->state, state);
}

int fake_comm_rank(nccl_comm c)
{
    return c->rank;
}

int fake_comm_ranks(nccl_comm c)
{
    return c->ranks;
}

int fake_comm_held(nccl_comm c)
{
    return c->held;
}

bool fake_comm_idle(nccl_comm c)
{
    pthread_mutex_lock(&c->lock);
    bool idle = c->run == c->queued;
    pthread_mutex_unlock(&c->lock);
    return idle;
}

void fake_comm_finalize(nccl_comm c)
{
    pthread_mutex_lock(&c->lock);
    c->finalizing = true;
    if (c->run != c->queued)
        atomic_store(&c->state, NCCL_IN_PROGRESS);
    pthread_mutex_unlock(&c->lock);
}

void fake_comm_hold(nccl_comm c, int n)
{
    c->held += n;
    fake_count(n);
}

int fake_factor_make(nccl_comm c, double x)
{
    for (int i = 0; i < FAKE_FACTORS; i++)
        if (!c->factors[i].used) {
            c->factors[i].used = true;
            c->factors[i].x = x;
            return 1000 + i;
        }
    return -1;
}

bool fake_factor(nccl_comm c, int op, double *x)
{
    *x = 1;
    if (op == NCCL_SUM)
        return true;
    if (op < 1000 || op >= 1000 + FAKE_FACTORS || !c->factors[op - 1000].used)
        return false;
    *x = c->factors[op - 1000].x;
    return true;
}

bool fake_factor_end(nccl_comm c, int op)
{
    double x;
    bool good = op != NCCL_SUM && fake_factor(c, op, &x);

    if (good)
        c->factors[op - 1000].used = false;
    return good;
}

/* Streams may still read what they wait for; who calls with it afterwards is told so. */
static void bury(nccl_comm c)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static nccl_comm graves;

    pthread_mutex_lock(&lock);
    c->next = graves;
    graves = c;
    pthread_mutex_unlock(&lock);
    if (c->run == c->launched) {
        free(c->ops);
        c->ops = NULL;
    }
    atomic_store(&c->dead, true);
}

bool fake_comm_is_dead(nccl_comm c)
{
    return atomic_load(&c->dead);
}

void fake_comm_end(nccl_comm c)
{
    fake_job_end(c, false);
    pthread_mutex_lock(&c->lock);
    atomic_store(&c->ending, 1);
    pthread_cond_broadcast(&c->moved);
    pthread_mutex_unlock(&c->lock);
    if (c->launcher_runs)
        pthread_join(c->launcher, NULL);
    if (c->split.out) /* it has failed */
        *c->split.out = NULL;
    if (c->kernel_runs)
        pthread_join(c->kernel, NULL);
    device_await(c);
    alive_remove(c);
    if (c->seg) {
        atomic_store(&c->seg->gone, 1);
        if (!atomic_load(&c->seg->joined))
            fake_segment_unlink(c->name);
    }
    fake_segment_close(c->seg);
    c->seg = NULL;
    fake_comm_hold(c, -c->held);
    fake_count(-1);
    bury(c);
}
