/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file comm.h
 * The interface of a communication plugin (ZERO_IFACE_COMM, major 0).
 *
 * Two objects: a *context* (one per runtime: memory, registrations, progress) and *communicators*
 * on it (an order of collectives each). Rules for every entry, unless its text says otherwise:
 *
 * - The library serialises all calls to one context and its communicators, except wake() and
 *   abort(), which may come from any thread at any time. Different contexts may run at once (ranks
 *   may be threads of one process), so a plugin keeps no mutable global state.
 * - Only alloc, reg, exchange, map, open and split may block (never longer than the deadline in
 *   struct zero_comm_open), free, unreg and comm_close for what is on a stream of the device or,
 *   after an error, for what still touches the memory, and close; progress() blocks up to its
 *   timeout.
 * - Who waits sleeps. Once the job has failed, a thread that computes for 0.3 s within one call is
 *   taken for stuck (3 s at an end without an error), and so is a call that blocks for ten seconds:
 *   the library leaves the context as it is until the process ends.
 * - Every rank posts the same collectives on a communicator in the same order. Communicators are
 *   independent of each other: a collective of one must make progress while another waits.
 * - Every rank calls exchange, map and split in the same order. Ranks that meet in different ones
 *   of them get -EPROTO, each of them, with a sentence that names both: "exchange", "split".
 * - Returns 0 or a negative errno, after zero_host.fail() said what and why (not for -EAGAIN).
 */
#ifndef ZERO_COMM_H
#define ZERO_COMM_H

#include <zero/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ZERO_COMM_MAJOR 0
#define ZERO_COMM_MINOR 4

struct zero_comm_ctx;
struct zero_comm;
struct zero_device;
struct zero_device_ops;

/** Collectives; capability masks use bit (1 << kind). */
enum zero_coll_kind {
    ZERO_ALL_GATHER = 0,     /**< src: this rank's count elements; dst: ranks * count */
    ZERO_REDUCE_SCATTER = 1, /**< src: ranks * count elements; dst: this rank's count */
    ZERO_ALL_REDUCE = 2,     /**< src, dst: count elements */
    ZERO_BROADCAST = 3,      /**< src at the root, dst at the others: count elements */
    ZERO_BARRIER = 4,        /**< no data */
};

/** Name of a kind of collective as reports and messages write it, "?" for an unknown one. */
static inline const char *zero_coll_name(uint32_t kind)
{
    switch (kind) {
    case ZERO_ALL_GATHER:
        return "all_gather";
    case ZERO_REDUCE_SCATTER:
        return "reduce_scatter";
    case ZERO_ALL_REDUCE:
        return "all_reduce";
    case ZERO_BROADCAST:
        return "broadcast";
    case ZERO_BARRIER:
        return "barrier";
    default:
        return "?";
    }
}

/** Reductions; capability masks use bit (1 << op). */
enum zero_redop {
    ZERO_SUM = 0, /**< fp32 sums of bf16 and fp16, ranks added in the order 0 … N-1 */
    ZERO_MAX = 1,
};

enum zero_coll_flags {
    /**
     * all_gather: src is dst + rank * count. reduce_scatter: dst is src + rank * count.
     * all_reduce: src is dst. Without it source and destination do not overlap.
     */
    ZERO_COLL_INPLACE = 1u << 0,
    /** reduce_scatter, all_reduce: add the (scaled, unrounded) result to dst, which is fp32. */
    ZERO_COLL_ACCUMULATE = 1u << 1,
};

/**
 * One collective. The slices' lengths equal what count and the dtypes say, and are 0 on a side that
 * has no data (source of a broadcast's receivers, destination of its root, both of a barrier);
 * offsets are multiples of the element, nothing more. count 0 is legal, and a barrier's only one.
 * Of a barrier the dtypes are not checked and may be 0, of a slice of length 0 neither memory nor
 * offset is.
 *
 * ZERO_SUM computes, for each element, ((x0 + x1) + x2) + … in fp32 (fp64 and integers: in their
 * own type, integers wrap around), multiplies by scale once, and rounds once to dst_dtype as
 * types.h prescribes. ZERO_MAX gives the largest element, a NaN if there is one. With ORDERED,
 * every NaN that a reduction of floating types gives is the positive quiet one (0x7fc00000 before
 * rounding), since which operand's NaN an addition keeps depends on the machine.
 *
 * post() refuses everything else before anything happens; of several reasons any one will do, but
 * that a kind is not declared comes first, and -EOVERFLOW before a length that is wrong:
 * - -ENOTSUP: unknown kinds, reductions and flags; known kinds, and in reductions known types,
 *   reductions and ACCUMULATE, that probe() does not declare.
 * - -EINVAL: what is out of place. Other lengths and offsets than these; unknown dtypes (not of a
 *   barrier); unequal ones where nothing is reduced, or that are not both floating; a root that is
 *   no rank, or set outside of a broadcast; redop other than 0 where nothing is reduced, scale
 *   other than 1 where no floating sum is; ACCUMULATE without a floating sum to fp32 or with
 *   INPLACE; INPLACE with unequal types, or slices that lie otherwise, and without it slices that
 *   overlap; a slice without memory, or of memory that is not exchanged; reserved fields that are
 *   not 0.
 * - -ERANGE: a slice that ends outside its region, also by wrapping around.
 * - -EOVERFLOW: count times ranks times the element does not fit into 64 bits.
 */
struct zero_coll {
    uint32_t kind, flags;
    uint32_t src_dtype, dst_dtype; /**< equal except for reductions of floating types */
    uint32_t redop;
    int32_t root;   /**< broadcast; else 0 */
    uint64_t count; /**< elements, see enum zero_coll_kind */
    float scale;    /**< floating sums: factor; else 1 */
    uint32_t group, epoch;
    uint32_t reserved0;
    uint64_t sequence; /**< with group and epoch: the fingerprint, equal on all ranks */
    struct zero_slice src, dst;
    uint64_t user; /**< returned in the completion, whose res is the bytes of dst */
    uint64_t reserved[3];
};

/** Capability flags of a plugin. */
enum zero_comm_cap {
    /**
     * post() accepts a stream and orders the collective in it. Where the context takes the device's
     * memory, libzero then posts everything with streams, and in one order over all communicators
     * of a context, the same on every rank; elsewhere with stream NULL.
     */
    ZERO_COMM_STREAM = 1u << 0,
    /**
     * Sums are exactly as struct zero_coll prescribes. Without it only the order of additions may
     * differ, and scale may multiply each addend, for which the user asks with
     * ZERO_NUMERICS=relaxed: the same call gives the same bits again, and an all_reduce the same on
     * all ranks.
     */
    ZERO_COMM_ORDERED = 1u << 1,
    ZERO_COMM_MAP = 1u << 2, /**< map() can lay peers' memory side by side */
    ZERO_COMM_ACCUMULATE = 1u << 3,
    /**
     * Compares (group, epoch, sequence, kind, …) across ranks before data moves. Ranks that differ
     * get -EPROTO and a sentence with "rank N" of both, as ranks of the context, and both values of
     * what differs: zero_coll_name(), the count, zero_dtype_name(), and others with their names,
     * "reduction", "flags", "root", "scale", "group", "epoch", "sequence". Numbers are decimal, the
     * scale as %g or %.9g writes it; flags may be hexadecimal, too. Without it libzero compares
     * hashes of all that was posted, later: before an update and after an evaluation.
     */
    ZERO_COMM_FINGERPRINT = 1u << 4,
    ZERO_COMM_NETWORK = 1u << 5, /**< reaches ranks on other hosts from here */
    /**
     * abort() ends what this rank has posted, and peers hear nothing of it: libzero tells them, and
     * they abort in turn. Since minor 3.
     */
    ZERO_COMM_LOCAL_ABORT = 1u << 6,
};

/** What a plugin can do; filled by probe(). */
struct zero_comm_caps {
    size_t size;     /**< set by the caller */
    uint32_t flags;  /**< enum zero_comm_cap */
    uint32_t kinds;  /**< mask of 1 << enum zero_coll_kind */
    uint32_t redops; /**< mask of 1 << enum zero_redop */
    /** Mask of 1 << enum zero_dtype that reductions accept; fp32 and the model's are needed. */
    uint32_t dtypes;
    uint32_t mem;    /**< mask of enum zero_mem */
    uint32_t max_ranks;
    /**
     * Collectives posted and not completed, per communicator, at least 1. So many are taken, not
     * one more, and a completion makes room when progress() has returned it. Models whose units
     * have parameters of more types and kinds, which are posted together, are refused; 12 is enough
     * for all.
     */
    uint32_t max_inflight;
    uint32_t reserved;
    char note[128]; /**< for people: devices found, speed */
};

/**
 * Exchange of small blobs among the ranks, offered by the library (it works before any plugin
 * does). All ranks make the same calls in the same order; one exchange at a time. Only for use in
 * open, exchange, map, and split with parent NULL, which return only when theirs are over: at any
 * other time it is the library's own.
 */
struct zero_oob {
    size_t size;
    void *ctx;
    int32_t rank, ranks;
    /**
     * Starts an all-gather of `len` bytes (equal on all ranks, at most 64 KiB), of which it takes
     * a copy. After 0 call test() until it is over; an error has its sentence. Never blocks.
     */
    int (*post)(void *ctx, const void *src, uint32_t len);
    /** 0: done, dst holds ranks * len bytes in rank order; -EINPROGRESS; an error. Never blocks. */
    int (*test)(void *ctx, void *dst);
};

/** What open() is given; valid only during the call, except `host` and `oob`. */
struct zero_comm_open {
    size_t size;
    const struct zero_host *host;
    const struct zero_oob *oob; /**< valid until close() */
    int32_t device;             /**< -1; the device is device_ops, see below */
    uint32_t reserved;
    int64_t timeout_ns; /**< deadline of every blocking entry of this context */
    /**
     * Name of the network interface by which this rank reaches the others: that of its connection
     * to rank 0, the loopback when all ranks are on this host; NULL: not known. A plugin that
     * listens does so there, unless its own settings say otherwise. Since minor 2: see `size`.
     */
    const char *interface;
    /**
     * The device whose streams post() is given and whose memory alloc() and reg() are asked for;
     * NULL: there is none. Since minor 3. Valid until the last communicator is closed and all
     * memory of its kind is freed: close(), and free() of memory of the host's, come after its end.
     * Whoever opened it calls wake() when it notifies.
     */
    const struct zero_device_ops *device_ops;
    struct zero_device *device_handle;
};

/** The table. Entries marked (optional) may be NULL. */
struct zero_comm_ops {
    size_t size;

    /** Says what the plugin can do on this machine, or why it cannot be used (-ENODEV …). */
    int (*probe)(const struct zero_host *host, struct zero_comm_caps *caps);

    /* Context. */

    /** Collective. Opens a context for this rank. */
    int (*open)(const struct zero_comm_open *params, struct zero_comm_ctx **ctx);
    /**
     * Ends everything, joins the plugin's threads, frees what alloc gave. Local; also after
     * abort(), while peers still work: they get errors, and never touch memory that is gone. It may
     * sleep for some seconds: after an error the whole end, from comm_close() on, has ten.
     */
    int (*close)(struct zero_comm_ctx *ctx);
    /**
     * (optional) Memory that peers reach fastest, zeroed, page-aligned, really there (no later
     * SIGBUS or OOM kill): -ENOMEM when the machine lacks it, be it an exbibyte; -ENOTSUP: not of
     * this kind. Local; exchange() makes it visible.
     */
    int (*alloc)(struct zero_comm_ctx *ctx, uint64_t bytes, uint32_t mem, void **base,
                 struct zero_mr **mr);
    /** (optional, with alloc) */
    int (*free)(struct zero_comm_ctx *ctx, struct zero_mr *mr);
    /**
     * Makes memory of the caller's usable in slices; the caller keeps it until unreg. A plugin may
     * take parts of what its own alloc gave only (-ENOTSUP for other memory, and other kinds).
     */
    int (*reg)(struct zero_comm_ctx *ctx, void *base, uint64_t bytes, uint32_t mem,
               struct zero_mr **mr);
    int (*unreg)(struct zero_comm_ctx *ctx, struct zero_mr *mr);
    /**
     * Collective: the ranks' corresponding registrations become one symmetric region, of one kind
     * of memory; -EINVAL: it is one already. Slices of collectives refer to exchanged regions only;
     * the n-th exchange of every rank belongs together. Sizes, and the offsets in slices, may
     * differ between ranks. A region ends with free() or unreg(), when no collective uses it any
     * more on any rank, or after abort().
     */
    int (*exchange)(struct zero_comm_ctx *ctx, struct zero_mr *mr);
    /**
     * (optional, MAP) Collective: maps bytes off … off + len of the region of every rank, in rank
     * order, into one contiguous range, read-only except this rank's own part. off and len are
     * multiples of the page size (else -EINVAL). Any number of times per region, with which the
     * maps end.
     */
    int (*map)(struct zero_comm_ctx *ctx, struct zero_mr *mr, uint64_t off, uint64_t len,
               void **base);
    /**
     * Moves collectives on and returns up to `max` completions (≥ 0), those of a communicator in
     * the order of its posts, or an error. Waits at most timeout_ns for something to happen (0:
     * does a bounded piece of work and returns). What went wrong with a collective is in its
     * completion; an error is about the context, -ECANCELED after abort() when all completions are
     * delivered.
     *
     * Before a completion with an error is returned, this call or an earlier one has said why, by
     * zero_host.fail() on this thread; error() is not asked for it. The last sentence counts.
     *
     * Of errors of either kind, and of post() and error(), one that says that a peer or the way to
     * it is gone blames nobody; the library waits for half a second for what its own connections
     * say about that peer:
     * -ECONNRESET, -ECONNABORTED, -ECONNREFUSED, -ENOTCONN, -EPIPE, -EHOSTDOWN, -EHOSTUNREACH,
     * -ENETDOWN, -ENETUNREACH, -ETIMEDOUT. With any other one, if nothing is known of a peer by
     * then, it is this rank that failed; but -EPROTO says that ranks differ, and -ECANCELED follows
     * from abort().
     */
    int (*progress)(struct zero_comm_ctx *ctx, struct zero_cqe *cqes, uint32_t max,
                    int64_t timeout_ns);
    /** Any thread: makes a waiting progress() return soon, or the next one return at once. */
    int (*wake)(struct zero_comm_ctx *ctx);
    /**
     * Any thread, idempotent: every collective not yet complete ends with -ECANCELED, later posts
     * fail with -ECANCELED. So do blocking entries under way and later ones, unless zero_oob ends
     * them with an error of its own. Without LOCAL_ABORT peers see it: theirs end the same way, and
     * their sentences name this rank as "rank N"; who sees it only when this one has closed may
     * find it gone. -ECANCELED thus always follows from an error that is reported elsewhere.
     *
     * comm_close(), then unreg() and free(), follow, before close() and while peers may still use
     * the region. When unreg() or free() returns, or close() for what is left, nothing of this rank
     * touches the memory, for which they may wait a moment; what peers still do there fails, or
     * finds what was there, and never faults.
     */
    int (*abort)(struct zero_comm_ctx *ctx);

    /* Communicators. */

    /**
     * Collective over `parent` (NULL: all ranks of the context). Ranks with the same color ≥ 0
     * form a communicator, ordered by key then by rank; color -1 takes part and gets NULL.
     */
    int (*split)(struct zero_comm_ctx *ctx, struct zero_comm *parent, int32_t color, int32_t key,
                 struct zero_comm **comm);
    /**
     * Posts n collectives as one batch, all or none: -EAGAIN when there is no room for all of them
     * now, -EINVAL for more than max_inflight at once, else see struct zero_coll. stream NULL: the
     * sources are ready now, completion by progress(). Not NULL (-ENOTSUP without STREAM): ordered
     * in the stream, no completion, failures by error(); after -EAGAIN the same batch comes again
     * before any other on this communicator, part of it may be on the stream already, and
     * progress() returns when it is worth a try. A completion means that the destination is ready
     * *and* that every peer is done with this rank's source; a stream goes on when both are so, or
     * after a failure, which error() then tells already.
     * Never waits for other ranks.
     */
    int (*post)(struct zero_comm *comm, const struct zero_coll *colls, uint32_t n, void *stream);
    /**
     * 0, or the sticky error of the communicator, and again its sentence. When one collective fails
     * (-EPROTO: the ranks posted different ones), so do all that are not complete and all later
     * ones; other communicators go on.
     */
    int (*error)(struct zero_comm *comm);
    /**
     * (optional) Which ranks the oldest unfinished collective waits for: fills `ranks` with up to
     * `max` of them, as ranks of the context, and returns how many. First those that have not
     * posted it; if all have, those that are not through, in front whom the others may wait for,
     * too. Used to name the culprit when a deadline passes, which is the first.
     */
    int (*missing)(struct zero_comm *comm, int32_t *ranks, uint32_t max);
    /**
     * Payload bytes this rank sent (or peers read from it) since open, for the collectives whose
     * completions progress() has returned, or that were posted with a stream. Never decreases. It
     * is that of direct exchange, however the plugin sends; without ORDERED sums may count what
     * they send. Among n ranks, with b the bytes of count elements of src_dtype and d of dst_dtype:
     * all_gather and reduce_scatter (n-1)b; broadcast (n-1)b at the root; all_reduce
     * (n-1)b/n + (n-1)d/n where 64n divides count, but (n-1)b with ACCUMULATE, when every rank sums
     * everything itself.
     */
    int (*wire_bytes)(struct zero_comm *comm, uint64_t *bytes);
    /** Local; every collective has completed or the context is aborted. */
    int (*comm_close)(struct zero_comm *comm);

    /* Since minor 4. */

    /**
     * (optional) Kinds of memory that the context takes, enum zero_mem: those of probe(), which
     * knows of no device, and maybe that of the device of open(). The same on all ranks. On memory
     * of a device, post() may refuse (-ENOTSUP) reductions other than sums of fp32, bf16 and fp16.
     */
    int (*memory)(struct zero_comm_ctx *ctx, uint32_t *mem);
};

#ifdef __cplusplus
}
#endif
#endif
