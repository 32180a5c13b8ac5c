/* SPDX-License-Identifier: Apache-2.0 */
/* Uniform initial values lie in [a, b), however close those are, and do not depend on the cut. */
#include "model/model.h"

#include "../tap.h"

#define N 20000

static float values[N], pieces[N];

static struct zero__param uniform(float a, float b)
{
    return (struct zero__param){
        .init = {.kind = ZERO_INIT_UNIFORM, .a = a, .b = b, .seed = 5}};
}

static int outside(float a, float b)
{
    struct zero__param p = uniform(a, b);
    int n = zero__init_values(&p, 0, N, values) ? N : 0;

    for (int i = 0; i < N; i++)
        n += !(values[i] >= a && values[i] < b);
    return n;
}

int main(void)
{
    struct zero__param p = uniform(-0.5f, 0.5f), point = uniform(2, 2);

    is_int(outside(-0.5f, 0.5f), 0, "all from -0.5 on and below 0.5");
    for (int i = 0; i < N; i += 100)
        zero__init_values(&p, (uint64_t)i, 100, pieces + i);
    ok(!memcmp(values, pieces, sizeof values), "piece by piece the same");
    is_int(outside(1, 0x1.000002p0f), 0, "also where b is the next number after a");
    is_int(outside(16777216, 16777220), 0, "or the next but one");
    zero__init_values(&point, 0, N, values);
    ok(values[0] == 2 && values[N - 1] == 2, "and of one point all are that");
    done();
}
