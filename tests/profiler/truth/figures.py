#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Are the figures of mode sample true? Records programs with small and with large blocks.

Compared are

- the page faults of the whole program with the kernel's count (ru_minflt) of runs without the recorder;
- faults and bytes, with their margins, with those of mode full: for the five costliest places of the sample, and for
  each other place with 1 % of the cost in mode full, so that none of these may be missing in the sample;
- the cost of memory with the program's CPU time, and with perf's samples of the software clock: the share of malloc's
  functions and of page faults, mapping and unmapping in the kernel.

    figures.py --tarn TARN --source FOLDER [--as root|nobody|refused] [--rounds N] [--json FILE] [PROGRAM ...]

--as: the rights that tarn records with: root (those of the caller), nobody (that user; sets kernel.perf_event_paranoid
to 2 until the end; needs root), refused (perf_event_open fails). perf always runs with the caller's rights; if it
cannot be used, the comparison with it is left out.

Exit status: 0 all aims are met, 1 one is missed, 77 there is nothing to record.
"""
import argparse
import contextlib
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

FAULTS_WITHIN = 0.10
COST_WITHIN = 0.25
PLACES = 5
PLACE_MATTERS = 0.01  # of the cost in mode full
INSIDE = 0.95  # least share of the places' figures that lie within their margins
COST_RIGHT = 10 / 12  # least share of programs whose cost lies within COST_WITHIN of perf's
CLOCK = 3000  # samples a second
OUTSIDE = ("[faults outside of allocated memory]", "", 0)
UNSEEN = "[faults that only the kernel counted]"
PARANOID = "/proc/sys/kernel/perf_event_paranoid"
MALLOC = re.compile(r"^_*(libc_|int_|GI_+)*(malloc|free|calloc|realloc|memalign|cfree|reallocarray|posix_memalign|aligned_alloc)"
                    r"|^(_int_(malloc|free|realloc|memalign)|malloc_consolidate|unlink_chunk|sysmalloc|systrim|tcache_|arena_get|"
                    r"alloc_perturb|heap_trim|grow_heap|new_heap|mremap_chunk|munmap_chunk|operator (new|delete)|_Zn|_Zd|checked_request)")
KERNEL = re.compile(r"^(asm_exc_page_fault|exc_page_fault|do_user_addr_fault|__x64_sys_(munmap|brk|madvise|mremap))$")


def programs(settings, folder):
    """Name -> (command line, variables), of the programs that are installed here."""
    path = lambda name: os.path.join(folder, name)
    found = {}
    for name, rounds in (("buffers", "120"), ("nodes", "12000"), ("strings", "4000000")):
        subprocess.run([settings.compiler, "-std=c++20", "-O2", "-g", "-pthread", "-o", path(name),
                        os.path.join(settings.source, name + ".cpp")], check=True)
        found[name] = ([path(name), rounds], {})
    with open(path("rows.py"), "w", encoding="utf-8") as file:
        file.write("import json\nrows = [{'id': i, 'name': 'row %d' % i, 'tags': ['a', 'b', str(i)]} for i in range(4000)]\n"
                   "total = 0\nfor turn in range(40):\n    total += len(json.loads(json.dumps(rows)))\nprint(total)\n")
    with open(path("load.sql"), "w", encoding="utf-8") as file:
        file.write("create table t(a integer primary key, b text, c real);\n"
                   "with recursive n(i) as (select 1 union all select i+1 from n where i < 500000)\n"
                   "insert into t select i, 'text ' || (i*7919 % 100003), i*0.37 from n;\n"
                   "create index bi on t(b);\nselect count(distinct b), sum(c) from t;\n")
    with open(path("lines"), "w", encoding="utf-8") as file:
        file.writelines(f"{i * 7919 % 1000003:07} line of text number {i}\n" for i in range(600000))
    with open(path("rows.json"), "w", encoding="utf-8") as file:
        json.dump([{"id": i, "name": f"row {i}", "tags": ["a", "b", str(i)]} for i in range(60000)], file)
    python = next(one for one in ("/usr/bin/python3", os.path.realpath(sys.executable)) if os.access(one, os.X_OK))
    compiler = shutil.which(settings.compiler) or settings.compiler
    front = subprocess.run([compiler, "-print-prog-name=cc1plus"], capture_output=True, text=True, check=False).stdout.strip()
    wanted = {
        "python3 malloc": ([python, "-S", path("rows.py")], {"PYTHONMALLOC": "malloc"}),
        "python3": ([python, "-S", path("rows.py")], {}),
        "sqlite3": (["sqlite3", "-init", path("load.sql"), ":memory:", ".exit"], {}),
        "perl": (["perl", "-e", "for $r (1..6) { my %h; $h{\"key $_\"} = [$_, \"v$_\"] for 1..120000; $s += keys %h; } print $s"], {}),
        "cc1plus": ([front, "-quiet", "-O1", "-std=c++20", path("source.ii"), "-o", os.devnull], {}),
        "xz": (["xz", "-6", "-k", "-c", path("lines")], {}),
        "sort": (["sort", "--parallel=1", path("lines")], {}),
        "jq": (["jq", "-c", "map(.tags | length) | add", path("rows.json")], {}),
        "lua": (["lua5.4", "-e", "for r = 1, 8 do local t = {} for i = 1, 150000 do t[i] = {i, 'v' .. i} end end"], {}),
        "zstd": (["zstd", "-9", "-q", "-c", path("lines")], {}),
        "node": (["node", "-e", "let s = 0; for (let r = 0; r < 30; ++r) { const a = []; for (let i = 0; i < 40000; ++i) "
                  "a.push(Buffer.alloc(200 + i % 5000)); s += a.length } console.log(s)"], {}),
        "git": (["git", "-c", "safe.directory=*", "-C", os.path.dirname(os.path.abspath(__file__)), "log", "--stat", "-n", "300"], {}),
    }
    if os.path.isabs(front):
        source = "\n".join(f"#include <{name}>" for name in ("regex", "map", "string", "algorithm", "iostream")) + \
            "\nint main() { std::regex r(\"a*b\"); std::map<std::string, int> m; std::cout << m.size(); }\n"
        subprocess.run([compiler, "-std=c++20", "-E", "-x", "c++", "-", "-o", path("source.ii")], input=source, text=True,
                       check=True)
    for name, (words, variables) in wanted.items():
        if shutil.which(words[0]):
            found[name] = ([shutil.which(words[0]), *words[1:]], variables)
    return found


def bare(words, variables):
    """CPU seconds and page faults of one run."""
    with open(os.devnull, "r+b") as null:
        child = subprocess.Popen(words, env=variables, stdin=null, stdout=null, stderr=null)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise RuntimeError(f"{words[0]} ends with {child.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_minflt


@contextlib.contextmanager
def rights(settings, folder):
    """Sets up the rights of --as. settings.prefix: words to put before the command that records."""
    settings.prefix, before = [], None
    if settings.rights == "refused":
        launcher = os.path.join(folder, "without_events")
        subprocess.run([settings.c_compiler, "-O1", "-o", launcher, os.path.join(settings.source, "without_events.c")], check=True)
        settings.prefix = [launcher]
    if settings.rights == "nobody":
        os.chmod(folder, 0o777)
        settings.prefix = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
        with open(PARANOID, "r+", encoding="ascii") as file:
            before = file.read()
            file.seek(0)
            file.write("2")
    try:
        yield
    finally:
        if before is not None:
            with open(PARANOID, "w", encoding="ascii") as file:
                file.write(before)


def record(settings, words, variables, mode, target):
    """Records a program; returns the summary and the rows of sites."""
    if os.path.exists(target):
        os.remove(target)
    result = subprocess.run([*settings.prefix, settings.tarn, "profile", "--mode", mode, "--no-events", "--json", "-o", target, "--", *words],
                            env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                            text=True, check=True)
    summary = json.loads(result.stderr[result.stderr.index("{"):])
    listed = subprocess.run([settings.tarn, "show", "--json", "-n", "0", target], capture_output=True, text=True, check=True)
    return summary["program"], json.loads(listed.stdout)["sites"]


def places(sites):
    """(function, file, line) -> figures, for each place in the program and for the faults outside of its blocks.

    The report has a row for each caller of a place, and two recordings may distinguish different callers. So the rows
    of one place are summed here, with their margins as independent ones."""
    found = {}
    for row in sites:
        key = (row["function"], row["file"], row["line"])
        if row["function"] in (OUTSIDE[0], UNSEEN):
            key = OUTSIDE
        elif row["function"].startswith("["):
            continue
        place = found.setdefault(key, {"cost": 0, "faults": 0, "bytes": 0, "margins": {"faults": 0, "bytes": 0}})
        for figure in ("cost", "faults", "bytes"):
            place[figure] += row[figure]
        for figure, margin in place["margins"].items():
            place["margins"][figure] = math.hypot(margin, row["margins"].get(figure, 0))
    return found


def by_clock(words, variables, folder):
    """The shares of perf's CPU samples in malloc's functions and in the kernel's work for memory; None without perf."""
    data = os.path.join(folder, "perf.data")
    if not shutil.which("perf"):
        return None
    recorded = subprocess.run(["perf", "record", "-q", "-g", "-e", "cpu-clock", "-F", str(CLOCK), "-o", data, "--", *words],
                              env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              check=False)
    if recorded.returncode != 0:
        return None
    text = subprocess.run(["perf", "script", "-i", data, "-F", "ip,sym,dso"], capture_output=True, text=True, check=True).stdout
    all_samples = of_malloc = of_kernel = 0
    for sample in text.split("\n\n"):
        frames = [line.split(None, 1)[1] for line in sample.strip().splitlines() if len(line.split(None, 1)) == 2]
        if not frames:
            continue
        all_samples += 1
        names = [frame.rsplit(" (", 1)[0].split("+0x")[0] for frame in frames]
        in_kernel = "kernel.kallsyms" in frames[0]
        if in_kernel and any(KERNEL.match(name) for name in names):
            of_kernel += 1
        elif not in_kernel and MALLOC.match(names[0]):
            of_malloc += 1
    return (of_malloc / all_samples, of_kernel / all_samples) if all_samples > 0 else None


class Figures:
    def __init__(self, settings, folder):
        self.settings = settings
        self.folder = folder
        self.environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}

    def look_at(self, name, words, extra):
        variables = {**self.environment, **extra}
        target = os.path.join(self.folder, "x.prof")
        # Two recordings: what differs between them is the program's own variation, not an error of sampling.
        full = [places(record(self.settings, words, variables, "full", target)[1]) for _ in range(2)]
        cases, faults, costs, minflt, cpu, shares = [], [], [], [], [], []
        for _ in range(self.settings.rounds):
            seconds, count = bare(words, variables)
            cpu.append(seconds)
            minflt.append(count)
            if len(minflt) == 1:
                count_outside(full, count)
            summary, sites = record(self.settings, words, variables, "sample", target)
            faults.append(sum(row["faults"] for row in sites))  # the rows of UNSEEN and OUTSIDE among them
            costs.append({"malloc": summary["malloc_ns"], "kernel": summary["fault_ns"] + summary["unmap_ns"],
                          "cpu": summary["processor_ns"]})
            cases += cases_of(full, places(sites))
            share = by_clock(words, variables, self.folder)
            if share is not None:
                shares.append(share)
        share_of = lambda part: statistics.median(cost[part] / max(1, cost["cpu"]) for cost in costs)
        return {
            "program": name, "cpu_s": statistics.median(cpu), "minflt": statistics.median(minflt),
            "faults": statistics.median(faults),
            "malloc_share": share_of("malloc"), "kernel_share": share_of("kernel"),
            "cost_share": statistics.median((cost["malloc"] + cost["kernel"]) / max(1, cost["cpu"]) for cost in costs),
            "recordings": len(costs), "above_cpu": sum(cost["malloc"] + cost["kernel"] > cost["cpu"] for cost in costs),
            "clock_malloc": statistics.median(one[0] for one in shares) if shares else None,
            "clock_kernel": statistics.median(one[1] for one in shares) if shares else None,
            "clock_share": statistics.median(sum(one) for one in shares) if shares else None,
            "cases": len(cases), "inside": sum(case["inside"] for case in cases),
            "outside": [case for case in cases if not case["inside"]],
        }


def count_outside(full, minflt):
    """Sets the true number of faults outside of blocks: what the kernel counts of a run without the recorder, minus
    what mode full joins to places. Mode full's own figure would include the many faults of the recorder."""
    for one in full:
        joined = sum(row["faults"] for key, row in one.items() if key != OUTSIDE)
        one[OUTSIDE] = {"cost": 0, "faults": max(0, minflt - joined), "bytes": 0, "margins": {"faults": 0, "bytes": 0}}


def cases_of(full, told):
    """For each compared place, the figures of mode full and whether the sample's interval contains them."""
    top = sorted(told, key=lambda key: -told[key]["cost"])[:PLACES]
    least = PLACE_MATTERS * sum(row["cost"] for row in full[0].values())
    top += [key for key, row in full[0].items() if row["cost"] >= least and key not in top]
    nothing = {"faults": 0, "bytes": 0, "margins": {"faults": 0, "bytes": 0}}
    found = []
    for key in top:
        for figure in ("faults", "bytes"):
            if key == OUTSIDE and figure == "bytes":
                continue
            known = [one.get(key, nothing)[figure] for one in full]
            row = told.get(key, nothing)
            margin = row["margins"][figure]
            low, high = row[figure] - margin, row[figure] + margin
            found.append({"place": key[0], "figure": figure, "full": known, "told": row[figure], "margin": margin,
                          "inside": low <= max(known) + 0.5 and min(known) - 0.5 <= high})
    return found


def line_of(row):
    clock = "none"
    if row["clock_share"] is not None:
        clock = f"{100 * row['clock_share']:.1f} % ({100 * row['clock_malloc']:.1f} + {100 * row['clock_kernel']:.1f})"
    return (f"{row['program']:15} faults {row['faults']:9.0f} of {row['minflt']:9.0f} ({row['faults'] / row['minflt']:5.2f}); "
            f"places {row['inside']:3} of {row['cases']:3}; cost, malloc + kernel: {100 * row['cost_share']:.1f} % "
            f"({100 * row['malloc_share']:.1f} + {100 * row['kernel_share']:.1f}), perf {clock}")


def verdict(rows):
    """Aim -> (whether it is met, figure)."""
    faults = [abs(row["faults"] / row["minflt"] - 1) <= FAULTS_WITHIN for row in rows]
    cases, inside = sum(row["cases"] for row in rows), sum(row["inside"] for row in rows)
    above, recordings = sum(row["above_cpu"] for row in rows), sum(row["recordings"] for row in rows)
    clauses = {
        f"total faults within {100 * FAULTS_WITHIN:.0f} % of ru_minflt": (all(faults), f"{sum(faults)} of {len(rows)} programs"),
        f"faults and bytes of the {PLACES} top places stated, and of all that matter, within their margins in {100 * INSIDE:.0f} of 100 cases":
            (inside >= INSIDE * cases, f"{inside} of {cases}"),
        "cost never above CPU time": (above == 0, f"above in {above} of {recordings} recordings"),
    }
    timed = [row for row in rows if row["clock_share"] is not None]
    if timed:
        right = sum(abs(row["cost_share"] - row["clock_share"]) <= COST_WITHIN * row["clock_share"] for row in timed)
        clauses[f"cost within {100 * COST_WITHIN:.0f} % of perf's for 10 of 12 programs"] = (
            right >= COST_RIGHT * len(timed), f"{right} of {len(timed)}")
    return clauses


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tarn", required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("--compiler", default="c++")
    parser.add_argument("--c-compiler", default="cc")
    parser.add_argument("--as", dest="rights", choices=("root", "nobody", "refused"), default="root")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json")
    parser.add_argument("programs", nargs="*")
    settings = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="tarn-figures-") as folder, rights(settings, folder):
        figures = Figures(settings, folder)
        for name, (words, variables) in programs(settings, folder).items():
            if settings.programs and name not in settings.programs:
                continue
            try:
                rows.append(figures.look_at(name, words, variables))
                print(line_of(rows[-1]), flush=True)
            except (RuntimeError, subprocess.CalledProcessError) as error:
                print(f"{name:15} is left out: {error}", flush=True)
    if not rows:
        return 77
    if settings.json:
        with open(settings.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    clauses = verdict(rows)
    for clause, (met, figure) in clauses.items():
        print(f"{'met   ' if met else 'MISSED'} {clause}: {figure}")
    if all(row["clock_share"] is None for row in rows):
        print("       cost against perf: not looked at, as perf cannot be used here")
    return 0 if all(met for met, _ in clauses.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
