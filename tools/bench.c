/* SPDX-License-Identifier: Apache-2.0 */
/* `zero bench`: a table of benchmarks, each in a file of its own. */
#include "bench.h"

#include "tool.h"

static const struct tool benches[] = {
    {"coll", bench_coll, "[--comm NAME] [-n N]", "time the collectives of a comm plugin"},
    {"p2p", bench_p2p, "[--comm NAME]", "time messages between two ranks"},
    {"optimizer", bench_optimizer, "[--params N] [--threads T]", "time the update of the states"},
    {"step", bench_step, "[--preset NAME] [-n N]", "show where the time of a step goes"},
    {"offload", bench_offload, "[--tier NAME]", "time a tier's reads and writes"},
    {"arena", bench_arena, "FILE.csv...", "place recorded buffers in little memory"},
};

int tool_bench(int argc, char **argv)
{
    return tool_dispatch("zero bench", benches, sizeof benches / sizeof benches[0], argc, argv);
}
