/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets from files and descriptors, the proofs made with them, addresses, calls with deadlines */
#define _GNU_SOURCE
#include "../tap.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <zero/zero.h>

#include "base/call_within.h"
#include "base/status.h"
#include "job/auth.h"
#include "job/interface.h"
#include "machine/clock.h"

#define HEX32 "00112233445566778899aabbccddeeff"
#define HEX HEX32 "0123456789ABCDEF0123456789abcdef"

static char folder[] = "/tmp/zero-secret-XXXXXX";

static const char *file_of(const char *text, mode_t mode)
{
    static char path[64];
    int fd;

    snprintf(path, sizeof path, "%s/secret", folder);
    unlink(path);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, text, strlen(text)) < 0 || fchmod(fd, mode))
        bail("cannot write a file");
    close(fd);
    return path;
}

static bool is_hex(const struct zero__secret *s)
{
    return s->known && s->bytes[1] == 0x11 && s->bytes[15] == 0xff && s->bytes[16] == 0x01 &&
           s->bytes[31] == 0xef;
}

static void files(void)
{
    static const struct {
        const char *text;
        mode_t mode;
        int err;
        const char *words[2];
    } cases[] = {
        {HEX, 0600, 0, {0}},
        {HEX "\n", 0400, 0, {0}},
        {HEX "\r\n", 0600, 0, {0}},
        {HEX, 0644, -EPERM, {"mode 0644", "chmod 600 /tmp/zero-secret"}},
        {HEX, 0640, -EPERM, {"mode 0640", "chmod 600"}},
        {HEX, 0700, -EPERM, {"mode 0700", "chmod 600"}},
        {HEX, 04600, -EPERM, {"mode 4600", "chmod 600"}},
        {"", 0600, -EINVAL, {"holds 0 characters", "make one with"}},
        {HEX32, 0600, -EINVAL, {"holds 32 characters", "64 hex digits"}},
        {HEX "0", 0600, -EINVAL, {"holds 65 characters"}},
        {HEX HEX, 0600, -EINVAL, {"holds at least 67 characters"}},
        {HEX "\n\n\n", 0600, -EINVAL, {"holds at least 67 characters"}},
        {HEX32 "0123456789abcdef0123456789abcdeg", 0600, -EINVAL, {"else than hex digits"}},
        {HEX32 " 123456789abcdef0123456789abcdef", 0600, -EINVAL, {"else than hex digits"}},
    };
    struct zero__secret s;
    char path[80];

    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        memset(&s, 0, sizeof s);
        int e = zero__secret_from_file(file_of(cases[i].text, cases[i].mode), &s);
        is_int(e, cases[i].err, "%zu characters, mode %04o", strlen(cases[i].text),
               (unsigned)cases[i].mode);
        ok(e ? !s.known : is_hex(&s), "the secret is %s", e ? "not there" : "right");
        for (int k = 0; e && k < 2 && cases[i].words[k]; k++)
            has_str(zero_last_error(), cases[i].words[k], "it says %s", cases[i].words[k]);
        ok(!e || !strstr(zero_last_error(), "0123"), "no error shows a secret");
    }
    is_int(zero__secret_from_file(folder, &s), -EINVAL, "a folder is none");
    snprintf(path, sizeof path, "%s/pipe", folder);
    if (mkfifo(path, 0600))
        bail("no pipe");
    is_int(zero__secret_from_file(path, &s), -EINVAL, "nor is a pipe, and nobody waits for it");
    unlink(path);
    is_int(zero__secret_from_file("/no/such", &s), -ENOENT, "nor a file that is missing");
    has_str(zero_last_error(), "/no/such", "which is named");
    if (geteuid() == 0) {
        if (chown(file_of(HEX, 0600), 12345, 12345))
            bail("cannot give a file away");
        snprintf(path, sizeof path, "%s/secret", folder);
        is_int(zero__secret_from_file(path, &s), -EPERM, "nor one of another user");
        has_str(zero_last_error(), "user 12345", "who is named");
    } else {
        skip("a file of another user", "not root");
    }
}

static void descriptors(void)
{
    struct zero__secret s = {0};
    int ends[2], fd = memfd_create("secret", 0);

    if (fd < 0 || write(fd, HEX "\n", 65) != 65)
        bail("no memfd");
    for (int i = 0; i < 2; i++) {
        memset(&s, 0, sizeof s);
        ok(!zero__secret_from_fd(fd, &s) && is_hex(&s), "a memfd gives it as often as asked");
    }
    ok(fcntl(fd, F_GETFD) & FD_CLOEXEC, "and is not inherited further");
    close(fd);
    is_int(zero__secret_from_fd(fd, &s), -EBADF, "a closed descriptor");
    if (pipe(ends) || write(ends[1], HEX, 64) != 64)
        bail("no pipe");
    close(ends[1]);
    memset(&s, 0, sizeof s);
    ok(!zero__secret_from_fd(ends[0], &s) && is_hex(&s), "a pipe gives it once");
    is_int(zero__secret_from_fd(ends[0], &s), -EINVAL, "and not again");
    close(ends[0]);
    if (pipe(ends) || write(ends[1], HEX "\n", 65) != 65)
        bail("no pipe");
    memset(&s, 0, sizeof s);
    ok(!zero__secret_from_fd(ends[0], &s) && is_hex(&s), "a pipe that stays open gives it, too");
    close(ends[0]);
    close(ends[1]);
    zero__secret_wipe(&s);
    ok(!s.known && !s.bytes[1] && !s.bytes[31], "a wiped one is gone");
}

struct reader {
    pthread_t thread;
    int fd, err;
    struct zero__secret secret;
};

static void *reader_main(void *arg)
{
    struct reader *r = arg;
    r->err = zero__secret_from_fd(r->fd, &r->secret);
    return NULL;
}

static void on_signal(int number)
{
    (void)number;
}

/* Ranks that share a pipe: all see it become readable, one gets the bytes, and the others must not
 * wait for ever for more, whatever signals come. */
static void shared_pipe(void)
{
    struct sigaction act = {.sa_handler = on_signal}, old;
    struct reader readers[16] = {{0}}, half = {0};
    int ends[2], some[2], n_good = 0, n_late = 0, n = sizeof readers / sizeof *readers;
    int64_t until = zero__deadline_ns(4 * ZERO_SECOND);

    if (pipe(ends) || pipe(some) || sigaction(SIGUSR1, &act, &old))
        bail("no pipe");
    half.fd = some[0];
    if (write(some[1], HEX32, 32) != 32 ||
        pthread_create(&half.thread, NULL, reader_main, &half))
        bail("no thread");
    for (int i = 0; i < n; i++) {
        readers[i].fd = ends[0];
        if (pthread_create(&readers[i].thread, NULL, reader_main, &readers[i]))
            bail("no thread");
    }
    usleep(100000);
    if (write(ends[1], HEX "\n\n\n", 67) != 67) /* as much as a reader takes */
        bail("cannot write");
    alarm(60); /* a reader that hangs */
    while (zero__now_ns() < until) {
        usleep(20000);
        for (int i = 0; i < n; i++)
            pthread_kill(readers[i].thread, SIGUSR1);
    }
    for (int i = 0; i < n; i++) {
        pthread_join(readers[i].thread, NULL);
        n_good += readers[i].err == -EINVAL;
        n_late += readers[i].err == -ETIMEDOUT;
    }
    pthread_join(half.thread, NULL);
    alarm(0);
    is_int(half.err, -EINVAL, "a writer that stops in the middle has said something");
    ok(n_good == 1 && n_good + n_late == n, "of %d readers of a pipe %d got something, %d gave up",
       n, n_good, n_late);
    sigaction(SIGUSR1, &old, NULL);
    close(some[0]);
    close(some[1]);
    close(ends[0]);
    close(ends[1]);
}

/* The flags of the mapping that holds an address, as the kernel shows them. */
static bool has_flag(const void *p, const char *flag)
{
    FILE *f = fopen("/proc/self/smaps", "re");
    bool here = false, found = false;
    unsigned long from, to;
    char line[512];

    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
            here = (unsigned long)p >= from && (unsigned long)p < to;
        found |= here && !strncmp(line, "VmFlags:", 8) && strstr(line, flag);
    }
    if (f)
        fclose(f);
    return found;
}

static void kept(void)
{
    struct zero__secret s, *copy = NULL;

    ok(!zero__secret_make(&s) && !zero__secret_keep(&s, &copy) &&
           !memcmp(s.bytes, copy->bytes, sizeof s.bytes) && copy->known,
       "a secret is kept");
    ok(copy && has_flag(copy, " dd"), "and core dumps leave it out");
    zero__secret_drop(copy);
    zero__secret_drop(NULL);
}

static void proofs(void)
{
    struct zero__secret a, b;
    struct zero__auth_nonces n, other;
    unsigned char proof[ZERO__AUTH_BYTES], mine[ZERO__AUTH_BYTES];

    if (zero__secret_make(&a) || zero__secret_make(&b))
        bail("no random numbers");
    ok(memcmp(a.bytes, b.bytes, sizeof a.bytes), "two secrets differ");
    zero__auth_nonce(n.zero);
    zero__auth_nonce(n.guest);
    zero__auth_prove(&a, "job", ZERO__AUTH_GUEST, &n, proof);
    ok(zero__auth_check(&a, "job", ZERO__AUTH_GUEST, &n, proof), "a right proof");
    ok(!zero__auth_check(&b, "job", ZERO__AUTH_GUEST, &n, proof), "another secret");
    ok(!zero__auth_check(&a, "jo", ZERO__AUTH_GUEST, &n, proof), "another job");
    ok(!zero__auth_check(&a, "job", ZERO__AUTH_ZERO, &n, proof), "the same sent back");
    other = n;
    zero__auth_nonce(other.zero);
    ok(!zero__auth_check(&a, "job", ZERO__AUTH_GUEST, &other, proof), "an old one");
    memcpy(other.zero, n.guest, sizeof other.zero);
    memcpy(other.guest, n.zero, sizeof other.guest);
    ok(!zero__auth_check(&a, "job", ZERO__AUTH_GUEST, &other, proof), "nonces exchanged");
    bool all = true;
    for (unsigned i = 0; i < 8 * sizeof proof; i++) {
        memcpy(mine, proof, sizeof mine);
        mine[i / 8] ^= (unsigned char)(1 << i % 8);
        all &= !zero__auth_check(&a, "job", ZERO__AUTH_GUEST, &n, mine);
    }
    ok(all, "every bit counts");
}

static void finds(const char *name, const char *text)
{
    struct zero__addresses all;
    char shown[ZERO__ADDRESS_TEXT] = "";
    int e =
        zero__address_find("MASTER_ADDR", name, 29500, zero__deadline_ns(5 * ZERO_SECOND), &all);

    if (!e)
        zero__address_text(&all.at[0], shown);
    if (!ok(!e && !strcmp(shown, text), "%s is %s", name, text))
        diag("%d: %s", e, e ? zero_last_error() : shown);
}

static void refuses(const char *name, int err, const char *word)
{
    struct zero__addresses all;
    int e = zero__address_find("MASTER_ADDR", name, 1, zero__deadline_ns(2 * ZERO_SECOND), &all);

    ok(err ? e == err : e < 0, "\"%.40s\" is no address: %d", name, e);
    has_str(zero_last_error(), word, "it says %s", word);
    has_str(zero_last_error(), "MASTER_ADDR", "and where it stands");
}

static void addresses(void)
{
    struct zero__address a;
    struct zero__addresses all;
    char longest[400];

    finds("127.0.0.1", "127.0.0.1:29500");
    finds("::1", "[::1]:29500");
    finds("[::1]", "[::1]:29500");
    finds("[2001:db8::7]", "[2001:db8::7]:29500");
    refuses("0.0.0.0", -EINVAL, "all addresses");
    refuses("[::]", -EINVAL, "all addresses");
    refuses("no-such-host.invalid", 0, "does not resolve");
    memset(longest, 'a', sizeof longest);
    longest[sizeof longest - 1] = 0;
    refuses(longest, -EINVAL, "at most 255");
    is_int(zero__interface_address("lo", AF_UNSPEC, 5, &a), 0, "the loopback has an address");
    ok(zero__address_is_loopback(&a) && zero__address_is_here(&a) && zero__address_port(&a) == 5,
       "of its own kind, here, with the port");
    is_int(zero__interface_address("nonet7", AF_UNSPEC, 5, &a), -ENODEV, "no such interface");
    has_str(zero_last_error(), "ZERO_INTERFACE is \"nonet7\"", "it is named");
    has_str(zero_last_error(), "lo", "with those that there are");
    if (zero__address_find("MASTER_ADDR", "198.51.100.7", 1, zero__deadline_ns(ZERO_SECOND), &all))
        bail(zero_last_error());
    ok(!zero__address_is_here(&all.at[0]) && !zero__address_is_loopback(&all.at[0]),
       "an address of documentation is not here");
    ok(zero__host_is_here("localhost") && !zero__host_is_here("no-such-host.invalid"),
       "names of this machine");
}

struct call {
    int ms, result;
    char text[16];
};

static int slow(void *arg)
{
    struct call *c = arg;
    struct timespec t = {c->ms / 1000, c->ms % 1000 * 1000000L};

    nanosleep(&t, NULL);
    snprintf(c->text, sizeof c->text, "done");
    return c->result ? zero__fail(c->result, "it failed in its own words") : 0;
}

static void calls(void)
{
    struct call c = {.ms = 1};
    int64_t begin;

    is_int(zero__call_within(zero__deadline_ns(10 * ZERO_SECOND), slow, &c, sizeof c), 0,
           "in time");
    is_str(c.text, "done", "its result comes back");
    c = (struct call){.ms = 1, .result = -EIO};
    is_int(zero__call_within(zero__deadline_ns(10 * ZERO_SECOND), slow, &c, sizeof c), -EIO,
           "fails");
    is_str(zero_last_error(), "it failed in its own words", "with its sentence");
    c = (struct call){.ms = 700};
    begin = zero__now_ns();
    is_int(zero__call_within(zero__deadline_ns(ZERO_SECOND / 20), slow, &c, sizeof c), -ETIMEDOUT,
           "too late");
    ok(zero__now_ns() - begin < ZERO_SECOND / 2, "nobody waits for it");
    is_str(c.text, "", "and it leaves the caller's memory alone");
    struct timespec t = {1, 0};
    nanosleep(&t, NULL); /* it ends and frees its copy: the address sanitizer looks */
}

int main(void)
{
    if (!mkdtemp(folder))
        bail("no folder");
    files();
    descriptors();
    shared_pipe();
    kept();
    proofs();
    addresses();
    calls();
    char path[64];
    snprintf(path, sizeof path, "%s/secret", folder);
    unlink(path);
    rmdir(folder);
    done();
}
