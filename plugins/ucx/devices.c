/* SPDX-License-Identifier: Apache-2.0 */
/* What UCX finds here, for people, and for its own choice of devices. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uct/api/uct.h>

#include "../common/listing.h"
#include "machine/link.h"
#include "ucx.h"

struct list {
    struct zero__listing words;
    char last[UCT_TL_NAME_MAX]; /* the transport whose devices are being listed */
    unsigned n_devices;
    const char *in_use; /* what UCX says of its context; NULL: everything counts */
    bool network;       /* other hosts can be reached by one of them */
    void (*add)(struct list *l, const uct_tl_resource_desc_t *r);
};

static void end_devices(struct list *l)
{
    if (l->n_devices)
        zero__listing_put(&l->words, ")");
    l->n_devices = 0;
}

/*
 * Did the user's settings leave it? UCX tells that only to people: "... -- tcp/eth0". A version
 * that writes something else has no such line at all; then what exists is taken for what is used.
 */
static bool is_used(const struct list *l, const uct_tl_resource_desc_t *r)
{
    char name[UCT_TL_NAME_MAX + UCT_DEVICE_NAME_MAX + 3];

    if (!l->in_use || !strstr(l->in_use, " -- "))
        return true;
    snprintf(name, sizeof name, " %s/%s\n", r->tl_name, r->dev_name);
    return strstr(l->in_use, name);
}

/* Transports of memory have one nameless device; only those of a network are told apart. */
static void add_text(struct list *l, const uct_tl_resource_desc_t *r)
{
    if (strcmp(r->tl_name, "self") == 0 || !is_used(l, r))
        return;
    if (strcmp(l->last, r->tl_name) != 0) {
        end_devices(l);
        zero__listing_put(&l->words, "%s%s", l->words.used ? ", " : "", r->tl_name);
        snprintf(l->last, sizeof l->last, "%s", r->tl_name);
    }
    if (r->dev_type == UCT_DEVICE_TYPE_NET) {
        char speed[32];
        zero__link_speed(r->dev_name, speed, sizeof speed);
        zero__listing_put(&l->words, "%s%s%s", l->n_devices ? ", " : " (", r->dev_name, speed);
        l->n_devices++;
        l->network |= strcmp(r->dev_name, "lo") != 0;
    }
}

/* Several transports have the same device. */
static void add_device(struct list *l, const uct_tl_resource_desc_t *r)
{
    char with[UCT_DEVICE_NAME_MAX + 2], *all = l->words.text;

    if (r->dev_type != UCT_DEVICE_TYPE_NET || strcmp(r->tl_name, "tcp") == 0)
        return;
    snprintf(with, sizeof with, ",%s", r->dev_name);
    for (size_t n = strlen(with); (all = strstr(all, with)); all += n)
        if (all[n] == 0 || all[n] == ',')
            return;
    /* A setting must not end in a sign for people. */
    if (l->words.used + strlen(with) + sizeof " …" <= l->words.room)
        zero__listing_put(&l->words, "%s", with);
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
                l->add(l, &resources[i]);
            uct_release_tl_resource_list(resources);
        }
        uct_md_close(md);
    }
    uct_config_release(config);
}

static void add_component(struct list *l, uct_component_h component)
{
    uct_component_attr_t attr = {.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT};
    uct_md_resource_desc_t *domains;

    if (uct_component_query(component, &attr) != UCS_OK)
        return;
    domains = calloc(attr.md_resource_count + 1, sizeof *domains);
    attr.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
    attr.md_resources = domains;
    if (domains && uct_component_query(component, &attr) == UCS_OK)
        for (unsigned i = 0; i < attr.md_resource_count; i++)
            add_domain(l, component, domains[i].md_name);
    free(domains);
}

static int list_all(struct list *l)
{
    uct_component_h *components;
    unsigned n;

    if (uct_query_components(&components, &n) != UCS_OK)
        return -ENODEV;
    for (unsigned i = 0; i < n; i++)
        add_component(l, components[i]);
    uct_release_component_list(components);
    return 0;
}

int zero__ucx_devices(ucp_context_h context, char *text, size_t room, bool *network)
{
    struct list l = {.words = {.text = text, .room = room}, .add = add_text};
    char *in_use = NULL;
    size_t bytes;
    FILE *file = open_memstream(&in_use, &bytes);

    *text = 0;
    if (!file)
        return -ENOMEM;
    ucp_context_print_info(context, file);
    fclose(file);
    l.in_use = in_use;
    int err = list_all(&l);
    end_devices(&l);
    free(in_use);
    *network = l.network;
    return err ? err : l.words.used ? 0 : -ENODEV;
}

void zero__ucx_net_devices(const char *interface, char *text, size_t room)
{
    struct list l = {.words = {.text = text, .room = room}, .add = add_device};

    *text = 0;
    zero__listing_put(&l.words, "%s", interface);
    list_all(&l);
}
