/* SPDX-License-Identifier: Apache-2.0 */
/* `zero report memory`. */
#ifndef ZERO_TOOLS_REPORT_MEMORY_COMMAND_H
#define ZERO_TOOLS_REPORT_MEMORY_COMMAND_H

int report_memory(int argc, char **argv);

#endif
