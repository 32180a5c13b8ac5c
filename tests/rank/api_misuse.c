/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every public function called at the wrong time or with bad arguments: a negative errno, a
 * sentence that names the thing, and after each case the step is finished and one more is run.
 */
#include "../tap.h"
#include "try.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>

#include <zero/zero.h>

enum at { NEW, SETUP, IDLE, MICRO, HELD, BACKWARD, EVAL, ABORTED };
static const char *const at_name[] = {"when new",     "before commit", "between steps",
                                      "in a step",    "in a use",      "in a backward use",
                                      "in an evaluation", "after an abort"};

enum { EMBED, HEAD };
enum { EMBED_W, EMBED_F, HEAD_W };
enum { ACT, KEPT };

struct fixture {
    struct zero_runtime *rt;
    uint32_t id;          /* what a call under test hands out */
    uint32_t pos, n_uses; /* in the order of the step */
    int held, eval, registered, committed, begun;
    struct zero_setting settings[8];
    uint32_t n_settings;
};

static const struct zero_use order[] = {
    {EMBED, ZERO_FORWARD}, {HEAD, ZERO_FORWARD}, {HEAD, ZERO_BACKWARD}, {EMBED, ZERO_BACKWARD}};

static struct zero_param_desc param_desc(const char *name)
{
    return (struct zero_param_desc){
        .size = sizeof(struct zero_param_desc), .name = name, .dtype = ZERO_F32, .n_dims = 1,
        .dims = {100}, .init = {.kind = ZERO_INIT_CONSTANT, .a = 1}};
}

static struct zero_buffer_desc buffer_desc(const char *name)
{
    return (struct zero_buffer_desc){.size = sizeof(struct zero_buffer_desc), .name = name,
                                     .memory_class = ZERO_CLASS_ACTIVATIONS, .bytes = 100,
                                     .from_unit = ZERO_WHOLE_STEP, .to_unit = ZERO_WHOLE_STEP};
}

static struct zero_activation_desc activation_desc(const char *name)
{
    return (struct zero_activation_desc){.size = sizeof(struct zero_activation_desc), .name = name,
                                         .bytes = 64, .from_unit = EMBED, .to_unit = EMBED,
                                         .to_pass = ZERO_BACKWARD};
}

static struct zero_group_desc group_desc(const char *name)
{
    return (struct zero_group_desc){.size = sizeof(struct zero_group_desc), .name = name,
                                    .lr = 0.1f, .beta1 = 0.9f, .beta2 = 0.99f, .eps = 1e-8f};
}

static int registration(struct fixture *x)
{
    struct zero_param_desc w = param_desc("embed.w"), f = param_desc("embed.f"),
                           h = param_desc("head.w");
    struct zero_buffer_desc b = buffer_desc("act");
    struct zero_activation_desc a = activation_desc("kept");
    uint32_t id;

    f.flags = ZERO_PARAM_FROZEN;
    TRY(zero_unit_add(x->rt, "embed", &id));
    TRY(zero_unit_add(x->rt, "head", &id));
    TRY(zero_param_add(x->rt, EMBED, &w, &id));
    TRY(zero_param_add(x->rt, EMBED, &f, &id));
    TRY(zero_param_add(x->rt, HEAD, &h, &id));
    x->registered = 1;
    TRY(zero_buffer_add(x->rt, &b, &id));
    return zero_activation_add(x->rt, &a, &id); /* KEPT */
}

static int commit(struct fixture *x)
{
    TRY(zero_commit(x->rt));
    x->committed = 1;
    return 0;
}

static int begin(struct fixture *x, int eval)
{
    TRY(zero_begin(x->rt, eval ? ZERO_EVAL : ZERO_TRAIN, 1));
    x->begun = 1, x->eval = eval, x->pos = 0, x->n_uses = eval ? 2 : 4;
    return 0;
}

static int use_begin(struct fixture *x)
{
    TRY(zero_acquire(x->rt, order[x->pos].unit, order[x->pos].pass, NULL));
    x->held = 1;
    return 0;
}

static int use_end(struct fixture *x)
{
    if (order[x->pos].pass == ZERO_BACKWARD) {
        float beta, *g = zero_grad(x->rt, order[x->pos].unit == EMBED ? EMBED_W : HEAD_W, &beta);
        for (int i = 0; i < 100 && g; i++)
            g[i] = 1;
    }
    TRY(zero_release(x->rt, order[x->pos].unit, order[x->pos].pass, NULL));
    x->held = 0, x->pos++;
    return 0;
}

/* From wherever it is to the end of a training step. */
static int finish(struct fixture *x)
{
    if (!x->registered)
        TRY(registration(x));
    if (!x->committed)
        TRY(commit(x));
    if (!x->begun)
        TRY(begin(x, 0));
    while (x->pos < x->n_uses) {
        if (!x->held)
            TRY(use_begin(x));
        TRY(use_end(x));
    }
    x->begun = 0;
    return x->eval ? finish(x) : zero_update(x->rt, NULL);
}

static int go(struct fixture *x, enum at at)
{
    struct zero_config c = ZERO_CONFIG_INIT;

    c.settings = x->settings;
    c.n_settings = x->n_settings;
    TRY(zero_create(&c, &x->rt));
    if (at >= SETUP)
        TRY(registration(x));
    if (at >= IDLE)
        TRY(commit(x));
    if (at == ABORTED)
        return zero_abort(x->rt, "the user went home");
    if (at >= MICRO)
        TRY(begin(x, at == EVAL));
    if (at == HELD)
        return use_begin(x);
    while (at == BACKWARD && x->pos < 3) {
        TRY(use_begin(x));
        TRY(use_end(x));
    }
    return at == BACKWARD ? use_begin(x) : 0;
}

/* ---- The calls ------------------------------------------------------------------------------- */

#define CALL(name, expr)                      \
    static int name(struct fixture *x)        \
    {                                         \
        struct zero_runtime *rt = x->rt;      \
        (void)rt;                             \
        return (expr);                        \
    }
#define NIL(pointer) ((pointer) ? 0 : -EINVAL)

static char long_name[300];
static double numbers[100];
static float floats[200];

static int param_with(struct fixture *x, struct zero_param_desc d)
{
    return zero_param_add(x->rt, EMBED, &d, &x->id);
}

static int buffer_with(struct fixture *x, struct zero_buffer_desc d)
{
    return zero_buffer_add(x->rt, &d, &x->id);
}

static int activation_with(struct fixture *x, struct zero_activation_desc d)
{
    return zero_activation_add(x->rt, &d, &x->id);
}

static int group_with(struct fixture *x, struct zero_group_desc d)
{
    return zero_group_add(x->rt, &d, &x->id);
}

#define DESC(name, kind, text, change)                \
    static int name(struct fixture *x)                \
    {                                                 \
        struct zero_##kind##_desc d = kind##_desc(text); \
        change;                                       \
        return kind##_with(x, d);                     \
    }

CALL(commit_empty, zero_commit(rt))
CALL(commit_call, zero_commit(rt))
static int commit_hollow(struct fixture *x)
{
    struct zero_param_desc d = param_desc("hollow.w");
    uint32_t id;
    TRY(registration(x));
    TRY(zero_unit_add(x->rt, "hollow", &id));
    int err = zero_commit(x->rt);
    TRY(zero_param_add(x->rt, id, &d, &id)); /* then it is complete */
    return err;
}
static int commit_backwards(struct fixture *x)
{
    struct zero_buffer_desc d = buffer_desc("late");
    TRY(registration(x));
    d.from_unit = HEAD, d.to_unit = EMBED;
    TRY(zero_buffer_add(x->rt, &d, &x->id));
    return zero_commit(x->rt);
}
CALL(no_callback_given, registration(x) ? -1 : zero_commit(rt))
static int initialiser(void *arg, uint64_t first, uint64_t count, float *values)
{
    (void)arg, (void)first, (void)count, (void)values;
    return -EIO;
}
static int commit_bad_init(struct fixture *x)
{
    struct zero_param_desc d = param_desc("broken.w");
    TRY(registration(x));
    d.init = (struct zero_init){.kind = ZERO_INIT_CALLBACK, .fn = initialiser};
    TRY(zero_param_add(x->rt, EMBED, &d, &x->id));
    return zero_commit(x->rt);
}

CALL(unit_call, zero_unit_add(rt, "late", &x->id))
CALL(unit_twice, zero_unit_add(rt, "embed", &x->id))
CALL(unit_nameless, zero_unit_add(rt, NULL, &x->id))
CALL(unit_long, zero_unit_add(rt, long_name, &x->id))
DESC(group_call, group, "late", )
DESC(group_beta, group, "odd", d.beta1 = 1)
DESC(group_eps, group, "odd", d.eps = 0)
DESC(group_nan, group, "odd", d.lr = NAN)
DESC(group_negative, group, "odd", d.lr = -1)
DESC(group_size, group, "odd", d.size = 8)
DESC(group_nameless, group, "", )
DESC(param_call, param, "late.w", )
DESC(param_twice, param, "head.w", )
DESC(param_nameless, param, NULL, )
DESC(param_dtype, param, "odd.w", d.dtype = ZERO_I32)
DESC(param_mixed, param, "odd.w", d.dtype = ZERO_BF16)
DESC(param_empty, param, "odd.w", d.dims[0] = 0)
DESC(param_dims, param, "odd.w", d.n_dims = 9)
DESC(param_no_dims, param, "odd.w", d.n_dims = 0)
DESC(param_huge, param, "odd.w", d.n_dims = 2; d.dims[0] = d.dims[1] = UINT64_MAX / 2)
DESC(param_flags, param, "odd.w", d.flags = 64)
DESC(param_group, param, "odd.w", d.group = 7)
DESC(param_init, param, "odd.w", d.init.kind = 9)
DESC(param_no_fn, param, "odd.w", d.init.kind = ZERO_INIT_CALLBACK)
DESC(param_size, param, "odd.w", d.size = 0)
CALL(param_unit, zero_param_add(rt, 9, (struct zero_param_desc[]){param_desc("odd.w")}, &x->id))
DESC(buffer_call, buffer, "late", )
DESC(buffer_class, buffer, "odd", d.memory_class = ZERO_CLASS_MASTER)
DESC(buffer_unit, buffer, "odd", d.to_unit = 9)
DESC(buffer_pass, buffer, "odd", d.from_pass = 5)
DESC(buffer_huge, buffer, "odd", d.bytes = UINT64_MAX)
DESC(buffer_size, buffer, "odd", d.size = 3)
DESC(buffer_nameless, buffer, "", )

DESC(activation_call, activation, "late", )
DESC(activation_twice, activation, "kept", )
DESC(activation_nameless, activation, NULL, )
DESC(activation_size, activation, "odd", d.size = 3)
DESC(activation_empty, activation, "odd", d.bytes = 0)
DESC(activation_huge, activation, "odd", d.bytes = UINT64_MAX)
DESC(activation_unit, activation, "odd", d.to_unit = ZERO_WHOLE_STEP)
DESC(activation_flags, activation, "odd", d.flags = 4)
static float kept[32];
static void *place_kept;
CALL(kept_get, NIL(zero_activation(rt, KEPT)))
CALL(kept_get_buffer, NIL(zero_activation(rt, ACT)))
CALL(kept_as_buffer, NIL(zero_buffer(rt, KEPT)))
CALL(save_call, zero_activation_save(rt, KEPT, kept, 64, NULL))
CALL(save_nothing, zero_activation_save(rt, KEPT, kept, 0, NULL))
CALL(save_too_much, zero_activation_save(rt, KEPT, kept, 65, NULL))
CALL(restore_call, zero_activation_restore(rt, KEPT, &place_kept, NULL))
CALL(save_twice, save_call(x) ? -1 : save_call(x))
CALL(restore_early, save_call(x) ? -1 : restore_call(x))
static int save_astray(struct fixture *x)
{
    void *stream;
    TRY(zero_stream_create(x->rt, &stream));
    TRY(zero_stream_destroy(x->rt, stream));
    return zero_activation_save(x->rt, KEPT, kept, 64, stream);
}

CALL(order_empty, zero_set_order(rt, ZERO_TRAIN, order, 0))
CALL(order_null, zero_set_order(rt, ZERO_TRAIN, NULL, 4))
CALL(order_kind, zero_set_order(rt, 2, order, 4))
CALL(order_unit, zero_set_order(rt, ZERO_TRAIN, &(struct zero_use){9, 0}, 1))
CALL(order_pass, zero_set_order(rt, ZERO_TRAIN, &(struct zero_use){EMBED, 2}, 1))
CALL(order_eval, zero_set_order(rt, ZERO_EVAL, order, 4))
CALL(order_call, zero_set_order(rt, ZERO_TRAIN, order, 4))

CALL(begin_call, zero_begin(rt, ZERO_TRAIN, 1))
CALL(begin_kind, zero_begin(rt, 3, 1))
CALL(begin_not_last, zero_begin(rt, ZERO_TRAIN, 0))
CALL(begin_eval, zero_begin(rt, ZERO_EVAL, 0))
/* The step has one micro-batch, which is not the last; it is finished with another one. */
static int update_none_last(struct fixture *x)
{
    TRY(zero_begin(x->rt, ZERO_TRAIN, 0));
    return zero_update(x->rt, NULL);
}
CALL(acquire_call, zero_acquire(rt, HEAD, ZERO_FORWARD, NULL))
CALL(acquire_unit, zero_acquire(rt, 9, ZERO_FORWARD, NULL))
CALL(acquire_pass, zero_acquire(rt, EMBED, 2, NULL))
CALL(acquire_backward, zero_acquire(rt, EMBED, ZERO_BACKWARD, NULL))
CALL(release_call, zero_release(rt, EMBED, ZERO_FORWARD, NULL))
CALL(release_other, zero_release(rt, HEAD, ZERO_FORWARD, NULL))
CALL(release_pass, zero_release(rt, EMBED, ZERO_BACKWARD, NULL))
CALL(param_get, NIL(zero_param(rt, EMBED_W)))
CALL(param_get_other, NIL(zero_param(rt, HEAD_W)))
CALL(param_get_unknown, NIL(zero_param(rt, 9)))
CALL(grad_get, NIL(zero_grad(rt, EMBED_W, floats)))
CALL(grad_get_unknown, NIL(zero_grad(rt, 9, floats)))
CALL(grad_get_frozen, NIL(zero_grad(rt, EMBED_F, floats)))
CALL(buffer_get, NIL(zero_buffer(rt, 0)))
CALL(buffer_get_unknown, NIL(zero_buffer(rt, 9)))
CALL(update_call, zero_update(rt, NULL))
CALL(lr_group, zero_set_lr(rt, 9, 0.1f))
CALL(lr_nan, zero_set_lr(rt, 0, NAN))
CALL(lr_negative, zero_set_lr(rt, 0, -1))
static int optimizer(void *arg, uint32_t param, uint64_t first, uint64_t count, uint64_t step,
                     float *p, float *m, float *v, const float *grad)
{
    (void)arg, (void)param, (void)first, (void)count;
    (void)step, (void)p, (void)m, (void)v, (void)grad;
    return -EIO;
}
CALL(optimizer_call, zero_set_optimizer(rt, optimizer, NULL))
static int optimizer_fails(struct fixture *x)
{
    TRY(zero_set_optimizer(x->rt, optimizer, NULL));
    return finish(x);
}

CALL(read_call, zero_param_read(rt, EMBED_W, 0, 1, floats))
CALL(read_unknown, zero_param_read(rt, 9, 0, 1, floats))
CALL(read_beyond, zero_param_read(rt, EMBED_W, 60, 41, floats))
CALL(read_wrap, zero_param_read(rt, EMBED_W, 2, UINT64_MAX, floats))
CALL(write_call, zero_param_write(rt, EMBED_W, 0, 1, floats))
CALL(write_beyond, zero_param_write(rt, EMBED_W, 101, 0, floats))
CALL(hash_call, zero_weights_hash(rt, (uint64_t *)numbers))
CALL(sum_many, zero_sum(rt, numbers, 65))
CALL(sum_call, zero_sum(rt, numbers, 1))
CALL(barrier_call, zero_barrier(rt))

static int report_with(struct fixture *x, size_t size)
{
    struct zero_memory_report report = {.size = size};
    return zero_memory_report(x->rt, &report);
}
CALL(report_call, report_with(x, sizeof(struct zero_memory_report)))
CALL(report_size, report_with(x, 0))
static int forecast_with(struct fixture *x, size_t size)
{
    struct zero_forecast forecast = {.size = size};
    return zero_forecast(x->rt, &forecast);
}
CALL(forecast_call, forecast_with(x, sizeof(struct zero_forecast)))
CALL(forecast_size, forecast_with(x, 0))
static void no_op(void *arg, const struct zero_op_time *op)
{
    (void)arg, (void)op;
}
CALL(times_call, zero_op_times(rt, no_op, NULL))
CALL(dump_call, zero_program_dump(rt, 1))
CALL(dump_closed, zero_program_dump(rt, 999))
static int dump_full(struct fixture *x)
{
    int fd = open("/dev/full", O_WRONLY), err = zero_program_dump(x->rt, fd);
    close(fd);
    return err;
}
CALL(stream_destroy_null, zero_stream_destroy(rt, NULL))
CALL(stream_sync_null, zero_stream_sync(rt, NULL))
CALL(stream_call_null, zero_stream_call(rt, NULL, free, NULL))
static int stream_no_fn(struct fixture *x)
{
    void *stream;
    TRY(zero_stream_create(x->rt, &stream));
    int err = zero_stream_call(x->rt, stream, NULL, NULL);
    return zero_stream_destroy(x->rt, stream) ? -1 : err;
}

/* ---- The table ------------------------------------------------------------------------------- */

struct misuse {
    const char *what;
    int (*call)(struct fixture *);
    enum at at;
    int err;
    const char *word; /* in the sentence */
    int ends;         /* the runtime does not go on */
    const char *option, *value;
};

static const struct misuse table[] = {
    {"zero_commit() of nothing", commit_empty, NEW, EINVAL, "no parameters", 0, 0, 0},
    {"zero_commit() with an empty unit", commit_hollow, NEW, EINVAL, "unit hollow", 0, 0, 0},
    {"a buffer that ends first", commit_backwards, NEW, EINVAL, "buffer late ends", 1, 0, 0},
    {"no optimizer callback", no_callback_given, NEW, EINVAL, "zero_set_optimizer()", 1,
     "optimizer", "callback"},
    {"an initialiser that fails", commit_bad_init, NEW, EIO, "broken.w", 1, 0, 0},
    {"zero_commit() again", commit_call, IDLE, EINVAL, "committed already", 0, 0, 0},
    {"zero_commit()", commit_call, MICRO, EINVAL, "leave this call out", 0, 0, 0},
    {"zero_commit()", commit_call, ABORTED, ECANCELED, "went home", 1, 0, 0},

    {"zero_unit_add()", unit_call, IDLE, EINVAL, "call before zero_commit()", 0, 0, 0},
    {"a unit's name again", unit_twice, SETUP, EEXIST, "unit embed", 0, 0, 0},
    {"a unit without a name", unit_nameless, SETUP, EINVAL, "unit needs a name", 0, 0, 0},
    {"a unit with a long name", unit_long, SETUP, EINVAL, "200 bytes", 0, 0, 0},
    {"zero_group_add()", group_call, IDLE, EINVAL, "zero_group_add()", 0, 0, 0},
    {"a group with beta1 1", group_beta, SETUP, EINVAL, "group odd: beta1 1", 0, 0, 0},
    {"a group with eps 0", group_eps, SETUP, EINVAL, "eps 0", 0, 0, 0},
    {"a group with lr nan", group_nan, SETUP, EINVAL, "group odd", 0, 0, 0},
    {"a group with lr -1", group_negative, SETUP, EINVAL, "group odd", 0, 0, 0},
    {"a group of another size", group_size, SETUP, EINVAL, "zero_group_desc.size is 8", 0, 0, 0},
    {"a group without a name", group_nameless, SETUP, EINVAL, "group needs a name", 0, 0, 0},
    {"zero_param_add()", param_call, MICRO, EINVAL, "zero_param_add()", 0, 0, 0},
    {"a parameter's name again", param_twice, SETUP, EEXIST, "head.w", 0, 0, 0},
    {"a parameter without a name", param_nameless, SETUP, EINVAL, "needs a name", 0, 0, 0},
    {"a parameter of integers", param_dtype, SETUP, EINVAL, "odd.w: dtype 4", 0, 0, 0},
    {"a parameter of another dtype", param_mixed, SETUP, EINVAL, "odd.w is bf16", 0, 0, 0},
    {"a parameter of 0 elements", param_empty, SETUP, EINVAL, "odd.w has no elements", 0, 0, 0},
    {"a parameter of 9 dimensions", param_dims, SETUP, EINVAL, "9 dimensions", 0, 0, 0},
    {"dimensions without their number", param_no_dims, SETUP, EINVAL, "n_dims is 0", 0, 0, 0},
    {"a parameter of 2^126 elements", param_huge, SETUP, EOVERFLOW, "odd.w", 0, 0, 0},
    {"a parameter's unknown flags", param_flags, SETUP, EINVAL, "0x40", 0, 0, 0},
    {"a parameter's unknown group", param_group, SETUP, EINVAL, "group 7", 0, 0, 0},
    {"a parameter's unknown unit", param_unit, SETUP, EINVAL, "unit 9", 0, 0, 0},
    {"an unknown initialiser", param_init, SETUP, EINVAL, "initialiser 9", 0, 0, 0},
    {"an initialiser without function", param_no_fn, SETUP, EINVAL, "no function", 0, 0, 0},
    {"a parameter of another size", param_size, SETUP, EINVAL, "zero_param_desc.size", 0, 0, 0},
    {"zero_buffer_add()", buffer_call, IDLE, EINVAL, "zero_buffer_add()", 0, 0, 0},
    {"a buffer of another class", buffer_class, SETUP, EINVAL, "class 3", 0, 0, 0},
    {"a buffer's unknown unit", buffer_unit, SETUP, EINVAL, "buffer odd: units", 0, 0, 0},
    {"a buffer's unknown pass", buffer_pass, SETUP, EINVAL, "passes 5", 0, 0, 0},
    {"a buffer of 2^64 bytes", buffer_huge, SETUP, EOVERFLOW, "buffer odd", 0, 0, 0},
    {"a buffer of another size", buffer_size, SETUP, EINVAL, "zero_buffer_desc.size", 0, 0, 0},
    {"a buffer without a name", buffer_nameless, SETUP, EINVAL, "buffer needs a name", 0, 0, 0},

    {"zero_activation_add()", activation_call, IDLE, EINVAL, "zero_activation_add()", 0, 0, 0},
    {"an activation's name again", activation_twice, SETUP, EEXIST, "activation kept", 0, 0, 0},
    {"an activation without a name", activation_nameless, SETUP, EINVAL, "needs a name", 0, 0, 0},
    {"an activation of another size", activation_size, SETUP, EINVAL, "desc.size", 0, 0, 0},
    {"an activation of no bytes", activation_empty, SETUP, EINVAL, "odd has no bytes", 0, 0, 0},
    {"an activation of 2^64 bytes", activation_huge, SETUP, EOVERFLOW, "odd", 0, 0, 0},
    {"an activation's unknown unit", activation_unit, SETUP, EINVAL, "odd: units", 0, 0, 0},
    {"an activation's unknown flags", activation_flags, SETUP, EINVAL, "flags 0x4", 0, 0, 0},
    {"zero_activation()", kept_get, MICRO, EINVAL, "unit embed, which is not held", 0, 0, 0},
    {"zero_activation()", kept_get, BACKWARD, EINVAL, "first forward use of unit embed", 0, 0, 0},
    {"zero_activation() of a buffer", kept_get_buffer, HELD, EINVAL, "0 is not", 0, 0, 0},
    {"zero_buffer() of an activation", kept_as_buffer, HELD, EINVAL, "zero_activation()", 0, 0, 0},
    {"zero_activation_save()", save_call, IDLE, EINVAL, "save(): no step is open", 0, 0, 0},
    {"zero_activation_save()", save_call, MICRO, EINVAL, "not held", 0, 0, 0},
    {"zero_activation_save()", save_call, BACKWARD, EINVAL, "in the first forward", 0, 0, 0},
    {"zero_activation_save()", save_call, ABORTED, ECANCELED, "went home", 1, 0, 0},
    {"zero_activation_save() of 0 bytes", save_nothing, HELD, EINVAL, "kept: 0 bytes", 0, 0, 0},
    {"zero_activation_save() of too much", save_too_much, HELD, EINVAL, "1 to 64", 0, 0, 0},
    {"a save on a stream that has gone", save_astray, HELD, EINVAL, "kept: host device", 0, 0, 0},
    {"zero_activation_save() twice", save_twice, HELD, EALREADY, "kept is saved already", 0, 0, 0},
    {"zero_activation_restore()", restore_call, HELD, ENODATA, "kept was not saved", 0, 0, 0},
    {"zero_activation_restore()", restore_call, BACKWARD, ENODATA, "not saved", 0, 0, 0},
    {"a restore too soon", restore_early, HELD, EINVAL, "last backward use of unit", 0, 0, 0},

    {"an order of no uses", order_empty, SETUP, EINVAL, "at least one use", 0, 0, 0},
    {"an order that is NULL", order_null, IDLE, EINVAL, "at least one use", 0, 0, 0},
    {"an order of no kind", order_kind, IDLE, EINVAL, "kind 2", 0, 0, 0},
    {"an order with an unknown unit", order_unit, SETUP, EINVAL, "unit 9", 0, 0, 0},
    {"an order with an unknown unit", order_unit, EVAL, EINVAL, "unit 9", 0, 0, 0},
    {"an order with an unknown pass", order_pass, SETUP, EINVAL, "pass 2", 0, 0, 0},
    {"an evaluation's backward use", order_eval, IDLE, EINVAL, "no backward pass", 0, 0, 0},
    {"zero_set_order()", order_call, MICRO, EINVAL, "with zero_update() first", 0, 0, 0},

    {"zero_begin()", begin_call, SETUP, EINVAL, "call zero_commit() first", 0, 0, 0},
    {"zero_begin()", begin_call, HELD, EBUSY, "unit embed is still held", 0, 0, 0},
    {"zero_begin() of one more micro-batch", begin_call, MICRO, EINVAL, "zero_update()", 0, 0, 0},
    {"zero_begin() after a step that ended early", begin_call, MICRO, EINVAL, "was number 1: call",
     0, "accum", "4"},
    {"zero_update() without a last micro-batch", update_none_last, IDLE, EINVAL,
     "after 1 micro-batches of at most 4 (ZERO_ACCUM), none of them the last", 0, "accum", "4"},
    {"zero_begin() of an unknown kind", begin_kind, IDLE, EINVAL, "kind 3", 0, 0, 0},
    {"zero_begin() of an unknown kind", begin_kind, MICRO, EINVAL, "kind 3", 0, 0, 0},
    {"zero_begin() with last_micro 0", begin_not_last, IDLE, EINVAL,
     "micro-batch 1 of at most 1 (ZERO_ACCUM) is the last: give", 0, 0, 0},
    {"zero_begin() of an evaluation", begin_eval, HELD, EBUSY, "unit embed", 0, 0, 0},
    {"zero_begin()", begin_call, ABORTED, ECANCELED, "went home", 1, 0, 0},
    {"zero_acquire()", acquire_call, SETUP, EINVAL, "call zero_commit() first", 0, 0, 0},
    {"zero_acquire()", acquire_call, IDLE, EINVAL, "(unit head): no step is open", 0, 0, 0},
    {"zero_acquire() of a second unit", acquire_call, HELD, EBUSY, "unit embed is still held", 0, 0,
     0},
    {"zero_acquire() of an unknown unit", acquire_unit, MICRO, EINVAL, "unit 9", 0, 0, 0},
    {"zero_acquire() for an unknown pass", acquire_pass, MICRO, EINVAL, "pass 2", 0, 0, 0},
    {"zero_acquire() for backward", acquire_backward, EVAL, EINVAL, "unit embed", 0, 0, 0},
    {"zero_acquire()", acquire_call, ABORTED, ECANCELED, "went home", 1, 0, 0},
    {"zero_release() of nothing", release_call, MICRO, EINVAL, "unit embed", 0, 0, 0},
    {"zero_release()", release_call, IDLE, EINVAL, "call zero_begin() first", 0, 0, 0},
    {"zero_release() of another unit", release_other, HELD, EINVAL, "unit head", 0, 0, 0},
    {"zero_release() of another pass", release_pass, HELD, EINVAL, "unit embed", 0, 0, 0},
    {"zero_param()", param_get, SETUP, EINVAL, "embed.w", 0, 0, 0},
    {"zero_param()", param_get, MICRO, EINVAL, "unit embed is not held", 0, 0, 0},
    {"zero_param() of another unit", param_get_other, HELD, EINVAL, "unit head", 0, 0, 0},
    {"zero_param() of an unknown one", param_get_unknown, HELD, EINVAL, "parameter 9", 0, 0, 0},
    {"zero_grad() in a forward use", grad_get, HELD, EINVAL, "BACKWARD", 0, 0, 0},
    {"zero_grad()", grad_get, IDLE, EINVAL, "embed.w", 0, 0, 0},
    {"zero_grad() of an unknown one", grad_get_unknown, BACKWARD, EINVAL, "parameter 9", 0, 0, 0},
    {"zero_grad() of a frozen one", grad_get_frozen, BACKWARD, EINVAL, "frozen", 0, 0, 0},
    {"zero_buffer()", buffer_get, IDLE, EINVAL, "zero_buffer(): no step is open", 0, 0, 0},
    {"zero_buffer() of an unknown one", buffer_get_unknown, HELD, EINVAL, "buffer 9", 0, 0, 0},
    {"zero_update() before a step", update_call, IDLE, EINVAL, "after 0 micro-batches", 0, 0, 0},
    {"zero_update()", update_call, SETUP, EINVAL, "zero_update()", 0, 0, 0},
    {"zero_update()", update_call, HELD, EBUSY, "unit embed is still held", 0, 0, 0},
    {"zero_update()", update_call, EVAL, EINVAL, "for one more first", 0, 0, 0},
    {"zero_update()", update_call, ABORTED, ECANCELED, "went home", 1, 0, 0},
    {"zero_set_lr() of an unknown group", lr_group, IDLE, EINVAL, "group 9", 0, 0, 0},
    {"zero_set_lr() to nan", lr_nan, IDLE, EINVAL, "group default", 0, 0, 0},
    {"zero_set_lr() to -1", lr_negative, SETUP, EINVAL, "group default", 0, 0, 0},
    {"zero_set_optimizer()", optimizer_call, IDLE, EINVAL, "zero_set_optimizer()", 0, 0, 0},
    {"an optimizer that fails", optimizer_fails, SETUP, EIO, "optimizer callback", 1, 0, 0},

    {"zero_param_read()", read_call, SETUP, EINVAL, "zero_param_read()", 0, 0, 0},
    {"zero_param_read()", read_call, MICRO, EINVAL, "training micro-step", 0, 0, 0},
    {"zero_param_read() of an unknown one", read_unknown, IDLE, EINVAL, "parameter 9", 0, 0, 0},
    {"zero_param_read() of an unknown one", read_unknown, EVAL, EINVAL, "parameter 9", 0, 0, 0},
    {"zero_param_read() beyond the end", read_beyond, IDLE, ERANGE, "embed.w", 0, 0, 0},
    {"zero_param_read() around the end", read_wrap, IDLE, ERANGE, "100 elements", 0, 0, 0},
    {"zero_param_write()", write_call, HELD, EINVAL, "zero_param_write()", 0, 0, 0},
    {"zero_param_write() beyond the end", write_beyond, IDLE, ERANGE, "embed.w", 0, 0, 0},
    {"zero_param_write() beyond the end", write_beyond, EVAL, ERANGE, "embed.w", 0, 0, 0},
    {"zero_weights_hash()", hash_call, SETUP, EINVAL, "zero_weights_hash()", 0, 0, 0},
    {"zero_weights_hash()", hash_call, ABORTED, ECANCELED, "went home", 1, 0, 0},
    {"zero_sum() of too many", sum_many, IDLE, EINVAL, "64 numbers, not 65", 0, 0, 0},
    {"zero_sum()", sum_call, ABORTED, ECANCELED, "went home", 1, 0, 0},
    {"zero_barrier()", barrier_call, ABORTED, ECANCELED, "went home", 1, 0, 0},

    {"zero_memory_report()", report_call, SETUP, EINVAL, "zero_memory_report()", 0, 0, 0},
    {"zero_memory_report() without size", report_size, IDLE, EINVAL, "size is 0", 0, 0, 0},
    {"zero_forecast()", forecast_call, SETUP, EINVAL, "zero_forecast()", 0, 0, 0},
    {"zero_forecast() without size", forecast_size, IDLE, EINVAL, "size is 0", 0, 0, 0},
    {"zero_op_times()", times_call, SETUP, EINVAL, "zero_op_times()", 0, 0, 0},
    {"zero_program_dump()", dump_call, SETUP, EINVAL, "zero_program_dump()", 0, 0, 0},
    {"zero_program_dump() nowhere", dump_closed, IDLE, EBADF, "descriptor 999", 0, 0, 0},
    {"zero_program_dump() to a full disk", dump_full, IDLE, ENOSPC, "cannot write the", 0, 0, 0},
    {"zero_stream_destroy() of NULL", stream_destroy_null, IDLE, EINVAL, "stream is NULL", 0, 0, 0},
    {"zero_stream_sync() of NULL", stream_sync_null, IDLE, EINVAL, "stream is NULL", 0, 0, 0},
    {"zero_stream_call() on NULL", stream_call_null, IDLE, EINVAL, "stream is NULL", 0, 0, 0},
    {"zero_stream_call() of NULL", stream_no_fn, IDLE, EINVAL, "function is NULL", 0, 0, 0},
};

/* 0 after a refusal, in this thread and in another one; else the job's error. */
struct asked {
    const struct zero_runtime *rt;
    int err;
    char text[512];
};

static void *ask(void *arg)
{
    struct asked *a = arg;

    a->err = zero_status(a->rt);
    snprintf(a->text, sizeof a->text, "%s", zero_last_error());
    return NULL;
}

static void status_is(const struct zero_runtime *rt, int want, const char *word)
{
    struct asked here = {.rt = rt}, there = {.rt = rt};
    pthread_t thread;

    ask(&here);
    if (pthread_create(&thread, NULL, ask, &there))
        bail("cannot start a thread");
    pthread_join(thread, NULL);
    if (want)
        ok(here.err == want && there.err == want && strstr(here.text, word) &&
               strstr(there.text, word),
           "zero_status() has the job's error");
    else
        ok(here.err == 0 && there.err == 0, "zero_status() is 0: the job goes on");
    if (here.err != want || there.err != want)
        diag("got %d, \"%s\", and in another thread %d, \"%s\"", here.err, here.text, there.err,
             there.text);
}

static void one(const struct misuse *m)
{
    struct fixture x = {.settings = {{"comm", "self"}, {m->option, m->value}},
                        .n_settings = m->option ? 2 : 1};
    const char *text = "";
    int err = 0, good = go(&x, m->at) == 0;

    if (!good) {
        text = zero_last_error();
    } else {
        err = m->call(&x);
        text = zero_last_error();
        good = err == -m->err && strstr(text, m->word) != NULL;
    }
    ok(good, "%s %s: %s", m->what, at_name[m->at], strerror(m->err));
    if (!good)
        diag("got %d, \"%s\"", err, text);
    if (good)
        status_is(x.rt, m->ends ? err : 0, m->word);
    for (int i = 0; i < 2 && good && !m->ends; i++)
        if (finish(&x)) {
            ok(0, "the step after %s %s goes on: %s", m->what, at_name[m->at], zero_last_error());
            break;
        }
    zero_destroy(x.rt);
}

/* ---- The end, and several models ------------------------------------------------------------- */

/* The end may come at any time. */
static void destruction(void)
{
    for (int at = NEW; at <= ABORTED; at++) {
        struct fixture x = {.settings = {{"comm", "self"}, {"timeout", "5"}}, .n_settings = 2};
        int err = go(&x, (enum at)at);
        alarm(5);
        zero_destroy(x.rt);
        alarm(0);
        is_int(err, 0, "zero_destroy() %s", at_name[at]);
    }
}

/* Two models in one process, step by step in turn, are what each is alone. */
static void side_by_side(void)
{
    const struct fixture alone = {.settings = {{"comm", "self"}}, .n_settings = 1};
    struct fixture x[3] = {alone, alone, alone};
    uint64_t hash[3] = {0};
    int err = 0;

    for (int i = 0; i < 3 && !err; i++) {
        struct zero_config c = ZERO_CONFIG_INIT;
        c.settings = x[i].settings, c.n_settings = 1;
        c.model = (const char *const[]){"one", "two", "three"}[i];
        err = zero_create(&c, &x[i].rt);
        if (!err && i == 2) /* alone: the others have ended */
            zero_destroy(x[0].rt), zero_destroy(x[1].rt);
        for (int step = 0; step < 4 && !err && i > 0; step++) {
            err = finish(&x[i]);
            if (!err && i == 1)
                err = finish(&x[0]);
        }
        for (int k = i == 2 ? 2 : 0; k <= i && !err && i > 0; k++)
            err = zero_weights_hash(x[k].rt, &hash[k]);
    }
    ok(!err && hash[0] == hash[1] && hash[1] == hash[2], "two models side by side: %s",
       err ? zero_last_error() : "same weights as alone");
    zero_destroy(x[2].rt);
}

int main(void)
{
    memset(long_name, 'n', sizeof long_name - 1);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        one(&table[i]);
    destruction();
    side_by_side();
    done();
}
