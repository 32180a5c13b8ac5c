# SPDX-License-Identifier: Apache-2.0
"""Two and four hosts: network namespaces on a bridge, each with a boot id of its own, so that
nothing takes them for one machine. GPT-2 trains over UCX and libfabric to the same bits as on
one host; the plugins' bytes on the wire are what the interface counts; when a host is cut off
without a word, all ranks say so in time; shared memory is refused. Every host has a bridge of
the same address, too, as container engines make it, and no rank listens there. Needs root and
the command ip."""
import contextlib
import os
import re
import subprocess
import time

import namespaces
import support
from namespaces import NET, NET6, Hosts, stories, weights
from support import GPT2, TEXT, Job, ok

TRANSPORTS = {"ucx": {"ZERO_COMM": "ucx"}, "ofi": {"ZERO_COMM": "ofi"}}
MICRO = ["--preset", "micro", "--data", TEXT, "--batch", 1, "--val", 0, "--clip", 1]
WAITED = re.compile(r"; rank 0 waited in ((gather|reduce|publish|map) of \S+ \(#|norm \(#|"
                    r"an exchange of the control channel)")
TINY = ["--preset", "tiny", "--data", TEXT, "--batch", 1, "--val", 0, "--stage", 3]


def trains(hosts, name, env):
    options = [*MICRO, "--steps", 30]
    here = Job([GPT2, *options], hosts.n, {"ZERO_COMM": "shm"}).end(120)
    jobs = hosts.run(options, env)
    ok(weights(here) and all(job.status == 0 for job in jobs) and weights(jobs[0]) == weights(here),
       f"{name}, {hosts.n} hosts: the same bits as on one host", here.story(), *stories(jobs))


def chooses(hosts, transports):
    jobs = hosts.run([*MICRO, "--steps", 2], {"ZERO_LOG": "info"})
    ok(all(job.status == 0 and f"comm {transports[0]}: the ranks are on several hosts" in job.err
           for job in jobs),
       f"left to choose, all ranks take {transports[0]}, and say why", *stories(jobs))
    if transports == ["ucx", "ofi"]:
        jobs = hosts.run([*MICRO, "--steps", 2], {"ZERO_LOG": "info", "UCX_TLS": "sm"})
        ok(all(job.status == 0 and re.search("comm ofi: .*not ucx.*no network", job.err)
               for job in jobs),
           "UCX_TLS without a network: all ranks take ofi, and say why", *stories(jobs))
    jobs = hosts.run([*MICRO, "--steps", 2], {"ZERO_COMM": "shm"})
    ok(all(job.status == 1 and re.search("different machines.*ZERO_COMM", job.err) for job in jobs),
       "shared memory is refused on all ranks, with the remedy", *stories(jobs))


def until_it_trains(job):
    until = time.monotonic() + 60
    while "step 1/" not in job.text("out") and time.monotonic() < until:
        time.sleep(0.02)


def disks(hosts, env):
    """The last host's disk is slow: what the others remember is theirs, not its."""
    disk = os.path.abspath(support.path("disk"))
    caches = [os.path.abspath(support.path(f"cache-{i}")) for i in range(hosts.n)]
    os.mkdir(disk)
    jobs = hosts.run([*MICRO, "--steps", 2],
                     {**env, "ZERO_OFFLOAD": "optimizer:fault", "ZERO_TILE_BYTES": "32K",
                      "ZERO_NVME_PATH": disk},
                     [{"XDG_CACHE_HOME": cache,
                       "ZERO_FAULT_IO": "delay=50:times=0" if cache == caches[-1] else ""}
                      for cache in caches])
    reads = []
    for cache in caches:
        with contextlib.suppress(OSError, IndexError), \
                open(f"{cache}/libzero/speeds", encoding="ascii") as file:
            reads.append(float(file.read().split()[1]))
    ok(len(reads) == hosts.n and all(read > 2 * reads[-1] for read in reads[:-1]),
       "each host remembers how fast its own disk is", reads, *stories(jobs))


def listens(hosts, name, env):
    """On one host at the loopback only, also by tcp; on several at one interface of each."""
    tcp = {"ucx": {"UCX_TLS": "tcp,self"}, "ofi": {"ZERO_OFI_PROVIDER": "tcp"}}[name]
    for more in ({}, tcp):
        job = Job(["ip", "netns", "exec", hosts.spaces[0], support.ZERO, "run", "-n", 2, "--", GPT2,
                   *MICRO, "--steps", 1000000], 0, {**env, **more})
        until_it_trains(job)
        found = hosts.listening(0)
        job.kill()
        job.end(20)
        ok("step 1/" in job.out and all(a.startswith("127.") for a in found)
           and (found or not more),
           f"{name}, one host{', tcp' if more else ''}: nobody listens but at the loopback",
           found, job.story())
    jobs = hosts.start([*MICRO, "--steps", 1000000], env)
    until_it_trains(jobs[0])
    found = [hosts.listening(i) for i in range(hosts.n)]
    for job in jobs:
        job.kill()
    ended = stories([job.end(20) for job in jobs])
    ok(found == [{f"{NET}.{1 + i}"} for i in range(hosts.n)],
       f"{name}, {hosts.n} hosts: every rank listens at its host's one interface", found, *ended)


def measure(hosts, env, steps):
    """What host 0 sent and what its rank counted; (None, stories) when it failed."""
    before = hosts.sent(0)
    jobs = hosts.run([*TINY, "--steps", steps], env)
    sent = hosts.sent(0) - before
    if any(job.status != 0 for job in jobs):
        return None, stories(jobs)
    return sent, sum(o["wire_bytes"] for o in support.objects(hosts.log(0)) if o["type"] == "step")


def counts(hosts, name, env):
    """Of a long run less a short one: both begin and end alike."""
    short, long = measure(hosts, env, 4), measure(hosts, env, 14)
    if short[0] is None or long[0] is None:
        ok(False, f"{name}: bytes on the wire", short, long)
        return
    sent, counted = long[0] - short[0], long[1] - short[1]
    support.diag(f"{name}: the interface counts {sent} bytes, the plugin {counted}: "
                 f"{100 * (sent / counted - 1):+.2f} %")
    ok(counted > 10e6 and abs(sent / counted - 1) < 0.05,
       f"{name}: the plugin's bytes on the wire are those of the interface within 5 %")


def cut_all(cuts):
    """For (what, hosts, variables, host to cut) at once, because most of it is waiting."""
    running = []
    for what, hosts, env, victim in cuts:
        jobs = hosts.start([*MICRO, "--steps", 1000000], env)
        until_it_trains(jobs[0])
        hosts.cut(victim)
        running.append((what, hosts, victim, jobs, time.monotonic()))
    for what, hosts, victim, jobs, start in running:
        ended = [job.end(40) for job in jobs]
        # Each end is noted when it is asked for: later, if at all.
        seconds = time.monotonic() - start
        good = all(job.status == 1 for job in ended)
        for i, job in enumerate(ended):
            lost = rf"rank {victim}\b" if i != victim else r"rank \d" if i == 0 else r"rank 0\b"
            good = good and re.search(lost + " failed", job.err)
            if victim and i != victim:  # rank 0 decides, and says in what it waited
                good = good and WAITED.search(job.err)
        support.diag(f"all ranks had ended after {seconds:.1f} s")
        ok(good and seconds < 10,
           f"{what}, {hosts.n} hosts: host {victim} is cut off, all name the lost rank within 10 s",
           *stories(ended))


def cut_between(name, env, six=False):
    """Hosts 1 and 2 of three lose each other; the control channel, a star around
    rank 0, is whole."""
    if six:
        env = {**env, "MASTER_ADDR": f"{NET6}:1"}
    with Hosts(3) as hosts:
        jobs = hosts.start([*MICRO, "--steps", 1000000], env)
        until_it_trains(jobs[0])
        time.sleep(3)  # for a way to be lost it must have been known
        trained = all(job.process.poll() is None for job in jobs)
        hosts.cut_between(1, 2)
        start = time.monotonic()
        ended = [job.end(40) for job in jobs]
        seconds = time.monotonic() - start
        said = re.compile(r"the network between rank (1|2) \(process \d+ on \S+\) and rank (2|1) "
                          r"\(process \d+ on \S+\) is cut.*" + WAITED.pattern)
        support.diag(f"{name}: all ranks had ended after {seconds:.1f} s")
        ok(trained and seconds < 10 and all(job.status == 1 and said.search(job.err)
                                            for job in ended),
           f"{name}, 3 hosts{' that meet by IPv6' if six else ''}: the network between hosts 1 "
           "and 2 is cut, all name both within 10 s",
           *stories(ended))


def speeds(hosts, built):
    """`zero info` names the speed that the system gives a device; a veth has 10 Gb/s."""
    out = subprocess.run(["ip", "netns", "exec", hosts.spaces[0],
                          os.path.join(support.BUILD, "zero"), "info", "--plugins"],
                         capture_output=True, text=True, check=False).stdout
    for name in built:
        text = re.search(rf"  comm +{name} .*?(?=\n  [a-z]|\n[a-z])", out, re.S)
        ok(text and "eth0 10 Gb/s" in text[0], f"zero info: the speed of {name}'s devices", out)


def is_built(name):
    return os.path.exists(os.path.join(support.BUILD, ".libs", f"zero-comm-{name}.so"))


def main():
    namespaces.require()
    built = [name for name in TRANSPORTS if is_built(name)]
    if not built:
        support.skip_all("neither ucx nor ofi was built: their libraries are missing")
    with Hosts(2) as net:
        chooses(net, built)
        speeds(net, built)
        disks(net, TRANSPORTS[built[0]])
        for name in built:
            trains(net, name, TRANSPORTS[name])
            listens(net, name, TRANSPORTS[name])
            counts(net, name, TRANSPORTS[name])
    cuts = [(2, 1)] if support.SHORT else [(4, 2), (2, 0)]
    for name in built:
        if not support.SHORT:
            with Hosts(4) as net:
                trains(net, name, TRANSPORTS[name])
        cut_between(name, TRANSPORTS[name])
        if name == built[-1]:
            cut_between(name, TRANSPORTS[name], six=True)
        with contextlib.ExitStack() as stack:
            cut_all([(name, stack.enter_context(Hosts(n)), TRANSPORTS[name], victim)
                     for n, victim in cuts])
    support.done()


main()
