/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which provider: the one that the user names, else shared memory for ranks of one machine, else
 * the fastest network that libfabric finds. libfabric lists dozens of them, also slow ones and
 * stacks of one on another that nobody asks for, so the order is ours.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/listing.h"
#include "machine/link.h"
#include "ofi.h"

/* Not "net": a message that is not received, as after an error, keeps what follows it waiting. */
static const char *const order[] = {
    "cxi", "efa", "psm3", "psm2", "opx", "verbs;ofi_rxm", "tcp;ofi_rxm", "tcp",
};
#define N_ORDER (int)(sizeof order / sizeof *order)

struct ofi_wish zero__ofi_wish(const struct zero_host *host)
{
    return (struct ofi_wish){
        .provider = host->param(host->ctx, OFI_NAME, "ofi_provider", "",
                                "libfabric provider: shm, tcp, verbs, efa, cxi …; empty: the best"),
        .device = host->param(host->ctx, OFI_NAME, "ofi_device", "",
                              "network device of libfabric, such as eth0; empty: the first"),
    };
}

/* "tcp" stands for "tcp;ofi_rxm", too: what users mean is the network. */
static bool is_named(const char *provider, const char *wish)
{
    size_t n = strlen(wish);

    return strncmp(provider, wish, n) == 0 && (provider[n] == 0 || provider[n] == ';');
}

static int rank_of(const char *provider, const struct ofi_wish *wish, bool local)
{
    if (*wish->provider && !is_named(provider, wish->provider))
        return -1;
    if (strcmp(provider, "shm") == 0)
        return local ? 0 : -1;
    for (int i = 0; i < N_ORDER; i++)
        if (strcmp(provider, order[i]) == 0)
            return i + 1;
    return *wish->provider ? N_ORDER + 1 : -1;
}

static bool is_device(const struct fi_info *info, const char *name)
{
    return info->domain_attr->name && strcmp(info->domain_attr->name, name) == 0;
}

/*
 * Of a network of this provider: the interface by which the ranks are reached, else the loopback
 * for ranks of one machine; IPv4 rather than not. Devices of other networks have names of their
 * own.
 */
static int device_rank(const struct fi_info *info, const struct ofi_wish *wish, bool local,
                       const char *interface)
{
    if (*wish->device)
        return is_device(info, wish->device) ? 0 : -1;
    bool loopback = is_device(info, "lo");
    if (loopback && !local)
        return -1; /* other machines cannot reach it */
    bool wrong = *interface ? !is_device(info, interface) : loopback != local;
    return 2 * wrong + (info->addr_format == FI_SOCKADDR_IN6);
}

static bool has_room_for_tags(const struct fi_info *info)
{
    uint64_t format = info->ep_attr->mem_tag_format;
    return format == 0 || 64 - __builtin_clzll(format) >= ZERO__P2P_TAG_BITS;
}

static struct fi_info *hints_make(void)
{
    struct fi_info *hints = fi_allocinfo();

    if (!hints)
        return NULL;
    hints->caps = FI_TAGGED | FI_SEND | FI_RECV;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    hints->domain_attr->mr_mode =
        FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
    return hints;
}

static int list_all(struct fi_info **all)
{
    struct fi_info *hints = hints_make();
    int err = hints ? fi_getinfo(OFI_API, NULL, NULL, 0, hints, all) : -ENOMEM;

    if (hints)
        fi_freeinfo(hints);
    return err;
}

int zero__ofi_choose(const struct zero__voice *v, const struct ofi_wish *wish, bool local,
                     const char *interface, struct fi_info **out)
{
    struct fi_info *all = NULL, *best = NULL;
    int best_rank = 0, err = list_all(&all);

    for (struct fi_info *i = err ? NULL : all; i; i = i->next) {
        int provider = rank_of(i->fabric_attr->prov_name, wish, local);
        int device = device_rank(i, wish, local, interface);
        if (strcmp(i->fabric_attr->prov_name, "shm") == 0)
            device = 0;
        if (provider < 0 || device < 0 || !has_room_for_tags(i))
            continue;
        if (!best || provider * 8 + device < best_rank) {
            best = i;
            best_rank = provider * 8 + device;
        }
    }
    if (best)
        *out = fi_dupinfo(best);
    fi_freeinfo(all);
    if (best)
        return *out ? 0 : zero__say(v, -ENOMEM, "no memory for a provider's description");
    return zero__say(v, -ENODEV,
                     "no libfabric provider %s%s%s%s%s carries tagged messages between ranks of "
                     "%s; `zero info` lists those that do, ZERO_OFI_PROVIDER and ZERO_OFI_DEVICE "
                     "choose among them",
                     *wish->provider ? "\"" : "", wish->provider, *wish->provider ? "\"" : "",
                     *wish->device ? " on device " : "", wish->device,
                     local ? "one machine" : "several machines");
}

struct list {
    struct zero__listing words;
    bool devices, network; /* there are network devices; one that reaches other hosts */
};

/* Was this device of this provider listed before? Every address has an entry of its own. */
static bool is_again(const struct fi_info *all, const struct fi_info *info)
{
    for (const struct fi_info *i = all; i != info; i = i->next)
        if (strcmp(i->fabric_attr->prov_name, info->fabric_attr->prov_name) == 0 &&
            strcmp(i->domain_attr->name ? i->domain_attr->name : "",
                   info->domain_attr->name ? info->domain_attr->name : "") == 0)
            return true;
    return false;
}

/* Shared memory has no device to choose. */
static bool is_wanted(const struct fi_info *info, const struct ofi_wish *wish)
{
    return !*wish->device || strcmp(info->fabric_attr->prov_name, "shm") == 0 ||
           is_device(info, wish->device);
}

/* Adapters know it themselves; interfaces of tcp do not. */
static void link_speed(const struct fi_info *info, char *text, size_t room)
{
    const struct fi_link_attr *link = info->nic ? info->nic->link_attr : NULL;

    if (link && link->speed)
        snprintf(text, room, " %g Gb/s", (double)link->speed / 1e9);
    else
        zero__link_speed(info->domain_attr->name, text, room);
}

static void put_provider(struct list *l, const struct fi_info *all, int wanted,
                         const struct ofi_wish *wish)
{
    unsigned n = 0;

    for (const struct fi_info *i = all; i; i = i->next) {
        const char *name = i->fabric_attr->prov_name;
        bool shm = strcmp(name, "shm") == 0;
        if (rank_of(name, wish, true) != wanted || is_again(all, i) || !is_wanted(i, wish) ||
            !has_room_for_tags(i))
            continue;
        if (n == 0)
            zero__listing_put(&l->words, "%s%s", l->words.used ? ", " : "", name);
        if (!shm && i->domain_attr->name) {
            char speed[32];
            link_speed(i, speed, sizeof speed);
            zero__listing_put(&l->words, "%s%s%s", n ? ", " : " (", i->domain_attr->name, speed);
        }
        n += !shm;
        l->devices |= !shm;
        l->network |= !shm && !is_device(i, "lo");
    }
    if (n)
        zero__listing_put(&l->words, ")");
}

int zero__ofi_providers(const struct ofi_wish *wish, char *text, size_t room, bool *network)
{
    struct list l = {.words = {.text = text, .room = room}};
    struct fi_info *all = NULL;

    *text = 0;
    if (list_all(&all))
        return -ENODEV;
    for (int i = 0; i <= N_ORDER + 1; i++)
        put_provider(&l, all, i, wish);
    fi_freeinfo(all);
    *network = l.network;
    /* A device that nobody has is a mistake, also where shared memory would do without. */
    return l.words.used && (l.devices || !*wish->device) ? 0 : -ENODEV;
}
