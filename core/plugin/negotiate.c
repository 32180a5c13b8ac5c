/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Agrees with a plugin on the version of an interface. Tables grow at the end only, so what both
 * sides know is the shorter one; the rest of the full-size copy is NULL. Everything mandatory is
 * checked here by name, so that callers never test for it again.
 */
#include <string.h>

#include "plugin/internal.h"

struct entry {
    const char *name;
    size_t offset;
};

/* clang-format off */
#define E(type, member) {#member, offsetof(struct type, member)}
/* clang-format on */

static const struct entry comm_entries[] = {
    E(zero_comm_ops, probe),      E(zero_comm_ops, open),       E(zero_comm_ops, close),
    E(zero_comm_ops, reg),        E(zero_comm_ops, unreg),      E(zero_comm_ops, exchange),
    E(zero_comm_ops, progress),   E(zero_comm_ops, wake),       E(zero_comm_ops, abort),
    E(zero_comm_ops, split),      E(zero_comm_ops, post),       E(zero_comm_ops, error),
    E(zero_comm_ops, wire_bytes), E(zero_comm_ops, comm_close), {NULL, 0},
};

static const struct entry offload_entries[] = {
    E(zero_offload_ops, probe),
    E(zero_offload_ops, open),
    E(zero_offload_ops, info),
    E(zero_offload_ops, resize),
    E(zero_offload_ops, reg),
    E(zero_offload_ops, unreg),
    E(zero_offload_ops, submit),
    E(zero_offload_ops, poll),
    E(zero_offload_ops, wake),
    E(zero_offload_ops, close),
    {NULL, 0},
};

static const struct entry device_entries[] = {
    E(zero_device_ops, probe),         E(zero_device_ops, open),
    E(zero_device_ops, close),         E(zero_device_ops, info),
    E(zero_device_ops, alloc),         E(zero_device_ops, release),
    E(zero_device_ops, stream_create), E(zero_device_ops, stream_destroy),
    E(zero_device_ops, stream_sync),   E(zero_device_ops, stream_wait),
    E(zero_device_ops, event_create),  E(zero_device_ops, event_destroy),
    E(zero_device_ops, event_record),  E(zero_device_ops, event_query),
    E(zero_device_ops, copy),          E(zero_device_ops, launch),
    E(zero_device_ops, call),          {NULL, 0},
};

static const struct {
    uint16_t major, minor;
    size_t bytes;
    const struct entry *entries;
} ours[] = {
    [ZERO_IFACE_COMM] = {ZERO_COMM_MAJOR, ZERO_COMM_MINOR, sizeof(struct zero_comm_ops),
                         comm_entries},
    [ZERO_IFACE_OFFLOAD] = {ZERO_OFFLOAD_MAJOR, ZERO_OFFLOAD_MINOR, sizeof(struct zero_offload_ops),
                            offload_entries},
    [ZERO_IFACE_DEVICE] = {ZERO_DEVICE_MAJOR, ZERO_DEVICE_MINOR, sizeof(struct zero_device_ops),
                           device_entries},
};

static int check_desc(const struct zero_plugin *desc, struct zero__plugin *p)
{
    size_t least = offsetof(struct zero_plugin, flags) + sizeof desc->flags;

    if (desc->size < least || desc->size > ZERO__PLUGIN_TABLE_MOST)
        return zero__fail(-EINVAL,
                          "%s: its description is %zu bytes long, expected at least %zu: compiled "
                          "for a different version?",
                          p->path, desc->size, least);
    memset(&p->desc, 0, sizeof p->desc);
    memcpy(&p->desc, desc, desc->size < sizeof p->desc ? desc->size : sizeof p->desc);
    if (!p->desc.name || strcmp(p->desc.name, p->name) != 0)
        return zero__fail(-EINVAL,
                          "%s: the plugin calls itself \"%.64s\", but its file name says \"%s\": "
                          "rename the file",
                          p->path, p->desc.name ? p->desc.name : "", p->name);
    if (p->desc.n_ifaces && !p->desc.ifaces)
        return zero__fail(-EINVAL, "%s: its list of interfaces is NULL", p->path);
    if (p->desc.flags)
        return zero__fail(-ENOTSUP, "%s: flags 0x%x are unknown to this version", p->path,
                          p->desc.flags);
    if (!p->desc.version)
        p->desc.version = "?";
    if (!p->desc.build)
        p->desc.build = "?";
    return 0;
}

/* The interface of p's kind that both sides speak. */
static int choose(struct zero__plugin *p, const struct zero_iface **chosen)
{
    const char *kind = zero__kind_name(p->kind);
    uint16_t major = ours[p->kind].major, minor = ours[p->kind].minor;
    const struct zero_iface *other = NULL;

    for (uint32_t i = 0; i < p->desc.n_ifaces; i++) {
        const struct zero_iface *f = &p->desc.ifaces[i];
        if (f->kind != p->kind)
            continue;
        if (f->major == major && f->need_minor <= minor) {
            *chosen = f;
            return 0;
        }
        other = f;
    }
    if (!other)
        return zero__fail(-EINVAL, "%s: the plugin offers no %s interface", p->path, kind);
    if (other->major != major)
        return zero__fail(-EPROTO,
                          "%s: the plugin speaks %s interface %u.%u, this library %u.%u: use a "
                          "plugin built for this version",
                          p->path, kind, other->major, other->minor, major, minor);
    return zero__fail(-EPROTO,
                      "%s: the plugin needs %s interface %u.%u or later, this library has %u.%u: "
                      "update the library",
                      p->path, kind, other->major, other->need_minor, major, minor);
}

static int copy_table(const struct zero_iface *f, struct zero__plugin *p)
{
    const char *kind = zero__kind_name(p->kind);
    size_t size, full = ours[p->kind].bytes;

    if (!f->ops)
        return zero__fail(-EINVAL, "%s: its %s table is NULL", p->path, kind);
    memcpy(&size, f->ops, sizeof size);
    if (size < sizeof size || size > ZERO__PLUGIN_TABLE_MOST)
        return zero__fail(-EINVAL,
                          "%s: its %s table says it is %zu bytes long: compiled for a different "
                          "version?",
                          p->path, kind, size);
    memset(&p->ops, 0, sizeof p->ops);
    memcpy(&p->ops, f->ops, size < full ? size : full);
    for (const struct entry *e = ours[p->kind].entries; e->name; e++) {
        void (*fn)(void);
        memcpy(&fn, (const char *)&p->ops + e->offset, sizeof fn);
        if (!fn)
            return zero__fail(-EINVAL, "%s: the mandatory entry %s of its %s table is NULL",
                              p->path, e->name, kind);
    }
    p->ops.size = full;
    return 0;
}

int zero__negotiate(const struct zero_plugin *desc, struct zero__plugin *p)
{
    const struct zero_iface *chosen = NULL;
    int err = check_desc(desc, p);

    if (!err)
        err = choose(p, &chosen);
    return err ? err : copy_table(chosen, p);
}
