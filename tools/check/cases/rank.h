/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a comm plugin must do, as cases that all ranks run together, each on a context of its own.
 * `zero check comm` runs them as processes; the project's own tests also as threads.
 *
 * A case looks at what the plugin declares: what is declared must work against a reference result,
 * what is not must be refused cleanly. Ranks make the same choices from r->seed.
 */
#ifndef ZERO_TOOLS_CHECK_CASES_RANK_H
#define ZERO_TOOLS_CHECK_CASES_RANK_H

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>

#include <zero/comm.h>
#include <zero/device.h>

#define CHECK_RANKS 64
#define CHECK_TEXTS 4
#define CHECK_VALUES 8
#define CHECK_HUGE_TIMES 5 /* as long as others may a huge case take */
#define CHECK_WAIT_NS (INT64_C(10) * 1000 * 1000 * 1000)
#define CHECK_NOTHING INT64_MIN /* no result: what was waited for did not come */

/* One rank, and what it complains about. */
struct check_rank {
    const struct zero_comm_ops *ops;
    const struct zero_host *host;
    const struct zero_oob *oob; /* of all ranks; only between cases used by the driver */
    struct zero_comm_caps caps;
    const char *plugin, *interface; /* interface: as in struct zero_comm_open, may be NULL */
    const struct zero_device_ops *device_ops; /* likewise */
    struct zero_device *device;
    int rank, ranks;
    bool huge; /* gigabytes may be taken */
    uint64_t seed;
    bool gave_up; /* a wait was in vain: there are no others */
    int n_bad;
    char text[CHECK_TEXTS][400]; /* the first complaints */
    char ended[360];             /* how the last collective or request ended: check_ended() */
    char value[CHECK_VALUES][24]; /* of check_value(), the last ones */
    unsigned n_values;
};

/*
 * Notes a complaint unless `good`, which it returns: what was found and what is due. What is
 * printed is looked at behind `good`, as check_error() has to be.
 */
bool check_note(struct check_rank *r, bool good, const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
#define check_want(r, good, ...)                \
    __extension__({                             \
        const bool is_good = (good);            \
        check_note((r), is_good, __VA_ARGS__);  \
    })
#define want(r, good, ...) check_want(r, good, __FILE__, __LINE__, __VA_ARGS__)

/* Starts a thread; a complaint and false where that cannot be: it is not to be joined. */
bool check_thread(struct check_rank *r, pthread_t *thread, void *(*run)(void *arg), void *arg);

/* ---- said.c: what the plugin returned and said ----------------------------------------------- */

/* Puts a mark in the place of this thread's sentence. */
void check_mark(const struct zero_host *host);
/* Has the plugin put a sentence in the place of the mark? */
bool check_said(void);
/* The sentence of the last error on this thread, or that there is none since the mark. */
const char *check_error(void);
/* A negative errno by its name, any other value as a number; good for CHECK_VALUES calls. */
const char *check_value(struct check_rank *r, int64_t value);
/* Sets r->ended to "HOW VALUE", and the sentence where it is an error. Returns value. */
int64_t check_ended(struct check_rank *r, const char *how, int64_t value);

#define CHECK_UNORDERED (UINT32_C(1) << 31)
#define CHECK_TWO (UINT32_C(1) << 30)

struct check_case {
    const char *name;
    int least_ranks;
    bool huge;      /* takes gigabytes: runs only when asked for */
    /* Capability flags; CHECK_UNORDERED: ORDERED is not declared; CHECK_TWO: max_inflight ≥ 2. */
    uint32_t needs;
    uint32_t kinds; /* collectives without which it shows nothing; reductions: sums of fp32 */
    uint32_t any;   /* collectives one of which it needs; 0: none */
    void (*run)(struct check_rank *r);
};

/* Ends with a case without a name. */
extern const struct check_case check_comm_cases[];

/* Does the case apply to the plugin and to so many ranks? Else *why. */
bool check_applies(const struct check_case *c, const struct check_rank *r, const char **why);

/* Does the plugin declare such a collective: its kind, and of reductions the type and the rest? */
bool check_can(const struct check_rank *r, const struct zero_coll *coll);

/* ---- One rank's use of the plugin ------------------------------------------------------------ */

struct check_comm {
    struct check_rank *r;
    const struct zero_comm_ops *ops;
    struct zero_comm_ctx *ctx;
    struct zero_comm *world;
    struct zero_mr *mr; /* of memory, exchanged */
    char *memory;
    uint64_t bytes;
    int64_t wait_ns; /* for a completion */
};

/* Collective: a context, its communicator of all ranks, and exchanged memory. */
bool check_open(struct check_rank *r, struct check_comm *c, uint64_t bytes);
void check_close(struct check_comm *c);

/*
 * Memory from the plugin, where it has any, else registered with it: of the device, where there is
 * one, and such that the host reaches it, too. Not yet exchanged.
 */
int check_alloc(struct check_comm *c, uint64_t bytes, char **base, struct zero_mr **mr);
void check_free(struct check_comm *c, uint64_t bytes, char *base, struct zero_mr *mr);

/* Its kind, as the plugin is told. */
uint32_t check_memory_kind(const struct check_rank *r);

struct zero_slice check_slice(const struct check_comm *c, uint64_t off, uint64_t len);

/*
 * Each sets r->ended, for complaints. Waits for one completion: its result, an error of progress(),
 * or CHECK_NOTHING.
 */
int64_t check_wait(struct check_comm *c, uint64_t *user);
/* Posts one collective and waits for it; CHECK_NOTHING also where another one completes. */
int64_t check_run(struct check_comm *c, struct zero_comm *comm, const struct zero_coll *coll);
/* 0 when all ranks of `comm`, which has those of the context, have called it. */
int64_t check_meet(struct check_comm *c, struct zero_comm *comm);

int64_t check_now_ms(void);
void check_sleep_ms(int ms);

/*
 * An all_gather of count fp32 per rank, an all_reduce of count, a reduce_scatter of count to each
 * rank: from the first half to the second.
 */
struct zero_coll check_gather(const struct check_comm *c, uint64_t count);
struct zero_coll check_reduce(const struct check_comm *c, uint64_t count);
struct zero_coll check_scatter(const struct check_comm *c, uint64_t count);

/*
 * What the plugin has of these, for cases that are about something else: sums before a gathering;
 * a barrier where there is none. check_some_sum(): kind ZERO_BARRIER where there are no sums.
 */
struct zero_coll check_some(const struct check_comm *c, uint64_t count);
struct zero_coll check_some_sum(const struct check_comm *c, uint64_t count);
/*
 * A barrier, or the least of these where there is none: it ends when all have posted it. Some are
 * under way at the same time if they have different numbers.
 */
struct zero_coll check_meeting(const struct check_comm *c, uint64_t number);
/* Lays source and destination where ZERO_COLL_INPLACE wants them, and sets it. */
void check_in_place(const struct check_comm *c, struct zero_coll *q);

#define CHECK_COLL 160
/* What complaints call a collective of the two below: all that it depends on, in one line. */
const char *check_coll(const struct zero_coll *q, uint64_t seed, char text[CHECK_COLL]);

/*
 * exact.c: runs q of `comm`, in which this rank is `rank` of `ranks`, with values from `seed`, and
 * compares every element with the reference.
 */
void check_exact(struct check_comm *c, struct zero_comm *comm, int rank, int ranks,
                 struct zero_coll q, uint64_t seed);

/*
 * approximate.c: runs the floating reduction q, which may add in any order, and sees that its
 * results are as near as that allows, and equal on all ranks.
 */
void check_approximate(struct check_comm *c, struct zero_comm *comm, int rank, int ranks,
                       struct zero_coll q, uint64_t seed);

/* check_exact(), but check_approximate() for floating reductions of plugins that are not ORDERED.
 */
void check_either(struct check_comm *c, struct zero_comm *comm, int rank, int ranks,
                  struct zero_coll q, uint64_t seed);

/* left.c: descriptors (and three more) and threads of this process; INT_MAX: cannot be counted. */
int check_descriptors(void);
int check_threads(void);
/*
 * Complains where of WHAT ("threads run") more than `more` came to those `before` and stay for some
 * seconds, after n contexts or stores; also where they cannot be counted.
 */
void check_left(struct check_rank *r, int (*count)(void), const char *what, int before, int more,
                int n, const char *of);

/* ---- The cases ------------------------------------------------------------------------------- */

void check_case_movements(struct check_rank *r);
void check_case_reductions(struct check_rank *r);
void check_case_approximate(struct check_rank *r);
void check_case_large(struct check_rank *r);
void check_case_huge(struct check_rank *r);
void check_case_undeclared(struct check_rank *r);
void check_case_wire_bytes(struct check_rank *r);
void check_case_concurrent(struct check_rank *r);
void check_case_crowd(struct check_rank *r);
void check_case_leave_out(struct check_rank *r);
void check_case_many(struct check_rank *r);
void check_case_batches(struct check_rank *r);
void check_case_batch_wakes(struct check_rank *r);
void check_case_memory(struct check_rank *r);
void check_case_map(struct check_rank *r);
void check_case_mismatch(struct check_rank *r);
void check_case_calls_apart(struct check_rank *r);
void check_case_refusals(struct check_rank *r);
void check_case_streams(struct check_rank *r);
void check_case_wakes(struct check_rank *r);
void check_case_missing(struct check_rank *r);
void check_case_aborts(struct check_rank *r);
void check_case_abort_in_flight(struct check_rank *r);
void check_case_left(struct check_rank *r);

#endif
