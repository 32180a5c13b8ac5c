/* SPDX-License-Identifier: Apache-2.0 */
/* The text of zero.conf. */
#include "fuzz.h"

#include "base/config_file.h"

const struct fuzz_seed fuzz_seeds[] = {
    FUZZ_TEXT("# comment\r\n stage =  3 \r\ncomm=/a#b # c\nlog =\n\n\nlr=1 =2"),
    FUZZ_TEXT("bucket_bytes = 64M\n\tthreads\t=\t2\n"),
    {NULL, 0},
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct zero__config_file file = {0};

    if (zero__config_parse("fuzz.conf", (const char *)data, size, &file) == 0)
        zero__config_close(&file);
    return 0;
}
