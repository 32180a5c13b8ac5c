/* SPDX-License-Identifier: Apache-2.0 */
/* `zero bench`: a table of benchmarks, each in a folder of its own. */
#include "command.h"

#include "tools/bench/arena/command.h"
#include "tools/bench/coll/command.h"
#include "tools/bench/offload/command.h"
#include "tools/bench/optimizer/command.h"
#include "tools/bench/step/command.h"
#include "tools/common/command.h"

static const struct tool benches[] = {
    {"coll", bench_coll, "[--comm NAME] [-n N]", "time the collectives of a comm plugin"},
    {"p2p", bench_p2p, "[--comm NAME]", "time messages between two ranks"},
    {"optimizer", bench_optimizer, "[--params N] [--threads T]", "time the update of the states"},
    {"step", bench_step, "[--preset NAME] [-n N]", "show where the time of a step goes"},
    {"offload", bench_offload, "[--tier NAME]", "time a tier's reads and writes"},
    {"arena", bench_arena, "FILE.csv...", "place recorded buffers in little memory"},
};

int bench_command(int argc, char **argv)
{
    return tool_dispatch("zero bench", benches, sizeof benches / sizeof benches[0], argc, argv);
}
