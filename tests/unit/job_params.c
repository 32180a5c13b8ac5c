/* SPDX-License-Identifier: Apache-2.0 */
/* Who a rank is, from the environment and from explicit arguments; every bad value is named. */
#include "../tap.h"

#include <errno.h>

#include <zero/zero.h>

#include "base/status.h"
#include "job/job.h"

static const char *const names[] = {
    "RANK",        "WORLD_SIZE",          "LOCAL_RANK",
    "MASTER_ADDR", "MASTER_PORT",         "LOCAL_WORLD_SIZE",
    "ZERO_JOB",    "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"};

/* Sets exactly these variables: "NAME=value NAME=value". */
static int from(const char *variables, struct zero__job_params *p)
{
    char text[256], *save, *word;

    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++)
        unsetenv(names[i]);
    snprintf(text, sizeof text, "%s", variables);
    for (word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        char *eq = strchr(word, '=');
        *eq = 0;
        setenv(word, eq + 1, 1);
    }
    memset(p, 0xee, sizeof *p);
    return zero__job_params_from(NULL, p);
}

#define LOCAL "MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 "

static void good(void)
{
    static const struct {
        const char *variables;
        int rank, ranks, local_rank, local_ranks;
        const char *key;
    } cases[] = {
        {"", 0, 1, 0, 1, ""},
        {"RANK= WORLD_SIZE=", 0, 1, 0, 1, ""},
        {"RANK=0 WORLD_SIZE=1", 0, 1, 0, 1, ""},
        {"WORLD_SIZE=1", 0, 1, 0, 1, ""},
        {LOCAL "RANK=2 WORLD_SIZE=4", 2, 4, 2, 4, "127.0.0.1:29500"},
        {LOCAL "RANK=2 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4", 2, 4, 1, 4,
         "127.0.0.1:29500"},
        {LOCAL "RANK=1 WORLD_SIZE=2 TORCHELASTIC_RUN_ID=none", 1, 2, 1, 2, "127.0.0.1:29500:none"},
        {LOCAL "RANK=1 WORLD_SIZE=2 TORCHELASTIC_RUN_ID=x TORCHELASTIC_RESTART_COUNT=3", 1, 2, 1, 2,
         "127.0.0.1:29500:x:3"},
        {LOCAL "RANK=1 WORLD_SIZE=2 ZERO_JOB=abc", 1, 2, 1, 2, "abc"},
        {"RANK=1 WORLD_SIZE=2 ZERO_JOB=abc", 1, 2, 1, 2, "abc"},
        {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=1", 0, 2, 0, 2, "localhost:1"},
        {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=::1 MASTER_PORT=1", 0, 2, 0, 2, "::1:1"},
        {"RANK=0 WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=elsewhere.example MASTER_PORT=1", 0, 2,
         0, 2, "elsewhere.example:1"},
        {LOCAL "RANK=1023 WORLD_SIZE=1024", 1023, 1024, 1023, 1024, "127.0.0.1:29500"},
    };
    struct zero__job_params p;

    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int e = from(cases[i].variables, &p);
        bool same = !e && p.rank == cases[i].rank && p.ranks == cases[i].ranks &&
                    p.local_rank == cases[i].local_rank && p.local_ranks == cases[i].local_ranks;
        if (!ok(same, "\"%s\"", cases[i].variables))
            diag("%d: %s", e, e ? zero_last_error() : "other numbers");
        else
            is_str(p.key, cases[i].key, "its key");
    }
    is_str(p.version, zero_version(), "the version is the library's");
    is_str(p.model, "model", "the model has a name");
    ok(p.timeout_ns > 0 && p.abi_hash != 0, "timeout and interface hash are set");
}

static void bad(void)
{
    static const struct {
        const char *variables;
        int err;
        const char *words[3];
    } cases[] = {
        {"RANK=1", -EINVAL, {"RANK is set", "WORLD_SIZE is not", "zero run"}},
        {"WORLD_SIZE=2", -EINVAL, {"WORLD_SIZE is set", "RANK is not"}},
        {LOCAL "RANK=x WORLD_SIZE=2", -EINVAL, {"RANK is \"x\"", "from 0 to 1"}},
        {LOCAL "RANK=2 WORLD_SIZE=2", -EINVAL, {"RANK is \"2\"", "from 0 to 1"}},
        {LOCAL "RANK=-1 WORLD_SIZE=2", -EINVAL, {"RANK is \"-1\""}},
        {LOCAL "RANK=1e0 WORLD_SIZE=2", -EINVAL, {"RANK is \"1e0\""}},
        {LOCAL "RANK=99999999999999999999 WORLD_SIZE=2", -EINVAL, {"RANK is \"9999"}},
        {LOCAL "RANK=0 WORLD_SIZE=0", -EINVAL, {"WORLD_SIZE is \"0\"", "from 1 to 1024"}},
        {LOCAL "RANK=0 WORLD_SIZE=1025", -EINVAL, {"WORLD_SIZE is \"1025\""}},
        {LOCAL "RANK=0 WORLD_SIZE=2 LOCAL_RANK=2", -EINVAL, {"LOCAL_RANK is \"2\""}},
        {LOCAL "RANK=0 WORLD_SIZE=2 LOCAL_WORLD_SIZE=3", -EINVAL, {"LOCAL_WORLD_SIZE is \"3\""}},
        {LOCAL "RANK=0 WORLD_SIZE=4 LOCAL_WORLD_SIZE=2",
         -ENOTSUP,
         {"LOCAL_WORLD_SIZE is 2", "WORLD_SIZE is 4", "not supported yet"}},
        {"RANK=0 WORLD_SIZE=2", -EINVAL, {"MASTER_ADDR is not", "zero run -n 2"}},
        {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1", -EINVAL, {"MASTER_PORT is not"}},
        {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=0",
         -EINVAL,
         {"MASTER_PORT is \"0\"", "from 1 to 65535"}},
        {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=192.0.2.1 MASTER_PORT=1",
         -ENOTSUP,
         {"MASTER_ADDR is \"192.0.2.1\"", "not this machine", "not supported yet"}},
        {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=elsewhere.example MASTER_PORT=1",
         -ENOTSUP,
         {"elsewhere.example", "LOCAL_WORLD_SIZE=2"}},
        {"RANK=0 WORLD_SIZE=2 ZERO_JOB=a\tb", -EINVAL, {"ZERO_JOB", "control character"}},
    };
    struct zero__job_params p;

    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        is_int(from(cases[i].variables, &p), cases[i].err, "refused: \"%s\"", cases[i].variables);
        for (int k = 0; k < 3 && cases[i].words[k]; k++)
            has_str(zero_last_error(), cases[i].words[k], "it says %s", cases[i].words[k]);
        is_int((uint32_t)p.rank, 0xeeeeeeee, "the output is untouched");
    }
}

static int with(int rank, int ranks, int local_rank, int local_ranks, const char *job,
                struct zero__job_params *p)
{
    struct zero_config c = ZERO_CONFIG_INIT;
    c.rank = rank;
    c.ranks = ranks;
    c.local_rank = local_rank;
    c.local_ranks = local_ranks;
    c.job = job;
    return zero__job_params_from(&c, p);
}

static void explicit_ranks(void)
{
    struct zero_config c = ZERO_CONFIG_INIT;
    struct zero__job_params p;
    char longest[200];

    from("RANK=7 WORLD_SIZE=2", &p);
    is_int(with(1, 4, 0, 0, "j", &p), 0, "explicit ranks win over a bad environment");
    ok(p.rank == 1 && p.ranks == 4 && p.local_rank == 1 && p.local_ranks == 4, "local by default");
    is_str(p.key, "j", "the job's name is the key");
    is_int(with(0, 1, 0, 0, NULL, &p), 0, "one rank needs no name");
    is_int(with(1, 4, 0, 0, NULL, &p), -EINVAL, "several do");
    has_str(zero_last_error(), "zero_config.job", "named");
    is_int(with(4, 4, 0, 0, "j", &p), -EINVAL, "rank beyond the ranks");
    is_int(with(-1, 4, 0, 0, "j", &p), -EINVAL, "negative rank");
    is_int(with(0, -4, 0, 0, "j", &p), -EINVAL, "negative ranks");
    is_int(with(0, 5000, 0, 0, "j", &p), -EINVAL, "too many ranks");
    is_int(with(2, 0, 0, 0, "j", &p), -EINVAL, "a rank without ranks");
    is_int(with(0, 4, 4, 4, "j", &p), -EINVAL, "local rank beyond the local ranks");
    is_int(with(0, 4, 0, 2, "j", &p), -ENOTSUP, "several hosts");
    memset(longest, 'a', sizeof longest);
    longest[sizeof longest - 1] = 0;
    is_int(with(0, 2, 0, 0, longest, &p), -EINVAL, "too long a name");
    is_int(with(0, 2, 0, 0, "", &p), -EINVAL, "an empty name");
    from("", &p);
    c.model = "a\nb";
    is_int(zero__job_params_from(&c, &p), -EINVAL, "a model's name with a line break");
    c.model = "teacher";
    is_int(zero__job_params_from(&c, &p), 0, "a model's name");
    is_str(p.model, "teacher", "is kept");
}

int main(void)
{
    good();
    bad();
    explicit_ranks();
    done();
}
