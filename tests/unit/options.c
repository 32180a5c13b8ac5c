/* SPDX-License-Identifier: Apache-2.0 */
/* Options: values and what is allowed, order of the sources, errors and warnings that say where. */
#define _GNU_SOURCE
#include "../tap.h"

#include <errno.h>
#include <locale.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/memory_limit.h"
#include "base/nearest.h"
#include "base/number.h"
#include "base/option_value.h"
#include "base/options.h"
#include "base/status.h"

static char logged[8192];

static void sink(void *arg, int level, const char *line)
{
    (void)arg, (void)level;
    strncat(logged, line, sizeof logged - strlen(logged) - 2);
    strcat(logged, "\n");
}

static const struct zero__log test_log = {.sink = sink, .rank = -1, .level = ZERO_LOG_TRACE};

static void file_write(const char *path, const char *text, mode_t mode)
{
    FILE *f = fopen(path, "w");
    if (!f || fputs(text, f) < 0 || fclose(f) || chmod(path, mode))
        bail("cannot write a file");
}

/* Loads with one variable; returns the code and, where that is 0, frees the options. */
static int load_with(const char *name, const char *value)
{
    struct zero__options *o = NULL;
    setenv(name, value, 1);
    int err = zero__options_load(NULL, 0, &o);
    unsetenv(name);
    zero__options_free(o);
    return err;
}

static void defaults(void)
{
    struct zero__options *o;
    struct zero__option_row row;
    uint32_t n = 0;

    is_int(zero__options_load(NULL, 0, &o), 0, "nothing set");
    is_int(zero__option_int(o, ZERO__OPT_STAGE), 3, "stage");
    is_int(zero__option_bytes(o, ZERO__OPT_BUCKET_BYTES), 64 << 20, "bytes");
    ok(zero__option_real(o, ZERO__OPT_TIMEOUT) == 600.0, "a real number");
    is_int(zero__option_int(o, ZERO__OPT_REDUCE_AT), ZERO__REDUCE_AUTO, "a choice");
    ok(zero__option_real(o, ZERO__OPT_LOSS_SCALE) == 0, "a word that stands for a number");
    is_str(zero__option_text(o, ZERO__OPT_LOSS_SCALE), "dynamic", "and its text");
    is_str(zero__option_find(o, "comm"), "", "by name");
    ok(zero__option_find(o, "nonsense") == NULL, "an unknown name");
    for (; zero__options_row(o, n, &row) == 0; n++)
        if (strcmp(row.source, "default") != 0 || !*row.help || !*row.allowed || !*row.group ||
            *row.allowed == '(')
            break;
    is_int(n, ZERO__N_OPTIONS, "every row has a source, a group, a help and what is allowed");
    is_int(zero__options_choose(o, ZERO__OPT_THREADS, "2"), 0, "the runtime chooses");
    is_int(zero__option_int(o, ZERO__OPT_THREADS), 2, "and the value follows");
    is_str(zero__option_source(o, "threads"), "chosen", "so does its source");
    is_str(zero__option_source(o, "comm"), "default", "which others have, too");
    ok(zero__option_source(o, "nonsense") == NULL, "and unknown names have not");
    is_int(zero__options_choose(o, ZERO__OPT_THREADS, "x"), -EINVAL, "but within the range");
    zero__options_free(o);
}

static void sources(void)
{
    struct zero_setting typed[] = {{"accum", "4"}, {"stage", "1"}, {"accum", "5"}};
    struct zero__options *o;
    struct zero__option_row row;
    char how[64];

    file_write("zero.conf", "# a comment\n\nstage = 0\n  lr=0.5   # half\nclip =\t2\naccum = 2\n",
               0644);
    setenv("ZERO_CLIP", "3", 1);
    setenv("ZERO_ACCUM", "3", 1);
    setenv("ZERO_COMM", "", 1);
    is_int(zero__options_load(typed, 3, &o), 0, "three sources");
    ok(zero__option_real(o, ZERO__OPT_LR) == 0.5, "the file beats the default");
    ok(zero__option_real(o, ZERO__OPT_CLIP) == 3, "the environment beats the file");
    is_int(zero__option_int(o, ZERO__OPT_ACCUM), 5, "the program beats all, its last word counts");
    zero__options_row(o, ZERO__OPT_LR, &row);
    is_str(row.source, "file zero.conf:4", "a row says where: file");
    zero__options_row(o, ZERO__OPT_CLIP, &row);
    is_str(row.source, "environment", "environment");
    zero__options_row(o, ZERO__OPT_STAGE, &row);
    is_str(row.source, "program", "program");
    is_str(zero__option_how(o, "clip", "4", how, sizeof how), "ZERO_CLIP=4",
           "a variable changes what a variable sets");
    is_str(zero__option_how(o, "lr", "4", how, sizeof how), "ZERO_LR=4", "or a file");
    is_str(zero__option_how(o, "stage", "3", how, sizeof how), "stage=3 (the program sets it)",
           "and not what the program sets");
    zero__options_free(o);
    unsetenv("ZERO_CLIP");
    unsetenv("ZERO_ACCUM");
    unsetenv("ZERO_COMM");
    unlink("zero.conf");
}

static void bad_values(void)
{
    struct zero_setting typed = {"stage", "7"}, none = {"stage", NULL};
    struct zero__options *o = NULL;

    is_int(load_with("ZERO_STAGE", "7"), -EINVAL, "a bad variable");
    is_str(zero__error_text(), "ZERO_STAGE=7 is not allowed: a whole number from 0 to 3",
           "is named with its value and what is allowed");
    is_int(zero__options_load(&typed, 1, &o), -EINVAL, "a bad setting of the program");
    has_str(zero__error_text(), "stage=7, passed by the program, is not allowed", "says so");
    is_int(zero__options_load(&none, 1, &o), -EINVAL, "a setting without value");
    ok(o == NULL, "outputs are untouched");
    file_write("zero.conf", "\nstage = seven\n", 0644);
    is_int(load_with("ZERO_LOG", "warn"), -EINVAL, "a bad line");
    has_str(zero__error_text(), "zero.conf:2: stage = seven is not allowed", "has a number");
    is_int(load_with("ZERO_STAGE", "2"), -EINVAL, "also when a stronger source overrides it");
    unlink("zero.conf");
    is_int(load_with("ZERO_CONFIG", "missing.conf"), -ENOENT, "a named file must exist");
    has_str(zero__error_text(), "missing.conf (named by ZERO_CONFIG)", "and is named");
    is_int(load_with("ZERO_CONFIG", "."), -EINVAL, "a folder is no file");
    is_int(load_with("ZERO_REDUCE_AT", "soon"), -EINVAL, "a bad choice");
    has_str(zero__error_text(), "one of auto, micro, boundary", "lists the choices");
    is_int(load_with("ZERO_LOG", "loud"), -EINVAL, "bad levels");
    is_int(load_with("ZERO_MEMORY_LIMIT", "disk:1G"), -EINVAL, "a bad limit");
    has_str(zero__error_text(),
            "\"disk:1G\" is not device:BYTES or cpu:BYTES, for example device:1G", "is shown");
    is_int(load_with("ZERO_BETA1", "1"), -EINVAL, "an excluded end");
    has_str(zero__error_text(), "a number from 0 to less than 1", "is described");
    is_int(load_with("ZERO_LOSS_SCALE_INIT", "0.5"), -EINVAL,
           "a scale that an overflow would raise");
    is_int(load_with("ZERO_LOSS_SCALE_INIT", "33554432"), -EINVAL, "one that growth would lower");
    is_int(load_with("ZERO_LOSS_SCALE_INIT", "16777216"), 0, "the largest that it can come to");
    is_int(load_with("ZERO_RETAIN_BYTES", "-1"), 0, "-1 where the range has it");
    is_int(load_with("ZERO_PREFETCH_BYTES", "-1"), -EINVAL, "and not where it has not");
}

static void warnings(void)
{
    struct zero_setting typed = {"stagee", "1"};
    struct zero__options *o;

    file_write("zero.conf", "bukcet_bytes = 1M\nshm_spin = 7\n", 0644);
    setenv("ZERO_STGAE", "2", 1);
    setenv("ZERO_comm", "shm", 1);
    setenv("ZERO_ZZZZZZZZZZ", "1", 1);
    setenv("ZERO_TEST_X", "1", 1);
    setenv("ZERO_JOB_SECRET", "1", 1);
    setenv("ZERO_SHM_SPINN", "1", 1);
    is_int(zero__options_load(NULL, 0, &o), 0, "unknown names are no error");
    is_str(zero__options_param(o, "shm", "shm_spin", "3", "help"), "7", "a plugin's parameter");
    is_str(zero__options_param(o, "shm", "shm_x", "3", NULL), "3", "its default");
    is_str(zero__option_find(o, "shm_x"), "3", "is found by name");
    has_str(zero__option_source(o, "shm_spin"), "zero.conf:2", "and where it was set");
    is_int(zero__options_finish(o, &test_log, true, NULL), 0, "unknown names are warned about");
    has_str(logged, "ZERO_STGAE=2 is not known: the nearest option is ZERO_STAGE\n", "a variable");
    has_str(logged, "ZERO_comm=shm is not known: the nearest option is ZERO_COMM\n",
            "small letters");
    has_str(logged,
            "zero.conf:1: bukcet_bytes = 1M is not known: the nearest option is "
            "bucket_bytes\n",
            "a line of the file");
    has_str(logged, "ZERO_SHM_SPINN=1 is not known: the nearest option is ZERO_SHM_SPIN\n",
            "names of plugins count");
    has_str(logged, "ZERO_ZZZZZZZZZZ=1 is not known: zero info", "nothing near");
    ok(!strstr(logged, "SECRET") && !strstr(logged, "TEST_X"), "the project's own names are known");
    ok(!strstr(logged, "shm_spin ="), "and what a plugin asked for");
    logged[0] = 0;
    zero__options_finish(o, &test_log, true, NULL);
    is_str(logged, "", "only once");
    zero__options_free(o);
    unlink("zero.conf");

    is_int(zero__options_load(NULL, 0, &o), 0, "after a failure");
    zero__options_finish(o, &test_log, false, NULL);
    ok(strstr(logged, "ZERO_STGAE=2 is not known") && !strstr(logged, "ZZZZ"),
       "what may be a plugin's is not said to be unknown");
    logged[0] = 0;
    zero__options_free(o);

    is_int(zero__options_load(&typed, 1, &o), 0, "what the program passed");
    is_int(zero__options_finish(o, &test_log, true, NULL), -EINVAL, "must be known");
    has_str(zero__error_text(), "the nearest option is stage", "and the nearest is named");
    zero__options_free(o);
    for (const char *const *v = (const char *const[]){"STGAE", "comm", "ZZZZZZZZZZ", "TEST_X",
                                                      "JOB_SECRET", "SHM_SPINN", NULL};
         *v; v++) {
        char name[32];
        snprintf(name, sizeof name, "ZERO_%s", *v);
        unsetenv(name);
    }
}

/* What a program passes has the name of a variable. */
static void variables_passed(void)
{
    static const struct {
        struct zero_setting setting;
        const char *words, *what;
    } all[] = {{{"ZERO_STAGE", "1"},
                "ZERO_STAGE=1, passed by the program, is not known: write it in lower case and "
                "without ZERO_, like stage", "what to write is said"},
               {{"ZERO_STAGEE", "1"},
                "ZERO_STAGEE=1, passed by the program, is not known: the nearest option is stage",
                "or what is near"},
               {{"ZERO_PIGEONS", "1"},
                "ZERO_PIGEONS=1, passed by the program, is not known: zero info --options lists",
                "or where all are"}};
    struct zero__options *o;

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        is_int(zero__options_load(&all[i].setting, 1, &o), 0, "passed: %s", all[i].setting.name);
        is_int(zero__options_finish(o, &test_log, true, NULL), -EINVAL, "it is not known");
        has_str(zero__error_text(), all[i].words, "%s", all[i].what);
        zero__options_free(o);
    }
}

static void distrust(void)
{
    struct zero__options *o;

    logged[0] = 0;
    file_write("zero.conf", "stage = 1\n", 0666);
    is_int(zero__options_load(NULL, 0, &o), 0, "a zero.conf that everybody may write");
    is_int(zero__option_int(o, ZERO__OPT_STAGE), 3, "is not read");
    zero__options_finish(o, &test_log, true, NULL);
    has_str(logged, "./zero.conf is not read: everybody may write it", "and says so");
    zero__options_free(o);
    setenv("ZERO_CONFIG", "zero.conf", 1);
    is_int(zero__options_load(NULL, 0, &o), 0, "unless it is named");
    is_int(zero__option_int(o, ZERO__OPT_STAGE), 1, "then it is read");
    zero__options_free(o);
    unsetenv("ZERO_CONFIG");
    unlink("zero.conf");
    if (geteuid() != 0) {
        skip("a file of another user", "not root");
        return;
    }
    file_write("zero.conf", "stage = 1\n", 0644);
    if (chown("zero.conf", 1, 1))
        bail("chown");
    zero__options_load(NULL, 0, &o);
    is_int(zero__option_int(o, ZERO__OPT_STAGE), 3, "a file of another user is not read");
    zero__options_free(o);
    unlink("zero.conf");
}

static void numbers(void)
{
    static const struct {
        const char *text;
        int64_t value;
        int err;
    } bytes[] = {
        {"0", 0, 0},
        {"1k", 1024, 0},
        {"64M", 64 << 20, 0},
        {"64MiB", 64 << 20, 0},
        {"3GB", 3ll << 30, 0},
        {"1t", 1ll << 40, 0},
        {"8388607T", 8388607ll << 40, 0},
        {"5B", 5, 0},
        {"8388608T", 0, 1},
        {"", 0, 1},
        {"M", 0, 1},
        {"1X", 0, 1},
        {"1MM", 0, 1},
        {"1 M", 0, 1},
        {" 1", 0, 1},
        {"0x10", 0, 1},
        {"1.5G", 0, 1},
        {"1-", 0, 1},
        {"99999999999999999999", 0, 1},
        {"1iB", 0, 1},
    };
    static const char *const no_reals[] = {"",   "nan",   "inf", "0x1p3", "1,5", "1 ",
                                           " 1", "1e999", "--1", "e",     "."};
    double x = 0;

    for (size_t i = 0; i < sizeof bytes / sizeof bytes[0]; i++) {
        int64_t v = -7;
        int err = zero__bytes_parse(bytes[i].text, &v);
        ok((err != 0) == bytes[i].err && v == (err ? -7 : bytes[i].value), "bytes \"%s\"",
           bytes[i].text);
    }
    for (size_t i = 0; i < sizeof no_reals / sizeof no_reals[0]; i++)
        is_int(zero__real_parse(no_reals[i], &x), -EINVAL, "no real: \"%s\"", no_reals[i]);
    if (!setlocale(LC_ALL, "de_DE.UTF-8"))
        diag("no German locale: decimal commas are not tried");
    ok(zero__real_parse("0.25", &x) == 0 && x == 0.25, "a real, whatever the locale");
    setlocale(LC_ALL, "C");
}

static void limits(void)
{
    struct zero__memory_limit l = {1, 1};
    char why[128];

    is_int(zero__memory_limit_parse("cpu:16G,device:8G", &l, why, sizeof why), 0, "two limits");
    ok(l.device_bytes == 8ull << 30 && l.cpu_bytes == 16ull << 30, "in any order");
    is_int(zero__memory_limit_parse("cpu:1M", &l, why, sizeof why), 0, "one");
    ok(l.device_bytes == ZERO__NO_LIMIT, "leaves the other open");
    is_int(zero__memory_limit_parse("cpu:1M,cpu:2M", &l, why, sizeof why), -EINVAL, "twice");
    is_int(zero__memory_limit_parse("cpu:0", &l, why, sizeof why), -EINVAL, "nothing");
    is_int(zero__memory_limit_parse("cpu:", &l, why, sizeof why), -EINVAL, "no number");
    is_int(zero__memory_limit_parse("8G", &l, why, sizeof why), -EINVAL, "no tier");
    is_int(zero__distance("stgae", "stage"), 1, "swapped letters are one step");
    is_int(zero__distance("COMM", "com"), 1, "case does not count");
}

/* Garbage in every type: never a crash, always a reason, and what is accepted lies in range. */
static void garbage(void)
{
    static const char letters[] = "0123456789.-+eEkKmMgGtTiB:,|= #devicpu\x80\xff\n";
    unsigned seed = 20240607, bad = 0;
    struct zero__option_row row;
    struct zero__options *o;

    zero__options_load(NULL, 0, &o);
    for (unsigned i = 0; i < 200000; i++) {
        char text[24], why[256] = "";
        unsigned n = (unsigned)rand_r(&seed) % sizeof text;
        for (unsigned j = 0; j < n; j++)
            text[j] = letters[(unsigned)rand_r(&seed) % (sizeof letters - 1)];
        text[n] = 0;
        enum zero__option_id id = (unsigned)rand_r(&seed) % ZERO__N_OPTIONS;
        int err = zero__options_choose(o, id, text);
        bad += err && strlen(zero__error_text()) < 10;
        struct zero__option_value v = {-1, -1};
        err = zero__option_parse(ZERO__REAL, "[0.1,0.5]", text, &v, why, sizeof why);
        bad += err ? !*why || v.real != -1 : !(v.real >= 0.1 && v.real <= 0.5);
        err = zero__option_parse(ZERO__BYTES, "[4K,1M)", text, &v, why, sizeof why);
        bad += err ? !*why : v.integer < 4096 || v.integer >= 1 << 20;
        if (bad) {
            diag("seed 20240607, round %u, text \"%s\"", i, text);
            break;
        }
    }
    is_int(bad, 0, "200,000 garbage values");
    is_int(zero__options_row(o, ZERO__OPT_STAGE, &row), 0, "stage is an option");
    ok(zero__option_int(o, ZERO__OPT_STAGE) >= 0 && zero__option_int(o, ZERO__OPT_STAGE) <= 3,
       "stage is sane: \"%s\"", row.value);
    zero__options_free(o);
}

int main(void)
{
    char folder[] = "/tmp/zero-options-XXXXXX";

    if (!mkdtemp(folder) || chdir(folder))
        bail("no folder");
    unsetenv("ZERO_PLUGIN_PATH");
    defaults();
    sources();
    bad_values();
    warnings();
    variables_passed();
    distrust();
    numbers();
    limits();
    garbage();
    rmdir(folder);
    done();
}
