/* SPDX-License-Identifier: Apache-2.0 */
/* The program `zero`: a table of its commands, each in a folder of its own. */
#include <stdio.h>
#include <string.h>

#include <zero/zero.h>

#include "tools/bench/command.h"
#include "tools/check/command.h"
#include "tools/common/command.h"
#include "tools/info/command.h"
#include "tools/report/command.h"
#include "tools/run/command.h"

static const struct tool tools[] = {
    {"run", run_command, "-n N -- PROG [ARG]...", "start PROG as N ranks on this machine"},
    {"info", info_command, "[--options]", "show plugins, machine and options"},
    {"report", report_command, "crash|memory ...", "say who failed, what ranks reserved"},
    {"check", check_command, "comm|offload PLUGIN", "try a plugin against its interface"},
    {"bench", bench_command, "coll|optimizer|... [ARG]...", "measure parts of libzero"},
};

int main(int argc, char **argv)
{
    if (argc > 1 && (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V"))) {
        printf("zero %s\n", zero_version());
        return 0;
    }
    int status = tool_dispatch("zero", tools, sizeof tools / sizeof tools[0], argc, argv);
    if (fflush(stdout) || ferror(stdout)) {
        perror("zero: standard output");
        return status ? status : 1;
    }
    return status;
}
