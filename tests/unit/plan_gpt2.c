/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules of GPT-2 training reach the lower bound: exactly for the small model, nearly for 1.5B.
 */
#include "../tap.h"
#include "gpt2_schedule.h"

#define ALIGN 512

static void schedule_plan(const struct gpt2_shape *shape, double most, const char *what)
{
    struct zero__plan_params params = {.align = ALIGN, .node_budget = 10000000, .n_threads = 2};
    struct zero__plan_result r = {0};
    struct schedule s;
    uint32_t a, b;

    gpt2_schedule_make(shape, &s);
    is_int(zero__plan_solve(s.buffers, s.n, &params, &r), 0, "%s: %u buffers", what, s.n);
    is_int(zero__plan_check(s.buffers, s.n, &a, &b), 0, "%s: no overlap", what);
    double ratio = (double)r.height / (double)r.lower_bound;
    ok(ratio >= 1.0 && ratio <= most, "%s: plan %" PRIu64 " / bound %" PRIu64 " = %.6f (%s)", what,
       r.height, r.lower_bound, ratio, r.method);
    free(s.buffers);
}

int main(void)
{
    for (int k = 0; k < 8; k++) {
        struct gpt2_shape shape = gpt2_small;
        char what[64];
        shape.recompute = k & 1;
        shape.flash = k & 2;
        shape.loss_chunks = k & 4 ? 8 : 1;
        snprintf(what, sizeof what, "GPT-2 small%s%s%s", k & 1 ? ", recompute" : "",
                 k & 2 ? ", flash" : "", k & 4 ? ", loss in chunks" : "");
        schedule_plan(&shape, 1.0, what);
    }
    schedule_plan(&gpt2_xl, 1.001, "GPT-2 1.5B");
    struct gpt2_shape longer = gpt2_xl;
    longer.micro_steps = 3;
    longer.world = 16;
    schedule_plan(&longer, 1.001, "GPT-2 1.5B, three micro-steps, 16 ranks");
    done();
}
