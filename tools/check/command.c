/* SPDX-License-Identifier: Apache-2.0 */
/* `zero check`: a table of the kinds of plugins that it tries. */
#include "command.h"

#include "offload.h"
#include "ranks.h"
#include "tools/common/command.h"

static const struct tool checks[] = {
    {"comm", check_comm, "[-n N] PLUGIN", "try a communication plugin"},
    {"offload", check_offload, "PLUGIN", "try a storage plugin"},
};

int check_command(int argc, char **argv)
{
    return tool_dispatch("zero check", checks, sizeof checks / sizeof checks[0], argc, argv);
}
