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
    struct zero__program *p = rt->site.programs[0];

    rt->site.programs[0] = rt->site.programs[1];
    rt->site.programs[1] = p;
}

/* What the program that is now the first one needs. */
static int program_equip(struct zero_runtime *rt, int first)
{
    int err = zero__ranks_agree(rt);

    if (!err && !first)
        err = zero__memory_grow(rt->placer);
    if (err) /* of all ranks */
        return err;
    err = zero__runner_fit(rt->run);
    return first ? err : zero__run_fail_alone(rt->run, err, "zero_begin");
}

int zero__program_install(struct zero_runtime *rt)
{
    struct zero__program *p = rt->site.programs[0];
    int first = p == NULL, other = 0, err = 0;

    if (!first)
        err = zero__lanes_drain(rt->run, 0, NULL); /* what the old program issued points into it */
    zero__update_forget(rt->run);
    if (err)
        return err;
    if (!matches(p, &rt->site.model)) {
        struct zero__program *old = rt->site.programs[1];
        if (!matches(old, &rt->site.model)) {
            uint32_t threads = (uint32_t)zero__option_int(rt->site.options, ZERO__OPT_THREADS);
            err = zero__program_compile(&rt->site.model, &rt->site.recipe, &rt->site.states,
                                        ZERO__PLAN_NODES, threads, &p);
            /* Other errors are those of the order: all ranks meet them. */
            if (err == -ENOMEM && !first)
                zero__run_fail_alone(rt->run, err, "zero_begin");
            if (err)
                return err;
            zero__program_free(old);
        } else {
            p = old;
        }
        rt->site.programs[1] = p;
        programs_swap(rt);
        other = 1;
    }
    err = program_equip(rt, first);
    if (err && other && !first)
        programs_swap(rt); /* memory is still that of the old one; the order waits on */
    if (err)
        return err;
    zero__orders_compiled(rt->step);
    return 0;
}

int zero_set_order(struct zero_runtime *rt, uint32_t kind, const struct zero_use *uses,
                   uint32_t n_uses)
{
    int err = zero__step_phase(rt->step, ZERO__IN(SETUP) | ZERO__IN(IDLE) | ZERO__IN(EVAL),
                               "zero_set_order()");

    if (!err && zero__step_micro(rt->step))
        err = zero__fail(-EBUSY, "zero_set_order() in the middle of a step: call zero_update() "
                                 "first");
    if (!err)
        err = zero__model_order_check(&rt->site.model, kind, uses, n_uses);
    /* Before the order is set: an evaluation that ends may have recorded one. */
    if (!err)
        err = zero__step_close(rt->step);
    if (err)
        return err;
    err = zero__model_set_order(&rt->site.model, kind, uses, n_uses);
    if (zero__step_is_setup(rt->step) || zero__run_fail_alone(rt->run, err, "zero_set_order"))
        return err;
    zero__orders_declared(rt->step, kind);
    return 0;
}

int zero_program_dump(struct zero_runtime *rt, int fd)
{
    int err = zero__step_phase(rt->step, ~(uint32_t)ZERO__IN(SETUP), "zero_program_dump()");
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
        if (rt->site.programs[0]->bodies[i].n_ops == 0)
            continue;
        fprintf(f, "body %s\n", zero__body_name(i));
        err =
            zero__body_dump(&rt->site.model, &rt->site.states, &rt->site.programs[0]->bodies[i], f);
    }
    if (fclose(f) && !err)
        err = -errno;
    return err ? zero__fail(err, "cannot write the program to file descriptor %d: %s", fd,
                            strerror(-err))
               : 0;
}
