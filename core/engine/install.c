/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the declared orders to the program that runs: two programs are kept, so that a model that
 * alternates between two orders compiles each once. Ranks compare it before it runs (agree.c).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "engine/runtime.h"

static int matches(const struct zero__program *p, const struct zero__model *m)
{
    if (!p)
        return 0;
    for (uint32_t k = 0; k < 2; k++)
        if (p->n_uses[k] != m->orders[k].n ||
            memcmp(p->uses[k], m->orders[k].uses, m->orders[k].n * sizeof *p->uses[k]))
            return 0;
    return 1;
}

static void programs_swap(struct zero_runtime *rt)
{
    struct zero__program *p = rt->programs[0];

    rt->programs[0] = rt->programs[1];
    rt->programs[1] = p;
}

/* What the program that is now the first one needs. */
static int program_equip(struct zero_runtime *rt, int first)
{
    int err = zero__ranks_agree(rt);

    if (!err && !first)
        err = zero__memory_grow(rt);
    if (err) /* of all ranks */
        return err;
    err = zero__lanes_size(rt);
    if (!err)
        err = zero__times_size(rt);
    if (!first)
        return zero__runtime_fail_alone(rt, err, "zero_begin");
    if (!err)
        err = zero__flight_create(rt);
    if (!err)
        err = zero__history_create(rt);
    return err;
}

int zero__program_install(struct zero_runtime *rt)
{
    struct zero__program *p = rt->programs[0];
    int first = p == NULL, other = 0, err = 0;

    if (!first)
        err = zero__lanes_drain(rt, 0, NULL); /* what the old program issued points into it */
    rt->has_updated = 0;
    if (err)
        return err;
    if (!matches(p, &rt->model)) {
        struct zero__program *old = rt->programs[1];
        if (!matches(old, &rt->model)) {
            uint32_t threads = (uint32_t)zero__option_int(rt->options, ZERO__OPT_THREADS);
            err = zero__program_compile(&rt->model, &rt->recipe, &rt->states, ZERO__PLAN_NODES,
                                        threads, &p);
            /* Other errors are those of the order: all ranks meet them. */
            if (err == -ENOMEM && !first)
                zero__runtime_fail_alone(rt, err, "zero_begin");
            if (err)
                return err;
            zero__program_free(old);
        } else {
            p = old;
        }
        rt->programs[1] = p;
        programs_swap(rt);
        other = 1;
    }
    err = program_equip(rt, first);
    if (err && other && !first)
        programs_swap(rt); /* memory is still that of the old one; the order waits on */
    if (err)
        return err;
    rt->next_order[0] = rt->next_order[1] = 0;
    return 0;
}

int zero__orders_forget(struct zero_runtime *rt)
{
    const struct zero__program *p = rt->programs[0];

    if (zero__job_error(rt->job, NULL) || !p) /* the job may know before the runtime does */
        return 0;
    for (uint32_t k = 0; k < 2; k++)
        if (rt->next_order[k] && !rt->recorded_order[k])
            return 0;
    zero__log(&rt->log, ZERO_LOG_WARN, "engine",
              "steps leave the declared order, and the order they take cannot be compiled, so they "
              "run without prefetching: %s", zero__error_text());
    for (uint32_t k = 0; k < 2; k++) {
        int err = rt->next_order[k]
                      ? zero__model_set_order(&rt->model, k, p->uses[k], p->n_uses[k]) : 0;
        if (zero__runtime_fail_alone(rt, err, "zero_begin"))
            return 0;
        rt->next_order[k] = 0;
    }
    return 1;
}

int zero_set_order(struct zero_runtime *rt, uint32_t kind, const struct zero_use *uses,
                   uint32_t n_uses)
{
    int err = zero__runtime_phase(rt, IN(PHASE_SETUP) | IN(PHASE_IDLE) | IN(PHASE_EVAL),
                                  "zero_set_order()");

    if (!err && rt->micro)
        err = zero__fail(-EBUSY, "zero_set_order() in the middle of a step: call zero_update() "
                         "first");
    if (!err)
        err = zero__model_order_check(&rt->model, kind, uses, n_uses);
    /* Before the order is set: an evaluation that ends may have recorded one. */
    if (!err)
        err = zero__body_close(rt);
    if (err)
        return err;
    err = zero__model_set_order(&rt->model, kind, uses, n_uses);
    if (rt->phase == PHASE_SETUP || zero__runtime_fail_alone(rt, err, "zero_set_order"))
        return err;
    rt->next_order[kind] = 1;
    rt->recorded_order[kind] = 0;
    return 0;
}

int zero_program_dump(struct zero_runtime *rt, int fd)
{
    int err = zero__runtime_phase(rt, ~(uint32_t)IN(PHASE_SETUP), "zero_program_dump()");
    if (err)
        return err;
    int copy = dup(fd);
    FILE *f = copy < 0 ? NULL : fdopen(copy, "w");
    if (!f) {
        err = -errno;
        if (copy >= 0)
            close(copy);
        return zero__fail(err, "cannot write to file descriptor %d: %s", fd, strerror(-err));
    }
    for (uint32_t i = 0; i < ZERO__N_BODIES && !err; i++) {
        if (rt->programs[0]->bodies[i].n_ops == 0)
            continue;
        fprintf(f, "body %s\n", zero__body_name(i));
        err = zero__body_dump(&rt->model, &rt->states, &rt->programs[0]->bodies[i], f);
    }
    if (fclose(f) && !err)
        err = -errno;
    return err ? zero__fail(err, "cannot write the program to file descriptor %d: %s", fd,
                            strerror(-err))
               : 0;
}
