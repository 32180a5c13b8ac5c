# SPDX-License-Identifier: Apache-2.0
"""Several hosts on one machine: network namespaces on a bridge, each with a boot id and a name of
its own, so that nothing takes them for one machine. Needs root and the command ip."""
import os
import re
import secrets
import shutil
import subprocess
import uuid

import support
from support import GPT2, Job

NET = "10.77.0"
NET6 = "fd00:77:"
TAG = f"zt{os.getpid() % 100000}"  # names of devices have 15 characters at most
CANNOT = "no network namespace can be made here (root makes them)"
BOOT = "/proc/sys/kernel/random/boot_id"


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


def can():
    if os.geteuid() != 0 or not shutil.which("ip") or \
            subprocess.run(["ip", "netns", "add", f"{TAG}-try"], capture_output=True,
                           check=False).returncode:
        return False
    ip("netns", "del", f"{TAG}-try")
    return True


def require():
    if not can():
        support.skip_all(CANNOT)


class Hosts:
    """N namespaces, joined by a bridge in one more; addresses 10.77.0.(1 + i) and fd00:77::(1 + i).
    172.17.0.1 is on all of them, and leads nowhere."""
    made = 0

    def __init__(self, n):
        Hosts.made += 1
        self.n = n
        self.spaces = [f"{TAG}-{Hosts.made}-{i}" for i in [*range(n), "bridge"]]
        self.secret = support.path(f"secret-{secrets.token_hex(4)}")
        with open(os.open(self.secret, os.O_WRONLY | os.O_CREAT, 0o600), "w",
                  encoding="ascii") as file:
            file.write(secrets.token_hex(32) + "\n")

    def __enter__(self):
        bridge = self.spaces[-1]
        for space in self.spaces:
            ip("netns", "add", space)
            ip("-n", space, "link", "set", "lo", "up")
        ip("-n", bridge, "link", "add", "br0", "type", "bridge")
        ip("-n", bridge, "link", "set", "br0", "up")
        for i in range(self.n):
            ip("-n", self.spaces[i], "link", "add", "eth0", "type", "veth", "peer", "name",
               f"port{i}", "netns", bridge)
            ip("-n", bridge, "link", "set", f"port{i}", "master", "br0", "up")
            ip("-n", self.spaces[i], "addr", "add", f"{NET}.{1 + i}/24", "dev", "eth0")
            ip("-n", self.spaces[i], "addr", "add", f"{NET6}:{1 + i}/64", "dev", "eth0", "nodad")
            ip("-n", self.spaces[i], "link", "set", "eth0", "up")
            ip("-n", self.spaces[i], "link", "add", "docker0", "type", "veth", "peer", "name",
               "box")
            ip("-n", self.spaces[i], "addr", "add", "172.17.0.1/16", "dev", "docker0")
            for name in ("docker0", "box"):
                ip("-n", self.spaces[i], "link", "set", name, "up")
            with open(self.boot(i), "w", encoding="ascii") as file:
                file.write(f"{uuid.uuid4()}\n")
        return self

    def __exit__(self, *error):
        for space in self.spaces:
            subprocess.run(["ip", "netns", "del", space], capture_output=True, check=False)

    def boot(self, i):
        return support.path(f"boot-{self.spaces[i]}")

    def on(self, i):
        """What runs a command on host i, whose name is node{i}."""
        return ["ip", "netns", "exec", self.spaces[i], "unshare", "--uts", "sh", "-c",
                f'hostname "$1" && mount --bind "$0" {BOOT} && shift && exec "$@"', self.boot(i),
                f"node{i}"]

    def cut(self, i):
        """Nothing that host i sends or is sent arrives any more, and nobody is told."""
        ip("-n", self.spaces[-1], "link", "set", f"port{i}", "nomaster")

    def cut_between(self, i, j):
        """The same for what these two send each other; both keep their ways to all others."""
        for a, b in ((i, j), (j, i)):
            for net in (f"{NET}.", f"{NET6}:"):
                ip("-n", self.spaces[a], "neigh", "replace", f"{net}{1 + b}", "lladdr",
                   "02:00:00:00:00:99", "dev", "eth0", "nud", "permanent")

    def sent(self, i):
        """Bytes that left host i so far."""
        read = subprocess.run(["ip", "netns", "exec", self.spaces[i], "cat",
                               "/sys/class/net/eth0/statistics/tx_bytes"], check=True,
                              capture_output=True)
        return int(read.stdout)

    def listening(self, i):
        """The addresses at which anybody listens on host i: numbers of IPv4, digits of IPv6."""
        read = subprocess.run(["ip", "netns", "exec", self.spaces[i], "cat", "/proc/net/tcp",
                               "/proc/net/tcp6"], check=True, capture_output=True, text=True)
        found = set()
        for line in read.stdout.splitlines():
            word = line.split()
            if len(word) > 3 and word[3] == "0A":
                address = word[1].split(":")[0]
                found.add(".".join(str(b) for b in reversed(bytes.fromhex(address)))
                          if len(address) == 8 else address)
        return found

    def start(self, options, env=None, own=()):
        """One rank per host; own: of each host, what its environment alone has."""
        jobs = []
        for i in range(self.n):
            where = {"RANK": str(i), "WORLD_SIZE": str(self.n), "LOCAL_RANK": "0",
                     "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": f"{NET}.1", "MASTER_PORT": "29500",
                     "ZERO_SECRET_FILE": self.secret, "ZERO_TIMEOUT": "60"}
            log = self.log(i)
            if os.path.exists(log):
                os.unlink(log)
            jobs.append(Job([*self.on(i), GPT2, "--json", log, *options], 0,
                            {**where, **(env or {}), **(own[i] if own else {})}))
        return jobs

    def log(self, i):
        return support.path(f"log-{self.spaces[i]}.json")

    def run(self, options, env=None, own=()):
        return [job.end(120) for job in self.start(options, env, own)]


def stories(jobs):
    return [job.story() for job in jobs]


def weights(job):
    found = re.findall(r"Weights ([0-9a-f]{16})", job.out)
    return found[0] if found else None
