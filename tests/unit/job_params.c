/* SPDX-License-Identifier: Apache-2.0 */
/* Who a rank is, from the environment and from explicit arguments; every bad value is named. */
#include "../tap.h"

#include <errno.h>

#include <zero/zero.h>

#include "base/options.h"
#include "base/status.h"
#include "job/job.h"

static const char *const names[] = {
    "RANK",          "WORLD_SIZE",          "LOCAL_RANK",
    "MASTER_ADDR",   "MASTER_PORT",         "LOCAL_WORLD_SIZE",
    "ZERO_JOB",      "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT",
    "ZERO_PORT",     "ZERO_RENDEZVOUS",     "ZERO_SECRET_FILE",
    "PMIX_RANK",     "PMIX_NAMESPACE",      "ZERO_SECRET_FD",
    "ZERO_INSECURE", "ZERO_INTERFACE",      "ZERO_TIMEOUT",
    "ZERO_HEARTBEAT", "ZERO_JOIN_TIMEOUT"};
#define SECOND INT64_C(1000000000)

static int params_from(const struct zero_config *c, struct zero__job_params *p)
{
    struct zero__options *options;
    int err = zero__options_load(NULL, 0, &options);

    if (err)
        return err;
    err = zero__job_params_from(c, options, p);
    zero__options_free(options);
    return err;
}

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
    return params_from(NULL, p);
}

#define LOCAL "MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 "

static void good(void)
{
    static const struct {
        const char *variables;
        int rank, ranks, local_ranks;
        const char *key;
    } cases[] = {
        {"", 0, 1, 1, ""},
        {"RANK= WORLD_SIZE=", 0, 1, 1, ""},
        {"RANK=0 WORLD_SIZE=1", 0, 1, 1, ""},
        {"WORLD_SIZE=1", 0, 1, 1, ""},
        {LOCAL "RANK=2 WORLD_SIZE=4", 2, 4, 4, "127.0.0.1:29500"},
        {LOCAL "RANK=2 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4", 2, 4, 4, "127.0.0.1:29500"},
        {LOCAL "RANK=2 WORLD_SIZE=4 LOCAL_WORLD_SIZE=2", 2, 4, 2, "127.0.0.1:29500"},
        {LOCAL "RANK=1 WORLD_SIZE=2 TORCHELASTIC_RUN_ID=none", 1, 2, 2, "127.0.0.1:29500:none"},
        {LOCAL "RANK=1 WORLD_SIZE=2 TORCHELASTIC_RUN_ID=x TORCHELASTIC_RESTART_COUNT=3", 1, 2, 2,
         "127.0.0.1:29500:x:3"},
        {LOCAL "RANK=1 WORLD_SIZE=2 ZERO_JOB=abc", 1, 2, 2, "abc"},
        {"RANK=1 WORLD_SIZE=2 ZERO_JOB=abc", 1, 2, 2, "abc"},
        {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=1", 0, 2, 2, "localhost:1"},
        {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=::1 MASTER_PORT=1", 0, 2, 2, "::1:1"},
        {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=[::1] MASTER_PORT=1", 0, 2, 2, "::1:1"},
        {"RANK=0 WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=elsewhere.example MASTER_PORT=1", 0, 2,
         2, "elsewhere.example:1"},
        {LOCAL "RANK=4095 WORLD_SIZE=4096", 4095, 4096, 4096, "127.0.0.1:29500"},
    };
    struct zero__job_params p;

    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int e = from(cases[i].variables, &p);
        bool same = !e && p.rank == cases[i].rank && p.ranks == cases[i].ranks &&
                    p.local_ranks == cases[i].local_ranks;
        if (!ok(same, "\"%s\"", cases[i].variables))
            diag("%d: %s", e, e ? zero_last_error() : "other numbers");
        else
            is_str(p.key, cases[i].key, "its key");
    }
    is_str(p.version, zero_version(), "the version is the library's");
    is_str(p.model, "model", "the model has a name");
    ok(p.abi_hash != 0, "the hash of the interfaces is set");
    ok(p.timeout_ns == 600 * SECOND && p.heartbeat_ns == 3 * SECOND && p.join_ns == 60 * SECOND,
       "times by default");
    is_int(from("ZERO_TIMEOUT=2.5 ZERO_HEARTBEAT=0", &p), 0, "others");
    ok(p.timeout_ns == 5 * SECOND / 2 && p.heartbeat_ns == 0, "are taken");
    is_int(p.join_ns, 5 * SECOND / 2, "nobody waits longer for ranks than for what they do");
    is_int(from("ZERO_TIMEOUT=2.5 ZERO_JOIN_TIMEOUT=90", &p), 0, "unless it is asked for");
    is_int(p.join_ns, 90 * SECOND, "then it is as long");
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
        {LOCAL "RANK=0 WORLD_SIZE=0", -EINVAL, {"WORLD_SIZE is \"0\"", "from 1 to 4096"}},
        {LOCAL "RANK=0 WORLD_SIZE=4097", -EINVAL, {"WORLD_SIZE is \"4097\""}},
        {LOCAL "RANK=0 WORLD_SIZE=2 LOCAL_WORLD_SIZE=3", -EINVAL, {"LOCAL_WORLD_SIZE is \"3\""}},
        {"RANK=0 WORLD_SIZE=2", -EINVAL, {"MASTER_ADDR is not", "zero run -n 2"}},
        {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1", -EINVAL, {"MASTER_PORT is not"}},
        {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=0",
         -EINVAL,
         {"MASTER_PORT is \"0\"", "from 1 to 65535"}},
        {LOCAL "RANK=0 WORLD_SIZE=2 ZERO_PORT=65536", -EINVAL, {"ZERO_PORT=65536", "65535"}},
        {LOCAL "RANK=0 WORLD_SIZE=2 ZERO_RENDEZVOUS=smoke", -EINVAL, {"ZERO_RENDEZVOUS", "tcp"}},
        {LOCAL "RANK=0 WORLD_SIZE=2 ZERO_SECRET_FILE=/no/such/file",
         -ENOENT,
         {"ZERO_SECRET_FILE /no/such/file", "make one with"}},
        {LOCAL "RANK=0 WORLD_SIZE=2 ZERO_SECRET_FD=999", -EBADF, {"ZERO_SECRET_FD is 999"}},
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

static int with(int rank, int ranks, int local_ranks, const char *job, struct zero__job_params *p)
{
    struct zero_config c = ZERO_CONFIG_INIT;
    c.rank = rank;
    c.ranks = ranks;
    c.local_ranks = local_ranks;
    c.job = job;
    return params_from(&c, p);
}

static void explicit_ranks(void)
{
    struct zero_config c = ZERO_CONFIG_INIT;
    struct zero__job_params p;
    char longest[200];

    from("RANK=7 WORLD_SIZE=2", &p);
    is_int(with(1, 4, 0, "j", &p), 0, "explicit ranks win over a bad environment");
    ok(p.rank == 1 && p.ranks == 4 && p.local_ranks == 4, "local by default");
    is_str(p.key, "j", "the job's name is the key");
    is_int(with(0, 1, 0, NULL, &p), 0, "one rank needs no name");
    is_int(with(1, 4, 0, NULL, &p), -EINVAL, "several do");
    has_str(zero_last_error(), "zero_config.job", "named");
    is_int(with(4, 4, 0, "j", &p), -EINVAL, "rank beyond the ranks");
    is_int(with(-1, 4, 0, "j", &p), -EINVAL, "negative rank");
    is_int(with(0, -4, 0, "j", &p), -EINVAL, "negative ranks");
    is_int(with(0, 5000, 0, "j", &p), -EINVAL, "too many ranks");
    is_int(with(2, 0, 0, "j", &p), -EINVAL, "a rank without ranks");
    is_int(with(0, 4, 5, "j", &p), -EINVAL, "local ranks beyond the ranks");
    has_str(zero_last_error(), "zero_config.local_ranks is 5", "named");
    is_int(with(0, 4, -1, "j", &p), -EINVAL, "negative local ranks");
    is_int(with(0, 0, 2, "j", &p), -EINVAL, "local ranks without ranks");
    is_int(with(3, 4, 2, "j", &p), 0, "several hosts");
    ok(p.local_known && p.local_ranks == 2, "with a number of their own");
    memset(longest, 'a', sizeof longest);
    longest[sizeof longest - 1] = 0;
    is_int(with(0, 2, 0, longest, &p), -EINVAL, "too long a name");
    is_int(with(0, 2, 0, "", &p), -EINVAL, "an empty name");
    from("", &p);
    c.model = "a\nb";
    is_int(params_from(&c, &p), -EINVAL, "a model's name with a line break");
    c.model = "teacher";
    is_int(params_from(&c, &p), 0, "a model's name");
    is_str(p.model, "teacher", "is kept");
}

/* By which address, port and secret ranks meet. */
static void meeting(void)
{
    static const struct {
        const char *variables;
        bool local_known;
        int how, port;
        const char *address, *interface;
    } cases[] = {
        {LOCAL "RANK=0 WORLD_SIZE=2", false, ZERO__RENDEZVOUS_AUTO, 29500, "127.0.0.1", ""},
        {LOCAL "RANK=0 WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 ZERO_PORT=7", true, ZERO__RENDEZVOUS_AUTO, 7,
         "127.0.0.1", ""},
        {LOCAL "RANK=0 WORLD_SIZE=2 TORCHELASTIC_RUN_ID=x", false, ZERO__RENDEZVOUS_AUTO, 29501,
         "127.0.0.1", ""},
        {LOCAL "RANK=0 WORLD_SIZE=2 TORCHELASTIC_RUN_ID=x ZERO_PORT=7", false,
         ZERO__RENDEZVOUS_AUTO, 7, "127.0.0.1", ""},
        {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=65535 TORCHELASTIC_RUN_ID=x", false,
         ZERO__RENDEZVOUS_AUTO, 0, "h", ""},
        {"RANK=1 WORLD_SIZE=2 MASTER_ADDR=[fd00::1] ZERO_PORT=9 ZERO_RENDEZVOUS=tcp", false,
         ZERO__RENDEZVOUS_TCP, 9, "[fd00::1]", ""},
        {LOCAL "RANK=0 WORLD_SIZE=2 ZERO_RENDEZVOUS=unix ZERO_INTERFACE=eth0", false,
         ZERO__RENDEZVOUS_UNIX, 29500, "127.0.0.1", "eth0"},
    };
    struct zero__job_params p;

    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int e = from(cases[i].variables, &p);
        bool same = !e && p.local_known == cases[i].local_known && p.how == cases[i].how &&
                    p.port == cases[i].port && !strcmp(p.address, cases[i].address) &&
                    !strcmp(p.interface, cases[i].interface) && !p.secret.known && !p.insecure;
        if (!ok(same, "how to meet: \"%s\"", cases[i].variables))
            diag("%d: %s", e, e ? zero_last_error() : "other values");
    }
    is_int(from(LOCAL "RANK=0 WORLD_SIZE=1 ZERO_SECRET_FILE=/no/such/file", &p), 0,
           "one rank needs no secret");
    is_int(from("PMIX_RANK=0 PMIX_NAMESPACE=n RANK=1 WORLD_SIZE=2 ZERO_JOB=j ZERO_INSECURE=1", &p),
           0, "RANK goes before PMIx");
    ok(p.rank == 1 && p.insecure, "as it says");
}

int main(void)
{
    good();
    bad();
    explicit_ranks();
    meeting();
    done();
}
