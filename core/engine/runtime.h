/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runtime: what a struct zero_runtime is made of. The engine composes the rooms below it and is
 * the public API; each room owns its own state, behind a header that is its door:
 *
 *   site/site.h    what stays as it is while ops run: options, ranks, model, device, memory
 *   run/run.h      lanes and threads that run ops, and how a job fails
 *   step/step.h    a step as the application's thread sees it
 *   place/place.h  tiers, reserved memory, refusals, forecasts
 *
 * Files of the engine:
 *   create.c       options, ranks, plugins
 *   end.c          the end of a runtime, with a limit in time
 *   register.c     registration of units, groups, parameters, buffers
 *   commit.c       layout, program, memory, initial values
 *   recipe.c       what commit makes of the options
 *   install.c      from declared orders to the program that runs; two are kept
 *   agree.c        what ranks must have in common, compared before a program runs
 *   device.c       the device that trains
 *   threads.c      how many threads a rank takes, and on which memory nodes its cores are
 *   transport.c    which communication plugin moves the data
 *   values.c       values of parameters from outside: initialised, read, written, hashed
 *   report.c       the report of memory by class
 *   steps.c        the public calls of a step
 *   calls.c        public calls that belong to no phase
 */
#ifndef ZERO_ENGINE_RUNTIME_H
#define ZERO_ENGINE_RUNTIME_H

#include "place/place.h"
#include "step/step.h"

struct zero_runtime {
    struct zero__site site;
    struct zero__runner *run;
    struct zero__step *step;
    struct zero__placer *placer;
};

/* ---- device.c */

/* Opens the device that ZERO_DEVICE names, and the lanes' streams. */
int zero__device_open(struct zero_runtime *rt);

/* ---- transport.c */

/* Collective. Chooses, loads and opens the comm plugin; sets comm_name, caps, comm_ops, ctx. */
int zero__transport_open(struct zero_runtime *rt);

/* ---- threads.c */

/* Collective. The option, or this rank's share of the cores, which becomes the option. */
int zero__threads_choose(struct zero_runtime *rt);

/* ---- recipe.c */

/* Fills in the recipe, in which zero__tiers_load() has noted fractions. */
void zero__recipe_make(struct zero_runtime *rt);
/* With the layout known: decides whether shards are mapped. */
void zero__map_decide(struct zero_runtime *rt);
/* With the states laid out: decides what is updated beside the backward pass. */
int zero__early_check(struct zero_runtime *rt);

/* ---- install.c */

/* Compiles the orders of the model, or finds them in the cache, and checks that ranks agree. */
int zero__program_install(struct zero_runtime *rt);

/* ---- agree.c */

/* Collective: the first program's hash, the model and the options are the same on all ranks. */
int zero__ranks_agree(struct zero_runtime *rt);

/* ---- values.c */

/* Every rank makes its own part of the initial values; whole copies come from their owners. */
int zero__values_init(struct zero_runtime *rt);

#endif
