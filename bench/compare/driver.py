# SPDX-License-Identifier: Apache-2.0
"""Runs the programs of all parts in turn and writes down what they took; see run."""
import argparse
import datetime
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time

import programs
import report

KINDS = ("collectives", "transports", "optimizer", "steps", "offload", "limits")
MOST_AGAIN = 2  # repetitions of a round that was disturbed
HELP = """
A part runs its programs in turn, libzero and each peer once a round. Every round is kept in
bench/compare/state/ of the build folder, so that a run that was ended goes on where it was: a part
that is done is not run again unless --again says so or the commit or the settings have changed.
Before each program it is noted how many other processes want to run; a round in which there were
any is done again, at most twice.
After every part bench/compare/RESULTS.md and RESULTS.json of the build folder are written anew;
--publish copies them to bench/ of the source folder, if nothing is missing in them; with parts named,
only those have to be complete, and the others are listed as not measured.
"""


def arguments():
    p = argparse.ArgumentParser(prog="bench/compare/run", description="Compares with the peers.",
                                epilog=HELP)
    p.add_argument("what", nargs="*", default=["all"],
                   help="all (default), collectives, transports, optimizer, steps, offload, limits, or "
                   "parts by name")
    p.add_argument("--list", action="store_true", help="the parts, and how far each is")
    p.add_argument("--rounds", type=int, default=7, help="how often each program runs (7)")
    p.add_argument("--quick", action="store_true", help="small sizes: does everything work?")
    p.add_argument("--again", action="store_true", help="from the start, also what is done")
    p.add_argument("--minutes", type=float, default=1e9,
                   help="begin no round after that time; the next run goes on")
    p.add_argument("--publish", action="store_true", help="only copy the results to bench/")
    return p.parse_args()


def git(*words):
    return subprocess.run(["git", "-C", programs.TOP, *words], capture_output=True,
                          text=True).stdout.strip()


def commit():
    """What is measured; the results themselves do not count as a change."""
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".",
                  ":!bench/RESULTS.md", ":!bench/RESULTS.json")
    return (git("rev-parse", "--short=12", "HEAD") or "unknown") + ("-changed" if changed else "")


class State:
    """The rounds of a part: [{program: {key: seconds or reason}}], and programs that failed."""

    def __init__(self, part, settings):
        folder = programs.OUT / ("state-quick" if settings["quick"] else "state")
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{part.name}.json"
        self.fresh = {"part": part.name, "settings": settings, "rounds": [], "failed": {},
                      "load": [], "others": [], "again": [], "seconds": 0.0}
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

    def wanted(self, part):
        return [p for p in part.programs
                if programs.installed(p.peer) and p.name not in self.data["failed"]]

    def missing(self, part, n_rounds):
        """Rounds and programs that are still to be run, in order."""
        rounds = self.data["rounds"]
        return [(r, p) for r in range(n_rounds) for p in self.wanted(part)
                if r >= len(rounds) or p.name not in rounds[r]]


def others(samples=9, pause_s=0.05):
    """How many processes of others want to run now: of some looks the one in the middle."""
    seen = []
    for _ in range(samples):
        with open("/proc/loadavg", encoding="ascii") as file:
            seen.append(int(file.read().split()[3].split("/")[0]) - 1)  # this one runs, too
        time.sleep(pause_s)
    return max(0, sorted(seen)[samples // 2])


def round_end(state, part, number):
    """A round in which others ran does not count, unless it was tried often enough."""
    data = state.data
    if any(r == number for r, _ in state.missing(part, number + 1)) or \
            not data["others"][number] or data["again"][number] == MOST_AGAIN:
        return
    print(f"  round {number + 1}  others ran ({data['others'][number]}): once more", flush=True)
    data["rounds"][number] = {}
    data["others"][number] = 0
    data["again"][number] += 1
    state.save()


def run_program(state, number, program):
    data = state.data
    while len(data["rounds"]) <= number:
        data["rounds"].append({})
        data["load"].append(round(os.getloadavg()[0], 2))
        data["others"].append(0)
        data["again"].append(0)
    data["others"][number] = max(data["others"][number], others())
    start = time.monotonic()
    try:
        found = program.run()
        data["rounds"][number][program.name] = found
        numbers = [v for v in found.values() if not isinstance(v, str)]
        text = f"{max(numbers):.6f} s" if numbers else "nothing"
    except (programs.Failed, LookupError, ValueError, OSError, StopIteration) as error:
        text = f"failed: {str(error) or type(error).__name__}"
        data["failed"][program.name] = text
    took = time.monotonic() - start
    data["seconds"] += took
    state.save()
    print(f"  round {number + 1}  {program.label:<44} {text}  ({took:.0f} s)", flush=True)


def run_part(part, state, options, deadline):
    """False when the time is over."""
    if state.missing(part, options.rounds):
        print(f"{part.name}: {part.title}", flush=True)
    # What fails is left out from then on, so the list changes.
    while todo := state.missing(part, options.rounds):
        number, program = todo[0]
        if time.monotonic() > deadline and program is part.programs[0]:
            return False
        run_program(state, number, program)
        round_end(state, part, number)
    return True


def settings_of(options, scale):
    text = json.dumps(vars(scale), sort_keys=True)
    return {"commit": commit(), "quick": options.quick,
            "scale": hashlib.sha256(text.encode()).hexdigest()[:12],
            "peers": {peer: programs.peer_line(peer) for peer in programs.PEERS}}


def chosen(parts, what):
    known = {"all", *KINDS, *(p.name for p in parts)}
    for word in what:
        if word not in known:
            sys.exit(f"bench/compare/run: {word} is no part: see --list")
    return [p for p in parts if {"all", p.kind, p.name} & set(what)]


def write_results(parts, settings, options, scale):
    done = [(p, State(p, settings)) for p in parts]
    done = [(p, s.data) for p, s in done if s.data["rounds"] or s.data["failed"]]
    there = {p.name for p, _ in done}
    results = report.results(done, settings, options.rounds, scale,
                             datetime.date.today().isoformat(),
                             [p for p in programs.all_parts(scale) if p.name not in there])
    name = "RESULTS-quick" if options.quick else "RESULTS"
    (programs.OUT / f"{name}.json").write_text(json.dumps(results, indent=1) + "\n")
    (programs.OUT / f"{name}.md").write_text(report.markdown(results))
    return results


def publish(parts, settings, options, scale):
    missing = [p.name for p in parts if State(p, settings).missing(p, options.rounds)]
    if options.quick or options.rounds < 7 or missing or settings["commit"].endswith("changed"):
        sys.exit("bench/compare/run: not published: wanted are all parts, at full size, with 7 "
                 f"rounds, of a commit without changes ({settings['commit']}); to be run: "
                 f"{' '.join(missing) or 'nothing'}")
    complete = [p for p in programs.all_parts(scale)
                if not State(p, settings).missing(p, options.rounds)]
    write_results(complete, settings, options, scale)
    for name in ("RESULTS.md", "RESULTS.json"):
        shutil.copyfile(programs.OUT / name, programs.TOP / "bench" / name)
        print(f"bench/{name} is written")


def main():
    options = arguments()
    if not (programs.BUILD / "zero").exists():
        sys.exit(f"bench/compare/run: {programs.BUILD} is no build folder with a built libzero")
    scale = programs.QUICK if options.quick else programs.Scale()
    parts = programs.all_parts(scale)
    settings = settings_of(options, scale)
    if options.publish:
        publish(chosen(parts, options.what), settings, options, scale)
        return
    deadline = time.monotonic() + options.minutes * 60
    for part in chosen(parts, options.what):
        state = State(part, settings)
        if options.list:
            print(f"{part.name:<28} {part.kind:<12} "
                  f"{len(state.missing(part, options.rounds)):3} runs left, "
                  f"{state.data['seconds']:.0f} s so far")
            continue
        if options.again:
            state.clear()
        in_time = run_part(part, state, options, deadline)
        write_results(parts, settings, options, scale)
        if not in_time:
            print("the time is over; run it again to go on")
            return


if __name__ == "__main__":
    main()
