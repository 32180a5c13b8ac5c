# SPDX-License-Identifier: Apache-2.0
"""A Slurm of a test's own: a controller on the first of its nodes, a daemon and a munge on each,
with files, keys and ports of their own. A munge takes what several nodes are sent alike for a
replay if they share it. PMIx has a folder of its own, too: one that a killed Slurm leaves in /tmp
bears the number of a job, and the next job of that number does not start. slurmd needs root."""
import os
import secrets
import shutil
import subprocess
import time
from collections import namedtuple

import support
from support import Job

PROGRAMS = ("slurmctld", "slurmd", "srun", "munged")
# on: what runs a command on the node, whose own name for itself is `name`.
Node = namedtuple("Node", "name address on")


def why_not():
    """Why there can be none; None where there can."""
    missing = [name for name in PROGRAMS if not shutil.which(name)]
    if missing:
        return f"Slurm is not installed: {missing[0]} is missing"
    if not support.has_pmix():
        return "built without PMIx"
    return None if os.geteuid() == 0 else "not root"


class Slurm:
    def __init__(self, nodes):
        self.nodes, self.folder, self.daemons = nodes, support.path("slurm"), []
        port = 20000 + os.getpid() % 10000
        for name in ("", "state", *(f"{what}-{i}" for what in ("conf", "munge", "pmix")
                                    for i in range(len(nodes)))):
            os.makedirs(os.path.join(self.folder, name), mode=0o711)
        os.chmod(support.FOLDER, 0o711)  # munge's socket lies below
        key = secrets.token_bytes(128)
        for i in range(len(nodes)):
            with open(os.open(self.munge(i, "key"), os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
                file.write(key)
            self.configure(i, port)

    def configure(self, i, port):
        first = self.nodes[0]
        for name, text in (
                ("slurm", f"""ClusterName=test
DebugFlags=NO_CONF_HASH
SlurmctldHost={first.name}({first.address})
SlurmctldPort={port}
SlurmdPort={port + 1}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={self.munge(i, "socket")}
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SlurmdParameters=config_overrides
StateSaveLocation={self.file("state")}
SlurmdSpoolDir={self.file("spool-%n")}
SlurmctldPidFile={self.file("slurmctld.pid")}
SlurmdPidFile={self.file("slurmd-%n.pid")}
SlurmctldLogFile={self.file("slurmctld.log")}
SlurmdLogFile={self.file("slurmd-%n.log")}
ReturnToService=2
""" + "".join(f"NodeName={node.name} NodeAddr={node.address} CPUs=4 State=UNKNOWN\n"
              for node in self.nodes) + "PartitionName=all Nodes=ALL Default=YES State=UP"),
                ("cgroup", "CgroupPlugin=cgroup/v1"),
                ("mpi", f"PMIxCliTmpDirBase={self.file(f'pmix-{i}')}")):
            with open(self.file(f"conf-{i}/{name}.conf"), "w", encoding="ascii") as file:
                file.write(text + "\n")

    def file(self, name):
        return os.path.join(self.folder, name)

    def munge(self, i, name):
        return self.file(f"munge-{i}/{name}")

    def env(self, i):
        return {"SLURM_CONF": self.file(f"conf-{i}/slurm.conf")}

    def start(self):
        """Is every node idle, in time?"""
        def start(i, *command):
            self.daemons.append(Job([*self.nodes[i].on, *command], 0, self.env(i)))
        for i in range(len(self.nodes)):
            start(i, "munged", "--foreground", "--force",
                  *(f"--{name}={self.munge(i, file)}" for name, file in (
                      ("socket", "socket"), ("key-file", "key"), ("log-file", "log"),
                      ("pid-file", "pid"), ("seed-file", "seed"))))
        start(0, "slurmctld", "-D")
        for i, node in enumerate(self.nodes):
            start(i, "slurmd", "-D", "-N", node.name)
        until = time.monotonic() + 30
        while time.monotonic() < until:
            said = subprocess.run([*self.nodes[0].on, "sinfo", "-h", "-N", "-o", "%T"],
                                  env=support.environment(self.env(0)), capture_output=True,
                                  text=True, check=False)
            if said.stdout.split() == ["idle"] * len(self.nodes):
                return True
            time.sleep(0.2)
        return False

    def said(self):
        """The last lines of all daemons and their logs: they write more than a
        terminal should see."""
        texts = [(" ".join(job.command), job.text(which))
                 for job in self.daemons for which in ("out", "err")]
        for folder, _, names in os.walk(self.folder):
            for name in names:
                if name == "log" or name.endswith(".log"):
                    with open(os.path.join(folder, name), encoding="utf-8",
                              errors="replace") as file:
                        texts.append((name, file.read()))
        return [f"{what}:\n" + "\n".join(text.splitlines()[-15:]) for what, text in texts if text]

    def end(self):
        for job in self.daemons:
            job.kill()
            job.end(20)

    def srun(self, ranks, command, env):
        """As many ranks on each node."""
        return Job([*self.nodes[0].on, "srun", "--mpi=pmix", "-N", len(self.nodes), "-n", ranks,
                    f"--ntasks-per-node={ranks // len(self.nodes)}", *command], 0,
                   self.env(0) | env)
