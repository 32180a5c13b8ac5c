/* SPDX-License-Identifier: Apache-2.0 */
/* A rank's crash report, as `zero report crash` reads it. */
#define _GNU_SOURCE
#include "fuzz.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tools/report/crash/rank.h"

enum {
    HEAD = 1u << 0,
    READ = 1u << 1,
    FOUND = 1u << 2, /* a collective by its number */
    REFUSED = 1u << 3,
};

const struct fuzz_seed fuzz_seeds[] = {
    FUZZ_TEXT("{\"type\": \"crash\", \"job\": \"0123456789abcdef\", \"joined\": true, "
              "\"began_s\": 1.5, \"time_s\": 2.5, \"rank\": 1, \"ranks\": 4, "
              "\"pid\": 9, \"err\": -5, \"culprit\": 2, \"reporter\": 0, \"cause\": \"x\"}\n"
              "{\"type\": \"queue\", \"queue\": \"gather\", \"issued\": 9, \"started\": 8, "
              "\"done\": 7, \"sequence\": 8}\n"
              "{\"type\": \"op\", \"state\": \"started\", \"queue\": \"gather\", \"number\": 8, "
              "\"kind\": \"gather\", \"unit\": \"u\", \"started_s\": -0.5}\n"
              "{\"type\": \"collective\", \"state\": \"posted\", \"queue\": \"gather\", "
              "\"sequence\": 8, \"kind\": \"all_gather\", \"count\": 64, \"from\": \"bf16\", "
              "\"to\": \"bf16\", \"root\": 0, \"reduction\": 0, \"scale_bits\": 1065353216, "
              "\"flags\": 0, \"epoch\": 3, \"unit\": \"u\"}\n"
              "{\"type\": \"collective\", \"state\": \"waiting\", \"queue\": \"gather\", "
              "\"sequence\": 9, \"kind\": \"barrier\", \"count\": 0, \"from\": \"?\", "
              "\"to\": \"?\", \"root\": 0, \"reduction\": 0, \"scale_bits\": 1065353216, "
              "\"flags\": 0, \"epoch\": 3, \"unit\": \"u\"}\n",
              HEAD | READ | FOUND),
    FUZZ_TEXT("{\"type\": \"crash\", \"job\": \"0123456789abcdef\", \"joined\": true, "
              "\"began_s\": 1.5, \"time_s\": 2.5, \"rank\": 1, \"ranks\": 4, "
              "\"pid\": 9, \"err\": -5, \"culprit\": 2, \"reporter\": 0, \"cause\": \"x\"}\n"
              "{\"type\": \"collective\", \"state\": \"posted\", \"queue\": \"none\"}\n",
              HEAD | REFUSED),
    FUZZ_TEXT("{\"type\": \"queue\"}\n", REFUSED),
    FUZZ_TEXT("no report", REFUSED),
    {NULL, 0, 0},
};

unsigned fuzz_reached;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct report_rank r;
    struct report_head head;
    char path[64], why[256];
    int fd = memfd_create("report", MFD_CLOEXEC);

    if (fd < 0)
        return 0;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (write(fd, data, size) != (ssize_t)size)
        abort();
    if (report_read_head(path, &head, why, sizeof why))
        fuzz_reached |= HEAD;
    if (report_read(path, &r, why, sizeof why)) {
        fuzz_reached |= READ;
        if (report_coll_find(&r, "gather", 8))
            fuzz_reached |= FOUND;
        report_rank_free(&r);
    } else {
        fuzz_reached |= REFUSED;
    }
    close(fd);
    return 0;
}
