/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runtime: everything that hangs off a struct zero_runtime, and how its parts work together.
 *
 * Threads of a rank: the application's thread issues ops (in list order, as far as its acquires and
 * releases allow) and waits; the progress thread starts issued ops when what they wait for is done,
 * and is the only one to call the communication plugin; the device's threads run kernels; the job's
 * control thread reports dead ranks. `lock` guards lanes and counters; `moved` is signalled
 * whenever a counter moved or the runtime failed.
 *
 * A lane is a queue of the program as it runs. Ordinals count ops of a lane since the start;
 * issued >= started >= done, and ops of a lane are done in order. A body's waits are relative to
 * the lanes' `base`, the ordinals at which the body began.
 */
#ifndef ZERO_ENGINE_RUNTIME_H
#define ZERO_ENGINE_RUNTIME_H

#include <pthread.h>
#include <stdatomic.h>

#include <zero/comm.h>
#include <zero/device.h>
#include <zero/zero.h>

#include "base/log.h"
#include "base/options.h"
#include "job/job.h"
#include "memory/pages.h"
#include "plugin/loader.h"
#include "schedule/program.h"
#include "schedule/simulate.h"

#define ZERO__MAX_COLLS ZERO_MAX_SEGMENTS_PER_UNIT
/* Others wait a little longer than the progress thread, which knows the culprit. */
#define ZERO__GRACE_NS (INT64_C(5) * 1000 * 1000 * 1000)

/* What of a unit's gradient is there, in this step. */
enum contribution {
    NOTHING,
    SOME, /* sums of micro-batches so far */
    ALL,  /* all of them, reduced: the update can begin */
};

struct slot {
    const struct zero__body *body; /* NULL: collectives of the runtime itself, in raw */
    uint32_t op, body_kind;
    uint64_t waits[ZERO__N_QUEUES]; /* ordinals that must be done */
    struct zero_coll *raw;
    struct zero_io *raw_ios;
    uint64_t raw_bytes;      /* of each of raw_ios, which an error may take away */
    uint32_t n_raw, pending; /* completions still to come */
    uint32_t n_posted;       /* requests that the store has taken */
    uint32_t in_store;       /* of these, a bit each: those that have not ended */
    uint64_t sequence;       /* of its first collective, 0: it has none */
    uint32_t place; /* among all ops of the transport's lanes, alike on all ranks, from 1 */
    uint32_t n_colls;
    int accumulate;          /* REDUCE, ACCUMULATE, loads of sums: there is something to add to */
    int released;            /* COMPUTE */
    int64_t start_ns, deadline_ns;
    void *event; /* CPU lane, and COMPUTE on a stream */
    int on_stream;
    uint32_t mark; /* tests: see zero__track_mark() */
    int armed; /* of a stream: its waits are over, start_ns and deadline_ns count */
};

struct lane {
    const struct zero_device_ops *ops; /* of the device that its stream and events are of */
    struct zero_device *dev;
    struct slot *slots;
    uint32_t capacity; /* a power of two */
    uint64_t issued, started, done, base;
    void *stream; /* of the device; NULL: the host starts ops one by one, and hears of their ends */
    struct zero_comm *comm; /* transports' lanes */
    uint64_t sequence;
    int64_t ended_ns; /* of a stream: the last op that is done */
};

/* What a completion says: whose it is. The piece is the relay's, or a request's of a store. */
static inline uint64_t zero__user(uint32_t queue, uint64_t ordinal, uint32_t piece)
{
    return ordinal << 8 | piece << 4 | queue;
}
static inline uint64_t zero__user_queue(uint64_t user)
{
    return user & 0xf;
}
static inline uint32_t zero__user_piece(uint64_t user)
{
    return user >> 4 & 0xf;
}
static inline uint64_t zero__user_ordinal(uint64_t user)
{
    return user >> 8;
}

/* A range of a tier that was reserved as one. */
struct slab {
    uint8_t *base;
    uint64_t bytes;
    struct zero_mr *mr;
    int from_comm; /* the context allocated it */
    int pinned;    /* of the host: the device knows it */
};
/* Of a tier: states, then transients. */
static inline uint32_t zero__slab(uint32_t tier, uint32_t transient)
{
    return 2 * tier + (transient != 0);
}
enum { SLAB_STATES, SLAB_TRANSIENTS, N_SLABS = 2 * ZERO__N_TIERS }; /* the device's by name */

/* A tier beside the device, served by an offload plugin. */
struct tier {
    const char *name; /* of the plugin; NULL: nothing lies there */
    struct zero_offload_ops ops;
    struct zero_store *store;
    struct zero_store_info info;
    struct zero_mr *mr; /* disk: the memory of the tier cpu from here on: states before it */
    uint64_t mr_first;  /* are what no request moves */
};

/* Of an update outside the device that are read, updated or written; tests: ZERO_TEST_TILES. */
#define ZERO__TILES 8u
#define ZERO__MOST_IOS 16u /* requests of one op: as many as there are pieces, see zero__user() */
/* How long to wait with a store that has no room now: it may not say when it has. */
#define ZERO__STORE_FULL_NS INT64_C(1000000)

/* Bytes a second of a rank to and from the disk, while all ranks use it; 0: not measured. */
struct speeds {
    double read, write, both; /* both: of reading and writing the same at once, together */
};

/* What a step of such a job took, in the last one of it; compute_s 0: nobody knows. */
struct past {
    double compute_s, update_s;
    struct speeds speeds; /* then */
};

/* What is known of a program's costs before it has run. */
struct guess {
    double compute_s, update_s; /* of a step: in uses of units, in kernels of the update */
    double copy;                /* bytes a second between device and host; 0: not known */
    struct speeds speeds;
};

/* What a step has done. */
struct work {
    struct moved {
        uint64_t read_bytes, written_bytes; /* on the disk */
    } in_micro, in_update;                 /* for the uses of units, for the update */
    uint64_t compute_ns, update_ns;         /* in uses of units, in kernels of the update */
    int64_t compute_end_ns, update_end_ns; /* of the last one so far */
    int unknown; /* uses were out of order, which nobody times */
};

/* A range of the transients' slab that a deviating step has in use. */
struct extent {
    uint64_t first, last;
};

/* An activation in the body that runs. */
struct activation {
    uint64_t bytes; /* saved; 0: not yet */
    uint8_t *now;   /* where it is, in a use that produces or consumes it */
    int consumed;   /* the latter */
    uint64_t taken; /* out of order: its place in the pool, or ZERO__NOWHERE */
};

struct deviation {
    int on;
    struct extent *used; /* sorted */
    uint32_t n_used, capacity;
    struct zero_use *recorded; /* the order as it comes */
    uint32_t n_recorded, cap_recorded;
    uint64_t *param_at, *grad_at; /* by segment: offset in the slab, or ZERO__NOWHERE */
    uint32_t *backward;           /* by unit: contributions so far */
    uint8_t *reduced;
    struct zero__body body; /* of the unit that is gathered or reduced now */
};

#define ZERO__SUM_MOST 64u

enum phase { PHASE_SETUP, PHASE_IDLE, PHASE_MICRO, PHASE_EVAL, PHASE_FAILED };

struct zero_runtime {
    struct zero__options *options;
    struct zero__log log;
    struct zero__loader *loader;
    struct zero__job *job;
    int rank, ranks, local_ranks;
    int64_t timeout_ns;

    struct zero__model model;
    struct zero__recipe recipe;
    struct zero__states states;
    struct zero__program *programs[2]; /* the one that runs, and the one before */
    uint32_t next_order[2];            /* a new order of this kind waits to be compiled */
    uint32_t recorded_order[2];        /* it comes from a step out of order, not from the program */
    uint32_t optimizer;                /* enum zero__optimizer */
    zero_optimizer_fn callback;
    void *callback_arg;
    struct zero__callbacks *callbacks;

    struct zero_device_ops dev_ops;
    struct zero_device *dev;
    char device_name[80];    /* as ZERO_DEVICE says it */
    uint32_t device_mem;     /* enum zero_mem: what its memory is */
    char device_pci[16];     /* where it is plugged in; "": not known, or nowhere */
    uint32_t device_sharers; /* ranks that may have the same device */
    struct {
        void *stream, *pinned;
    } reach; /* see reach.c; a device whose memory is the host's has none */
    struct zero_device *host; /* which updates what lies there; NULL: the device does */
    struct zero__relay *relay; /* NULL: the transport takes the device's memory */
    struct zero_comm_ops comm_ops;
    struct zero_comm_ctx *ctx;
    const char *comm_name;
    struct zero_comm_caps caps;
    int streamed; /* collectives are ordered in streams: see streams.c */
    double *sum_parts; /* of zero_sum(): ZERO__SUM_MOST of every rank */
    struct slab slabs[N_SLABS];
    struct tier tiers[ZERO__N_TIERS];
    uint16_t placed[ZERO__N_PLACED][ZERO__N_TIERS]; /* as in the recipe */
    char placement[1024];           /* the same as ZERO_OFFLOAD would say it */
    uint8_t spread[ZERO__N_PLACED]; /* without fractions: tiers, a bit each, that it fills */
    int is_auto;                    /* ZERO_OFFLOAD=auto: so is everything */
    struct speeds speeds;
    double copies;    /* bytes a second between device and host; 0: nobody asked, or not known */
    struct past past; /* where something is spread over a disk */
    uint8_t **mapped; /* by segment: its parameters, the ranks' shards side by side; or NULL */
    struct zero__pages *pages;

    pthread_mutex_t lock;
    pthread_cond_t moved;
    pthread_t progress;
    atomic_int progress_thread; /* its number with the kernel, 0: it has not begun */
    int progress_runs, stop;
    pthread_t storage;
    atomic_int storage_runs; /* the device's workers look, too */
    int storage_stop;
    atomic_int storage_waits; /* the storage thread wants to hear when something is done */
    struct lane lanes[ZERO__N_QUEUES];
    struct zero__inside *inside; /* the transport */
    atomic_int left; /* a call into the transport does not return: nothing is freed */
    atomic_int job_failed;
    atomic_int err; /* of the runtime; sticky; err_text is written before it */
    char err_text[1024];

    enum phase phase;
    uint32_t body_kind;
    const struct zero__body *body;
    uint32_t pc;   /* next op to issue */
    int held;      /* a use is acquired */
    struct zero_use use;
    uint64_t use_ordinal;
    uint32_t micro;      /* micro-batches of this step so far */
    uint8_t *contributed; /* by unit: do its accumulators or gradients hold this step's? */
    uint64_t update_base[ZERO__N_QUEUES]; /* where the lanes stood as the last update began */
    int settled; /* all ranks have done all of the last body, and know it of each other */
    int has_updated; /* the program that runs has: parts of its update may be under way */
    uint8_t **param_now, **grad_now; /* by segment, while a use is held */
    float beta_now;
    struct activation *activations; /* by declared buffer */
    void *scratch; /* states.staging_bytes: values on their way to and from a disk */
    struct deviation dev_step;
    uint64_t *zero_first, *zero_count; /* by segment, arguments of zero__gradients_zero() */

    /* Measured. */
    uint64_t exposed_ns;
    uint32_t n_placed, late_place; /* ops that have a place; of the one whose deadline passed */
    uint32_t n_begun; /* streamed: places that are posted; the next one is the next to be */
    uint64_t wire_bytes, wire_bytes_seen; /* of the plugin's counters: now, as the step began */
    int64_t step_began_ns;
    struct zero_step_info last_info;
    struct work work, timed_work; /* of this step so far; of the last one in the declared order */
    struct op_times {
        struct zero_op_time *ring;
        uint64_t capacity, first, end; /* capacity: a power of two */
        struct zero__costs costs;      /* what each op took when it ran last */
        int64_t end_ns[ZERO__N_QUEUES]; /* of each queue's last op */
        int64_t left_ns;               /* when the application was given back its thread */
        double end_s;                  /* of this step, as in the costs */
    } times;
    struct {
        uint64_t most[ZERO_N_CLASSES], all;
    } peak; /* transient bytes of the device, of the bodies that ran */
    uint64_t disk_read, disk_written; /* as the store counts them, and the one of a trial before */
    uint32_t disk_flags;              /* enum zero_store_flags, of what it is now */
    int64_t disk_moved_ns;            /* when it last ended something, or counted more */
    struct {
        uint64_t read, written;
    } trial;

    struct {
        int64_t after_ns, again_ns; /* how long an op waits before; when it is looked at next */
        int told;                   /* the job was told that something waits */
    } doubt;

    struct flight {
        struct flight_op *ring; /* NULL: before commit */
        uint64_t end;           /* ops, ever */
        struct flight_coll *colls; /* a ring, too: what was posted, of all queues */
        uint64_t n_colls;          /* ever */
        atomic_uint_fast64_t now; /* what the transport is at, see flight.c; 0: nothing */
    } flight;
    struct {
        uint64_t number;          /* of the job, 0: this rank was not let in */
        char key[384], model[64]; /* of the job */
        int64_t began_ns;         /* time of day */
        int written;
    } crash;

    struct zero__histories *history; /* NULL: the transport compares what ranks post */

    struct tracker *tracker; /* tests: see track.c */
    uint32_t test_host_updates; /* tests: as if the device had memory of its own */
    uint32_t test_skip_wait; /* tests: number of the wait to leave out, 0: none; see track.c */
};

/* The host's instructions can use the device's memory. */
static inline int zero__device_is_host(const struct zero_runtime *rt)
{
    return rt->device_mem == ZERO_MEM_HOST;
}

/* ---- device.c */

/* The device that ZERO_DEVICE names, and its streams. */
int zero__device_open(struct zero_runtime *rt);

/* ---- reach.c */

/* Of the application's thread: bytes of the device that nothing else works on. They block. */
int zero__reach_open(struct zero_runtime *rt);
void zero__reach_close(struct zero_runtime *rt);
int zero__device_read(struct zero_runtime *rt, void *to, const void *from, uint64_t bytes);
int zero__device_write(struct zero_runtime *rt, void *to, const void *from, uint64_t bytes);
/* The same from anywhere to anywhere; fast only where the device can reach both. */
int zero__device_copy(struct zero_runtime *rt, void *to, const void *from, uint64_t bytes);

/* ---- errors.c */

/* Makes the runtime fail: the first error wins, all ranks hear of it, all waiters return. */
int zero__runtime_fail(struct zero_runtime *rt, int culprit, int err, const char *op,
                       const char *cause);
/* Its end is decided, here or by another rank: nothing new starts, and nobody waits. */
static inline int zero__runtime_over(struct zero_runtime *rt)
{
    return rt->err || atomic_load_explicit(&rt->job_failed, memory_order_acquire);
}
/* The runtime's error as this thread's sentence, or 0. */
int zero__runtime_error(struct zero_runtime *rt);
/* An operation that was aborted: what the job says was the reason, else err. */
int zero__runtime_cause(struct zero_runtime *rt, int err);
/* The caller must be in one of the phases (mask of 1 << enum phase). */
int zero__runtime_phase(struct zero_runtime *rt, uint32_t phases, const char *what);
#define IN(phase) (1u << (phase))

/* ---- lane.c */

int zero__lanes_create(struct zero_runtime *rt);
void zero__lanes_free(struct zero_runtime *rt);
/* When the job's thread, which wakes who waits, has ended. */
void zero__lanes_end(struct zero_runtime *rt);
/* Room for the ops of the programs; no op is in flight. */
int zero__lanes_size(struct zero_runtime *rt);
/* Remembers where the lanes stand as the beginning of a body. Lock held. */
void zero__lanes_mark(struct zero_runtime *rt);
/* The slot of an ordinal. */
struct slot *zero__lane_slot(struct lane *l, uint64_t ordinal);
/* Appends an op of the current body to its lane; the lock is held. */
int zero__lane_issue(struct zero_runtime *rt, uint32_t op);
/* Runs collectives of the runtime's own on a lane and waits for them. */
int zero__lane_run(struct zero_runtime *rt, uint32_t queue, struct zero_coll *colls, uint32_t n);
/* Waits until ordinals are done, or the runtime fails; adds to *waited_ns when it had to. */
int zero__lanes_wait(struct zero_runtime *rt, const uint64_t *ordinals, uint64_t *waited_ns);
/* Counts ops done whose completions have all come, in order; lock held. */
void zero__lane_settle(struct zero_runtime *rt, uint32_t queue);
/* Waits until everything issued is done. */
int zero__lanes_drain(struct zero_runtime *rt);

/* ---- streams.c: ops that are put on streams before what they wait for is done */

/* Where the transport takes streams: one for each of its lanes. */
int zero__streams_create(struct zero_runtime *rt);
/* Could the op start now: is all that it waits for done, or ordered in streams? Lock held. */
int zero__streams_ready(struct zero_runtime *rt, uint32_t q, const struct slot *s);
/* Lets the lane's stream wait for what is not done yet; lock held. */
int zero__streams_wait(struct zero_runtime *rt, uint32_t q, const struct slot *s);
/* Ops at the heads of their lanes that have nothing to wait for: their time counts. Lock held. */
void zero__streams_arm(struct zero_runtime *rt);
/* The first failure of a communicator whose collectives are under way; lock held. */
int zero__streams_error(struct zero_runtime *rt);

/* ---- progress.c */

int zero__progress_start(struct zero_runtime *rt);
void zero__progress_stop(struct zero_runtime *rt);
/* The application's thread issued something, or an event was reached. */
void zero__progress_wake(void *rt);
/* Bytes that everything issued so far sends; no collective of the runtime itself is in flight. */
uint64_t zero__wire_bytes(struct zero_runtime *rt);

/* ---- tiers.c */

/* The plugins of ZERO_OFFLOAD, and what it places where. */
int zero__tiers_load(struct zero_runtime *rt);
/* Those of ZERO_OFFLOAD=auto: what cannot be used is left out. */
void zero__tiers_try(struct zero_runtime *rt);
/* Reserves what the program needs in them. */
int zero__tiers_open(struct zero_runtime *rt);
/* More room for transients of the host, while nothing is under way. */
int zero__tiers_grow(struct zero_runtime *rt, uint64_t transient_bytes);
/* A store of the tier's plugin; a trial is another one than the job's, and warns of nothing. */
int zero__store_open(struct zero_runtime *rt, struct tier *t, uint64_t bytes, int is_trial);
/* Before the device closes. */
void zero__tiers_unpin(struct zero_runtime *rt);
void zero__tiers_close(struct zero_runtime *rt);
/* Of the host's memory, that a store of so many bytes takes for itself: checksums. */
uint64_t zero__disk_beside(uint32_t bytes_per_mib, uint64_t bytes);
/* Room on the disk for the program that is now the first one, while nothing is under way. */
int zero__disk_grow(struct zero_runtime *rt);

/* ---- storage.c */

/* Where there is a disk; else these do nothing. */
int zero__storage_start(struct zero_runtime *rt);
void zero__storage_stop(struct zero_runtime *rt);
/* Adds what the body that begins moves to and from the disk. */
void zero__storage_count(struct zero_runtime *rt);
void zero__storage_wake(struct zero_runtime *rt);
/* Bytes of a home on the disk, for the application's thread while no step runs. */
int zero__storage_read(struct zero_runtime *rt, uint32_t home, uint64_t off, uint64_t bytes,
                       void *to);
int zero__storage_write(struct zero_runtime *rt, uint32_t home, uint64_t off, uint64_t bytes,
                        const void *from);
/* The same of a transient buffer at `off` in its slab; one of to, from is NULL. */
int zero__storage_move(struct zero_runtime *rt, uint64_t off, uint64_t bytes, void *to,
                       const void *from);

/* ---- execute.c, kernels.c: start one op. -EAGAIN: no room now. */

int zero__execute(struct zero_runtime *rt, uint32_t queue, struct slot *s);
/* The collectives of an op of a body, but for what numbers them; how many. */
uint32_t zero__collectives(struct zero_runtime *rt, const struct slot *s, struct zero_coll *colls);
/* A collective of the op failed, and the plugin said why; adds what it means. Returns err. */
int zero__collective_failed(const struct zero_runtime *rt, const struct slot *s, int err);
int zero__execute_kernels(struct zero_runtime *rt, const struct zero__op *op, struct slot *s);
/* Puts zeroing a unit's gradients (or accumulators) on the device's stream. */
int zero__gradients_zero(struct zero_runtime *rt, uint32_t unit);
/* Address of bytes of a buffer of a body. */
uint8_t *zero__address(struct zero_runtime *rt, const struct zero__body *b, uint32_t buffer,
                       uint64_t off);
/* Address of a segment's whole parameters, which lie in `buffer` or are mapped. */
uint8_t *zero__param_address(struct zero_runtime *rt, const struct zero__body *b, uint32_t segment,
                             uint32_t buffer);
/* The access of an op to a segment in a role, or NULL. */
const struct zero__access *zero__access_find(const struct zero__body *b, const struct zero__op *op,
                                             uint32_t segment, uint32_t role);
/* A slice of a slab. */
struct zero_slice zero__slice(struct zero_runtime *rt, uint32_t slab, uint64_t off, uint64_t len);

/* ---- callback.c: the application's optimizer on one segment's part, on the device's stream. */

int zero__callback_create(struct zero_runtime *rt);
void zero__callback_free(struct zero_runtime *rt);
int zero__callback_launch(struct zero_runtime *rt, uint32_t segment, const void *grad,
                          uint32_t grad_dtype, void *param, float *master, float *m, float *v,
                          uint64_t first, uint64_t count);

/* ---- transport.c */

/* Collective. Chooses, loads and opens the communication plugin; sets comm_name, caps, comm_ops,
 * ctx. */
int zero__transport_open(struct zero_runtime *rt);
/* Whom its oldest collective waits for, `max` at most; whatever the plugin says, they are ranks. */
int zero__transport_missing(struct zero_runtime *rt, struct zero_comm *comm, int32_t *whom,
                            uint32_t max);

/* ---- threads.c */

/* Collective. The option, or this rank's share of the cores, which becomes the option. */
int zero__threads_choose(struct zero_runtime *rt, uint32_t *threads);

/* ---- memory.c */

struct zero__memory_limit;
/* ZERO_MEMORY_LIMIT. */
int zero__memory_limit(struct zero_runtime *rt, struct zero__memory_limit *limit);
int zero__memory_reserve(struct zero_runtime *rt);
/* Of the disk, that a rank may fill. */
uint64_t zero__disk_room(const struct zero_runtime *rt);
/* What lies there takes the host's memory. */
int zero__disk_is_host(const struct zero_runtime *rt);
/* Of the host's memory, for what the program has on the disk. */
uint64_t zero__checksum_bytes(const struct zero_runtime *rt);
/* For a new program, while nothing is under way. */
int zero__memory_grow(struct zero_runtime *rt);
/* Collective: maps what the recipe says, before the progress thread runs. */
int zero__memory_map(struct zero_runtime *rt);
/* Gives back what came from the device, before it closes; then the rest. */
void zero__memory_release(struct zero_runtime *rt, int of_device);

/* ---- install.c */

/* Compiles the orders of the model, or finds them in the cache, and checks that ranks agree. */
int zero__program_install(struct zero_runtime *rt);
/*
 * After a refusal: drops orders that were only recorded, so that steps go on out of order. 1 if
 * that leaves the program that is installed; 0 if the application asked for what was refused.
 */
int zero__orders_forget(struct zero_runtime *rt);

/* ---- agree.c */

/* Collective: the first program's hash, the model and the options are the same on all ranks. */
int zero__ranks_agree(struct zero_runtime *rt);
/* Of the options that it compares. */
uint64_t zero__options_hash(const struct zero_runtime *rt);
/* The groups' hyperparameters as a number that ranks compare with every norm. */
uint32_t zero__hyper_epoch(const struct zero_runtime *rt);

/* ---- times.c */

int zero__times_size(struct zero_runtime *rt);
void zero__times_free(struct zero_runtime *rt);
/* The application's thread goes; it comes again, and asks for an op of the body or the update. */
void zero__times_leave(struct zero_runtime *rt);
void zero__times_come(struct zero_runtime *rt, const struct zero__op *op);
/* A step is over: what it took is what the next one will take, if it kept to the declared order. */
void zero__times_keep(struct zero_runtime *rt);
/* An op is over; lock held. */
void zero__times_note(struct zero_runtime *rt, const struct slot *s, int64_t end_ns);

/* ---- flight.c */

#define ZERO__FLIGHT_KEPT 1024u /* a power of two */
struct flight_op {
    uint64_t ordinal, sequence; /* sequence: of the first collective, 0: none */
    int64_t start_ns, end_ns;
    uint32_t n, kind, unit, body;
    uint32_t queue;
};
/* A collective as this rank posted it: what must be the same on all ranks. */
struct flight_coll {
    uint64_t sequence, count;
    uint32_t queue, kind, flags, src_dtype, dst_dtype, redop, epoch;
    int32_t root;
    float scale;
};
int zero__flight_create(struct zero_runtime *rt);
void zero__flight_free(struct zero_runtime *rt);
struct flight_op zero__flight_op(const struct slot *s, uint32_t queue, uint64_t ordinal,
                                 int64_t end_ns);
/* An op is over; lock held. */
void zero__flight_note(struct zero_runtime *rt, const struct slot *s, uint32_t queue,
                       uint64_t ordinal, int64_t end_ns);
/* Notes what other ranks are waited for in; the progress thread, before it sleeps, lock held. */
void zero__flight_waits(struct zero_runtime *rt);

/* doubt.c, by the progress thread; moved: an op may just have ended. */
void zero__doubt_begin(struct zero_runtime *rt);
void zero__doubt(struct zero_runtime *rt, int moved);
/* Says it, "gather of layer1 (#12)", or ""; any thread, never blocks. For zero__job_on_lost(). */
void zero__flight_say(void *rt, char *text, size_t room);
struct flight_coll zero__flight_coll(uint32_t queue, const struct zero_coll *c);
/* A collective was posted; lock held. */
void zero__flight_posted(struct zero_runtime *rt, uint32_t queue, const struct zero_coll *c);

/* ---- crash.c */

/* Who this rank is, before it looks for the others; then the job's number, if it has heard it. */
void zero__crash_begin(struct zero_runtime *rt, const struct zero__job_params *p);
void zero__crash_number(struct zero_runtime *rt, uint64_t number);
/* Could a report be written? */
int zero__crash_check(struct zero_runtime *rt);
/*
 * The progress thread has heard that ranks posted different collectives. Where reports are wanted,
 * the application's thread gets a moment to come to its own: who is alone is told by those of all.
 */
void zero__crash_linger(const struct zero_runtime *rt);
/* After an error: a report goes to a file, once. Not with the lock held. */
void zero__crash_report(struct zero_runtime *rt);

/* ---- history.c; without a history they do nothing */

int zero__history_create(struct zero_runtime *rt);
void zero__history_free(struct zero_runtime *rt);
/* This rank posts a collective of the program. */
void zero__history_note(struct zero_runtime *rt, uint32_t queue, const struct zero_coll *c);
/* Collective, before an update and after an evaluation: have all ranks posted the same? */
int zero__history_compare(struct zero_runtime *rt);

/* ---- deviate.c */

int zero__deviate_create(struct zero_runtime *rt);
void zero__deviate_free(struct zero_runtime *rt);
/* The step goes another way than the program: drains and switches to on-demand gathers. */
int zero__deviate_begin(struct zero_runtime *rt);
int zero__deviate_acquire(struct zero_runtime *rt, uint32_t unit, uint32_t pass);
int zero__deviate_release(struct zero_runtime *rt, uint32_t unit, uint32_t pass);
/* The body is over; its order is kept for the next step. */
int zero__deviate_end(struct zero_runtime *rt);
/*
 * Before an update: what the last micro-batch would have done with the sums of a unit to which it
 * did not contribute, or, where updates run early, with a gradient of zero.
 */
int zero__deviate_finish(struct zero_runtime *rt, uint32_t unit);

/* An empty body, the only one at a time, for a copy of an activation; runs it. */
struct zero__body *zero__deviate_body(struct zero_runtime *rt);
int zero__deviate_run(struct zero_runtime *rt, struct zero__body *b);

/* ---- pool.c: places of a step out of order, in the transients' slab */

#define ZERO__NOWHERE UINT64_MAX
int zero__pool_take(struct zero_runtime *rt, uint64_t bytes, uint64_t *at);
void zero__pool_drop(struct zero_runtime *rt, uint64_t at);
/* Something lies there already. */
int zero__pool_keep(struct zero_runtime *rt, uint64_t at, uint64_t bytes);
void zero__pool_empty(struct zero_runtime *rt);
void zero__pool_free(struct zero_runtime *rt);
/*
 * Gives the body's buffers places: parameters and gradients those in `at`, by segment, which are
 * found now where there are none, and stay; others until zero__pool_return().
 */
int zero__pool_place(struct zero_runtime *rt, struct zero__body *b, uint64_t *at);
void zero__pool_return(struct zero_runtime *rt, const struct zero__body *b);
/* What of the unit has a place in `at` needs it no more. */
void zero__pool_leave(struct zero_runtime *rt, uint32_t unit, uint64_t *at);

/* ---- activations.c */

/* A body begins: nothing is saved. */
void zero__activations_open(struct zero_runtime *rt);
/* A use of the program begins, whose op is given; it ends. */
void zero__activations_use(struct zero_runtime *rt, const struct zero__op *op);
void zero__activations_end(struct zero_runtime *rt);
/* The same of a use out of order. */
int zero__activations_deviate(struct zero_runtime *rt, uint32_t unit, uint32_t pass);
int zero__activations_deviate_end(struct zero_runtime *rt);
/* Its planned place on the device holds an activation that was saved. */
int zero__activations_keeps(const struct zero_runtime *rt, uint32_t declared);

/* ---- use.c */

/* Addresses of the use's parameters and gradients, from the accesses of its compute op. */
void zero__use_point(struct zero_runtime *rt, const struct zero__op *op);
void zero__use_forget(struct zero_runtime *rt, uint32_t unit);

/* ---- step.c */

/* Ends the micro-step or evaluation that is open, if any. */
int zero__body_close(struct zero_runtime *rt);
/* At the end of a list with early updates: it has updated units that no use contributed to, too. */
void zero__rest_contributed(struct zero_runtime *rt);
/* Updates may be under way beside the last backward pass, until zero_update(). */
static inline int zero__step_updates(const struct zero_runtime *rt)
{
    return rt->recipe.early && rt->micro == rt->recipe.accum;
}

/* ---- track.c: test mode; without it they do nothing */

int zero__track_create(struct zero_runtime *rt);
/* After the lanes have their size. */
int zero__track_size(struct zero_runtime *rt);
void zero__track_free(struct zero_runtime *rt);
/* The op of that ordinal starts now, after its waits. */
void zero__track_start(struct zero_runtime *rt, uint32_t q, const struct slot *s, uint64_t ordinal);
/* How much the host has seen, for an op that it issues now. */
uint32_t zero__track_mark(const struct zero_runtime *rt);
/* The host has seen everything issued done, or all but what goes on behind an update. */
void zero__track_host(struct zero_runtime *rt, int but_behind);
/* The use that was acquired goes on in a stream of the application; it is released there. */
void zero__track_acquired(struct zero_runtime *rt, void *stream);
void zero__track_released(struct zero_runtime *rt, void *stream);

/* ---- values.c */

int zero__values_init(struct zero_runtime *rt);

#endif
