/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The door of core/run/: whatever starts ops, watches them and ends a job whose ops fail. The rest
 * of the core holds a struct zero__runner and sees none of its members.
 *
 * Threads of a rank: the application's thread issues ops and waits for them; the progress thread
 * starts issued ops when what they wait for is done, and is the only caller of the communication
 * plugin's progress while it runs (wake and abort may come from any thread); the storage thread
 * serves the disk; the device's threads run kernels; the job's control thread reports dead ranks.
 */
#ifndef ZERO_RUN_RUN_H
#define ZERO_RUN_RUN_H

#include "run/inside.h"
#include "schedule/simulate.h"
#include "site/site.h"

struct zero__runner;

/* Waiters outlast the progress thread by this, since it knows which rank an op waits for. */
#define ZERO__GRACE_NS (INT64_C(5) * 1000 * 1000 * 1000)
#define ZERO__SUM_MOST 64u /* numbers of one zero_sum() */
/* Tiles of an update that are fetched, updated or written back at a time. */
#define ZERO__TILES 8u
#define ZERO__STORE_POLL_NS INT64_C(250000000) /* longest sleep in one poll() of a store */
/* Sleep while a store has no room: it may not signal when it has. */
#define ZERO__STORE_FULL_NS INT64_C(1000000)

/* A body while its ops are issued. */
struct zero__issuing {
    const struct zero__body *body;
    uint32_t kind;        /* number of the body; ZERO__N_BODIES: one of a step out of order */
    uint32_t epoch;       /* compared by the ranks with every norm, see zero_coll.epoch */
    uint8_t *contributed; /* by unit: its accumulators or gradients hold sums of this step */
    uint32_t micro;       /* micro-batches of this step that have begun */
    int ended;            /* the last one of them has */
};

/* ---- runner.c: a runner's beginning and end */

/* The site must outlive the runner. */
int zero__runner_create(const struct zero__site *site, struct zero__runner **out);
/* Scratch memory for commit's states, before the first op. */
int zero__runner_equip(struct zero__runner *run);
/* For a new program, while nothing is in flight: room in lanes, times and reports. */
int zero__runner_fit(struct zero__runner *run);
/* Ends the lanes, when the job's control thread, which may wake waiters, has ended. */
void zero__runner_end(struct zero__runner *run);
/* Gives back all memory but zero__runner_inside(). */
void zero__runner_free(struct zero__runner *run);
/* Outlives the runner: whoever watches the end of a runtime reads it after the rest is freed. */
struct zero__inside *zero__runner_inside(struct zero__runner *run);
/* A call into the transport or a store did not return: nothing that it may use may be freed. */
int zero__runner_is_left(const struct zero__runner *run);

/* ---- errors.c: how a runtime fails */

/* The first error wins; all ranks hear of it, all waiters return. Returns err. */
int zero__run_fail(struct zero__runner *run, int culprit, int err, const char *op,
                   const char *cause);
/* Like zero__run_fail(), for an error that peers cannot have met: ends the job on all ranks. */
int zero__run_fail_alone(struct zero__runner *run, int err, const char *op);
/* The job's end is decided, here or by another rank: nothing new starts, and nobody waits. */
int zero__run_is_over(const struct zero__runner *run);
/*
 * The job's or the runtime's error as this thread's sentence, and in a crash report; or 0. From
 * then on zero__run_was_told() is true.
 */
int zero__run_error(struct zero__runner *run);
/* Like zero__run_error(), but writes no crash report and leaves zero__run_was_told() as it is. */
int zero__run_status(const struct zero__runner *run);
int zero__run_was_told(const struct zero__runner *run);
/* The reason of an operation that was aborted, as the job has it; else err. */
int zero__run_cause(struct zero__runner *run, int err);
/* Callback of the job's control thread: the job has failed. */
void zero__run_job_failed(void *run);

/* ---- sum.c */

/* Memory for the sums, once the number of ranks is known. */
int zero__sums_create(struct zero__runner *run);
/* zero_sum(), for the call of the API that crash reports name. */
int zero__sum(struct zero__runner *run, const char *call, double *values, uint32_t n);

/* ---- lane_open.c: streams and communicators of the lanes */

/* After the device is open. */
int zero__lanes_open(struct zero__runner *run);
/* Collective: a communicator for each lane of the transport. */
int zero__lanes_connect(struct zero__runner *run);
void zero__lanes_disconnect(struct zero__runner *run);
/* Waits for the lanes' streams, within ZERO_TIMEOUT for each. */
void zero__lanes_sync(struct zero__runner *run);
/* Gives back streams and events; the device is still open. */
void zero__lanes_close(struct zero__runner *run);
/* States in host memory are updated by the host and not by the device. */
int zero__lanes_host_updates(const struct zero__runner *run);
void *zero__lane_stream(const struct zero__runner *run, uint32_t queue);

/* ---- issue.c: from a body to lanes, by the application's thread */

/* A body begins: its waits count from here. */
void zero__body_begin(struct zero__runner *run, const struct zero__issuing *now);
/* Issues ops from *pc up to the next use, or the body's end; *pc is the next op then. */
int zero__ops_issue(struct zero__runner *run, const struct zero__issuing *now, uint32_t *pc);
/* Issues one op and waits until everything is done. */
int zero__op_run(struct zero__runner *run, const struct zero__issuing *now, uint32_t op);
/* Waits for what an op of the body waits for; adds the time to *waited_ns. */
int zero__op_await(struct zero__runner *run, const struct zero__issuing *now,
                   const struct zero__op *op, uint64_t *waited_ns);
/* The update of the program before is over: nothing waits for it any more. */
void zero__update_forget(struct zero__runner *run);

/* ---- wait.c */

/*
 * Waits until everything issued is done (but_behind: except what goes on behind an update), or the
 * runtime fails. A use that is open is not waited for. Adds the time to *waited_ns, if not NULL.
 */
int zero__lanes_drain(struct zero__runner *run, int but_behind, uint64_t *waited_ns);

/* ---- uses.c: the application's lane */

/* Issues a use and waits for its data; on a stream, orders it behind uses on other streams. */
int zero__use_begin(struct zero__runner *run, const struct zero__issuing *now, uint32_t op,
                    void *stream, uint64_t *waited_ns);
/* The use is over now, or when the stream gets there. */
int zero__use_end(struct zero__runner *run, void *stream);
/* Like zero__use_end() after a failure: the device waits for the stream before memory goes. */
void zero__use_mark(struct zero__runner *run, void *stream);

/* ---- own.c: requests of the runtime itself, which no body lists */

/* Appends a collective to one of the transport's lanes; waits while the lane is full. */
int zero__coll_add(struct zero__runner *run, uint32_t queue, const struct zero_coll *c);
/* Waits until everything issued in the lane is done. */
int zero__colls_await(struct zero__runner *run, uint32_t queue);
/* A collective on one of the transport's lanes; waits for it. */
int zero__coll_run(struct zero__runner *run, uint32_t queue, const struct zero_coll *c);

/* ---- gradients.c */

/*
 * A unit's gradients (or accumulators) become zero: on the device's stream, and before this returns
 * where they lie in another tier.
 */
int zero__gradients_zero(struct zero__runner *run, uint32_t unit);

/* ---- progress.c */

int zero__progress_start(struct zero__runner *run);
void zero__progress_stop(struct zero__runner *run);
int zero__progress_is_running(const struct zero__runner *run);
/* Callback of devices, any thread: an event was reached. */
void zero__progress_wake(void *run);
/* Bytes that everything issued so far sends; no collective of zero__coll_run() is in flight. */
uint64_t zero__wire_bytes(struct zero__runner *run);

/* ---- storage.c, storage_bounce.c; without a disk they do nothing */

int zero__storage_start(struct zero__runner *run);
void zero__storage_stop(struct zero__runner *run);
struct zero__storage_totals {
    uint64_t read, written; /* bytes, as the store counts them */
    uint32_t flags;         /* enum zero_store_flags, as of now */
};
void zero__storage_totals(struct zero__runner *run, struct zero__storage_totals *out);
/* Bytes that a trial store moved before the job's own was opened. */
void zero__storage_tried(struct zero__runner *run, uint64_t read, uint64_t written);
/* Bytes of a transient buffer at `off` in its slab; one of to, from is NULL. Blocks. */
int zero__storage_move(struct zero__runner *run, uint64_t off, uint64_t bytes, void *to,
                       const void *from);

/* ---- store_call.c: calls of a store that may never return */

/* Requests that the store took or has ended, or an error. */
int zero__store_submit(struct zero__runner *run, const struct zero__tier_store *t,
                       const struct zero_io *ios, uint32_t n);
int zero__store_poll(struct zero__runner *run, const struct zero__tier_store *t,
                     struct zero_cqe *cqes, uint32_t max, int64_t wait_ns);
/*
 * fn(arg), which makes such calls, in a thread of its own on a copy of the `bytes` at arg. After
 * ZERO_TIMEOUT: an error, zero__runner_is_left(), and arg is untouched. Everything that fn uses
 * lives as long as the runner, or is never freed then.
 */
int zero__store_call(struct zero__runner *run, int (*fn)(void *arg), void *arg, size_t bytes);
int zero__store_probe(struct zero__runner *run, const char *name,
                      const struct zero_offload_ops *ops, struct zero_store_info *info);
int zero__store_make(struct zero__runner *run, struct zero__tier_store *t,
                     const struct zero_store_open *params);
/* After a timeout t->store is NULL. */
int zero__store_resize(struct zero__runner *run, struct zero__tier_store *t, uint64_t bytes);

/* ---- reach.c, elements.c: bytes of states for the application's thread; they block */

int zero__reach_open(struct zero__runner *run);
void zero__reach_close(struct zero__runner *run);
/* Scalars of the last step, once the stream that computed them is done. */
struct zero_scalars zero__reach_scalars(const struct zero__runner *run);
int zero__device_read(struct zero__runner *run, void *to, const void *from, uint64_t bytes);
int zero__device_write(struct zero__runner *run, void *to, const void *from, uint64_t bytes);
/* Between any two addresses; fast only where the device can reach both. */
int zero__device_copy(struct zero__runner *run, void *to, const void *from, uint64_t bytes);
/* Elements that one call of load and store moves at a time. */
uint64_t zero__elements_piece(const struct zero__runner *run);
/*
 * n values from element `at` of a home on, whose elements are of type `code` (base/elements.h).
 * Loading lower halves, values has the upper halves before.
 */
int zero__elements_store(struct zero__runner *run, uint32_t id, uint32_t code, uint64_t at,
                         uint64_t n, const float *values);
int zero__elements_load(struct zero__runner *run, uint32_t id, uint32_t code, uint64_t at,
                        uint64_t n, float *values);

/* ---- callback.c: the application's own optimizer; without one they do nothing */

int zero__callback_create(struct zero__runner *run);
void zero__callback_free(struct zero__runner *run);

/* ---- streams.c */

/* Creates a stream for each of the transport's lanes, if the transport works in streams. */
int zero__streams_create(struct zero__runner *run);

/* ---- relay_memory.c: collectives by way of host memory */

/* Bytes of host memory that the relay takes; 0: the transport takes the device's memory. */
uint64_t zero__relay_bytes(const struct zero__runner *run);
int zero__relay_is_open(const struct zero__runner *run);
/* Local. What was opened is closed by zero__relay_close(), also after an error. */
int zero__relay_open(struct zero__runner *run);
struct zero_mr *zero__relay_mr(struct zero__runner *run);
/* Before the device closes; then before the context does. */
void zero__relay_close(struct zero__runner *run, int of_device);

/* ---- inside_call.c */

/*
 * fn(owner, arg) in a thread of its own, since the transport may never return: fn's result, with a
 * sentence that names `who` where the plugin left none. If the job has failed and fn does not
 * return: the job's error, and zero__runner_is_left(). who, owner and arg live as long as the
 * runner.
 */
int zero__inside_call(struct zero__runner *run, const char *who, int (*fn)(void *owner, void *arg),
                      void *owner, void *arg);

/* ---- times.c: what ops took */

/* Work of one step. */
struct zero__work {
    struct zero__disk_bytes disk;
    uint64_t compute_ns, update_ns;        /* in uses of units, in kernels of the update */
    int64_t compute_end_ns, update_end_ns; /* of the last one so far */
    int unknown; /* no full step in the declared order: uses out of order, or fewer micro-batches */
};
/* A step begins; it is no full step in the declared order; its work so far. */
void zero__times_begin(struct zero__runner *run);
void zero__times_unknown(struct zero__runner *run);
struct zero__work zero__times_work(struct zero__runner *run);
/* The application's thread returns to the application; it comes back for an op, NULL: the update */
void zero__times_leave(struct zero__runner *run);
void zero__times_come(struct zero__runner *run, const struct zero__issuing *now,
                      const struct zero__op *op);
/* A step is over: after a full one in the declared order, the next one will take as long. */
void zero__times_keep(struct zero__runner *run);
/* Work of the last full step in the declared order; compute_ns 0: there was none. */
struct zero__work zero__times_last(const struct zero__runner *run);
/* Copies what each op of the running program took last; *c was made for it. */
void zero__times_costs(struct zero__runner *run, struct zero__costs *c);
/* Takes the oldest record of an op that is over; 0: there is none. */
int zero__times_take(struct zero__runner *run, struct zero_op_time *op);

/* ---- history.c, where the transport does not compare what ranks post; else it does nothing */

/*
 * Collective, before an update and after an evaluation: all ranks have posted the same collectives;
 * they have begun as many micro-batches, see `now`; and `orders`, a hash of the orders that wait to
 * be compiled, is the same on all.
 */
int zero__history_compare(struct zero__runner *run, const struct zero__issuing *now,
                          uint64_t orders);

/* ---- doubt.c, flight.c, crash.c: reports */

/* The transport is open: from now on long waits are reported to the job. */
void zero__doubt_begin(struct zero__runner *run);
/* For zero__job_on_lost(): the collective that is waited for, "gather of layer1 (#12)", or "". */
void zero__flight_say(void *run, char *text, size_t room);
/* Which job it is, before this rank looks for the others; then the job's number, if known. */
void zero__crash_begin(struct zero__runner *run, const struct zero__job_params *p);
void zero__crash_number(struct zero__runner *run, uint64_t number);
/* A report could be written to ZERO_CRASH_DIR, or there is none. */
int zero__crash_check(struct zero__runner *run);
/* After an error: writes the report, once. Not with the lock held. */
void zero__crash_report(struct zero__runner *run);

/* ---- track.c */

/* Test mode: accesses to the disk are tracked, so its bytes need addresses. */
int zero__track_is_on(const struct zero__runner *run);

#endif
