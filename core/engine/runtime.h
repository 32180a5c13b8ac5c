/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runtime: everything that hangs off a struct zero_runtime, and how its parts work together.
 *
 * Threads of a rank: the application's thread issues ops (in list order, as far as its acquires and
 * releases allow) and waits; the progress thread starts issued ops when what they wait for is done,
 * and while it runs no other calls the communication plugin, but for wake and abort: what opens,
 * splits, exchanges, maps and closes comes before or after (inside.c says by which thread). The
 * device's threads run kernels; the storage thread serves the disks; the job's control thread
 * reports dead ranks. `lock` guards lanes and counters; `moved` is signalled whenever a counter
 * moved or the runtime failed.
 *
 * A runtime's beginning and end:
 *   create.c         options, ranks, plugins; all of it ended
 *   threads.c        how many threads a rank takes, and on which memory nodes its cores are
 *   device.c         the device that trains
 *   transport.c      which communication plugin moves the data
 *   commit.c         registration, and commit: layout, program, memory, initial values
 *   install.c        from declared orders to the program that runs; two are kept
 *   agree.c          what ranks must have in common, compared before a program runs
 *   ranks.c          what every rank says, for all
 *   calls.c          small calls of the API that belong to no phase
 *
 * Memory and tiers (tiers.h):
 *   memory.c         the reservation: the slabs of the device tier
 *   slabs.c          what is reserved in the tiers beside the device
 *   tiers.c          which offload plugin serves which tier, and their stores
 *   fits.c           whether a plan fits, and the refusal where it does not
 *   room.c           what room a rank has in each tier, and what a recipe needs of it
 *   remedy.c         settings with which a plan would fit
 *   trial.c          whether it would with such settings, and how they are written
 *   table.c          bytes of each class, for reports and refusals
 *   report.c         the report of memory by class, and memory outside the plan
 *   reach.c          bytes of the device for the host, which may need a copy of them
 *   elements.c       elements of a home as fp32, wherever it is
 *   values.c         values of parameters from outside: initialised, read, written, hashed
 *
 * Where states lie, and how long a step takes (places.h):
 *   spread.c         placements without fractions: "auto", and tiers in turn
 *   placed.c         where states have come to lie, in the words of ZERO_OFFLOAD
 *   speeds.c         how fast the disk is for this job; kept
 *   measure.c        measures a store (speeds.h)
 *   copies.c         how fast a rank copies between host and device; kept
 *   past.c           what the last job of this kind has computed in a step
 *   forecast.c       how long a step takes
 *
 * A step, as the application sees it:
 *   step.c           the application's thread: begin, acquire, release, update
 *   use.c            where parameters, gradients and buffers of the held use are
 *   activations.c    activations from the application's side
 *   callback.c       the application's own optimizer
 *   step_info.c      what the application hears of a step
 *   times.c          when ops ran
 *
 * A step, as it runs (lane.h, relay.h, tiers.h):
 *   lane.c           rings of issued ops, and waiting for them
 *   progress.c       the progress thread: starts ops, moves the transport on
 *   execute.c        starts one op: collectives
 *   kernels.c        starts one op: launches
 *   streams.c        what streams have reached; transports that take them
 *   relay.c          collectives through memory of the host
 *   relay_memory.c   memory, streams and events of the relay (relay_types.h)
 *   storage.c        the storage thread: fetches and writebacks
 *   storage_bounce.c bytes of the disk for the application's thread
 *   store_call.c     calls of the disk's store that the system may keep
 *
 * A step out of order (deviate.h):
 *   deviate.c        what was issued is drained, then one op at a time
 *   pool.c           places for what its uses need
 *
 * Failures (failure.h), and what finds them in tests:
 *   errors.c         how a runtime fails; which calls fit its phase
 *   inside.c         calls into a transport that may never return
 *   doubt.c          what waits for other ranks for a while
 *   history.c        ranks that went apart, where the transport does not compare
 *   flight.c         the flight recorder: the last ops and collectives
 *   crash.c          the crash report
 *   track.c          test mode: tells the race detector what it cannot see
 */
#ifndef ZERO_ENGINE_RUNTIME_H
#define ZERO_ENGINE_RUNTIME_H

#include <pthread.h>
#include <stdatomic.h>

#include <zero/comm.h>
#include <zero/device.h>
#include <zero/zero.h>

#include "base/log.h"
#include "base/memory_limit.h"
#include "base/options.h"
#include "engine/deviate.h"
#include "engine/failure.h"
#include "engine/lane.h"
#include "engine/tiers.h"
#include "job/job.h"
#include "memory/pages.h"
#include "plugin/loader.h"
#include "schedule/program.h"
#include "schedule/simulate.h"

#define ZERO__MAX_COLLS ZERO_MAX_SEGMENTS_PER_UNIT
#define ZERO__SUM_MOST 64u /* numbers that zero_sum() takes */
/* Others wait a little longer than the progress thread, which knows the culprit. */
#define ZERO__GRACE_NS (INT64_C(5) * 1000 * 1000 * 1000)

/* What of a unit's gradient is there, in this step. */
enum contribution {
    NOTHING,
    SOME, /* sums of micro-batches so far */
    ALL,  /* all of them, reduced: the update can begin */
};

/* What a step of such a job took, in the last one of it; compute_s 0: nobody knows. */
struct past {
    double compute_s, update_s;
    struct zero__speeds speeds; /* then */
};

/* What a step has done. */
struct work {
    struct zero__disk_bytes disk;
    uint64_t compute_ns, update_ns;        /* in uses of units, in kernels of the update */
    int64_t compute_end_ns, update_end_ns; /* of the last one so far */
    int unknown; /* uses were out of order, which nobody times */
};

/* An activation in the body that runs. */
struct activation {
    uint64_t bytes; /* saved; 0: not yet */
    uint8_t *now;   /* where it is, in a use that produces or consumes it */
    int consumed;   /* the latter */
    uint64_t taken; /* out of order: its place in the pool, or ZERO__NOWHERE */
};

enum phase { PHASE_SETUP, PHASE_IDLE, PHASE_MICRO, PHASE_EVAL, PHASE_FAILED };

struct zero_runtime {
    struct zero__options *options;
    struct zero__log log;
    struct zero__loader *loader;
    struct zero__job *job;
    int rank, ranks, local_ranks;
    int64_t timeout_ns;
    struct zero__memory_limit limit;

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
    uint32_t device_kernels; /* mask of enum zero_kernel */
    char device_pci[16];     /* where it is plugged in; "": not known, or nowhere */
    uint32_t device_sharers; /* ranks that have the same device, as far as is known */
    uint32_t memory_nodes;   /* on which ranks may run, a bit each; of all hosts in one */
    struct {
        void *stream, *pinned, *scalars; /* scalars: in pinned, of the last step */
    } reach; /* see reach.c; a device whose memory is the host's has none */
    struct zero_device *host; /* which updates what lies there; NULL: the device does */
    struct zero__relay *relay; /* NULL: the transport takes the device's memory */
    struct zero_comm_ops comm_ops;
    struct zero_comm_ctx *ctx;
    const char *comm_name;
    struct zero_comm_caps caps;
    int streamed; /* collectives are ordered in streams: see streams.c */
    double *sum_parts; /* of zero_sum(): ZERO__SUM_MOST of every rank */
    struct slab slabs[ZERO__N_SLABS];
    struct tier tiers[ZERO__N_TIERS];
    char placement[1024];           /* where states have come to lie, as ZERO_OFFLOAD says it */
    uint8_t spread[ZERO__N_PLACED]; /* without fractions: tiers, a bit each, that it fills */
    int is_auto;                    /* ZERO_OFFLOAD=auto: so is everything */
    struct zero__speeds speeds; /* of the disk, while all ranks use it; 0: not measured */
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
    _Atomic int64_t store_since_ns; /* somebody is in a call of a disk's plugin; 0: nobody */
    const char *_Atomic store_name; /* of that plugin */
    struct lane lanes[ZERO__N_QUEUES];
    struct zero__inside *inside; /* the transport */
    atomic_int left; /* a call into the transport or the disk does not return: nothing is freed */
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
    void *use_stream; /* on which the last use was released */
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
    uint64_t *zero_count; /* by segment: arguments of launches, which may still be read */

    /* Measured. */
    uint64_t exposed_ns;
    uint64_t n_placed; /* ops that have a place */
    uint64_t n_begun;  /* streamed: places that are posted; the next one is the next to be */
    uint64_t wire_bytes, wire_bytes_seen; /* of the plugin's counters: now, as the step began */
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

    struct flight flight;
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

/* ---- errors.c */

/* Makes the runtime fail: the first error wins, all ranks hear of it, all waiters return. */
int zero__runtime_fail(struct zero_runtime *rt, int culprit, int err, const char *op,
                       const char *cause);
/* The same of an op whose deadline has passed: its place, see zero__job_fail_at(). */
int zero__runtime_fail_at(struct zero_runtime *rt, int culprit, int err, uint32_t place,
                          const char *op, const char *cause);
/* Behind the checks of a collective call: what only this rank may have met ends it on all. */
int zero__runtime_fail_alone(struct zero_runtime *rt, int err, const char *op);
/* Its end is decided, here or by another rank: nothing new starts, and nobody waits. */
static inline int zero__runtime_over(struct zero_runtime *rt)
{
    return rt->err || atomic_load_explicit(&rt->job_failed, memory_order_acquire);
}
/* The runtime's error as this thread's sentence, which ends the phase and is reported; or 0. */
int zero__runtime_error(struct zero_runtime *rt);
/* An operation that was aborted: what the job says was the reason, else err. */
int zero__runtime_cause(struct zero_runtime *rt, int err);
/* The call `what` fits these phases alone (a mask of IN()): the sentence says what comes first. */
int zero__runtime_phase(struct zero_runtime *rt, uint32_t phases, const char *what);
#define IN(phase) (1u << (phase))

/* ---- transport.c */

/* Collective. Chooses, loads and opens the comm plugin; sets comm_name, caps, comm_ops, ctx. */
int zero__transport_open(struct zero_runtime *rt);
/* Whom its oldest collective waits for, `max` at most; whatever the plugin says, they are ranks. */
int zero__transport_missing(struct zero_runtime *rt, struct zero_comm *comm, int32_t *whom,
                            uint32_t max);

/* ---- threads.c */

/* Collective. The option, or this rank's share of the cores, which becomes the option. */
int zero__threads_choose(struct zero_runtime *rt);

/* ---- install.c */

/* Compiles the orders of the model, or finds them in the cache, and checks that ranks agree. */
int zero__program_install(struct zero_runtime *rt);
/*
 * After a refusal: drops orders that were only recorded, so that steps go on out of order. 1 if
 * that leaves the program that is installed; 0 if the application asked for what was refused.
 */
int zero__orders_forget(struct zero_runtime *rt);

/* ---- ranks.c */

/* Collective: what every rank says, `bytes` each and one behind the other, for the caller to free;
 * or NULL, and *err says why. */
void *zero__ranks_ask(struct zero_runtime *rt, const void *mine, uint32_t bytes, int *err);

/* ---- agree.c */

/* Collective: the first program's hash, the model and the options are the same on all ranks. */
int zero__ranks_agree(struct zero_runtime *rt);
/* Of the options that it compares. */
uint64_t zero__options_hash(const struct zero_runtime *rt);
/* Of orders that wait to be compiled; 0: none does. */
uint64_t zero__orders_hash(const struct zero_runtime *rt);
/* These and the groups' hyperparameters as a number that ranks compare with every norm. */
uint32_t zero__norm_epoch(const struct zero_runtime *rt);

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

/* ---- activations.c */

/* A body begins: nothing is saved. */
void zero__activations_open(struct zero_runtime *rt);
/* A use of the program begins, whose op is given; it ends. */
void zero__activations_use(struct zero_runtime *rt, const struct zero__op *op);
void zero__activations_end(struct zero_runtime *rt);
/* The same of a use out of order. */
int zero__activations_deviate(struct zero_runtime *rt, uint32_t unit, uint32_t pass);
int zero__activations_deviate_end(struct zero_runtime *rt);
/* No use follows in this body: what still waits for one leaves its place. */
void zero__activations_deviate_close(struct zero_runtime *rt);
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

/* ---- step_info.c */

/* Of a step whose update is over, and began then. */
int zero__step_info(struct zero_runtime *rt, int64_t began, struct zero_step_info *info);

/* ---- values.c */

int zero__values_init(struct zero_runtime *rt);

#endif
