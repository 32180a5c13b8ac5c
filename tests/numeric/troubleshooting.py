# SPDX-License-Identifier: Apache-2.0
"""doc/troubleshooting.md beside what is printed: each block of commands there is typed, and must
say what the page has behind it. Numbers may differ, the order of lines, which ranks write, and at
what a rank was when it heard of another one; and what a machine's own things are called.

    troubleshooting.py --write    puts what is printed now into the page, for whoever changes a
                                  sentence
"""
import collections
import os
import re
import shutil
import subprocess
import sys

import support
from support import BUILD, TEXT, TOP, Job, ok, skip

PAGE = os.path.join(TOP, "doc", "troubleshooting.md")
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.M | re.S)
TITLE = re.compile(r"^### (.*)$", re.M)
PLUGINS = "/usr/local/lib/zero/plugins"  # where the page has them
# What a block needs that not every machine or user has, by a word of its commands.
NEEDS = {"cuda": lambda: not shutil.which("nvidia-smi") and
                 os.path.exists(os.path.join(BUILD, ".libs", "zero-device-cuda.so")),
         "ZERO_NVME_PATH=$PWD": lambda: os.major(os.stat(support.FOLDER).st_dev) != 0,
         "nccl": lambda: os.path.exists(os.path.join(BUILD, ".libs", "zero-comm-nccl.so"))}
# By their titles, blocks that are of a machine with two GPUs: what the emulated driver
# is like there.
GPUS = {"A driver that is too old": "version=11080", "More ranks than GPUs": "",
        "The GPU is too small": "memory_mib=40"}


def blocks(page):
    """Title, commands, what they print."""
    for block in BLOCK.finditer(page):
        title = TITLE.findall(page[:block.start()])[-1]
        lines = block.group(1).splitlines()
        yield title, [x[2:] for x in lines if x.startswith("$ ")], \
            [x for x in lines if not x.startswith("$ ")], block.span(1)


def typed(title, commands):
    """What is printed to the standard error, with the places that the page has."""
    env = {"FAKE_CUDA": GPUS[title], "LD_LIBRARY_PATH": ":".join(
        os.path.join(BUILD, x) for x in ("tests/fake/.libs", ".libs"))} if title in GPUS else None
    folder = support.path("try")
    shutil.rmtree(folder, True)
    os.mkdir(folder)
    shutil.copy(TEXT, os.path.join(folder, "text"))
    script = "PATH=$1:$PATH\ncd \"$2\" || exit 1\n" + "\n".join(commands)
    job = Job(["sh", "-c", script, "sh", BUILD, folder], 0, env).end(60)
    # Searched before where they would be installed, which any --prefix may be.
    libs = re.escape(os.path.join(BUILD, ".libs"))
    text = re.sub(libs + r"(, \S*/zero/plugins)?", PLUGINS, job.err)
    text = text.replace(folder, "/home/you/try")
    text = text.replace(BUILD, "/usr/local/bin")
    # By `zero run` the ranks' own programs are found beside it, under the names of the build.
    return job, [x.rstrip() for x in text.replace("/lt-", "/").splitlines()]


def shape(line):
    line = re.sub(r"\bunit \S+: |\brank \d+ failed in \w+: |\b(gather|reduce) of \S+: ", "", line)
    line = re.sub(r"waited in .*", "waited", line)
    line = re.sub(r"this machine, which has .*: name|on one disk \(\S+\)", "machine", line)
    return re.sub(r"[0-9]+(\.[0-9]+)?", "0", re.sub(r"0x[0-9a-f]+|[0-9a-f]{16,}", "0", line))


def same(wanted, found):
    """`...` stands for any lines."""
    missing = collections.Counter(map(shape, (x for x in wanted if x != "...")))
    missing.subtract(collections.Counter(map(shape, found)))
    return all(n <= 0 for n in missing.values()) and \
        ("..." in wanted or all(n == 0 for n in missing.values()))


def missing_here(commands):
    return [word for word, there in NEEDS.items() if word in " ".join(commands) and not there()]


def write():
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    for title, commands, old, (begin, end) in reversed(list(blocks(page))):
        if missing_here(commands):
            continue
        found = typed(title, commands)[1]
        if same(old, found):
            continue
        print("new:", title)
        page = page[:begin] + "".join(f"$ {x}\n" for x in commands) + \
            "".join(f"{x}\n" for x in found) + page[end:]
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(page)


def main():
    if sys.argv[1:] == ["--write"]:
        write()
        return
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    n = 0
    for title, commands, wanted, _ in blocks(page):
        n += 1
        missing = missing_here(commands)
        if missing:
            skip(title, f"this machine cannot show what the page says of {missing[0]}")
            continue
        job, found = typed(title, commands)
        ok(same(wanted, found) and job.status is not None, title, "printed:", *found,
           "the page has:", *wanted)
    ok(n >= 30, "thirty blocks and more", n)
    support.done()


main()
