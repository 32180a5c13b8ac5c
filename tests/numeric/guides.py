# SPDX-License-Identifier: Apache-2.0
"""The commands that README.md and the guides have for users are typed as they stand there, block by
block, but on a small model, for a few steps and with the files of this tree: each must succeed.
Variables that stand alone must be known, and the plugins that read them must take them."""
import os
import re
import shutil
import socket

import support
from support import BUILD, TEXT, TOP, Job, ok

PAGES = ("README.md", "doc/larger-models.md", "doc/writing-plugins.md")
BLOCK = re.compile(r"^ *```sh\n(.*?)^ *```$", re.M | re.S)
# A command of this project, behind the variables that it is given.
OURS = re.compile(r"^ *([A-Z_]+=\S* +)*(zero|zero-gpt2) ", re.M)
# Installing and compiling is done by tests/build/readme.sh, template.sh and `make check-fresh`.
ELSEWHERE = re.compile(r"^ *(scripts/|autoreconf|export PKG_CONFIG_PATH)", re.M)
# A line of variables, without a command.
VARIABLES = re.compile(r"^( *[A-Z_]+=\S+)+ *(#.*)?$")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return str(s.getsockname()[1])


def small(text):
    """The block on this machine, in seconds."""
    libs = os.path.join(BUILD, ".libs")
    for old, new in ((r"build/jargon\.txt|\bTEXT\b|\btext\.txt", "text"),
                     (r"--preset \w+", "--preset micro"),
                     (r"\bzero-gpt2 (--|$)", r"zero-gpt2 --steps 3 \1"),
                     (r"zero bench coll", "zero bench coll --bytes 4K"),
                     (r"zero bench offload", "zero bench offload --bytes 4K --seconds 0.01"),
                     (r"/scratch\b", "$PWD"), (r"\bnode1\b", "127.0.0.1"),
                     (r"\b29500\b", free_port()),
                     (r"\$PWD/zero-comm-pigeon\.so", f"{libs}/zero-comm-shm.so"),
                     (r"ZERO_PLUGIN_PATH=\$PWD (.*):pigeon\b", r"\1:nvme"),
                     (r"/path/to/zero-offload-name\.so", f"{libs}/zero-offload-nvme.so"),
                     (r"^ *make && zero", "zero"),
                     (r"^ *(RANK=0 .*?)(#.*)?$", r"\1 & first=$!"),
                     (r"^ *(RANK=1 .*?)(#.*)?$", r"\1; wait $first")):
        text = re.sub(old, new, text, flags=re.M)
    return text


def typed(block):
    folder = support.path("guide")
    shutil.rmtree(folder, True)
    os.mkdir(folder)
    shutil.copy(TEXT, os.path.join(folder, "text"))
    script = "cd \"$1\" && HOME=$1\n" + small(block)
    env = {"PATH": BUILD + ":" + os.environ["PATH"], "ZERO_OFFLOAD_MEASURE": "0",
           "XDG_CACHE_HOME": folder}
    return Job(["sh", "-eu", "-c", script, "sh", folder], 0, env=env).end(120)


def taken(line, where):
    """A plugin reads its variables when it is probed, and names one that it refuses; of a variable
    that nothing reads a warning tells."""
    line = line.partition("#")[0].strip()
    job = typed(f"{line} zero info --plugins")
    said = job.out + job.err
    named = [x for x in re.findall(r"([A-Z_]+)=", line) if re.search(rf"\b{x}\b", said)]
    ok(job.status == 0 and not named, f"{where}: {line}", job.status, named, said[-1500:])


def main():
    n = n_taken = 0
    for page in PAGES:
        with open(os.path.join(TOP, page), encoding="utf-8") as file:
            text = file.read()
        for match in BLOCK.finditer(text):
            block = match.group(1)
            lines = [x for x in block.splitlines() if x.strip()]
            where = f"{page}, line {text[:match.start()].count(chr(10)) + 1}"
            if ELSEWHERE.search(block):
                continue
            if all(map(VARIABLES.match, lines)):
                for line in lines:
                    taken(line, where)
                n_taken += len(lines)
                continue
            if not OURS.search(small(block)):
                ok(False, f"{where}: a block that is run", block)
                continue
            job = typed(block)
            ok(job.status == 0, where, job.status, small(block), job.out[-1500:], job.err[-1500:])
            n += 1
    ok(n >= 8 and n_taken >= 5, "blocks and variables were found", n, n_taken)
    support.done()


main()
