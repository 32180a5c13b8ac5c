/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a step will take: the program's queues, run on paper. Ops start when the engine would start
 * them: issued in list order up to the use that the application waits for, in the order of their
 * queue, after what they wait for. So a fetch begins when its buffer is free, and an update's
 * writebacks go on behind the next forward pass.
 */
#ifndef ZERO_SCHEDULE_SIMULATE_H
#define ZERO_SCHEDULE_SIMULATE_H

#include "schedule/program.h"

/* Bytes a second of a rank to and from the disk. */
struct zero__speeds {
    double read, write, both; /* both: of reading and writing the same at once, together */
};

struct zero__costs {
    /*
     * By body and op: seconds on its queue; of a use, that the application computes. Fetches and
     * writebacks have none: they take what their bytes take.
     */
    double *op_s[ZERO__N_BODIES];
    double *gap_s[ZERO__N_BODIES]; /* of uses: the application's own, before it asks */
    double end_s; /* the same, before it asks for the update */
    struct zero__speeds speeds; /* 0: takes no time, as does whatever cannot be a speed, or a
                                 * time */
    int streamed; /* the application goes on while its uses compute */
};

struct zero__simulated {
    double step_s;
    double passes_s, update_s; /* of it: until all but the update is over, and from there on */
};

/* Zeros, for any of both programs (the other one: may be NULL); 0 or -ENOMEM. */
int zero__costs_make(const struct zero__program *p, const struct zero__program *other,
                     struct zero__costs *c);
void zero__costs_free(struct zero__costs *c);
/* Of the program's ops, to what was made for it. */
void zero__costs_copy(const struct zero__program *p, const struct zero__costs *from,
                      struct zero__costs *to);

/* A step like those before and behind it. */
int zero__simulate(const struct zero__program *p, const struct zero__recipe *r,
                   const struct zero__costs *c, struct zero__simulated *s);

#endif
