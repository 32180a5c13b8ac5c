/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The job's state, shared by the files of this room. `lock` guards everything that is not constant
 * after open. The control thread holds it except while it sleeps or calls the on_error callback,
 * and never blocks with it: all sockets are non-blocking.
 *
 * Rank 0 has a peer for every rank (its own place stays empty); another rank has one: peers[0].
 * What a peer is still to be told is a flag, not a queue, so that nothing is allocated for it.
 *
 * A job, and who its ranks are:
 *   job.c            opening and closing a job (job.h)
 *   params.c         who this rank is, by which address and secret ranks meet
 *   pmix.c           ranks that a launcher with PMIx has started
 *   notice.c         what rank 0 publishes through PMIx
 *   secret.c         the secret of a job, read
 *   hosts.c          which ranks share a host
 *   interface.c      network interfaces, and by which other hosts come
 *   address.c        addresses of TCP endpoints
 *   ranks_text.c     sets of ranks for people
 *
 * How ranks meet:
 *   rendezvous.c     where: Unix, TCP or both
 *   endpoint_unix.c  abstract Unix sockets (endpoint.h)
 *   endpoint_tcp.c   TCP sockets
 *   join.c           a rank's way to rank 0
 *   wait.c           rank 0 waits for the others
 *   guests.c         those who knock at rank 0
 *   auth.c           proofs of the challenge that opens a TCP connection
 *   admit.c          a guest that said HELLO: let in, or refused
 *   refuse.c         no rank may join any more
 *
 * The control channel:
 *   control.c        the control thread
 *   wake.c           wakes it
 *   link.c           one connection: frames in and out
 *   wire.h           messages
 *   peers.c          the ranks that are here: their messages, and their end
 *   round.c          exchanges, numbered: the control thread's side
 *   exchange.c       exchanges: the calling side
 *
 * Who is gone, and why:
 *   error.c          the first error of a job, the same on all ranks
 *   beat.c           signs of life, and of work
 *   starved.c        whether a silent rank only gets no processor
 *   probe.c          whether there is a way between hosts
 *   port.c           the port of a host, which probes ask
 */
#ifndef ZERO_JOB_INTERNAL_H
#define ZERO_JOB_INTERNAL_H

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#include "job/endpoint.h"
#include "job/interface.h"
#include "job/link.h"

#define ZERO__JOB_GUESTS 256                      /* places, besides one for every rank */
#define ZERO__JOB_GUEST_NS (5 * ZERO_SECOND)      /* for proof and HELLO after connecting */
#define ZERO__JOB_UNTOUCHED_NS (ZERO_SECOND / 20) /* a guest keeps its place as long at least */
#define ZERO__JOB_PORT_NS ZERO_SECOND             /* for an earlier rank 0 to leave its port */
#define ZERO__JOB_DECISION_NS (2 * ZERO_SECOND)   /* for rank 0 to decide the first error */
#define ZERO__JOB_NEWS_NS ZERO_SECOND             /* for a death to be noticed by all */
#define ZERO__JOB_LINGER_NS (ZERO_SECOND / 5)     /* for the last words at close */
#define ZERO__JOB_EXPLAIN_NS ZERO_SECOND          /* for late ranks to hear of a refusal */
#define ZERO__JOB_BEATS 8                         /* signs of life in ZERO_HEARTBEAT */

enum zero__peer_state { ZERO__PEER_ABSENT = 0, ZERO__PEER_HERE, ZERO__PEER_LEFT, ZERO__PEER_LOST };

/* What the kernel says of a thread; see starved.c. */
struct zero__running {
    bool wants;                /* to run, or runs */
    int64_t ran_ns, waited_ns; /* so far */
};

struct zero__peer {
    struct zero__link link;
    struct zero__wire_process process;
    struct zero__wire_welcome welcome; /* rank 0: body of WELCOME */
    int32_t host;                      /* rank 0: index of its host, see hosts.c */
    int32_t host_first, host_ranks;    /* rank 0: of the host whose index is this rank */
    enum zero__peer_state state;
    bool mute; /* it broke the protocol: nothing more is read */
    bool claimed; /* rank 0: a deadline of its own has passed, see error.c */
    bool say_joined, say_welcome, say_refused, say_error, say_part, say_result, say_bye, say_beat;
    int64_t silent_ns; /* since its last sign of life, see beat.c */
    int64_t spared_ns; /* of silence for which it had no processor, see starved.c */
    struct zero__running doubted; /* its control thread, when half of what is allowed was over */
    bool is_doubted, says_starved, was_starved;
    uint64_t work;     /* pieces that it has said were ended, see beat.c */
    uint32_t part_seq; /* rank 0: the last round it contributed to */
    uint32_t no_way;   /* rank 0: 1 + the rank to which it says there is no way; 0: none */
    uint32_t claims;   /* rank 0: how often it has said that again */
    uint32_t since;    /* rank 0: the accused's signs of life by then */
    uint32_t beats;    /* rank 0: its own signs of life */
    uint32_t waits;    /* rank 0: the last of them that said it waits */
    uint32_t result_seq;
    uint64_t result_sent;
    struct zero__job_error heard; /* body of FAIL or ERROR */
};

/* Who has connected to rank 0 and has not said HELLO. */
struct zero__guest {
    struct zero__link link; /* fd -1: free */
    int64_t since_ns;
    int64_t pid;  /* Unix: as the kernel says */
    bool trusted; /* may say HELLO: of this user, or knows the secret, or nobody needs one */
    bool proved;  /* it has shown that it knows the secret: is not dropped for another guest */
    struct zero__auth_nonces nonces;
    union {
        struct zero__wire_hello hello;
        struct zero__wire_proof proof;
    };
};

/* Where the ranks meet, see rendezvous.c. */
struct zero__rendezvous {
    enum zero__endpoint by;    /* not rank 0: how it reaches rank 0 */
    bool tcp;                  /* rank 0: it listens by TCP too */
    struct zero__addresses at; /* TCP: of rank 0; its own one address on rank 0 */
    char why[320];             /* it is so, for people */
};

/* The port that the first rank of a host holds, see port.c; family 0: none. */
struct zero__port {
    uint16_t family, number;
    uint32_t host, scope; /* scope: of IPv6, as this host counts its interfaces */
    unsigned char ip[16];
};

#define ZERO__JOB_WHOM 8 /* ranks that a rank says it waits for */

/* A host that is asked for an answer. */
struct zero__ask {
    int fd;
    int32_t host, rank; /* -1: none; rank: for which, -1: to know whether there is a way */
    int64_t silent_ns;
};

#define ZERO__JOB_VISITS 64 /* hosts that are visited at once */

/* Whether there is a way to other hosts, see probe.c. */
struct zero__probe {
    bool on;
    int held_fd; /* the port of this host */
    int32_t *host_of;         /* by rank */
    struct zero__port *hosts; /* by host */
    bool *reached;            /* likewise: it has answered */

    /* As the engine says. */
    bool waits;
    int n_whom;
    int32_t whom[ZERO__JOB_WHOM];

    struct zero__ask visits[ZERO__JOB_VISITS];
    int32_t n_visited; /* that have begun */

    struct zero__ask doubt;
    bool cut; /* its host has been silent for too long */
    uint32_t turn;
    int64_t next_ns; /* no doubt is looked at before */
};

/* One exchange. Two are kept, because a fast rank may be one round ahead of rank 0's reader. */
struct zero__round {
    uint32_t seq;   /* 0: none yet */
    uint64_t len;   /* of one part */
    uint64_t total; /* bytes of the result */
    uint64_t got;   /* not rank 0: of them */
    int32_t first;  /* the rank whose part came first */
    uint32_t n_parts;
    bool done;
    char *data;
    uint64_t capacity;
};

enum zero__job_state {
    ZERO__JOB_JOINING = 0,
    ZERO__JOB_OPEN,
    ZERO__JOB_REFUSED,
    ZERO__JOB_LEAVING
};
enum zero__error_state { ZERO__ERROR_NONE = 0, ZERO__ERROR_PENDING, ZERO__ERROR_DECIDED };

struct zero__job {
    struct zero__job_params params; /* of the secret only whether there is one */
    struct zero__secret *secret;    /* NULL: not needed any more */
    struct zero_oob oob;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool threaded;
    int wake_fd, listen_fds[ZERO__N_ENDPOINTS];
    struct zero__rendezvous meet;

    enum zero__job_state state;
    int64_t join_deadline_ns, linger_ns;
    int64_t looked_ns, beat_ns; /* for signs of life last; own sign of life next */
    atomic_uint_fast64_t work;  /* pieces that this rank has ended */
    atomic_int_fast64_t others_worked_ns; /* when others were last heard to have, 0: never */
    int64_t deaf_until_ns;      /* no accept before: the process has no descriptor left */
    bool clean;
    bool few_fds;                         /* rank 0: too many ranks to watch their processes too */
    bool accept_told;                     /* rank 0: that it could not take a connection */
    int32_t n_peers, n_joined, n_refused; /* n_joined counts this rank */
    struct zero__peer *peers;
    int32_t host, n_hosts;                /* own index; 0: not known before all are there */
    char interface[ZERO__INTERFACE_NAME]; /* see zero__job_interface(); empty: not known */
    int32_t n_slots, n_guests, n_denied;  /* rank 0: places for guests, taken ones; wrong proofs */
    int32_t n_unlike; /* rank 0: guests that have no secret and should, or the other way round */
    struct zero__guest *guests;
    struct pollfd *polls; /* room for everything; filled anew for every sleep */
    int32_t *poll_who;
    struct zero__wire_refused refusal; /* rank 0: why nobody may join */
    struct zero__wire_hello hello;

    struct zero__probe probe;

    struct zero__round rounds[2];
    uint32_t seq; /* the round this rank posted last */
    bool posted;  /* and has not collected */

    atomic_int error_state; /* written under lock */
    struct zero__job_error error;
    struct zero__job_error proposal; /* what FAIL carries; of rank 0: the deadline that it weighs */
    int64_t error_deadline_ns;
    bool told; /* on_error was called */
    void (*on_error)(void *arg);
    void *on_error_arg;
    void (*say_doing)(void *arg, char *text, size_t room); /* NULL: nothing is said of it */
    void *say_doing_arg;
};

/* Any thread; what it tells of is written before. */
static inline enum zero__error_state zero__error_state(struct zero__job *job)
{
    return (enum zero__error_state)atomic_load_explicit(&job->error_state, memory_order_acquire);
}

/* control.c: the thread. */
void *zero__job_control(void *job);

/* wake.c: wakes the control thread, from any thread. */
void zero__job_wake(struct zero__job *job);

/* beat.c: signs of life. Once per turn of the control thread, after it has read what came. */
void zero__beat(struct zero__job *job, int64_t now_ns);
void zero__beat_heard(struct zero__peer *peer);
/* What it said of work; what this rank says of it to a peer. */
void zero__beat_message(struct zero__job *job, struct zero__peer *peer, uint64_t work);
uint64_t zero__beat_work(struct zero__job *job, const struct zero__peer *to);
/* How much silence is an error, as JOINED says it; 0: none is. */
uint32_t zero__beat_ms(const struct zero__job *job);
/* When the next one is due, ZERO_NEVER without. */
int64_t zero__beat_deadline(struct zero__job *job);

/* starved.c: names the calling thread, this rank's control thread; others find it by that. */
void zero__starved_name(const struct zero__job *job);
/* Of a peer's control thread; false: nothing is known of it. */
bool zero__starved_read(const struct zero__job *job, int32_t rank, struct zero__running *out);
/* A peer is silent: how it is now. */
void zero__starved_doubt(struct zero__job *job, int32_t rank);
/* Has it had no processor, and wanted one, since it was looked at last, `ns` ago? Looks again. */
bool zero__starved(struct zero__job *job, int32_t rank, int64_t ns);
/* Says so of ranks of which it is news; job->lock is held, and not meanwhile. */
void zero__starved_tell(struct zero__job *job);

/* port.c: the port of this host. Where none can be held, others do not come, and nothing is
 * concluded. */
void zero__port_hold(struct zero__job *job, struct zero__port *port);
/* As seen by a host whose interface has the scope. false: there is none, or it is no address. */
bool zero__port_address(const struct zero__port *port, uint16_t number, uint32_t scope,
                        struct zero__address *a);

/* probe.c: whether hosts still reach each other. */
void zero__probe_init(struct zero__job *job);
/* Collective, when the control thread runs. */
int zero__probe_open(struct zero__job *job);
/* Its sockets are closed; then its memory given back, too. */
void zero__probe_hang_up(struct zero__job *job);
void zero__probe_close(struct zero__job *job);
/* Once in every period of the signs of life. */
void zero__probe(struct zero__job *job, int64_t now_ns, int64_t period_ns);
/* What a sign of life says of it; rank 0: what one has said. */
void zero__probe_say(const struct zero__job *job, struct zero__wire_header *h);
void zero__probe_heard(struct zero__job *job, int32_t rank, const struct zero__wire_header *h);

/* guests.c: those who knock at rank 0. */
void zero__guests_accept(struct zero__job *job, enum zero__endpoint by);
void zero__guest_serve(struct zero__job *job, struct zero__guest *guest);
void zero__guests_expire(struct zero__job *job, int64_t now_ns);
/* When the next guest may come in: 0 at once, ZERO_NEVER when a place must become free first. */
int64_t zero__guests_open_ns(struct zero__job *job);
/* Tells a trusted guest why it cannot stay, and hangs up. */
void zero__guest_turn_away(struct zero__job *job, struct zero__guest *guest,
                           const struct zero__wire_refused *why);
/* Its link has become a rank's. */
void zero__guest_free(struct zero__job *job, struct zero__guest *guest);

/* admit.c: a guest has said HELLO. */
void zero__guest_admit(struct zero__job *job, struct zero__guest *guest);

/* refuse.c: no rank may join any more; all ranks that have come are told why. */
void zero__job_refuse(struct zero__job *job, int err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* hosts.c: which ranks share a host. */
void zero__process_own(struct zero__wire_process *process);
/* Makes what came from elsewhere fit to be printed. */
void zero__process_clean(struct zero__wire_process *process);
/* Rank 0, when all are there: fills in what WELCOME tells each rank. */
void zero__hosts_count(struct zero__job *job);
/*
 * When the ranks' hosts are known: by which interface this one reaches the others. `zero`: that of
 * rank 0; `fd`: the TCP connection to it.
 */
void zero__hosts_interface(struct zero__job *job, const char *zero, int fd);
/* "process 12", and " on HOST" when ranks are on several. */
void zero__process_text(const struct zero__job *job, const struct zero__wire_process *process,
                        char *text, size_t room);

/* rendezvous.c: fills in job->meet; and says what is there. */
int zero__rendezvous_find(struct zero__job *job);
#define ZERO__RENDEZVOUS_TEXT 440
void zero__rendezvous_text(const struct zero__job *job, char *text, size_t room);

/* wait.c: rank 0, until all are there, or none may join any more. */
int zero__job_wait(struct zero__job *job);

/* ranks_text.c: "2, 4-7" of the ranks for which `is` holds; the first of them, -1 for none. */
int zero__ranks_text(struct zero__job *job, bool (*is)(struct zero__job *job, int32_t rank),
                     char *text, size_t room);

/* join.c: the other side; finds rank 0 and waits until all are there. */
int zero__job_join(struct zero__job *job);
/* Rank 0 whose place is taken: asks who holds it. -EAGAIN: it is about to be free. */
int zero__job_ask(struct zero__job *job);

/* peers.c: reading from and writing to the ranks that are here. */
void zero__peer_read(struct zero__job *job, int32_t rank);
void zero__peer_write(struct zero__job *job, int32_t rank);
void zero__peer_gone(struct zero__job *job, int32_t rank);
bool zero__peer_has_words(const struct zero__peer *peer);

/* round.c */
struct zero__round *zero__round_of(struct zero__job *job, uint32_t seq);
/* This rank's part of that round. */
void zero__round_post(struct zero__job *job, uint32_t seq, const void *src, uint64_t len);
/* Where the body of a PART or RESULT goes; NULL after an error was recorded. */
void *zero__round_place(struct zero__job *job, int32_t rank, const struct zero__wire_header *h);
void zero__round_message(struct zero__job *job, int32_t rank, const struct zero__wire_header *h);
/* Names in `e` the ranks for which a round waits in vain, if there is one. */
void zero__round_blame(struct zero__job *job, struct zero__job_error *e);
/* A rank left: a round that waits for it cannot end. */
void zero__round_left(struct zero__job *job, int32_t rank);
void zero__round_part(struct zero__job *job, struct zero__wire_header *h, const void **body);
void zero__round_result(struct zero__job *job, struct zero__peer *peer, struct zero__wire_header *h,
                        const void **body);

/* error.c; all with the lock held. */
void zero__error_make(struct zero__job_error *e, int culprit, int err, int reporter, const char *op,
                      const char *cause);
/* In what this rank waits, or that it waits in nothing. Under the lock. */
void zero__error_doing(struct zero__job *job, char *text, size_t room);
/*
 * The error of a rank that has ended or fallen silent. Of it nobody hears what it was doing; rank 0
 * says in what it waits itself, which in the end is what the lost rank has no part in. Without rank
 * 0 every rank sees for itself, and the records must still be equal: they do not say it.
 */
void zero__error_lost(struct zero__job *job, struct zero__job_error *e, int32_t rank, int err,
                      const char *cause);
/* This rank's view: decided at once by rank 0 or without it, else sent there. */
void zero__error_propose(struct zero__job *job, const struct zero__job_error *e);
void zero__error_decide(struct zero__job *job, const struct zero__job_error *e);
void zero__error_failf(struct zero__job *job, int culprit, int err, const char *op, const char *fmt,
                       ...) __attribute__((format(printf, 5, 6)));
/*
 * What is pending stands when its time is up: the own view, as rank 0's decision did not come, or
 * never will; on rank 0, of the deadlines that it heard of, the one at the smallest place.
 */
void zero__error_expire(struct zero__job *job);

#endif
