/* SPDX-License-Identifier: Apache-2.0 */
/* `zero check`: a table of the kinds of plugins that can be tried. */
#ifndef ZERO_TOOLS_CHECK_COMMAND_H
#define ZERO_TOOLS_CHECK_COMMAND_H

int check_command(int argc, char **argv);

#endif
