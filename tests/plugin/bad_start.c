/* SPDX-License-Identifier: Apache-2.0 */
/* Fault: the entry misses a file, which must not be taken for the plugin's own. */
#include <errno.h>

#include "tests/plugin/stub.h"

ZERO_PLUGIN_EXPORT int zero_plugin_v1(const struct zero_host *host,
                                      const struct zero_plugin **plugin)
{
    (void)plugin;
    return host->fail(host->ctx, "bad_start", -ENOENT, "there is no /dev/flux");
}
