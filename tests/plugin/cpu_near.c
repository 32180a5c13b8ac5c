/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tier cpu lies next to the device that uses it, on a machine of two nodes that hwloc is told
 * of (tests/data/two_nodes.xml, without comments: a parser of hwloc's knows none); on one of one
 * node there is nothing to choose, and nobody looks for devices.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/options.h"
#include "base/status.h"
#include "plugin/loader.h"
#include "tests/tap.h"

static struct zero__log quiet = {.level = 0};

/* What a store says of itself that is opened for a device there. */
static void note_of(const struct zero_offload_ops *ops, const struct zero_store_open *params,
                    char *note, size_t bytes)
{
    struct zero_store_info info = {.size = sizeof info};
    struct zero_store *store;

    if (ops->open(params, &store))
        bail(zero__error_text());
    if (ops->info(store, &info))
        bail(zero__error_text());
    snprintf(note, bytes, "%s", info.note);
    ops->close(store);
}

int main(void)
{
    static const struct {
        const char *what, *pci, *nodes;
    } cases[] = {
        {"a device at the first node", "0000:10:00.0", "on node 0, next to 0000:10:00.0"},
        {"one at the second", "0000:20:00.0", "on node 1, next to 0000:20:00.0"},
        {"one of which nobody knows", "0000:30:00.0", "on the nodes of this process (0-1)"},
        {"one that is not there", "0000:40:00.0", "on the nodes of this process (0-1)"},
        {"no address", "nowhere", "on the nodes of this process (0-1)"},
        {"the host", NULL, "on the nodes of this process (0-1)"},
    };
    struct zero_store_open params = {
        .size = sizeof params, .bytes = 1 << 20, .device = -1, .timeout_ns = 1000000000};
    struct zero__options *options;
    struct zero__loader *loader;
    struct zero__plugin *plugin;
    const char *top = getenv("ZERO_TEST_TOP");
    char path[4096], note[256];

    if (zero__options_load(NULL, 0, &options) ||
        zero__loader_create(options, &quiet, NULL, 0, &loader) ||
        zero__loader_load(loader, ZERO_IFACE_OFFLOAD, "cpu", &plugin))
        bail(zero__error_text());
    const struct zero_offload_ops *ops = zero__plugin_offload(plugin);
    params.host = zero__loader_host(loader);

    snprintf(path, sizeof path, "%s/tests/data/two_nodes.xml", top ? top : ".");
    setenv("HWLOC_XMLFILE", path, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        params.pci = cases[i].pci;
        note_of(ops, &params, note, sizeof note);
        ok(strstr(note, cases[i].nodes), "%s: %s", cases[i].what, note);
    }
    params.pci = cases[1].pci;
    params.size = offsetof(struct zero_store_open, pci);
    note_of(ops, &params, note, sizeof note);
    ok(strstr(note, "on the nodes of this process"), "a library that says no device: %s", note);
    unsetenv("HWLOC_XMLFILE");
    setenv("HWLOC_SYNTHETIC", "numa:1 core:2 pu:1", 1);
    params.size = sizeof params;
    note_of(ops, &params, note, sizeof note);
    ok(!strstr(note, "node"), "one node: %s", note);
    zero__loader_free(loader);
    zero__options_free(options);
    done();
}
