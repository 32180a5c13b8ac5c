/* SPDX-License-Identifier: Apache-2.0 */
/* `zero check offload`. */
#ifndef ZERO_TOOLS_CHECK_OFFLOAD_H
#define ZERO_TOOLS_CHECK_OFFLOAD_H

int check_offload(int argc, char **argv);

#endif
