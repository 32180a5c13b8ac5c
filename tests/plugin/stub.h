/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A communication plugin that does nothing, for the tests of the loader: each bad_*.c includes this
 * and gets one thing wrong. None of its entries but probe is ever called.
 */
#ifndef ZERO_TESTS_PLUGIN_STUB_H
#define ZERO_TESTS_PLUGIN_STUB_H

#include <stdio.h>

#include <zero/comm.h>

static inline int stub_probe(const struct zero_host *host, struct zero_comm_caps *caps)
{
    (void)host;
    caps->max_ranks = 7;
    snprintf(caps->note, sizeof caps->note, "a stub");
    return 0;
}

/* A call through such a pointer would be wrong; the loader only looks whether it is there. */
static inline void stub_void(void)
{
}

#define STUB_POINTER(name) ((__typeof__(((struct zero_comm_ops *)0)->name))stub_void)
#define STUB_ENTRY(name) .name = STUB_POINTER(name)

#define STUB_TABLE(bytes, probe_entry, post_entry)                                      \
    {                                                                                   \
        .size = (bytes), .probe = (probe_entry), STUB_ENTRY(open), STUB_ENTRY(close),   \
        STUB_ENTRY(reg), STUB_ENTRY(unreg), STUB_ENTRY(exchange), STUB_ENTRY(progress), \
        STUB_ENTRY(wake), STUB_ENTRY(abort), STUB_ENTRY(split), .post = (post_entry),   \
        STUB_ENTRY(error), STUB_ENTRY(wire_bytes), STUB_ENTRY(comm_close)               \
    }
#define STUB_GOOD_TABLE STUB_TABLE(sizeof(struct zero_comm_ops), stub_probe, STUB_POINTER(post))

#define STUB_IFACE(kind_, minor_, need, table)                                              \
    {                                                                                       \
        .kind = (kind_), .major = ZERO_COMM_MAJOR, .minor = (minor_), .need_minor = (need), \
        .ops = (table)                                                                      \
    }
#define STUB_GOOD_IFACE(table) STUB_IFACE(ZERO_IFACE_COMM, ZERO_COMM_MINOR, 0, table)

#define STUB_PLUGIN(text, list)                                                                  \
    {                                                                                            \
        .size = sizeof(struct zero_plugin), .name = (text), .version = "1.2.3", .build = "test", \
        .ifaces = (list), .n_ifaces = sizeof(list) / sizeof *(list)                              \
    }

/* The entry of a plugin whose description is `desc`. */
#define STUB_MAIN(desc)                                                      \
    ZERO_PLUGIN_EXPORT int zero_plugin_v1(const struct zero_host *host,      \
                                          const struct zero_plugin **result) \
    {                                                                        \
        (void)host;                                                          \
        *result = &(desc);                                                   \
        return 0;                                                            \
    }

#endif
