/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a context of ucx when several ranks of other hosts are lost: every endpoint begins to
 * close before the first is waited for, and the worker is not moved any more when memory that
 * messages use has been given back. UCX is the real one, over TCP; some of its functions are looked
 * at on their way, and closing takes a while, in which the rank sleeps: libzero takes one that
 * computes for so long for one that never returns.
 */
#define _GNU_SOURCE
#include "comm.h"

#include "host.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <ucp/api/ucp.h>

#define RANKS 5
#define VISIBLE __attribute__((visibility("default"))) /* to plugins */
#define BIG (UINT64_C(8) << 20)
#define CLOSE_MS 800 /* that an endpoint takes to close */
#define TRIES 4
#define COMPUTE_MS 250 /* of the end, in which the rank may compute */

struct board {
    /* Ranks after the barrier; those whose messages wait; rank 0 has closed its context. */
    atomic_int met, posted, through;
};

static struct board *board;
static bool killed;                /* the peers are gone, else they have stopped to take part */
static int closed, waited, before; /* endpoints; turns after the first; those before the last */
static int given_back, after;      /* memory that messages use; turns after that */
static int64_t first_ms;           /* as the first endpoint began to close */
static char slow;                  /* stands for the request of an endpoint that closed at once */

/* The library that the plugin brought along. */
static void *ucx(const char *name)
{
    void *library = dlopen("libucp.so.0", RTLD_LAZY | RTLD_NOLOAD);
    return library ? dlsym(library, name) : NULL;
}

VISIBLE ucs_status_ptr_t ucp_ep_close_nbx(ucp_ep_h ep, const ucp_request_param_t *param)
{
    static ucs_status_ptr_t (*real)(ucp_ep_h, const ucp_request_param_t *);

    if (!real)
        real = (ucs_status_ptr_t(*)(ucp_ep_h, const ucp_request_param_t *))ucx(__func__);
    if (!closed++)
        first_ms = now_ms();
    before = waited;
    ucs_status_ptr_t request = real(ep, param);
    return request ? request : &slow;
}

VISIBLE ucs_status_t ucp_request_check_status(void *request)
{
    static ucs_status_t (*real)(void *);

    if (request == &slow)
        return now_ms() - first_ms < CLOSE_MS ? UCS_INPROGRESS : UCS_OK;
    if (!real)
        real = (ucs_status_t(*)(void *))ucx(__func__);
    return real(request);
}

VISIBLE void ucp_request_free(void *request)
{
    static void (*real)(void *);

    if (request == &slow)
        return;
    if (!real)
        real = (void (*)(void *))ucx(__func__);
    real(request);
}

VISIBLE unsigned ucp_worker_progress(ucp_worker_h worker)
{
    static unsigned (*real)(ucp_worker_h);

    if (!real)
        real = (unsigned (*)(ucp_worker_h))ucx(__func__);
    waited += closed > 0;
    after += given_back;
    return real(worker);
}

static void wait_for(atomic_int *counter, int n)
{
    int64_t until = now_ms() + 10000;

    while (atomic_load(counter) < n && now_ms() < until)
        sleep_ms(1);
}

/* A message to every peer begins, and nobody takes it: those who stop to take part do so first. */
static void lose_all(struct rank *r, struct comm_rank *c)
{
    const struct zero_coll q = {.kind = ZERO_ALL_GATHER,
                                .src_dtype = ZERO_U8,
                                .dst_dtype = ZERO_U8,
                                .scale = 1,
                                .count = BIG,
                                .src = comm_slice(c, 0, BIG),
                                .dst = comm_slice(c, BIG, BIG * RANKS)};
    int64_t until = now_ms() + 10000;
    struct zero_cqe cqe;

    want(r, comm_barrier(c, c->world) == 0, "barrier: %s", zero_last_error());
    atomic_fetch_add(&board->met, 1);
    while (atomic_load(&board->met) < RANKS && now_ms() < until)
        c->ops->progress(c->ctx, &cqe, 0, 0);
    if (r->rank == 0 && !killed)
        wait_for(&board->posted, RANKS - 1);
    want(r, !c->ops->post(c->world, &q, 1, NULL), "post: %s", zero_last_error());
    for (int i = 0; i < (r->rank ? 100 : 3000); i++)
        c->ops->progress(c->ctx, &cqe, 0, 0);
    atomic_fetch_add(&board->posted, 1);
    if (r->rank && killed) {
        wait_for(&board->posted, RANKS - 1); /* who goes has not moved UCX since the first went */
        _exit(0);
    }
    if (r->rank)
        wait_for(&board->through, 1);
    want(r, !c->ops->abort(c->ctx), "abort: %s", zero_last_error());
}

/* As libzero does, before the context is closed. */
static void give_back(struct rank *r, struct comm_rank *c)
{
    want(r, !c->ops->unreg(c->ctx, c->mr), "unreg: %s", zero_last_error());
    munmap(c->memory, c->bytes);
    c->memory = NULL;
    given_back = 1;
}

/* In its own code: the kernel gives much memory back. */
static int computed_ms(void)
{
    struct rusage u;

    getrusage(RUSAGE_THREAD, &u);
    return (int)(u.ru_utime.tv_sec * 1000 + u.ru_utime.tv_usec / 1000);
}

static void cut(struct rank *r)
{
    struct comm_rank c = {0};
    int before_ms;

    host_seen = r->rank + 1;
    if (comm_open(r, &c, "ucx", BIG * (RANKS + 1), NULL, 0))
        lose_all(r, &c);
    before_ms = computed_ms();
    if (r->rank == 0 && !killed && c.memory)
        give_back(r, &c);
    comm_end(r, &c);
    if (r->rank == 0) {
        want(r, computed_ms() - before_ms < COMPUTE_MS, "it computed for %d ms",
             computed_ms() - before_ms);
        want(r, after == 0, "%d turns after the memory was given back", after);
        want(r, closed == RANKS - 1, "%d endpoints were closed", closed);
        want(r, before == 0, "%d turns before the last endpoint began to close", before);
    }
    atomic_store(&board->through, 1);
}

/*
 * An assertion of UCX 1.13 about messages over a connection that has just been reset (`comp->count
 * > 0`, uct_iface.h) ends a rank now and then: that says nothing about the order in which it
 * closes.
 */
static bool has_aborted(const struct rank *all)
{
    for (int r = 0; r < RANKS; r++)
        if (WIFSIGNALED(all[r].status) && WTERMSIG(all[r].status) == SIGABRT)
            return true;
    return false;
}

int main(void)
{
    comm_require("ucx");
    setenv("UCX_TLS", "tcp,self", 1);
    board = shared_memory(sizeof *board);
    for (int i = 0; i < 2; i++) {
        struct rank *all = NULL;
        killed = i;
        for (int n = 0; n < TRIES && (!all || has_aborted(all)); n++) {
            if (all)
                diag("UCX has ended a rank by an assertion of its own: once more");
            memset(board, 0, sizeof *board);
            all = comm_ranks(RANKS, AS_PROCESSES, cut, NULL);
        }
        ranks_good(all, RANKS, "%d peers that %s are closed together", RANKS - 1,
                   killed ? "have gone" : "take nothing");
    }
    done();
}
