/* SPDX-License-Identifier: Apache-2.0 */
/* `zero check comm`. */
#ifndef ZERO_TOOLS_CHECK_RANKS_H
#define ZERO_TOOLS_CHECK_RANKS_H

int check_comm(int argc, char **argv);

#endif
