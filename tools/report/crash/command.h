/* SPDX-License-Identifier: Apache-2.0 */
/* `zero report crash`. The exit status is 1 where the reports name no culprit. */
#ifndef ZERO_TOOLS_REPORT_CRASH_COMMAND_H
#define ZERO_TOOLS_REPORT_CRASH_COMMAND_H

int report_crash(int argc, char **argv);

#endif
