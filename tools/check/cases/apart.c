/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that go apart: an error that names both sides, never wrong numbers, never a hang. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "rank.h"

#define SLAB (UINT64_C(1) << 20)

enum difference {
    KIND,
    COUNT,
    TYPE,
    REDOP,
    FLAGS,
    SCALE,
    GROUP,
    EPOCH,
    SEQUENCE,
    ROOT,
    N_DIFFERENT
};

static const char *const names[N_DIFFERENT] = {"kind",  "count", "type",  "reduction", "flags",
                                               "scale", "group", "epoch", "sequence",  "root"};

/* What the sentence calls that whose values alone say little; else NULL. */
static const char *word_of(enum difference what)
{
    return what == KIND || what == COUNT || what == TYPE ? NULL : names[what];
}

/* The value that the sentence must have of what a rank posted. */
static const char *value_of(enum difference what, const struct zero_coll *q, char *text,
                            size_t room)
{
    const uint64_t numbers[N_DIFFERENT] = {
        [COUNT] = q->count, [REDOP] = q->redop,         [FLAGS] = q->flags,      [GROUP] = q->group,
        [EPOCH] = q->epoch, [ROOT] = (uint64_t)q->root, [SEQUENCE] = q->sequence};

    if (what == KIND)
        return zero_coll_name(q->kind);
    if (what == TYPE)
        return zero_dtype_name(q->src_dtype);
    if (what == SCALE)
        snprintf(text, room, "%g", (double)q->scale);
    else
        snprintf(text, room, "%" PRIu64, numbers[what]);
    return text;
}

static char *blank_number(char *at)
{
    while (isdigit((unsigned char)*at))
        *at++ = '#';
    return at;
}

/* The numbers of ranks, "rank 3", "ranks 0 and 3", are no values. */
static void blank_ranks(char *text)
{
    for (char *at = text; (at = strstr(at, "rank"));) {
        bool several = at[4] == 's';
        at += several ? 5 : 4;
        if (*at == ' ')
            at = blank_number(at + 1);
        while (several && strncmp(at, " and ", 5) == 0)
            at = blank_number(at + 5);
    }
}

static bool in_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Has the sentence the value, as a word of its own? Numbers may be hexadecimal, 0x1. */
static bool has_value(const char *sentence, const char *value)
{
    size_t n = strlen(value);
    char text[1024];

    snprintf(text, sizeof text, "%s", sentence);
    blank_ranks(text);
    for (const char *at = text; (at = strstr(at, value)); at += n) {
        const char *from = at >= text + 2 && strncmp(at - 2, "0x", 2) == 0 ? at - 2 : at;
        bool begins = from == text || !(in_word(from[-1]) || from[-1] == '.');
        bool ends = !(in_word(at[n]) || (at[n] == '.' && isdigit((unsigned char)at[n + 1])));
        if (begins && ends)
            return true;
    }
    return false;
}

static struct zero_coll broadcast(const struct check_comm *c, int root)
{
    struct zero_coll q = {.kind = ZERO_BROADCAST,
                          .src_dtype = ZERO_F32,
                          .dst_dtype = ZERO_F32,
                          .scale = 1,
                          .count = 64,
                          .root = root};
    if (c->r->rank == root)
        q.src = check_slice(c, 0, 256);
    else
        q.dst = check_slice(c, SLAB / 2, 256);
    return q;
}

/* Another kind than q's: one that moves data, or a barrier. */
static struct zero_coll another_kind(const struct check_comm *c, const struct zero_coll *q)
{
    struct zero_coll gather = check_gather(c, 64);

    if (q->kind != ZERO_ALL_GATHER && check_can(c->r, &gather))
        return gather;
    return (struct zero_coll){.kind = ZERO_BARRIER, .scale = 1};
}

/* Half as wide elements at the source; a gathering does not convert. */
static void retype(struct zero_coll *q)
{
    q->src_dtype = ZERO_BF16;
    q->src.len /= 2;
    if (q->kind == ZERO_ALL_GATHER) {
        q->dst_dtype = ZERO_BF16;
        q->dst.len /= 2;
    }
}

/* What the ranks post, and what the last one posts instead. False: the plugin has no such thing. */
static bool different(const struct check_comm *c, enum difference what, struct zero_coll *ours,
                      struct zero_coll *other)
{
    struct zero_coll q = check_some(c, 64);

    *ours = what == ROOT ? broadcast(c, 0) : q;
    if (what == ROOT)
        q = broadcast(c, 1);
    if (what == KIND)
        q = another_kind(c, &q);
    if (what == COUNT)
        q = check_some(c, 65);
    if (what == TYPE)
        retype(&q);
    if (what == REDOP)
        q.redop = ZERO_MAX, q.scale = 1;
    if (what == FLAGS)
        check_in_place(c, &q);
    if (what == SCALE)
        q.scale = 0.25f;
    q.group += what == GROUP;
    q.epoch += what == EPOCH;
    q.sequence += what == SEQUENCE;
    *other = q;
    bool sums = ours->kind == ZERO_ALL_REDUCE || ours->kind == ZERO_REDUCE_SCATTER;
    if (ours->kind == ZERO_BARRIER && what != GROUP && what != EPOCH && what != SEQUENCE)
        return false;
    return (sums || (what != REDOP && what != SCALE)) && check_can(c->r, ours) &&
           check_can(c->r, other);
}

#define DIFFER "ranks differ in %s: "

/* The sentence of the completion, or of error(), must have what both sides did. */
static void judge(struct check_rank *r, const char *from, enum difference what,
                  const struct zero_coll *const sides[2])
{
    const char *word = word_of(what), *of = names[what];
    char name[32];

    if (!want(r, check_said(), DIFFER "%s gives no reason (zero_host.fail())", of, from))
        return;
    /* Among more than two the last one may be compared with any other. */
    for (int p = r->ranks == 2 ? 0 : r->ranks - 1; p < r->ranks; p++) {
        snprintf(name, sizeof name, "rank %d", p);
        want(r, strstr(check_error(), name), DIFFER "\"%s\" lacks \"%s\"", of, check_error(),
             name);
    }
    want(r, !word || strstr(check_error(), word), DIFFER "\"%s\" lacks \"%s\"", of, check_error(),
         word);
    for (int i = 0; i < 2; i++) {
        char text[24];
        const char *value = value_of(what, sides[i], text, sizeof text);
        want(r, has_value(check_error(), value), DIFFER "\"%s\" lacks the value \"%s\" of %s", of,
             check_error(), value, i ? "the last rank" : "the others");
    }
}

/* This rank posts q. The library takes the sentence of the completion: error() is not asked. */
static void go_apart(struct check_comm *c, enum difference what, const struct zero_coll *q,
                     const struct zero_coll *const sides[2])
{
    struct check_rank *r = c->r;
    const char *of = names[what];
    struct zero_comm *comm;
    int err;

    if (!want(r, !c->ops->split(c->ctx, NULL, 0, 0, &comm), "split: %s", check_error()))
        return;
    int64_t res = check_run(c, comm, q);
    if (want(r, res == -EPROTO, DIFFER "%s, want -EPROTO", of, r->ended))
        judge(r, "the completion", what, sides);
    check_mark(r->host);
    err = c->ops->error(comm);
    if (want(r, err == -EPROTO, DIFFER "error gives %s afterwards, want -EPROTO", of,
             check_value(r, err)))
        judge(r, "error", what, sides);
    err = c->ops->post(comm, q, 1, NULL);
    want(r, err == -EPROTO, DIFFER "a later post gives %s, want -EPROTO", of, check_value(r, err));
    want(r, check_meet(c, c->world) == 0, DIFFER "another communicator: %s", of, r->ended);
    want(r, !c->ops->comm_close(comm), "comm_close: %s", check_error());
}

void check_case_mismatch(struct check_rank *r)
{
    struct zero_coll ours, other;
    const struct zero_coll *const sides[2] = {&ours, &other};
    struct check_comm c;

    if (check_open(r, &c, SLAB))
        for (enum difference what = 0; what < N_DIFFERENT; what++)
            if (different(&c, what, &ours, &other))
                go_apart(&c, what, sides[r->rank == r->ranks - 1], sides);
    check_close(&c);
}

/* Outside of collectives. */
void check_case_calls_apart(struct check_rank *r)
{
    struct zero_comm *comm;
    struct check_comm c;
    struct zero_mr *mr;
    char *base;
    int err;

    if (check_open(r, &c, SLAB) &&
        want(r, !check_alloc(&c, 65536, &base, &mr), "alloc: %s", check_error())) {
        err = r->rank ? c.ops->split(c.ctx, NULL, 0, 0, &comm) : c.ops->exchange(c.ctx, mr);
        want(r, err == -EPROTO, "%s, not called by all ranks, gives %s, want -EPROTO",
             r->rank ? "split" : "exchange", check_value(r, err));
        want(r, strstr(check_error(), "exchange") && strstr(check_error(), "split"),
             "both calls are not named: %s", check_error());
        check_free(&c, 65536, base, mr);
    }
    check_close(&c);
}
