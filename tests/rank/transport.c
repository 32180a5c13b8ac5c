/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which communication plugin ranks choose, alone, on one host and on hosts that are made up; that
 * they choose the same one, and that all of them hear why there is none. Plugins called ucx and ofi
 * are fakes, see tests/plugin/fake.c.
 */
#include "config.h"

#include "host.h"
#include "ranks.h"

#include <zero/zero.h>

#define RANKS 3

struct scene {
    const char *name;
    int hosts[RANKS];
    const char *comm[RANKS], *ucx[RANKS], *ofi[RANKS]; /* ucx, ofi: why it does not work there */
    const char *opens[RANKS], *lacks;                  /* opens: which of them fail later */
    const char *numerics[RANKS];
    const char *chosen;  /* the runtime starts, with this plugin; or */
    const char *says[6]; /* no rank starts, and all say this; 0 after the last */
};

static const char *const cable = "no cable", *const card = "no card";

static const struct scene scenes[] = {
    {.name = "one host", .chosen = "shm"},
    {.name = "several hosts",
     .hosts = {1, 1, 2},
     .opens = {"ucx ofi", "ucx ofi", "ucx ofi"},
     .says = {"no room for a communicator of ucx"}},
    {.name = "several hosts, ucx does not open on one rank",
     .hosts = {1, 1, 2},
     .opens = {"ucx ofi", "ucx ofi", "ofi"},
     .says = {"no room for a communicator of ofi"}},
    {.name = "several hosts, neither opens on all",
     .hosts = {1, 1, 2},
     .opens = {"ucx", "ofi", "ucx ofi"},
     .says = {"not ucx, on rank 1: ", "this is ucx", "not ofi, on rank 0: ", "this is ofi"}},
    {.name = "several hosts, ucx fails on one rank",
     .hosts = {1, 2, 3},
     .ucx = {NULL, cable, NULL},
     .opens = {"ucx ofi", "ucx ofi", "ucx ofi"},
     .says = {"no room for a communicator of ofi"}},
    {.name = "several hosts, nothing works on all",
     .hosts = {1, 2, 2},
     .ucx = {cable, cable, NULL},
     .ofi = {NULL, NULL, card},
     .says = {"several hosts", "not ucx, on rank 0: ", "no cable",
              "not ofi, on rank 2: ", "no card", "ZERO_COMM"}},
    {.name = "several hosts, and no device that reaches them",
     .hosts = {1, 2, 2},
     .lacks = "network",
     .says = {"not ucx, on rank 0: comm plugin ucx finds no network that reaches other hosts",
              "not ofi", "ZERO_COMM"}},
    {.name = "a plugin that was asked for is not replaced",
     .hosts = {1, 1, 2},
     .comm = {"ofi", "ofi", "ofi"},
     .ofi = {card, card, card},
     .says = {"comm plugin: ofi: no card"}},
    {.name = "ranks that were told different ones",
     .comm = {"ucx", "ucx", "ofi"},
     .says = {"ofi on rank 2 and ucx on rank 0", "ZERO_COMM"}},
    {.name = "one rank that was told",
     .hosts = {1, 2, 2},
     .comm = {NULL, "ofi", NULL},
     .says = {"ofi on rank 1 and not given on rank 0"}},
    {.name = "one rank whose sums may be relaxed",
     .hosts = {1, 2, 2},
     .numerics = {NULL, NULL, "relaxed"},
     .says = {"ZERO_NUMERICS is relaxed on rank 2 and not on rank 0: give all ranks the same"}},
    {.name = "a plugin without a collective",
     .comm = {"ofi", "ofi", "ofi"},
     .lacks = "scatter",
     .says = {"comm plugin ofi does not offer reduce_scatter", "ZERO_COMM"}},
    {.name = "a plugin that adds in any order",
     .comm = {"ofi", "ofi", "ofi"},
     .lacks = "order",
     .says = {"does not offer sums in the order of the ranks", "ZERO_COMM"}},
    {.name = "a plugin for other memory, and no other",
     .hosts = {1, 2, 3},
     .lacks = "memory",
     .says = {"not ucx, on rank 0: ", "memory of the host", "not ofi"}},
    {.name = "a communicator that fails on one rank",
     .comm = {"ucx", "ucx", "ucx"},
     .opens = {"ucx", "ucx", "ucx"},
     .says = {"no room for a communicator of ucx"}},
};

static char job[64], folders[4096];

static void add(struct zero_config *c, struct zero_setting *s, const char *name, const char *value)
{
    if (value)
        s[c->n_settings++] = (struct zero_setting){name, value};
}

static void rank_main(struct rank *r)
{
    const struct scene *s = r->arg;
    struct zero_setting settings[7];
    struct zero_config c = ZERO_CONFIG_INIT;
    struct zero_runtime *rt = NULL;

    host_seen = s->hosts[r->rank];
    c.job = job;
    c.rank = r->rank;
    c.ranks = r->ranks;
    c.settings = settings;
    add(&c, settings, "plugin_path", folders);
    add(&c, settings, "comm", s->comm[r->rank]);
    add(&c, settings, "numerics", s->numerics[r->rank]);
    add(&c, settings, "fake_ucx", s->ucx[r->rank]);
    add(&c, settings, "fake_ofi", s->ofi[r->rank]);
    add(&c, settings, "fake_opens", s->opens[r->rank]);
    add(&c, settings, "fake_lacks", s->lacks);
    int e = zero_create(&c, &rt);
    if (!e) {
        want(r, s->chosen && !strcmp(zero_option(rt, "comm"), s->chosen), "it chose %s",
             zero_option(rt, "comm"));
        zero_destroy(rt);
        return;
    }
    for (int i = 0; i < 6 && s->says[i]; i++)
        want(r, strstr(zero_last_error(), s->says[i]), "it says: %s", zero_last_error());
    want(r, !s->chosen, "it says: %s", zero_last_error());
    if (strstr(s->says[0] ? s->says[0] : "", "no room") && r->rank != 1)
        want(r, strstr(zero_last_error(), "rank 1 failed"), "it says: %s", zero_last_error());
}

int main(void)
{
    const char *build = getenv("ZERO_TEST_BUILD");

    unsetenv("ZERO_COMM");
    build = build ? build : ".";
    snprintf(folders, sizeof folders, "%s/tests/plugin/fake/.libs:%s/.libs", build, build);
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
        struct scene s = scenes[i];
        for (int how = AS_THREADS; how <= AS_PROCESSES; how++) {
            snprintf(job, sizeof job, "transport-%d-%zu-%d", (int)getpid(), i, how);
            ranks_good(ranks_run(RANKS, (enum ranks_how)how, rank_main, &s), RANKS, "%s, %s",
                       s.name, ranks_how_name[how]);
        }
    }
    done();
}
