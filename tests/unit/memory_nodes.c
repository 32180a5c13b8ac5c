/* SPDX-License-Identifier: Apache-2.0 */
/* How many memory nodes a machine has, from the kernel's list of them. */
#include "memory/limits.h"

#include "tests/tap.h"

int main(void)
{
    static const struct {
        const char *list;
        uint32_t n;
    } cases[] = {{"0\n", 1},      {"0-1\n", 2}, {"0,2-3,8\n", 4}, {"1", 1}, {"", 0},
                 {"\n", 0},       {"0-", 0},    {"3-2\n", 0},     {"0;1", 0}, {"nodes", 0}};

    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
        is_int(zero__node_list_count(cases[i].list), cases[i].n, "list %u", i);
    ok(zero__memory_nodes() >= 1, "there is one at least");
    done();
}
