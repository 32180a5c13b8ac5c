/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of jobs whose ranks meet by TCP although they are on one host. */
#ifndef ZERO_TESTS_RANK_TCP_H
#define ZERO_TESTS_RANK_TCP_H

#include "job.h"

#include <sys/socket.h>

#include "base/options.h"
#include "job/endpoint.h"

/* Of the test's current job; copied into ranks that are processes. */
struct tcp_job {
    char name[64];
    char address[64];
    uint16_t port;
    struct zero__secret secret;
    atomic_int done; /* ranks that have finished what the others wait for */
};

static struct zero__address tcp_address(const char *host, uint16_t port)
{
    struct zero__addresses all;

    if (zero__address_find("address", host, port, zero__deadline_ns(5 * ZERO_SECOND), &all))
        bail(zero_last_error());
    return all.at[0];
}

/* A fresh name, secret and port. */
__attribute__((unused)) static struct tcp_job *tcp_job(const char *host)
{
    static struct tcp_job *job;

    if (!job)
        job = shared_memory(sizeof *job);
    memset(job, 0, sizeof *job);
    struct zero__address a = tcp_address(host, 0);
    snprintf(job->name, sizeof job->name, "%s", job_name());
    snprintf(job->address, sizeof job->address, "%s", host);
    if (zero__secret_make(&job->secret) || zero__tcp_free_port(&a, &job->port))
        bail(zero_last_error());
    return job;
}

__attribute__((unused)) static struct zero__job_params
tcp_params(const struct rank *r, const struct tcp_job *job, int64_t join_ms, int64_t timeout_ms)
{
    struct zero__job_params p = job_params(r->rank, r->ranks, job->name, join_ms, timeout_ms);

    p.how = ZERO__RENDEZVOUS_TCP;
    p.port = job->port;
    p.secret = job->secret;
    snprintf(p.address, sizeof p.address, "%s", job->address);
    return p;
}

__attribute__((unused)) static void tcp_wait(const atomic_int *count, int n)
{
    for (int64_t end = now_ms() + 100000; atomic_load(count) < n && now_ms() < end;)
        sleep_ms(1);
}

#endif
