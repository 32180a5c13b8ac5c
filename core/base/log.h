/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines, "zero: rank 1: shm: text", to a sink of the application or to standard error. The
 * struct is filled once and read-only afterwards, so any thread may log. A message of several lines
 * gets the prefix on each; one message is one call of the sink or one write().
 *
 * Levels come from ZERO_LOG: "debug" for everything, "warn,shm:trace" with exceptions by
 * component.
 */
#ifndef ZERO_BASE_LOG_H
#define ZERO_BASE_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include <zero/plugin.h> /* enum zero_log_level */

#define ZERO__LOG_COMPONENTS 16

/* Outlives whoever may still log; see zero__log_shut(). */
struct zero__log_gate {
    atomic_int calls, shut; /* threads that write a line; nobody may begin to */
};

struct zero__log {
    void (*sink)(void *arg, int level, const char *line); /* NULL: standard error */
    void *sink_arg;
    int rank;  /* negative: none known, or the only one: not shown */
    int level; /* of components without one of their own; 0: silent */
    unsigned n_components;
    struct {
        char name[24];
        int level;
    } components[ZERO__LOG_COMPONENTS];
    struct zero__log_gate *gate; /* NULL: it is never shut */
};

/*
 * Sets the levels of *log to those of `spec` (empty: warn). -EINVAL with the reason in why[bytes],
 * *log untouched, when it says something else. Does not touch sink and rank.
 */
int zero__log_levels(struct zero__log *log, const char *spec, char *why, size_t bytes);

/* Would a message be shown? For callers whose arguments cost something. log NULL: no. */
bool zero__log_shows(const struct zero__log *log, int level, const char *component);

/*
 * From now on nobody calls the sink: a thread that never returns may still log, and the sink's
 * memory may be gone. Who is in the sink is waited for, one second at most.
 */
void zero__log_shut(struct zero__log_gate *gate);

/* Logs one message. Keeps errno, so %m works and callers may still look at it. */
void zero__log(const struct zero__log *log, int level, const char *component, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

#endif
