/* SPDX-License-Identifier: Apache-2.0 */
/* On which memory nodes processors are, by the kernel's lists of a made-up machine. */
#include "config.h"

#include "machine/nodes.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/tap.h"

static char root[] = "/tmp/zero-nodes-XXXXXX";

static void tell(const char *name, const char *list)
{
    char path[64];

    snprintf(path, sizeof path, "%s/%s", root, name);
    FILE *f = fopen(path, "w");
    if (!f || fputs(list, f) < 0 || fclose(f))
        bail("no file for a made-up node");
}

static void node_make(unsigned node, const char *cores)
{
    char name[32];

    snprintf(name, sizeof name, "%s/node%u", root, node);
    mkdir(name, 0700);
    snprintf(name, sizeof name, "node%u/cpulist", node);
    tell(name, cores);
}

/* Two sockets, processors of a third whose node has no memory, memory without any, a far node. */
static void machine_make(void)
{
    if (!mkdtemp(root))
        bail("no folder for a made-up machine");
    tell("has_memory", "0-1,3,40\n");
    node_make(0, "0-3,8-11\n");
    node_make(1, "4-7,12-15\n");
    node_make(2, "16-17\n");
    node_make(3, "\n");
    node_make(40, "18\n");
}

int main(void)
{
    static const struct {
        const char *list;
        uint32_t n;
    } lists[] = {{"0\n", 1},      {"0-1\n", 2}, {"0,2-3,8\n", 4}, {"1", 1}, {"", 0},
                 {"\n", 0},       {"0-", 0},    {"3-2\n", 0},     {"0;1", 0}, {"nodes", 0}};
    static const struct {
        const char *cores;
        uint32_t nodes;
    } ranks[] = {{"0-17", 3},    {"0-3", 1}, {"9", 1},      {"12-15", 2},
                 {"3-4", 3},     {"16", 0},  {"16,7", 2},   {"18", 1u << 31},
                 {"0,18,99", 1 | 1u << 31}};
    struct zero__cores set;

    for (unsigned i = 0; i < sizeof lists / sizeof *lists; i++)
        is_int(zero__cores_read(&set, lists[i].list), lists[i].n, "list %u", i);
    machine_make();
    for (unsigned i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        zero__cores_read(&set, ranks[i].cores);
        is_int(zero__memory_nodes(&set, root), ranks[i].nodes, "processors %s", ranks[i].cores);
    }
    tell("has_memory", "0-1,5\n");
    zero__cores_read(&set, "0-3");
    is_int(zero__memory_nodes(&set, root), 1 | 1u << 5, "a node that tells no processors counts");
    is_int(zero__memory_nodes(&set, "/nowhere"), 0, "a system that does not tell");
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", root);
    ok(!system(command), "the made-up machine is gone");
    done();
}
