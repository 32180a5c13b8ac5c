/* SPDX-License-Identifier: Apache-2.0 */
/* The text of a job's secret, from a file, its descriptor and a pipe. */
#define _GNU_SOURCE
#include "fuzz.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "job/secret.h"

enum { BY_FD = 1u << 0, BY_NAME = 1u << 1, BY_PIPE = 1u << 2, REFUSED = 1u << 3 };
#define TAKEN (BY_FD | BY_NAME | BY_PIPE)

const struct fuzz_seed fuzz_seeds[] = {
    FUZZ_TEXT("00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF\n", TAKEN),
    FUZZ_TEXT("00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\r\n", TAKEN),
    FUZZ_TEXT("00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff", TAKEN),
    FUZZ_TEXT("00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff00\n", REFUSED),
    FUZZ_TEXT("00112233445566778899aabbccddeeff00112233445566778899aabbccddeefg\n", REFUSED),
    FUZZ_TEXT("00112233\n", REFUSED),
    {NULL, 0, 0},
};

unsigned fuzz_reached;

static void take(int err, struct zero__secret *secret, unsigned by)
{
    fuzz_reached |= err ? REFUSED : by;
    if (!err)
        zero__secret_wipe(secret);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct zero__secret secret = {.known = false};
    int fd = memfd_create("secret", MFD_CLOEXEC), ends[2];
    char path[64];

    if (fd < 0 || write(fd, data, size) != (ssize_t)size || fchmod(fd, 0600))
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    take(zero__secret_from_fd(fd, &secret), &secret, BY_FD);
    take(zero__secret_from_file(path, &secret), &secret, BY_NAME);
    close(fd);
    if (pipe2(ends, O_CLOEXEC))
        abort();
    bool written = write(ends[1], data, size < 4096 ? size : 4096) >= 0;
    close(ends[1]);
    if (written)
        take(zero__secret_from_fd(ends[0], &secret), &secret, BY_PIPE);
    close(ends[0]);
    return 0;
}
