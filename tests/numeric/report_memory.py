# SPDX-License-Identifier: Apache-2.0
"""`zero report memory` sets what runs reserved side by side, as a table and as a picture whose bars
are as high as that, and refuses what is no log of a run."""
import subprocess
import xml.etree.ElementTree as ET

import support
from support import GPT2, TEXT, ZERO, ok

SVG = "{http://www.w3.org/2000/svg}"


def report(*words):
    run = subprocess.run([ZERO, "report", "memory", *words], capture_output=True, text=True,
                         env=support.environment(), check=False)
    return run.returncode, run.stdout, run.stderr


def trained(name, stage, offload):
    log = support.path(name)
    job = support.Job([GPT2, "--preset", "micro", "--data", TEXT, "--batch", 2, "--steps", 1,
                       "--val", 0, "--stage", stage, "--json", log], 2,
                      {"ZERO_OFFLOAD": offload} if offload else {})
    job.end()
    if job.status:
        support.bail(job.text("err"))
    tiers = {}
    for row in support.objects(log)[-1]["memory"]:
        at = tiers.setdefault(row["tier"], {})
        at[row["class"]] = at.get(row["class"], 0) + row["reserved"]
    return log, tiers


def runs():
    found = [trained("0.json", 0, ""), trained("3.json", 3, "optimizer:cpu")]
    logs = [log for log, _ in found]
    columns = [(tier, bytes_of) for _, tiers in found for tier, bytes_of in tiers.items()]
    ok([tier for tier, _ in columns] == ["device", "device", "cpu"], "a run has both tiers",
       columns)

    status, out, _ = report(*logs)
    lines = [line.split() for line in out.splitlines()]
    table = {line[0]: line[1:] for line in lines[3:]}
    want = {"all": [f"{sum(b.values()) / 1e6:.3f}" for _, b in columns]}
    for name in {name for _, b in columns for name in b}:
        want[name] = [f"{b[name] / 1e6:.3f}" if b.get(name) else "-" for _, b in columns]
    ok(status == 0 and table == want and "in fp32" in out and "stage 3, N = 2" in out,
       "the table has what the logs have", out, want)

    status, out, _ = report("--svg", *logs)
    bars = {}
    for rect in ET.fromstring(out).iter(f"{SVG}rect"):
        if rect.find(f"{SVG}title") is not None:
            bars.setdefault(rect.get("x"), []).append(float(rect.get("height")))
    heights = [sum(bars[x]) for x in sorted(bars, key=float)]
    all_bytes = [sum(b.values()) for _, b in columns]
    wrong = [h for h, b in zip(heights, all_bytes)
             if abs(h / max(heights) - b / max(all_bytes)) > 1e-3]
    ok(status == 0 and len(heights) == len(columns) and not wrong,
       "bars are as high as what was reserved", heights, all_bytes)
    return logs


def refused(logs):
    bad = support.path("bad.json")
    for text, what in (("", "no summary"), ("no json\n", "no summary"),
                       ('{"type":"summary","memory":[]}\n', "missing"),
                       ('{"type":"summary","memory":[{"class":"x","reserved":1}]}\n', "no class")):
        with open(bad, "w", encoding="utf-8") as file:
            file.write(text)
        status, out, err = report(logs[0], bad)
        ok(status == 1 and not out and bad in err and what in err, f"refused: {text[:40]!r}", err)
    for words, status in (((), 2), (("--pdf", logs[0]), 2), ((support.path("none.json"),), 1)):
        found, out, err = report(*words)
        ok(found == status and not out and err.startswith("zero report memory: "),
           f"refused: {' '.join(words)[:40]}", found, err)


refused(runs())
support.done()
