/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What comm.h says about one collective, as code: which descriptors are legal, how many bytes each
 * side has, how an all_reduce is cut into parts, and what goes over the wire.
 */
#ifndef ZERO_PLUGINS_COMMON_COLL_H
#define ZERO_PLUGINS_COMMON_COLL_H

#include <stdbool.h>

#include <zero/comm.h>

#include "machine/cores.h"
#include "voice.h"

#define ZERO__ALL_KINDS                                                          \
    (1u << ZERO_ALL_GATHER | 1u << ZERO_REDUCE_SCATTER | 1u << ZERO_ALL_REDUCE | \
     1u << ZERO_BROADCAST | 1u << ZERO_BARRIER)
#define ZERO__ALL_DTYPES                                                                   \
    (1u << ZERO_F32 | 1u << ZERO_BF16 | 1u << ZERO_F16 | 1u << ZERO_I32 | 1u << ZERO_I64 | \
     1u << ZERO_U8 | 1u << ZERO_F64)

/* Of a plugin that takes all collectives of comm.h on the host's memory; but for `note`. */
static inline void zero__caps_of_host(struct zero_comm_caps *caps, uint32_t flags,
                                      uint32_t max_ranks, uint32_t max_inflight)
{
    caps->flags = flags;
    caps->kinds = ZERO__ALL_KINDS;
    caps->redops = 1u << ZERO_SUM | 1u << ZERO_MAX;
    caps->dtypes = ZERO__ALL_DTYPES;
    caps->mem = ZERO_MEM_HOST;
    caps->max_ranks = max_ranks;
    caps->max_inflight = max_inflight;
}

/* Of those that are added in fp32. */
static inline bool zero__dtype_is_float(uint32_t dtype)
{
    return dtype == ZERO_F32 || dtype == ZERO_BF16 || dtype == ZERO_F16;
}

static inline int zero__coll_reduces(uint32_t kind)
{
    return kind == ZERO_REDUCE_SCATTER || kind == ZERO_ALL_REDUCE;
}

/*
 * Checks everything in the descriptor of a communicator of `ranks` ranks but where its slices lie:
 * 0, -EINVAL, -ENOTSUP or -EOVERFLOW with the sentence recorded.
 */
int zero__coll_check(const struct zero__voice *voice, const struct zero_coll *c, int32_t rank,
                     int32_t ranks);

/*
 * Checks where a slice of the collective lies that is not empty: within `bytes` of memory that was
 * exchanged. -EINVAL or -ERANGE.
 */
int zero__coll_check_place(const struct zero__voice *voice, const struct zero_coll *c,
                           const struct zero_slice *s, bool exchanged, uint64_t bytes);

/*
 * Of a communicator without streams that holds `most` collectives, `left` more now: may n be
 * posted? -ENOTSUP, -EINVAL for a batch that can never fit, -EAGAIN without a sentence.
 */
int zero__coll_check_batch(const struct zero__voice *voice, uint32_t n, uint32_t most,
                           uint64_t left, const void *stream);

/*
 * Checks that source and destination, where they lie, overlap only as INPLACE says. Pointers of
 * empty slices are not looked at.
 */
int zero__coll_check_overlap(const struct zero__voice *voice, const struct zero_coll *c,
                             int32_t rank, const void *src, const void *dst);

/* Elements that rank `rank` reduces in an all_reduce: whole blocks of 64, the last rank's less. */
void zero__coll_part(uint64_t count, int32_t rank, int32_t ranks, uint64_t *first, uint64_t *n);

/* Has all that was posted on the communicators of this list been completed? */
#define ZERO__ALL_COMPLETED(comms)                         \
    ({                                                     \
        __typeof__(comms) comm_ = (comms);                 \
        while (comm_ && comm_->completed == comm_->posted) \
            comm_ = comm_->next;                           \
        !comm_;                                            \
    })

/* Payload bytes that the peers of this rank read from it; the descriptor is legal. */
uint64_t zero__coll_wire(const struct zero_coll *c, int32_t rank, int32_t ranks);

/* Bytes that the descriptor makes the ranks of this machine touch, about; for choosing stores. */
uint64_t zero__coll_traffic(const struct zero_coll *c, int32_t ranks);

/*
 * Which results should go past the caches? What does not fit into them. The sums of a
 * reduce_scatter are read by nobody but this rank, and much later: they do not even displace what
 * the cores' own caches hold. In place the lines of a sum have just been read as a source: past the
 * caches it would save no read of them.
 *
 * What fills at most half of the caches is likely to be there, and stays.
 */
enum zero__streams { ZERO__STREAM_SUMS = 1, ZERO__STREAM_COPIES = 2, ZERO__COPIES_STAY = 4 };
unsigned zero__coll_streams(const struct zero_coll *c, int32_t ranks,
                            const struct zero__caches *caches);

#endif
