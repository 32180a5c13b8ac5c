/* SPDX-License-Identifier: Apache-2.0 */
/* What UCX finds here, for people. Nothing is opened but the descriptions of the devices. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <uct/api/uct.h>

#include "ucx.h"

struct list {
    char *text;
    size_t room, used;
    char last[UCT_TL_NAME_MAX]; /* the transport whose devices are being listed */
    unsigned n_devices;
};

__attribute__((format(printf, 2, 3))) static void put(struct list *l, const char *fmt, ...)
{
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(l->text + l->used, l->room - l->used, fmt, ap);
    va_end(ap);
    if (n > 0)
        l->used = l->used + (size_t)n < l->room ? l->used + (size_t)n : l->room - 1;
}

static void end_devices(struct list *l)
{
    if (l->n_devices)
        put(l, ")");
    l->n_devices = 0;
}

/* Transports of memory have one nameless device; only those of a network are told apart. */
static void add(struct list *l, const uct_tl_resource_desc_t *r)
{
    bool same = strcmp(l->last, r->tl_name) == 0;

    if (strcmp(r->tl_name, "self") == 0)
        return;
    if (!same) {
        end_devices(l);
        put(l, "%s%s", l->used ? ", " : "", r->tl_name);
        snprintf(l->last, sizeof l->last, "%s", r->tl_name);
    }
    if (r->dev_type == UCT_DEVICE_TYPE_NET) {
        put(l, "%s%s", l->n_devices ? ", " : " (", r->dev_name);
        l->n_devices++;
    }
}

static void add_domain(struct list *l, uct_component_h component, const char *name)
{
    uct_tl_resource_desc_t *resources;
    uct_md_config_t *config;
    unsigned n;
    uct_md_h md;

    if (uct_md_config_read(component, NULL, NULL, &config) != UCS_OK)
        return;
    if (uct_md_open(component, name, config, &md) == UCS_OK) {
        if (uct_md_query_tl_resources(md, &resources, &n) == UCS_OK) {
            for (unsigned i = 0; i < n; i++)
                add(l, &resources[i]);
            uct_release_tl_resource_list(resources);
        }
        uct_md_close(md);
    }
    uct_config_release(config);
}

static void add_component(struct list *l, uct_component_h component)
{
    uct_component_attr_t attr = {.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT};
    uct_md_resource_desc_t domains[16];

    if (uct_component_query(component, &attr) != UCS_OK ||
        attr.md_resource_count > sizeof domains / sizeof *domains)
        return;
    attr.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
    attr.md_resources = domains;
    if (uct_component_query(component, &attr) != UCS_OK)
        return;
    for (unsigned i = 0; i < attr.md_resource_count; i++)
        add_domain(l, component, domains[i].md_name);
}

int zero__ucx_devices(char *text, size_t room)
{
    struct list l = {.text = text, .room = room};
    uct_component_h *components;
    unsigned n;

    *text = 0;
    if (uct_query_components(&components, &n) != UCS_OK)
        return -ENODEV;
    for (unsigned i = 0; i < n; i++)
        add_component(&l, components[i]);
    uct_release_component_list(components);
    end_devices(&l);
    return l.used ? 0 : -ENODEV;
}
