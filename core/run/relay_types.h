/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the relay. */
#ifndef ZERO_RUN_RELAY_TYPES_H
#define ZERO_RUN_RELAY_TYPES_H

#include "run/runner.h"

#define RELAY_LANES 2
#define RELAY_PIECES 3u /* under way in a lane: to, at, and from the transport */
#define RELAY_LEAST 64u /* elements of a piece, but the last one */
#define RELAY_WIDEST 8u /* bytes of an element */

enum piece_state { FREE, ARRIVES, AT_HOST, POSTED, CAME, LEAVES };

struct piece {
    enum piece_state state;
    uint64_t off;         /* of its room in the region */
    uint32_t coll;        /* of the op */
    uint64_t first, n;    /* its elements, of `count` */
    void *arrived, *left; /* events */
};

struct relay_lane {
    struct zero__slot *s; /* the op, or NULL */
    uint64_t ordinal;
    struct zero_coll colls[ZERO__MAX_COLLS];
    uint32_t n_colls;
    uint32_t coll;                 /* the next piece: of this collective, */
    uint64_t first;                /* from this element on */
    uint64_t begun, posted, ended; /* pieces, ever; piece k has the room k % RELAY_PIECES */
    uint64_t source_bytes;         /* of the op, that are not through the transport yet */
    void *in, *out;                /* streams */
    struct piece pieces[RELAY_PIECES];
};

struct zero__relay {
    uint8_t *base;
    struct zero_mr *mr;
    uint64_t bytes, room; /* of all; of a piece */
    int from_comm, pinned;
    struct relay_lane lanes[RELAY_LANES];
};

#endif
