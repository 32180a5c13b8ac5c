/* SPDX-License-Identifier: Apache-2.0 */
/* The text of zero.conf, in memory and in a file. */
#define _GNU_SOURCE
#include "fuzz.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/config_file.h"

enum { TAKEN = 1u << 0, REFUSED = 1u << 1 };

const struct fuzz_seed fuzz_seeds[] = {
    FUZZ_TEXT("# comment\r\n stage =  3 \r\ncomm=/a#b # c\nlog =\n\n\nlr=1 =2", TAKEN),
    FUZZ_TEXT("bucket_bytes = 64M\n\tthreads\t=\t2\n", TAKEN),
    FUZZ_TEXT("no sign\n", REFUSED),
    FUZZ_TEXT("= no name\n", REFUSED),
    FUZZ_TEXT("a = 1\na = 2\n", REFUSED),
    FUZZ_TEXT("a = \0\n", REFUSED),
    {NULL, 0, 0},
};

unsigned fuzz_reached;

/* The same bytes in a file must be taken alike. */
static int from_file(const uint8_t *data, size_t size)
{
    struct zero__config_file file = {0};
    char path[64], warning[256];
    int fd = memfd_create("zero.conf", MFD_CLOEXEC), err;

    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    setenv("ZERO_CONFIG", path, 1);
    err = zero__config_open(&file, warning, sizeof warning);
    if (!err)
        zero__config_close(&file);
    close(fd);
    return err;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct zero__config_file file = {0};

    int err = zero__config_parse("fuzz.conf", (const char *)data, size, &file);
    if (!err)
        zero__config_close(&file);
    if (from_file(data, size) != err)
        abort();
    fuzz_reached |= err ? REFUSED : TAKEN;
    return 0;
}
