/* SPDX-License-Identifier: Apache-2.0 */
/* Lists in places of fixed size: whole items, and a sign where some are missing. */
#include "plugins/common/listing.h"

#include <string.h>

#include "tests/tap.h"

int main(void)
{
    char text[64];

    for (size_t room = 1; room <= sizeof text; room++) {
        static const char *const items[] = {"rc (mlx5_0", ", mlx5_1", ", mlx5_2", ")",
                                            ", tcp (eth0"};
        struct zero__listing l = {.text = text, .room = room};
        char whole[128] = "";
        bool good = true;
        memset(text, 'x', sizeof text);
        text[0] = 0;
        for (unsigned i = 0; i < 5; i++) {
            zero__listing_put(&l, "%s", items[i]);
            if (!l.full && l.used)
                strcat(whole, items[i]);
        }
        size_t n = strnlen(text, sizeof text);
        good &= n < room && n == l.used && strncmp(text, whole, strlen(whole)) == 0;
        good &= l.full ? !strcmp(text + strlen(whole), " …") : n == strlen(whole);
        for (size_t i = room; i < sizeof text; i++)
            good &= text[i] == 'x';
        if (!good || room == sizeof text || room == 24)
            ok(good, "room for %zu: \"%.60s\"", room, text);
    }
    done();
}
