/* SPDX-License-Identifier: Apache-2.0 */
/* `zero run`. The exit status is the job's, or 2 where it could not be started. */
#ifndef ZERO_TOOLS_RUN_COMMAND_H
#define ZERO_TOOLS_RUN_COMMAND_H

int run_command(int argc, char **argv);

#endif
