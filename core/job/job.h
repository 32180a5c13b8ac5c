/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job: who the ranks are, and the control channel between them. The channel is a star around
 * rank 0, served by one small thread per rank; it carries exchanges of small blobs, notices a dead
 * rank within milliseconds and a stopped one within seconds, and makes every rank report the same
 * first error. Ranks may be threads of one process: all state hangs off the handle.
 *
 * Rules: exchanges (allgather, oob) are collective, in one order, by one thread of a
 * rank at a time. zero__job_fail() and zero__job_error() may come from any thread.
 */
#ifndef ZERO_JOB_JOB_H
#define ZERO_JOB_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <zero/comm.h>

#include "job/address.h"
#include "job/secret.h"

#define ZERO__JOB_MAX_RANKS 4096
#define ZERO__JOB_EXCHANGE_BYTES 65536 /* largest part of one rank in one exchange */

struct zero_config;
struct zero__log;
struct zero__options;
struct zero__job;

struct zero__job_params {
    int32_t rank, ranks;
    int32_t local_ranks;  /* until open: as far as the launcher says */
    int32_t local_rank;   /* set by open, 0 until then */
    char key[384];        /* what the ranks of one job share, readable */
    char model[64];       /* runtimes of one job meet by the model's name */
    char version[32];     /* of the library; ranks must agree */
    uint64_t abi_hash;    /* likewise: protocol and interface versions */
    int64_t timeout_ns;   /* deadline of an exchange */
    int64_t join_ns;      /* how long open waits for the other ranks */
    int64_t heartbeat_ns; /* silence that is an error, 0: none is; that of rank 0 is everybody's */
    const struct zero__log *log; /* may be NULL */
    uint64_t number; /* set by open, see there */

    /* How the ranks meet; rendezvous.c says what follows from it. */
    bool local_known;                 /* local_ranks was said, not guessed */
    bool insecure;                    /* TCP without a secret */
    int32_t how;                      /* enum zero__rendezvous_how: by what ZERO_RENDEZVOUS says */
    uint16_t port;                    /* of rank 0, 0: none is known */
    char address[ZERO__ADDRESS_HOST]; /* of rank 0: a name or a number, may be empty */
    char interface[40];               /* rank 0 listens at its address instead; may be empty */
    struct zero__secret secret;
};

/* The first error of the job, the same on all ranks. */
struct zero__job_error {
    int32_t culprit;  /* rank, or -1: nobody in particular */
    int32_t err;      /* negative errno */
    int32_t reporter; /* the rank that noticed it; -1: each by itself */
    uint32_t place;   /* of a deadline's operation in the order that all ranks share; 0: none */
    char op[64];     /* what was being done, may be empty */
    char cause[432]; /* goes on after "rank 2 failed in OP: " */
};

/*
 * Who this rank is: explicit ranks of `cfg` (may be NULL), else the variables RANK, WORLD_SIZE,
 * LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, TORCHELASTIC_RUN_ID and ZERO_JOB, else
 * what PMIx says (mpirun, srun; collective); nothing set is one rank. Fills in what
 * `options` say of it, too. An error names the variable, its value and what is allowed.
 */
int zero__job_params_from(const struct zero_config *cfg, const struct zero__options *options,
                          struct zero__job_params *out);

/*
 * Finds the other ranks and returns when all are there, or with an error that names who is
 * missing, started twice, or of another size or version. Collective. Wipes the secret in *params,
 * and sets local_rank and local_ranks to what the ranks' hosts are, whatever the launcher said.
 * params->number becomes what rank 0 drew for this meeting of its ranks, so that what they leave
 * behind is not taken for that of another job of the same key; also after an error, 0 where rank 0
 * has not let this rank in.
 */
int zero__job_open(struct zero__job_params *params, struct zero__job **job);

/* A number that no other call gives, here or elsewhere; never 0. */
uint64_t zero__job_draw_number(void);

/*
 * Ends the job of this rank and frees it in any case. `clean`: collective, returns when this rank
 * may go without being taken for dead (rank 0 waits for the others, at most the timeout). Not
 * clean: after an error; tells the others what is still unsaid and goes. Returns 0 or the job's
 * error. Not from the on_error callback.
 */
int zero__job_close(struct zero__job *job, int clean);

/*
 * Ends the job of this rank, and frees nothing: a thread that is stuck may still use it. It waits
 * for nobody, and its place is free for another job. `clean`: the others hear that it leaves.
 */
void zero__job_quit(struct zero__job *job, int clean);

int zero__job_rank(const struct zero__job *job);
int zero__job_ranks(const struct zero__job *job);
/* Among the ranks of this rank's host. */
int zero__job_local_rank(const struct zero__job *job);
int zero__job_local_ranks(const struct zero__job *job);
/* A number of this rank's host, the same for ranks that share it. */
int zero__job_host(const struct zero__job *job);
/* Do all ranks share one host: one kernel and one network namespace? */
bool zero__job_one_host(const struct zero__job *job);

/*
 * The network interface by which this rank reaches the others: ZERO_INTERFACE, else that of its
 * connection to rank 0; the loopback when all share a host; NULL: not known. Valid until close.
 */
const char *zero__job_interface(const struct zero__job *job);

/* The exchange for plugins; valid until close. */
const struct zero_oob *zero__job_oob(struct zero__job *job);

/* All-gather of len <= 64 KiB per rank into dst (ranks * len bytes, rank order). Blocks. */
int zero__job_allgather(struct zero__job *job, const void *src, uint32_t len, void *dst);

/*
 * This rank has ended a piece of work that has a deadline of its own and that others may have to
 * wait for: a request to a disk. Never blocks, any thread.
 */
void zero__job_worked(struct zero__job *job);
/*
 * How long to wait for others: until deadline_ns, or ZERO_TIMEOUT after another rank was last heard
 * to have worked, whichever is later. Without ZERO_HEARTBEAT nothing is heard. Any thread.
 */
int64_t zero__job_patience(struct zero__job *job, int64_t deadline_ns);

/*
 * This rank has waited in a collective for zero__job_doubt_ns() or longer, for these ranks as far
 * as the transport knows: their hosts are asked for an answer (probe.c), and one that gives none
 * any more is an error of the job. To be said again now and then; n -1: it goes on. Never blocks,
 * any thread.
 */
void zero__job_waits(struct zero__job *job, const int32_t *ranks, int n);
int64_t zero__job_doubt_ns(const struct zero__job *job); /* ZERO_NEVER: nobody wants to know */

/*
 * Reports an error to all ranks; the first one wins (rank 0 decides which that is), later ones are
 * ignored. Never blocks, any thread. Returns err.
 */
int zero__job_fail(struct zero__job *job, int culprit, int err, const char *op, const char *cause);
/*
 * The same for a deadline that has passed. Ranks that went apart wait for each other and accuse
 * each other; rank 0 hears all and believes the one that waits at the smallest place.
 */
int zero__job_fail_at(struct zero__job *job, int culprit, int err, uint32_t place, const char *op,
                      const char *cause);
#define ZERO__PLACE_LAST UINT32_MAX /* of an exchange: after all operations */
/*
 * How long rank 0 waits for the deadlines of others after the first. A rank that left an operation
 * out waits for the next one sooner than they wait for the one that it left out: by as much as they
 * were late, or their machine is busy.
 */
#define ZERO__JOB_CLAIMS_NS (8 * ZERO_SECOND / 10)

/*
 * An error that follows from another one: a rank gave up, or has ended. The job knows why and who,
 * or soon will; a transport may hear of it first, and is not to blame for a connection that broke.
 */
bool zero__job_follows(int err);

/*
 * 0 and *out untouched: all is well; else *out (may be NULL) and its err. A rank whose own report
 * is not yet decided by rank 0 waits for that here, 2 s at most. Cheap while all is well.
 */
int zero__job_error(struct zero__job *job, struct zero__job_error *out);

/* Records the job's error as this thread's sentence and returns it; 0: there is none. */
int zero__job_report(struct zero__job *job);

/* The same after a moment in which the news of a death may come. */
int zero__job_report_soon(struct zero__job *job);

/*
 * `fn` is called once when an error is decided, from the control thread (with one rank: by the
 * thread that failed). If there is one already, soon.
 */
void zero__job_on_error(struct zero__job *job, void (*fn)(void *arg), void *arg);

/*
 * For the sentence about a rank that is lost: `say` puts what this rank waits in now, "gather of
 * layer1", or "". The control thread of rank 0 calls it with the job's lock held: it must not
 * block.
 */
void zero__job_on_lost(struct zero__job *job, void (*say)(void *arg, char *text, size_t room),
                       void *arg);

#endif
