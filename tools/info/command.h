/* SPDX-License-Identifier: Apache-2.0 */
/* `zero info`. */
#ifndef ZERO_TOOLS_INFO_COMMAND_H
#define ZERO_TOOLS_INFO_COMMAND_H

int info_command(int argc, char **argv);

#endif
