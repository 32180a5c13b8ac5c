/* SPDX-License-Identifier: Apache-2.0 */
/* ZERO_OFFLOAD: what is read from it, and what is refused with which words. */
#include "../tap.h"

#include <errno.h>

#include "base/placement.h"

static void good(const char *text, uint32_t n, const struct zero__place *want)
{
    struct zero__placement p;
    char why[256] = "";
    int same = zero__placement_parse(text, &p, why, sizeof why) == 0 && p.n == n;

    for (uint32_t i = 0; i < n && same; i++)
        same = p.places[i].what == want[i].what && p.places[i].parts == want[i].parts &&
               !strcmp(p.places[i].tier, want[i].tier);
    ok(same, "\"%s\" is read", text);
    if (!same)
        diag("%u places, %s", p.n, why);
}

static void bad(const char *text, const char *words)
{
    struct zero__placement p = {.n = 77};
    char why[256] = "";
    int err = zero__placement_parse(text, &p, why, sizeof why);

    ok(err == -EINVAL && strstr(why, words) && p.n == 77, "\"%s\" is refused: %s", text, words);
    diag("%s", why);
}

static void read_well(void)
{
    good("", 0, NULL);
    good("optimizer:nvme", 1, (struct zero__place[]){{ZERO__P_OPTIMIZER, 1000, "nvme"}});
    good("optimizer:nvme,parameters:cpu", 2,
         (struct zero__place[]){{ZERO__P_OPTIMIZER, 1000, "nvme"},
                                {ZERO__P_PARAMETERS, 1000, "cpu"}});
    good("optimizer:cpu:0.6+nvme:0.4", 2,
         (struct zero__place[]){{ZERO__P_OPTIMIZER, 600, "cpu"}, {ZERO__P_OPTIMIZER, 400, "nvme"}});
    good("activations:device,gradients:x", 2,
         (struct zero__place[]){{ZERO__P_ACTIVATIONS, 1000, "device"},
                                {ZERO__P_GRADIENTS, 1000, "x"}});
    good("optimizer:cpu+nvme", 2,
         (struct zero__place[]){{ZERO__P_OPTIMIZER, 0, "cpu"}, {ZERO__P_OPTIMIZER, 0, "nvme"}});
    good("auto", 12,
         (struct zero__place[]){{ZERO__P_PARAMETERS, 0, "device"},
                                {ZERO__P_PARAMETERS, 0, "cpu"},
                                {ZERO__P_PARAMETERS, 0, "nvme"},
                                {ZERO__P_GRADIENTS, 0, "device"},
                                {ZERO__P_GRADIENTS, 0, "cpu"},
                                {ZERO__P_GRADIENTS, 0, "nvme"},
                                {ZERO__P_OPTIMIZER, 0, "device"},
                                {ZERO__P_OPTIMIZER, 0, "cpu"},
                                {ZERO__P_OPTIMIZER, 0, "nvme"},
                                {ZERO__P_ACTIVATIONS, 0, "device"},
                                {ZERO__P_ACTIVATIONS, 0, "cpu"},
                                {ZERO__P_ACTIVATIONS, 0, "nvme"}});
    good("optimizer:device:0.3333+cpu:0.3333+nvme:0.3334", 3,
         (struct zero__place[]){{ZERO__P_OPTIMIZER, 333, "device"},
                                {ZERO__P_OPTIMIZER, 334, "cpu"},
                                {ZERO__P_OPTIMIZER, 333, "nvme"}});
    good("optimizer:cpu:0.0004+nvme:0.9996", 2,
         (struct zero__place[]){{ZERO__P_OPTIMIZER, 1, "cpu"}, {ZERO__P_OPTIMIZER, 999, "nvme"}});
    good("optimizer:cpu:0.9999+nvme:0.0001", 2,
         (struct zero__place[]){{ZERO__P_OPTIMIZER, 999, "cpu"}, {ZERO__P_OPTIMIZER, 1, "nvme"}});
}

static void refused(void)
{
    bad("optimizer:device:0.3333+cpu:0.3333+nvme:0.3333", "add up to 0.9999, not to 1");
    bad("auto,optimizer:cpu", "\"auto\" stands alone");
    bad("optimizer:cpu,auto", "\"auto\" stands alone");
    bad("auto:cpu", "\"auto:cpu\" is not one of");
    bad("optimizer:cpu, parameters:cpu", "there is a space in");
    bad("nvme", "write auto, or for example optimizer:nvme");
    bad("optimiser:nvme", "\"optimiser:nvme\" is not one of");
    bad("optimizer", "a colon and a tier");
    bad("optimizer:", "names no tier for optimizer");
    bad("optimizer:cpu:0.5+nvme:0.4", "add up to 0.9, not to 1");
    bad("optimizer:cpu:0.5", "add up to 0.5");
    bad("optimizer:cpu:1+nvme", "some tiers of optimizer have a fraction and some have none");
    bad("optimizer:cpu+nvme:0.5", "give one to each, or to none");
    bad("optimizer:cpu:0+nvme:1", "no fraction above 0");
    bad("optimizer:cpu:1.5", "no fraction above 0 and up to 1");
    bad("optimizer:cpu:x", "\"x\" of optimizer");
    bad("optimizer:cpu:nan", "no fraction");
    bad("optimizer:cpu:0.5+cpu:0.5", "the tier cpu twice");
    bad("optimizer:cpu,optimizer:nvme", "placed twice");
    bad("optimizer:abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz", "a name of 52 bytes");
    bad("optimizer:/usr/local/lib/zero/plugins/zero-offload-nvme.so", "ZERO_PLUGIN_PATH");
    bad("optimizer:a:0.1+b:0.1+c:0.1+d:0.1+e:0.1+f:0.1+g:0.1+h:0.1+i:0.01+j:0.01+k:0.01+l:0.01+"
        "m:0.01+n:0.01+o:0.01+p:0.01+q:0.12",
        "more than 16");
}

int main(void)
{
    read_well();
    refused();
    done();
}
