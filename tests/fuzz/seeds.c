/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the seeds of the target that it is linked with into a folder, and tries them as they are:
 * PROGRAM FOLDER.
 */
#include "fuzz.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    char name[4096];
    int hollow = 0;

    for (int i = 0; argc == 2 && fuzz_seeds[i].size; i++) {
        snprintf(name, sizeof name, "%s/seed-%d", argv[1], i);
        FILE *f = fopen(name, "wb");
        if (!f || fwrite(fuzz_seeds[i].data, 1, fuzz_seeds[i].size, f) != fuzz_seeds[i].size ||
            fclose(f)) {
            perror(name);
            return 1;
        }
        if (!fuzz_seed_holds(&fuzz_seeds[i])) {
            fprintf(stderr, "%s reaches 0x%x and not 0x%x\n", name, fuzz_reached,
                    fuzz_seeds[i].reaches);
            hollow = 1;
        }
    }
    return argc != 2 || hollow;
}
