/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes a pointer to every structure that crosses the border between library and plugins, so that a
 * tool that compares interfaces sees all of them: a plugin itself reaches its table only through
 * `const void *`, behind which nothing is compared.
 */
#include <zero/comm.h>
#include <zero/device.h>
#include <zero/offload.h>
#include <zero/plugin.h>

__attribute__((visibility("default"))) int
zero_abi_anchor(const struct zero_plugin *, const struct zero_iface *, const struct zero_host *,
                const struct zero_slice *, const struct zero_cqe *, const struct zero_comm_ops *,
                const struct zero_comm_open *, const struct zero_comm_caps *,
                const struct zero_coll *, const struct zero_oob *, const struct zero_offload_ops *,
                const struct zero_store_open *, const struct zero_store_info *,
                const struct zero_io *, const struct zero_device_ops *,
                const struct zero_device_open *);

int zero_abi_anchor(const struct zero_plugin *plugin, const struct zero_iface *iface,
                    const struct zero_host *host, const struct zero_slice *slice,
                    const struct zero_cqe *cqe, const struct zero_comm_ops *comm,
                    const struct zero_comm_open *open, const struct zero_comm_caps *caps,
                    const struct zero_coll *coll, const struct zero_oob *oob,
                    const struct zero_offload_ops *offload, const struct zero_store_open *store,
                    const struct zero_store_info *info, const struct zero_io *io,
                    const struct zero_device_ops *device, const struct zero_device_open *dev_open)
{
    return plugin && iface && host && slice && cqe && comm && open && caps && coll && oob &&
           offload && store && info && io && device && dev_open;
}
