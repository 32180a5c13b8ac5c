/* SPDX-License-Identifier: Apache-2.0 */
/* Fault: the entry succeeds but gives no description. */
#include "tests/plugin/stub.h"

ZERO_PLUGIN_EXPORT int zero_plugin_v1(const struct zero_host *host,
                                      const struct zero_plugin **plugin)
{
    (void)host;
    (void)plugin;
    return 0;
}
