/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of faults, and which one a seed means. */
#include "faults.h"

#include <signal.h>
#include <string.h>

#define KILL_MS 1000
#define STOP_MS 5000
#define SKIP_MS 0
#define END_MS 5000 /* for ranks that wait for one another's end */
/* A rank that is gone before it has said its name is missed at the end of the time for joining. */
#define MEET_MS (1000 * FAULTS_JOIN_S + KILL_MS)
#define MEETING_US 100000 /* a moment while ranks start; later ones are of the first steps */
#define STEPPING_US 60000
#define ENDING_US 8000

const struct faults_comm faults_comms[FAULTS_COMMS] = {
    {"shm", "shm", NULL, NULL},
    {"ucx", "ucx", NULL, NULL},
    {"ofi", "ofi", NULL, NULL},
    {"ucx over tcp", "ucx", "UCX_TLS", "tcp"},
    {"ofi over tcp", "ofi", "ZERO_OFI_PROVIDER", "tcp"},
};
const char *const faults_phase_names[FAULTS_PHASES] = {"init", "operation", "shutdown"};

const struct faults_kind faults_kinds[FAULTS_KINDS + FAULTS_OUTSIDE_KINDS] = {
    {"kill", FAULTS_INIT, "at=open", "0123", 1, KILL_MS, false},
    {"stop", FAULTS_INIT, "at=exchange", "0123", 1, STOP_MS, false},
    {"skip", FAULTS_OPERATION, "kind=all_gather", "123", 6, SKIP_MS, false},
    {"size", FAULTS_OPERATION, "kind=reduce_scatter", "123", 12, SKIP_MS, false},
    {"dtype", FAULTS_OPERATION, "kind=all_gather", "123", 6, SKIP_MS, false},
    {"kill", FAULTS_OPERATION, "kind=all_gather", "123", 6, KILL_MS, false},
    {"order", FAULTS_OPERATION, "kind=all_gather", "123", 6, SKIP_MS, false},
    {"kill", FAULTS_INIT, "at=split", "0123", 1, KILL_MS, false},
    {"stop", FAULTS_OPERATION, "at=post", "0123", 12, STOP_MS, false},
    {"skip", FAULTS_OPERATION, "kind=reduce_scatter", "123", 12, SKIP_MS, false},
    {"size", FAULTS_OPERATION, "kind=all_gather", "123", 6, SKIP_MS, false},
    {"dtype", FAULTS_OPERATION, "kind=reduce_scatter", "123", 12, SKIP_MS, false},
    {"kill", FAULTS_OPERATION, "kind=reduce_scatter", "123", 12, KILL_MS, false},
    {"kill", FAULTS_INIT, "at=alloc", "0123", 1, KILL_MS, false},
    {"skip", FAULTS_OPERATION, "kind=broadcast", "3", 8, SKIP_MS, false},
    {"size", FAULTS_OPERATION, "kind=broadcast", "3", 8, SKIP_MS, false},
    {"stop", FAULTS_OPERATION, "at=progress", "0123", 40, STOP_MS, false},
    {"dtype", FAULTS_OPERATION, "kind=broadcast", "3", 8, SKIP_MS, false},
    {"kill", FAULTS_OPERATION, "kind=broadcast", "3", 8, KILL_MS, false},
    {"order", FAULTS_OPERATION, "kind=reduce_scatter", "123", 12, SKIP_MS, false},
    {"kill", FAULTS_INIT, "at=exchange", "0123", 1, KILL_MS, false},
    {"kill", FAULTS_OPERATION, "at=progress", "0123", 40, KILL_MS, false},
    {"kill", FAULTS_OPERATION, "at=done", "0123", 12, KILL_MS, false},
    {"kill", FAULTS_SHUTDOWN, "at=close", "0123", 1, END_MS, false},
    {"stop", FAULTS_SHUTDOWN, "at=close", "0123", 1, END_MS, false},
    {"kill", FAULTS_OPERATION, "kind=barrier", "3", 8, KILL_MS, true},
    {"stop", FAULTS_OPERATION, "kind=barrier", "3", 8, STOP_MS, true},
    {"skip", FAULTS_OPERATION, "kind=barrier", "3", 8, SKIP_MS, true},
    {"order", FAULTS_OPERATION, "kind=barrier", "3", 8, SKIP_MS, true},
    {"stop", FAULTS_OPERATION, "kind=broadcast", "3", 8, STOP_MS, false},
    {"kill", FAULTS_OPERATION, "", "0123", STEPPING_US, KILL_MS, false},
    {"stop", FAULTS_OPERATION, "", "0123", STEPPING_US, STOP_MS, false},
    {"kill", FAULTS_INIT, "", "0123", MEETING_US, MEET_MS, false},
    {"stop", FAULTS_INIT, "", "0123", MEETING_US, STOP_MS, false},
    {"kill", FAULTS_SHUTDOWN, "", "0123", ENDING_US, END_MS, false},
    {"stop", FAULTS_SHUTDOWN, "", "0123", ENDING_US, END_MS, false},
};

/* Mostly between the first step and the last: that is where locks of libraries are held. */
static const int outside[] = {0, 1, 0, 1, 2, 0, 1, 3, 0, 1, 4, 5};
#define N_OUTSIDE (unsigned)(sizeof outside / sizeof *outside)

static uint32_t draw(uint64_t *state, uint32_t n)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33) % n;
}

static uint32_t length(const char *text)
{
    uint32_t n = 0;

    while (text[n])
        n++;
    return n;
}

/* Neighbours far from each other: their moments are to be independent. */
static uint64_t scatter(uint64_t x)
{
    x *= UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static void outside_draw(unsigned seed, struct faults_case *c)
{
    static const char *const since[] = {"its start", "its first step", "its last step"};
    uint64_t state = scatter(seed);
    unsigned n = seed - FAULTS_OUTSIDE;
    const struct faults_kind *k;

    *c = (struct faults_case){.seed = seed,
                              .comm = (int)((n + n / N_OUTSIDE) % FAULTS_COMMS),
                              .kind = FAULTS_KINDS + outside[n % N_OUTSIDE]};
    k = &faults_kinds[c->kind];
    c->large = draw(&state, 2);
    c->ranks = 2 + (int)draw(&state, FAULTS_RANKS - 1);
    c->victim = (int)draw(&state, (uint32_t)c->ranks);
    c->stage[0] = k->stages[draw(&state, length(k->stages))];
    c->delay_us = draw(&state, k->most);
    snprintf(c->fault, sizeof c->fault, "%s rank %d from outside %u us after %s", k->action,
             c->victim, c->delay_us, since[k->phase]);
}

void faults_draw(unsigned seed, struct faults_case *c)
{
    uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    const struct faults_kind *k;
    uint32_t most;

    if (seed >= FAULTS_OUTSIDE) {
        outside_draw(seed, c);
        return;
    }
    /* A kind meets another transport and another size each time that its turn comes. */
    const unsigned turn = seed + seed / FAULTS_KINDS;
    *c = (struct faults_case){.seed = seed,
                              .comm = (int)(turn % FAULTS_COMMS),
                              .kind = (int)(seed % FAULTS_KINDS),
                              .large = turn % 3 == 2};
    k = &faults_kinds[c->kind];
    if (k->maps) {
        c->comm = 0;
        c->large = true;
    }
    draw(&state, 2); /* the first ones are near each other */
    c->ranks = 2 + (int)draw(&state, FAULTS_RANKS - 1);
    c->victim = (int)draw(&state, (uint32_t)c->ranks);
    c->stage[0] = k->stages[draw(&state, length(k->stages))];
    most = k->most;
    if (c->large && strcmp(k->where, "at=progress") == 0)
        most *= 3; /* the first large message comes after the first calls, and is there for more */
    snprintf(c->fault, sizeof c->fault, "%s:rank=%d:%s:n=%u", k->action, c->victim, k->where,
             1 + draw(&state, most));
}

int faults_signal(const struct faults_case *c)
{
    return c->kind < FAULTS_KINDS ? 0 : *faults_kinds[c->kind].action == 'k' ? SIGKILL : SIGSTOP;
}
