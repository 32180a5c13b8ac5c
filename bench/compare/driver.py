# SPDX-License-Identifier: Apache-2.0
"""Runs the programs of all parts in turn and writes down what they took; see run."""
import argparse
import datetime
import functools
import hashlib
import json
import os
import resource
import shutil
import subprocess
import sys
import time

import page
import programs
import report
from parts import all_parts

KINDS = tuple(page.TITLES)
MOST_AGAIN = 3      # repetitions of a round that was disturbed
MOST_MOVED = 1.5    # times what another barrier of the round takes, which differs by a quarter
PLACED = ("collectives", "transports")  # kinds in which it counts where processors are
MOST_FAILURES = 2   # rounds in which a program fails, before it is left out
# What figures depend on; the rest of the tree may change between rounds.
MEASURED = ("core", "machine", "launch", "plugins", "include", "tools", "examples", "m4",
            "Makefile.am", "configure.ac", "bench/compare", ":!bench/compare/driver.py",
            ":!bench/compare/report.py", ":!bench/compare/page.py", ":!bench/compare/figures.py",
            ":!bench/compare/run")
# Of these, what only transports run: the programs of other kinds never load it.
OF_TRANSPORTS = ("plugins/ucx", "plugins/ofi", "plugins/common/p2p")
HELP = """
All parts take three to five hours on two cores, which nothing else should use. bench/compare/setup
installs the peers first: 6 GB in the build folder, and Debian packages as root (sudo -n where it is
not). To begin with: run --list; run --quick --rounds 1; run limits-coll-2, which needs no peers.

A part runs its programs in turn, libzero and each peer once a round, each round in another order.
Every whole round is kept in bench/compare/state/ of the build folder, by a hash of the sources that
it depends on, so that a run that was ended goes on with the next round: a part that is done is not
run again unless --again says so or these sources, the settings or a peer have changed. While a
program runs it is counted how much of a processor others take, and what the machine's host takes
away; a round in which that is more than a quarter of a processor is done again, up to three times,
and so is one of collectives of two ranks during which the host of a virtual machine moved the
processors.
After every part bench/compare/RESULTS.md and RESULTS.json of the build folder are written anew;
--publish copies them to bench/ of the source folder, if nothing is missing in them; with parts
named, only those have to be complete, and the others stay as bench/ has them, each with the commit
at which it was measured. Where they would be lost, since they were measured with other versions of
the peers or other samples, or on another processor, nothing is written: move the older file away,
or give each machine a file of its own by --as NAME.
"""


def arguments():
    p = argparse.ArgumentParser(prog="bench/compare/run", description="Compares with the peers.",
                                epilog=HELP)
    p.add_argument("what", nargs="*", default=["all"],
                   help="all (default), collectives, transports, optimizer, steps, offload, "
                   "limits, or parts by name")
    p.add_argument("--list", action="store_true",
                   help="the parts, how far each is, and how long it took for bench/RESULTS.md")
    p.add_argument("--rounds", type=int, default=7, help="how often each program runs (7)")
    p.add_argument("--quick", action="store_true", help="small sizes: does everything work?")
    p.add_argument("--again", action="store_true", help="from the start, also what is done")
    p.add_argument("--minutes", type=float, default=1e9,
                   help="begin no round after that time; the next run goes on")
    p.add_argument("--publish", action="store_true",
                   help="only copy the results, or those of the parts named, to bench/")
    p.add_argument("--as", dest="name", metavar="NAME", default="",
                   help="with --publish: to RESULTS-NAME.md and .json, those of another machine")
    return p.parse_args()


def git(*words):
    """Nothing where there is no git, or no checkout."""
    if not shutil.which("git"):
        return ""
    return subprocess.run(["git", "-C", programs.TOP, *words], capture_output=True,
                          text=True).stdout.strip()


def commit():
    return git("rev-parse", "--short=12", "HEAD") or "unknown"


def measured(kind):
    """A hash of the sources that figures of the kind depend on, with what is not committed."""
    paths = [*MEASURED, *(f":!{path}" for path in OF_TRANSPORTS if kind != "transports")]
    files = git("ls-tree", "-r", "HEAD").splitlines()
    names = set(git("ls-files", "--", *paths).splitlines())
    text = "".join(line for line in files if line.split("\t")[1] in names)
    changed = git("diff", "HEAD", "--binary", "--", *paths)
    found = hashlib.sha256((text + changed).encode()).hexdigest()[:12] if text else "unknown"
    return found + ("-changed" if changed else "")


OF_SETUP = ("openmpi", "mpich")


def build():
    """The programs must be those of the sources, or the commit says something else."""
    if not (programs.BUILD / "zero").exists():
        sys.exit(f"bench/compare/run: {programs.BUILD} is no build folder with a built libzero")
    for peer in OF_SETUP:
        program, source = programs.OUT / f"mpi_coll.{peer}", programs.HERE / "mpi_coll.c"
        if program.exists() and source.stat().st_mtime > program.stat().st_mtime:
            sys.exit(f"bench/compare/run: {program} was compiled of an older {source}: "
                     f"bench/compare/setup {' '.join(OF_SETUP)}")
    made = subprocess.run(["make", "-s", "-C", programs.BUILD], capture_output=True, text=True)
    if made.returncode:
        sys.exit(f"bench/compare/run: make has failed in {programs.BUILD}:\n{made.stderr}")


class State:
    """The whole rounds of a part: each has a time (of a limit, perhaps what it is and what else was
    tried) or a reason by key of each program, and how much others ran meanwhile. `tries` are those
    of the round that comes next."""

    def __init__(self, part, settings):
        settings = settings[part.kind]
        folder = programs.OUT / ("state-quick" if settings["quick"] else "state")
        folder = folder / settings["measured"]
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{part.name}.json"
        self.fresh = {"part": part.name, "settings": settings, "rounds": [], "tries": 0,
                      "repeated": 0, "seconds": 0.0}
        try:
            self.data = json.loads(self.path.read_text())
            if self.data["settings"] != settings or not self.fresh.keys() <= self.data.keys():
                self.data = self.fresh
        except (OSError, ValueError, KeyError):
            self.data = self.fresh

    def clear(self):
        self.data = self.fresh

    def save(self):
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(self.data))
        os.replace(new, self.path)

    def failures(self, name):
        return sum(isinstance(r["found"].get(name), str) for r in self.data["rounds"])

    def wanted(self, part):
        """In the order of the round that comes next, so that nobody always follows the same one."""
        some = [p for p in part.programs
                if programs.installed(p.peer) and self.failures(p.name) < MOST_FAILURES]
        first = len(self.data["rounds"]) % len(some) if some else 0
        return some[first:] + some[:first]

    def missing(self, part, n_rounds):
        return max(0, n_rounds - len(self.data["rounds"])) if self.wanted(part) else 0


def busy_s():
    """Processor time that was used so far, by anybody, and that the host took away, of the cores
    that programs are bound to."""
    mine = {f"cpu{cpu}" for cpu in programs.cores()}
    with open("/proc/stat", encoding="ascii") as file:
        lines = [line.split() for line in file if line.split()[0] in mine]
    ticks = [sum(int(line[i]) for line in lines) for i in range(1, 9)]
    user, nice, system, _, _, irq, softirq, steal = ticks
    per_s = os.sysconf("SC_CLK_TCK")
    return (user + nice + system + irq + softirq) / per_s, steal / per_s


def ours_s():
    """Of that, what was ours: this process and all that it has started and seen the end of."""
    return sum(sum(resource.getrusage(who)[:2])
               for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


class Watch:
    """How much of a processor others took while something ran."""

    def __init__(self):
        self.at, self.busy, self.ours = time.monotonic(), busy_s(), ours_s()

    def others(self):
        took = max(time.monotonic() - self.at, 1)  # the kernel counts in hundredths
        used, stolen = (now - before for now, before in zip(busy_s(), self.busy))
        return round(max(0.0, used - (ours_s() - self.ours) + stolen) / took, 3)


class Places:
    """The host of a virtual machine runs two processors on one core, on two with a cache in common
    or on two without, and changes that every few seconds or minutes (NOTES.md, "Processors that are
    far apart"): only programs that had them alike compare. What a barrier takes tells. Programs
    have two; with more ranks each takes minutes, and these wait more for their turn than for each
    other. Over tcp what the kernel does takes longer than any way between processors."""

    def __init__(self, part):
        self.seen = []
        self.may_move = (part.kind in PLACED and part.ranks <= len(programs.cores()) and
                         not part.name.endswith("-tcp") and facts()["machine"]["virtual"] != "no")

    def look(self):
        if not self.may_move:
            return
        try:
            self.seen.append(programs.barrier_s())
        except (programs.Failed, LookupError, ValueError, OSError):
            pass  # what is measured says what is wrong

    def moved(self):
        return bool(self.seen) and max(self.seen) > MOST_MOVED * min(self.seen)


def run_program(program):
    """Times or reasons by key, a text when it failed twice; and why it ran once more, else None."""
    text = None
    for retry in (None, True):
        programs.COMMANDS.clear()
        try:
            return program.run(), retry and text
        except (programs.Failed, LookupError, ValueError, OSError, StopIteration) as error:
            text = f"failed: {str(error) or type(error).__name__}"
            print(f"    {program.label}: {text}", flush=True)
    return text, None


@functools.cache
def facts():
    """On what the rounds of this run are measured."""
    return {"machine": report.machine(), "versions": report.versions()}


def run_round(state, part):
    """Kept when all its programs have run and nobody disturbed it, or it was tried often enough."""
    data, found, others, commands, retries = state.data, {}, {}, {}, {}
    number, start, places = len(data["rounds"]), time.monotonic(), Places(part)
    places.look()
    for program in state.wanted(part):
        watch, before = Watch(), time.monotonic()
        found[program.name], why = run_program(program)
        retries |= {program.label: why} if why else {}
        others[program.name] = watch.others()
        commands[program.name] = list(dict.fromkeys(programs.COMMANDS))
        values = [] if isinstance(found[program.name], str) else found[program.name].values()
        times = [report.seconds(v) for v in values if not isinstance(v, str)]
        print(f"  round {number + 1}  {program.label:<44} "
              f"{f'{max(times):.6f} s' if times else 'nothing'}  "
              f"({time.monotonic() - before:.0f} s, others {others[program.name]:.2f})", flush=True)
        places.look()
    data.setdefault("facts", facts())
    data["seconds"] += time.monotonic() - start
    disturbed = max(others.values()) > report.MOST_OTHERS
    if (disturbed or places.moved()) and data["tries"] < MOST_AGAIN:
        data["tries"] += 1
        data["repeated"] += 1
        why = "was disturbed" if disturbed else "had its processors moved by the host"
        print(f"  round {number + 1}  {why}: once more", flush=True)
    else:
        data["rounds"].append({"found": found, "others": others, "commands": commands,
                               "barriers_s": places.seen, "moved": places.moved(),
                               "retries": retries, "commit": commit(),
                               "date": datetime.date.today().isoformat()})
        data["tries"] = 0
    state.save()


def run_part(part, state, options, deadline):
    """False when the time is over."""
    if state.missing(part, options.rounds):
        print(f"{part.name}: {part.title}", flush=True)
    while state.missing(part, options.rounds):
        if time.monotonic() > deadline:
            return False
        run_round(state, part)
    return True


def settings_of(options, scale):
    """What rounds must have in common, by kind."""
    text = json.dumps(vars(scale), sort_keys=True)
    here = report.machine()
    rest = {"quick": options.quick, "scale": hashlib.sha256(text.encode()).hexdigest()[:12],
            "flags": report.flags(),
            **{k: here.get(k) for k in ("processor", "model", "kernel", "huge_pages")},
            "peers": {peer: programs.peer_line(peer) for peer in programs.PEERS}}
    return {kind: {"measured": measured(kind), **rest} for kind in KINDS}


def chosen(parts, what):
    known = {"all", *KINDS, *(p.name for p in parts)}
    for word in what:
        if word not in known:
            sys.exit(f"bench/compare/run: {word} is no part: see --list")
    return [p for p in parts if {"all", p.kind, p.name} & set(what)]


def write_results(parts, settings, options, scale, old=None):
    done = [(p, State(p, settings).data) for p in parts]
    done = [(p, data) for p, data in done if data["rounds"]]
    results = report.results(done, options.rounds, scale, old)
    name = "RESULTS-quick" if options.quick else "RESULTS"
    (programs.OUT / f"{name}.json").write_text(json.dumps(results, indent=1) + "\n")
    (programs.OUT / f"{name}.md").write_text(page.markdown(results))
    return results


def complete(part, settings, options):
    state = State(part, settings)
    return len(state.data["rounds"]) >= options.rounds and not state.failures(part.programs[0].name)


def published(name):
    try:
        return json.loads((programs.TOP / f"bench/{name}.json").read_text())
    except (OSError, ValueError):
        return None


def publish(parts, settings, options, scale):
    missing = [p.name for p in parts if not complete(p, settings, options)]
    sources = settings["transports"]["measured"]  # all of them
    named = sources != "unknown" and not sources.endswith("changed")
    if options.quick or options.rounds < 7 or missing or not named:
        sys.exit("bench/compare/run: not published: wanted are all parts, at full size, with 7 "
                 "rounds in which libzero did not fail, of a commit without changes "
                 f"({sources}); to be run: {' '.join(missing) or 'nothing'}")
    stem = f"RESULTS-{options.name}" if options.name else "RESULTS"
    old = published(stem)
    if old and not report.same_machine(old["machine"], report.machine()):
        sys.exit(f"bench/compare/run: not published: bench/{stem}.json is of another machine, "
                 f"{old['machine']['processor']}: give --as NAME to keep both")
    results = write_results(parts, settings, options, scale, old)
    kept = {p["part"] for p in results["parts"]}
    lost = [p["part"] for p in old["parts"] if p["part"] not in kept] if old else []
    if lost:
        why = "; ".join(report.differences(old, results))
        sys.exit(f"bench/compare/run: not published: bench/{stem}.json has {', '.join(lost)}, "
                 f"which do not compare with what is new ({why}): run all parts, or move that file "
                 "away")
    for end in ("md", "json"):
        shutil.copyfile(programs.OUT / f"RESULTS.{end}", programs.TOP / "bench" / f"{stem}.{end}")
        print(f"bench/{stem}.{end} is written")


def main():
    options = arguments()
    build()
    scale = programs.QUICK if options.quick else programs.Scale()
    parts = all_parts(scale)
    settings = settings_of(options, scale)
    if options.publish:
        publish(chosen(parts, options.what), settings, options, scale)
        return
    deadline = time.monotonic() + options.minutes * 60
    old = published("RESULTS") or {"parts": []}
    expected = {p["part"]: p.get("seconds") for p in old["parts"]}
    for part in chosen(parts, options.what):
        state = State(part, settings)
        if options.list:
            took = expected.get(part.name)
            print(f"{part.name:<28} {part.kind:<12} "
                  f"{state.missing(part, options.rounds):3} rounds left, "
                  f"{state.data['seconds']:.0f} s so far"
                  f"{f' of {took}' if took else ''}, {state.data['repeated']} disturbed")
            continue
        if options.again:
            state.clear()
        left = state.missing(part, options.rounds)
        in_time = run_part(part, state, options, deadline)
        if state.missing(part, options.rounds) < left:
            write_results(parts, settings, options, scale)
        if not in_time:
            print("the time is over; run it again to go on")
            return


if __name__ == "__main__":
    main()
