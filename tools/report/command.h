/* SPDX-License-Identifier: Apache-2.0 */
/* `zero report`: a table of reports. */
#ifndef ZERO_TOOLS_REPORT_COMMAND_H
#define ZERO_TOOLS_REPORT_COMMAND_H

int report_command(int argc, char **argv);

#endif
