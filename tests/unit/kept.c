/* SPDX-License-Identifier: Apache-2.0 */
/* Figures that outlive a job, and what is in their way. */
#include "../tap.h"

#include <dirent.h>
#include <fcntl.h>
#include <locale.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/kept.h"
#include "machine/host.h"

static char folder[] = "kept-test-XXXXXX";

static int count_files(const char *path)
{
    DIR *d = opendir(path);
    int n = 0;

    for (const struct dirent *e; d && (e = readdir(d));)
        n += e->d_name[0] != '.';
    if (d)
        closedir(d);
    return n;
}

/* A process that had this one's number may have been killed while it wrote. */
static void left_behind(const char *cache)
{
    char path[1200];
    double x = 0;
    FILE *f;

    snprintf(path, sizeof path, "%s/libzero/speeds.%d", cache, (int)getpid());
    f = fopen(path, "w");
    ok(f && !fclose(f), "a file that a killed job has left");
    is_int(zero__kept_note("speeds", 7, (double[]){3.5}, 1), 0, "is in nobody's way");
    ok(zero__kept_find("speeds", 7, &x, 1) && x == 3.5, "what was noted is found");
    unlink(path);
}

/* Of what killed jobs have left nothing stays but what may still be written, and other files. */
static void swept(const char *cache)
{
    static const char *const names[] = {"speeds.aB3dE6", "speeds.zzzzzz", "copies.aB3dE6",
                                        "speeds.aB3dE67"};
    struct timespec old[2] = {{.tv_sec = time(NULL) - 120}, {.tv_sec = time(NULL) - 120}};
    char path[1200];

    for (unsigned i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/libzero/%s", cache, names[i]);
        FILE *f = fopen(path, "w");
        if (!f || fclose(f) || (i != 1 && utimensat(AT_FDCWD, path, old, 0)))
            bail("no file that a killed job has left");
    }
    is_int(zero__kept_note("speeds", 8, (double[]){3.5}, 1), 0, "where others were killed");
    for (unsigned i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/libzero/%s", cache, names[i]);
        is_int(unlink(path) == 0, i != 0, "%s %s", names[i], i ? "stays" : "goes");
    }
}

/* An application that writes numbers with commas, and another one that does not. */
static void with_commas(const char *path)
{
    static const char source[] = "LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \"\"\n"
                                 "grouping -1\nEND LC_NUMERIC\n";
    char file[1200], command[4000];
    double x[2] = {0};

    snprintf(file, sizeof file, "%s/source", path);
    FILE *f = fopen(file, "w");
    if (!f || fputs(source, f) < 0 || fclose(f))
        bail("no file for a locale");
    snprintf(command, sizeof command,
             "localedef -c -i '%s' -f ANSI_X3.4-1968 '%s/comma' >/dev/null 2>&1", file, path);
    int made = system(command); /* other than 0 of what the source leaves out, too */
    setenv("LOCPATH", path, 1);
    ok(setlocale(LC_NUMERIC, "comma") != NULL, "localedef (%d) makes a locale with commas", made);
    is_int(zero__kept_note("speeds", 9, (double[]){0.25, 1.5e9}, 2), 0, "noted with commas");
    setlocale(LC_NUMERIC, "C");
    ok(zero__kept_find("speeds", 9, x, 2) && x[0] == 0.25 && x[1] == 1.5e9,
       "and found again without");
    setlocale(LC_NUMERIC, "comma");
    ok(zero__kept_find("speeds", 9, x, 2) && x[0] == 0.25 && x[1] == 1.5e9, "and with them");
    setlocale(LC_NUMERIC, "C");
    unsetenv("LOCPATH");
    snprintf(command, sizeof command, "rm -rf '%s' '%s/comma'", file, path);
    is_int(system(command), 0, "nothing of it stays");
}

static void put(const char *root, const char *file, const char *text)
{
    char path[1200];

    snprintf(path, sizeof path, "%s/%s", root, file);
    FILE *f = fopen(path, "w");
    if (!f || fputs(text, f) < 0 || fclose(f))
        bail("no file of a machine");
}

/* Of one name and architecture: a machine is another one by its number, or by its processors. */
static void told_apart(const char *root)
{
    static const char *const etc[] = {"0123456789abcdef0123456789abcdef\n",
                                      "0123456789abcdef0123456789abcdee\n"},
                      *const proc[] = {"processor\t: 0\nmodel name\t: One\nflags\t\t: fpu\n",
                                       "processor\t: 0\nmodel name\t: Other\nflags\t\t: fpu\n"};
    char path[1200], text[5][512];

    zero__host_tell(root, text[4], sizeof text[4]);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", root, i ? "proc" : "etc");
        if (mkdir(path, 0700))
            bail("no folder of a machine");
    }
    for (int i = 0; i < 4; i++) {
        put(root, "etc/machine-id", etc[i % 2]);
        put(root, "proc/cpuinfo", proc[i / 2]);
        zero__host_tell(root, text[i], sizeof text[i]);
    }
    for (int i = 0; i < 5; i++)
        for (int k = 0; k < i; k++)
            ok(strcmp(text[i], text[k]) != 0, "\"%s\" is not \"%s\"", text[i], text[k]);
    zero__host_tell(root, text[0], sizeof text[0]);
    is_str(text[0], text[3], "a machine is the same when it is asked again");
    zero__host_tell(root, text[0], 8);
    is_int((int)strnlen(text[0], 8), 7, "what has no room is cut");
    for (int i = 0; i < 4; i++) {
        static const char *const names[] = {"etc/machine-id", "proc/cpuinfo", "etc", "proc"};
        snprintf(path, sizeof path, "%s/%s", root, names[i]);
        is_int(remove(path), 0, "%s is gone", names[i]);
    }
}

int main(void)
{
    char path[1000], inner[1100], file[1200];
    double x[2] = {0};

    if (!mkdtemp(folder) || !realpath(folder, path) || setenv("XDG_CACHE_HOME", path, 1))
        bail("no folder");
    ok(!zero__kept_find("speeds", 1, x, 2), "nothing is known at first");
    is_int(zero__kept_note("speeds", 1, (double[]){1, 2}, 2), 0, "figures are noted");
    is_int(zero__kept_note("speeds", 2, (double[]){3, 4}, 2), 0, "others beside them");
    ok(zero__kept_find("speeds", 1, x, 2) && x[0] == 1 && x[1] == 2, "and found again");
    left_behind(path);
    swept(path);
    with_commas(path);
    told_apart(path);
    snprintf(inner, sizeof inner, "%s/libzero", path);
    is_int(count_files(inner), 1, "one file is there");
    snprintf(file, sizeof file, "%s/speeds", inner);
    unlink(file);
    rmdir(inner);
    rmdir(folder);
    done();
}
