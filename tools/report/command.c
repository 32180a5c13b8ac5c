/* SPDX-License-Identifier: Apache-2.0 */
/* `zero report`: a table of its reports. */
#include "command.h"

#include "tools/common/command.h"
#include "tools/report/crash/command.h"
#include "tools/report/memory/command.h"

static const struct tool reports[] = {
    {"crash", report_crash, "[--job NUMBER] DIR", "last operations of a job that failed"},
    {"memory", report_memory, "[--svg] LOG...", "memory of runs, side by side"},
};

int report_command(int argc, char **argv)
{
    return tool_dispatch("zero report", reports, sizeof reports / sizeof reports[0], argc, argv);
}
