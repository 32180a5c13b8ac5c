/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loader against plugins with one fault each (bad_*.c), folders and files that others may write
 * to, and tables older and newer than its own. Every refusal must say what is wrong.
 */
#include "plugin/loader.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/options.h"
#include "base/status.h"
#include "tests/tap.h"

static struct zero__log quiet = {.level = 0};
static char folder[2048]; /* where the test's own plugins were built */

/* A loader whose ZERO_PLUGIN_PATH is `path`. */
static int loader_make(const char *path, struct zero__options **options,
                       struct zero__loader **loader)
{
    struct zero_setting settings[] = {{"plugin_path", path}};
    int err = zero__options_load(settings, 1, options);

    if (err)
        return err;
    err = zero__loader_create(*options, &quiet, NULL, 0, loader);
    if (err)
        zero__options_free(*options);
    return err;
}

static void loader_end(struct zero__options *options, struct zero__loader *loader)
{
    zero__loader_free(loader);
    zero__options_free(options);
}

/* Loads one plugin by name from a folder; returns what the loader said. */
static int load(const char *dir, uint32_t kind, const char *name)
{
    struct zero__options *options;
    struct zero__loader *loader;
    struct zero__plugin *p;
    int err = loader_make(dir, &options, &loader);

    if (err)
        return err;
    err = zero__loader_load(loader, kind, name, &p);
    loader_end(options, loader);
    return err;
}

static void test_faults(void)
{
    static const struct {
        const char *name;
        int err;
        const char *says[3];
    } cases[] = {
        {"bad_symbol", -ENOEXEC, {"zero-comm-bad_symbol.so", "no symbol zero_plugin_v1"}},
        {"bad_major", -EPROTO, {"42" /* 41 + 0 or 1 */, "comm interface", "use a plugin built"}},
        {"bad_need", -EPROTO, {"needs comm interface", "update the library"}},
        {"bad_entry", -EINVAL, {"mandatory entry post"}},
        {"bad_short", -EINVAL, {"mandatory entry split"}},
        {"bad_size", -EINVAL, {"bytes long", "different version"}},
        {"bad_table", -EINVAL, {"comm table is NULL"}},
        {"bad_kind", -EINVAL, {"offers no comm interface"}},
        {"bad_name", -EINVAL, {"calls itself \"another_name\"", "rename the file"}},
        {"bad_desc", -EINVAL, {"returned no plugin"}},
        {"bad_undefined", -ENOEXEC, {"symbol_that_nobody_defines", "different version?"}},
        {"bad_init", -ENODEV, {"refuses to start", "the flux capacitor is not there"}},
        {"bad_start", -ENOENT, {"refuses to start", "there is no /dev/flux"}},
        {"bad_origin", -ENOEXEC, {"comes from another file", "liborigin.so"}},
    };

    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        is_int(load(folder, ZERO_IFACE_COMM, cases[i].name), cases[i].err, "%s is refused",
               cases[i].name);
        for (unsigned k = i == 1 ? 1 : 0; k < 3 && cases[i].says[k]; k++)
            has_str(zero_last_error(), cases[i].says[k], "%s: the reason is given", cases[i].name);
    }
}

static void test_good(void)
{
    struct zero__options *options;
    struct zero__loader *loader;
    struct zero__plugin *p, *again;
    struct zero_comm_caps caps = {.size = sizeof caps};
    char path[2300];

    if (!is_int(loader_make(folder, &options, &loader), 0, "a loader"))
        return;
    if (!is_int(zero__loader_load(loader, ZERO_IFACE_COMM, "good", &p), 0, "the good plugin loads"))
        bail(zero_last_error());
    is_str(zero__plugin_name(p), "good", "under its name");
    ok(!zero__plugin_device(p) && !zero__plugin_offload(p), "it has no other table");
    is_int(zero__plugin_comm(p)->probe(zero__loader_host(loader), &caps), 0, "its probe runs");
    is_int(caps.max_ranks, 7, "and fills the capabilities");
    is_int(zero__loader_load(loader, ZERO_IFACE_COMM, "good", &again), 0, "asked again");
    ok(again == p, "it is the same one");
    snprintf(path, sizeof path, "%s/zero-comm-good.so", folder);
    is_int(zero__loader_load(loader, ZERO_IFACE_COMM, path, &again), 0, "by absolute path");
    ok(again == p, "it is the same one, too");
    is_int(zero__loader_load(loader, ZERO_IFACE_DEVICE, path, &again), -EINVAL,
           "asked for another kind it is refused");
    has_str(zero_last_error(), "is a plugin for comm", "and the kinds are named");
    loader_end(options, loader);
}

static void test_tables(void)
{
    struct zero__options *options;
    struct zero__loader *loader;
    struct zero__plugin *p;

    if (!is_int(loader_make(folder, &options, &loader), 0, "a loader"))
        return;
    if (!is_int(zero__loader_load(loader, ZERO_IFACE_DEVICE, "old_table", &p), 0,
                "an older, shorter table is accepted"))
        bail(zero_last_error());
    const struct zero_device_ops *d = zero__plugin_device(p);
    ok(d->call && !d->wait_value && !d->write_value && !d->touch, "entries it lacks are NULL");
    is_int((long long)d->size, sizeof *d, "the table has the full size");
    if (!is_int(zero__loader_load(loader, ZERO_IFACE_COMM, "new_table", &p), 0,
                "a newer, longer table is accepted"))
        bail(zero_last_error());
    ok(zero__plugin_comm(p)->comm_close != NULL, "with the entries that both know");
    loader_end(options, loader);
}

static void test_names(void)
{
    is_int(load(folder, ZERO_IFACE_COMM, "nowhere"), -ENOENT, "an unknown name is an error");
    has_str(zero_last_error(), "zero-comm-nowhere.so", "that names the file");
    has_str(zero_last_error(), folder, "and the folders");
    ok(!strstr(zero_last_error(), "did you mean"), "no name is like it");
    is_int(load(folder, ZERO_IFACE_COMM, "goood"), -ENOENT, "one that is almost there, too,");
    has_str(zero_last_error(), "did you mean good?", "and then it says so");
    is_int(load(folder, ZERO_IFACE_DEVICE, "gpu"), -ENOENT, "a device that nobody has");
    has_str(zero_last_error(), ": host is built in, and cuda is there where configure found nvcc;",
            "hears which there are");
    is_int(load(folder, ZERO_IFACE_COMM, "./zero-comm-good.so"), -EINVAL, "a relative path");
    has_str(zero_last_error(), "absolute path", "is refused with the remedy");
    is_int(load(folder, ZERO_IFACE_COMM, "tests/plugin/zero-comm-good.so"), -EINVAL, "another one");
    is_int(load(folder, ZERO_IFACE_COMM, ""), -EINVAL, "an empty name");
    is_int(load(folder, ZERO_IFACE_COMM, "Good"), -EINVAL, "a name in capitals");
    is_int(load(folder, ZERO_IFACE_COMM, "/etc/passwd"), -EINVAL, "a file that is not named so");
    is_int(load(folder, 9, "good"), -EINVAL, "an unknown kind");
    is_int(load("tests/plugin", ZERO_IFACE_COMM, "good"), -EINVAL, "a relative folder");
    has_str(zero_last_error(), "not an absolute path", "is refused");
    is_int(load("/nonexistent", ZERO_IFACE_COMM, "good"), -ENOENT, "a folder that is not there");
}

static void copy_file(const char *from, const char *to, mode_t mode)
{
    char block[65536];
    size_t n;
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");

    if (!in || !out)
        bail("cannot copy a plugin");
    while ((n = fread(block, 1, sizeof block, in)) > 0)
        if (fwrite(block, 1, n, out) != n)
            bail("cannot write a copy of a plugin");
    fclose(in);
    if (fclose(out) || chmod(to, mode))
        bail("cannot finish a copy of a plugin");
}

/* A fresh folder with a copy of the good plugin in it. */
static void make_folder(char *dir, size_t bytes, char *file, size_t file_bytes)
{
    char from[2300];
    const char *tmp = getenv("TMPDIR");

    snprintf(dir, bytes, "%s/zero-test-XXXXXX", tmp && *tmp == '/' ? tmp : "/tmp");
    if (!mkdtemp(dir))
        bail("cannot make a folder");
    snprintf(from, sizeof from, "%s/zero-comm-good.so", folder);
    snprintf(file, file_bytes, "%s/zero-comm-good.so", dir);
    copy_file(from, file, 0644);
}

static void test_rights(void)
{
    char dir[1024], file[2048], sub[2048], text[4096];

    make_folder(dir, sizeof dir, file, sizeof file);
    is_int(load(dir, ZERO_IFACE_COMM, "good"), 0, "a copy in a private folder loads");

    chmod(dir, 0777);
    is_int(load(dir, ZERO_IFACE_COMM, "good"), -EPERM, "a folder that everybody may write to");
    has_str(zero_last_error(), "chmod o-w", "is refused with the remedy");
    is_int(load(dir, ZERO_IFACE_COMM, file), -EPERM, "by path as well");
    chmod(dir, 01777);
    is_int(load(dir, ZERO_IFACE_COMM, "good"), 0, "with the sticky bit it is accepted");

    chmod(dir, 0700);
    chmod(file, 0646);
    is_int(load(dir, ZERO_IFACE_COMM, "good"), -EPERM, "a file that everybody may write to");
    chmod(file, 0644);

    snprintf(sub, sizeof sub, "%s/sub", dir);
    mkdir(sub, 0700);
    snprintf(text, sizeof text, "%s/zero-comm-good.so", sub);
    copy_file(file, text, 0644);
    chmod(dir, 0777);
    is_int(load(sub, ZERO_IFACE_COMM, "good"), -EPERM, "a folder further up is looked at");
    unlink(text);
    rmdir(sub);
    unlink(file);
    rmdir(dir);
}

static void test_links(void)
{
    char dir[1024], file[2048], other[1024], other_file[2048], between[1024], jump[2048];
    char sub[2048], to[2048];

    make_folder(dir, sizeof dir, file, sizeof file);
    chmod(dir, 0777);
    /* A link in a good folder to a file in a bad one, and the other way round. */
    make_folder(other, sizeof other, other_file, sizeof other_file);
    unlink(other_file);
    if (symlink(file, other_file))
        bail("cannot make a link");
    is_int(load(other, ZERO_IFACE_COMM, "good"), -EPERM, "a link into a bad folder");
    chmod(dir, 0700);
    is_int(load(other, ZERO_IFACE_COMM, "good"), 0, "a link between good folders");
    chmod(other, 0777);
    is_int(load(other, ZERO_IFACE_COMM, "good"), -EPERM, "a link that everybody may exchange");
    unlink(other_file);

    /* A link in a good folder, by one in a bad one, to a good one; and round in circles. */
    make_folder(between, sizeof between, jump, sizeof jump);
    unlink(jump);
    snprintf(jump, sizeof jump, "%s/jump", between);
    snprintf(to, sizeof to, "..%s/jump", strrchr(between, '/'));
    snprintf(sub, sizeof sub, "%s/step", other);
    chmod(other, 0700);
    if (symlink(dir, jump) || symlink(to, sub))
        bail("cannot make links");
    is_int(load(sub, ZERO_IFACE_COMM, "good"), 0, "two links between good folders");
    chmod(between, 0777);
    is_int(load(sub, ZERO_IFACE_COMM, "good"), -EPERM, "the second one is in a bad folder");
    has_str(zero_last_error(), between, "which is named");
    unlink(jump);
    snprintf(to, sizeof to, "%s", sub);
    if (symlink(to, jump))
        bail("cannot make a link");
    is_int(load(sub, ZERO_IFACE_COMM, "good"), -ELOOP, "links that lead nowhere");
    unlink(jump);
    rmdir(between);
    unlink(sub);
    rmdir(other);
    unlink(file);
    rmdir(dir);
}

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    if (!f || fputs(text, f) < 0 || fclose(f))
        bail("cannot write a file");
}

static void test_files(void)
{
    char dir[1024], file[2048], path[2048];

    make_folder(dir, sizeof dir, file, sizeof file);
    snprintf(path, sizeof path, "%s/zero-comm-text.so", dir);
    write_text(path, "#!/bin/sh\necho not a plugin\n# and long enough to be looked at closely\n");
    is_int(load(dir, ZERO_IFACE_COMM, "text"), -ENOEXEC, "a file that is no ELF object");
    has_str(zero_last_error(), "ELF", "is named as such");
    write_text(path, "");
    is_int(load(dir, ZERO_IFACE_COMM, "text"), -ENOEXEC, "an empty file");
    unlink(path);
    mkdir(path, 0700);
    is_int(load(dir, ZERO_IFACE_COMM, "text"), -EINVAL, "a folder instead of a file");
    has_str(zero_last_error(), "not a regular file", "is named as such");
    rmdir(path);
    if (mkfifo(path, 0600))
        bail("cannot make a fifo");
    is_int(load(dir, ZERO_IFACE_COMM, "text"), -EINVAL, "a fifo does not block");
    unlink(path);
    snprintf(path, sizeof path, "%s/zero-device-good.so", dir);
    rename(file, path);
    is_int(load(dir, ZERO_IFACE_DEVICE, "good"), -EINVAL, "a comm plugin named as a device");
    has_str(zero_last_error(), "offers no device interface", "lacks the interface");
    unlink(path);
    rmdir(dir);
}

struct listing {
    unsigned rows, good, failed, unusable, bad_major;
    char last[128];
    bool ordered;
};

static int list(void *arg, const struct zero__plugin_row *row)
{
    struct listing *l = arg;

    if (strncmp(row->name, "bad_", 4) != 0 && strcmp(row->name, "good") != 0 &&
        !strstr(row->name, "_table"))
        return 0; /* a plugin of another test */
    l->rows++;
    if (row->error)
        l->failed++;
    else if (row->probe)
        l->unusable++;
    else
        l->good++;
    if (row->error && strcmp(row->name, "bad_major") == 0 && strstr(row->error, "comm interface"))
        l->bad_major++;
    if (!row->error && strcmp(row->name, "good") == 0 &&
        (row->comm.max_ranks != 7 || strcmp(row->version, "1.2.3") != 0 || row->n_ifaces != 1))
        return 1;
    if (row->probe && !strstr(row->probe_error, "no such wire"))
        return 2;
    return 0;
}

static int stop_at_once(void *arg, const struct zero__plugin_row *row)
{
    (void)row;
    ++*(int *)arg;
    return 77;
}

static void test_scan(void)
{
    struct zero__options *options;
    struct zero__loader *loader;
    struct listing l = {0};
    int rows = 0;

    if (!is_int(loader_make(folder, &options, &loader), 0, "a loader"))
        return;
    is_int(zero__loader_scan(loader, list, &l), 0, "a listing of everything");
    ok(l.good >= 3, "good, old_table and new_table are there (%u)", l.good);
    is_int(l.failed, 14, "every bad one is listed with its reason");
    is_int(l.unusable, 1, "and the one whose probe fails");
    is_int(l.bad_major, 1, "the reason is that of the load");
    is_int(zero__loader_scan(loader, stop_at_once, &rows), 77, "a listing can be stopped");
    is_int(rows, 1, "at once");
    loader_end(options, loader);
}

/* Static plugins: what the program itself brings. */
static int builtin_probe(const struct zero_host *host, struct zero_comm_caps *caps)
{
    const char *word = host->param(host->ctx, "builtin", "builtin_word", "none", "a test");

    snprintf(caps->note, sizeof caps->note, "%s", word);
    host->log(host->ctx, "builtin", ZERO_LOG_INFO, "probed with %s", word);
    return 0;
}

static void builtin_void(void)
{
}

#define SET(name) .name = (__typeof__(((struct zero_comm_ops *)0)->name))builtin_void
static const struct zero_comm_ops builtin_ops = {
    .size = sizeof(struct zero_comm_ops),
    .probe = builtin_probe,
    SET(open),
    SET(close),
    SET(reg),
    SET(unreg),
    SET(exchange),
    SET(progress),
    SET(wake),
    SET(abort),
    SET(split),
    SET(post),
    SET(error),
    SET(wire_bytes),
    SET(comm_close),
};
static const struct zero_iface builtin_ifaces[] = {
    {.kind = ZERO_IFACE_COMM, .minor = ZERO_COMM_MINOR, .ops = &builtin_ops}};
static const struct zero_plugin builtin = {
    .size = sizeof builtin, .name = "builtin", .ifaces = builtin_ifaces, .n_ifaces = 1};

static void sink(void *arg, int level, const char *line)
{
    (void)level;
    snprintf(arg, 256, "%s", line);
}

static void test_builtin(void)
{
    static const struct zero_plugin *const table[] = {&builtin};
    static const struct zero_setting settings[] = {{"builtin_word", "hello"}};
    char line[256] = "";
    struct zero__log log = {.sink = sink, .sink_arg = line, .rank = -1, .level = ZERO_LOG_INFO};
    struct zero_comm_caps caps = {.size = sizeof caps};
    struct zero__options *options;
    struct zero__loader *loader;
    struct zero__plugin *p;

    if (zero__options_load(settings, 1, &options) ||
        zero__loader_create(options, &log, table, 1, &loader))
        bail(zero_last_error());
    if (!is_int(zero__loader_load(loader, ZERO_IFACE_COMM, "builtin", &p), 0, "a static plugin"))
        bail(zero_last_error());
    is_int(zero__plugin_comm(p)->probe(zero__loader_host(loader), &caps), 0, "its probe runs");
    is_str(caps.note, "hello", "and reads an option of its own");
    has_str(line, "probed with hello", "and logs");
    is_int(zero__loader_load(loader, ZERO_IFACE_DEVICE, "builtin", &p), -ENOENT,
           "it has one kind only");
    loader_end(options, loader);
}

/* What a wrapper is given: as much of the table as it has room for, and no plugin below itself. */
static void test_stand_on(void)
{
    struct {
        struct zero_comm_ops ops;
        void *behind;
    } longer = {.ops.size = sizeof longer};
    struct zero_comm_ops ops = {.size = offsetof(struct zero_comm_ops, probe) + sizeof ops.probe};
    char path[2100];
    struct zero__options *options;
    struct zero__loader *loader;

    if (loader_make(folder, &options, &loader)) {
        ok(0, "a loader: %s", zero__error_text());
        return;
    }
    const struct zero_host *h = zero__loader_host(loader);
    is_int(h->stand_on(h->ctx, "above", ZERO_IFACE_COMM, "ZERO_X", "good", &ops), 0,
           "a plugin to stand on");
    ok(ops.probe && !ops.open && ops.size < sizeof ops, "of its table what there is room for");
    longer.behind = &longer;
    is_int(h->stand_on(h->ctx, "above", ZERO_IFACE_COMM, "ZERO_X", "good", &longer), 0, "again");
    ok(longer.ops.post && !longer.behind && longer.ops.size == sizeof longer,
       "entries that it does not have are NULL");
    ops.size = sizeof ops.size - 1;
    is_int(h->stand_on(h->ctx, "above", ZERO_IFACE_COMM, "ZERO_X", "good", &ops), -EINVAL,
           "a table without room for its size");
    ops.size = sizeof ops;
    is_int(h->stand_on(h->ctx, "good", ZERO_IFACE_COMM, "ZERO_X", "above", &ops), -ELOOP,
           "nothing stands on what stands on it");
    snprintf(path, sizeof path, "%s/zero-comm-good.so", folder);
    is_int(h->stand_on(h->ctx, "good", ZERO_IFACE_COMM, "ZERO_X", path, &ops), -ELOOP,
           "nor by its path");
    is_int(h->stand_on(h->ctx, "other", ZERO_IFACE_COMM, "ZERO_X", path, &ops), 0, "others do so");
    is_int(h->stand_on(h->ctx, "above", ZERO_IFACE_COMM, "ZERO_X", "pigeon", &ops), -ENODEV,
           "where nothing was found");
    is_int(h->stand_on(h->ctx, "pigeon", ZERO_IFACE_COMM, "ZERO_X", "above", &ops), -ENODEV,
           "nothing stands on it");
    is_int(h->stand_on(h->ctx, "good", ZERO_IFACE_OFFLOAD, "ZERO_X", "pigeon", &ops), -ENODEV,
           "a plugin that is not there");
    ok(!strncmp(zero__error_text(), "ZERO_X is \"pigeon\": no plugin zero-offload-pigeon.so", 52),
       "names the option, too: %s", zero__error_text());
    is_int(h->stand_on(h->ctx, "good", 99, "ZERO_X", "above", &ops), -EINVAL, "an unknown kind");
    loader_end(options, loader);
}

int main(void)
{
    const char *build = getenv("ZERO_TEST_BUILD");

    snprintf(folder, sizeof folder, "%s/tests/plugin/.libs", build ? build : ".");
    if (folder[0] != '/')
        bail("ZERO_TEST_BUILD is not set to the build folder");
    test_good();
    test_stand_on();
    test_tables();
    test_faults();
    test_names();
    test_rights();
    test_links();
    test_files();
    test_scan();
    test_builtin();
    done();
}
