#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Whether what `tarn advise` says comes true, and by how much it is wrong: the intervals of all advice are made from it.

Usage: ./dev bench --advice [--build DIR] [--rounds N] [--only NAME,...] [--all] [--user UID] [--residuals FILE]
       ./dev bench --advice --fit FILE         writes profiler/analyze/experience_table.inc, and says how it does on the rest

Each program is recorded in mode sample, and advised twice: by estimate, and with a replay. Then every action that needs no
edit is carried out (tarn's malloc, glibc's tunables, huge pages), interleaved with the unchanged program, round by round in
random order, and the processor time that it saves is measured. A row of the residuals says, for one program, action and
grade, what the rule or the replay said before experience (`raw_ms`), what was promised, and what was saved; an action that
nothing advised has raw_ms 0. Every other program of the list is for fitting, the others test what was fitted.
"""
import argparse
import collections
import csv
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TABLE = os.path.join(ROOT, "profiler", "analyze", "experience_table.inc")
NOISE = 0.03  # of processor time
COLUMNS = ["program", "set", "kind", "grade", "heap", "cpu_ms", "raw_ms", "saving_ms", "low_ms", "high_ms", "measured_ms", "spread_ms",
           "rounds", "first", "placement"]
LARGE_HEAP = 1 << 23
# Of the residuals, the part that an interval holds on either side.
LOW, HIGH = 0.1, 0.9
FEWEST = 3  # programs that a row of the table rests on
# An interval that few programs made is wider than they were.
WIDER_LOW, WIDER_HIGH = 0.8, 1.25

JSON = ("import json\nrows = [{'id': i, 'name': 'row %d' % i, 'tags': ['a', 'b', str(i)]} for i in range(4000)]\n"
        "total = 0\nfor turn in range(12): total += len(json.loads(json.dumps(rows)))\nprint(total)")
WORDS = ("import collections\ncounts = collections.Counter()\n"
         "for i in range(250000): counts['w%d' % (i * 7919 % 50021)] += 1\nprint(len(counts))")
BUFFERS = "total = 0\nfor i in range(150):\n    b = bytearray(1 << 20); total += len(bytes(b))\nprint(total)"
TREES = ("class N:\n    __slots__ = ('l', 'r')\ndef make(d):\n    n = N()\n    n.l, n.r = (make(d - 1), make(d - 1)) if d else (None, None)\n"
         "    return n\nfor i in range(12): make(14)")
SQL = ("create table t(a integer primary key, b text, c real);\n"
       "with recursive n(i) as (select 1 union all select i+1 from n where i < 150000)\n"
       "insert into t select i, 'text ' || (i*7919 % 100003), i*0.37 from n;\n"
       "create index bi on t(b); select count(distinct b), sum(c) from t;")
JOIN = ("with recursive n(i) as (select 1 union all select i+1 from n where i < 60000) select count(*), sum(length(x)) from "
        "(select group_concat(i) as x from n group by i % 1000);")
LUA_STRINGS = "local t = {} for i = 1, 300000 do t[i % 5000] = 'item ' .. i .. ' of ' .. (i * 7 % 91) end print(#t)"
LUA_TREES = ("local function make(d) if d == 0 then return {} end return {make(d-1), make(d-1)} end "
             "for i = 1, 10 do make(14) end")
PERL_HASH = "for $r (1..3) { my %h; $h{\"key $_\"} = [$_, \"v$_\"] for 1..60000; $s += keys %h; } print $s"
PERL_SPLIT = "for $r (1..60) { my @a = split /,/, join(',', 1..8000); $s += @a } print $s"
PERL_SORT = "my @a = map { \"k\" . ($_ * 7919 % 100003) } 1..150000; @a = sort @a; print scalar @a"
AWK = "BEGIN { for (i = 0; i < 400000; i++) a[\"k\" i % 30000] = a[\"k\" i % 30000] + i; print length(a) }"
TCL = "set d {}; for {set i 0} {$i < 150000} {incr i} { dict set d k[expr {$i % 20000}] [list $i a b] }; puts [dict size $d]"
JQ = "[range(60000) | {id: ., name: \"n\\(.)\", tags: [., . * 2]}] | map(select(.id % 3 == 0)) | length"
MALLOC = {"PYTHONMALLOC": "malloc"}


def candidates():
    """Name, command, variables, and whether it is of the small set that runs by default."""
    python = os.path.realpath(shutil.which("python3", path="/usr/bin:/bin") or sys.executable)
    yield "python-json", [python, "-S", "-c", JSON], {}, True
    yield "python-json-malloc", [python, "-S", "-c", JSON], MALLOC, True
    yield "python-words-malloc", [python, "-S", "-c", WORDS], MALLOC, False
    yield "python-buffers", [python, "-S", "-c", BUFFERS], {}, True
    yield "python-trees-malloc", [python, "-S", "-c", TREES], MALLOC, True
    yield "sqlite-load", ["sqlite3", ":memory:", SQL], {}, True
    yield "sqlite-group", ["sqlite3", ":memory:", JOIN], {}, False
    yield "lua-strings", ["lua5.4", "-e", LUA_STRINGS], {}, True
    yield "lua-trees", ["lua5.4", "-e", LUA_TREES], {}, True
    yield "perl-hash", ["perl", "-e", PERL_HASH], {}, True
    yield "perl-split", ["perl", "-e", PERL_SPLIT], {}, True
    yield "perl-sort", ["perl", "-e", PERL_SORT], {}, False
    yield "perl-sum", ["perl", "-e", "for $i (1..3000000) { $s += $i * 3 % 7 } print $s"], {}, True
    yield "awk-array", ["awk", AWK], {}, False
    yield "tcl-dict", ["tclsh8.6", "@" + TCL], {}, True
    yield "jq-select", ["jq", "-n", JQ], {}, True
    yield "xz-pack", ["xz", "-1", "-c", "-T1", python], {}, True
    yield "xz-threads", ["xz", "-0", "-c", "-T2", "--block-size=1MiB", python], {}, False
    yield "git-log", ["git", "-C", ROOT, "log", "--stat", "-n", "60"], {}, False
    yield "gcc-compile", [cc1plus(), "-quiet", "-O1", "-std=c++17", "@#include <map>\n#include <string>\n#include <vector>\n"
                          "std::map<std::string, std::vector<int>> m; int main() { m[\"a\"].push_back(1); }\n", "-o", os.devnull], {}, False
    yield "sort-numbers", ["sort", "--parallel=1", "-S", "64M", "@" + "\n".join(str(i * 7919 % 100003) for i in range(300000))], {}, False
    yield "bc-power", ["sh", "-c", "echo 'scale=0; 3^60000 % 10007' | exec bc"], {}, False
    yield "openssl-speed", ["openssl", "dhparam", "-check", "-noout", "512"], {}, False


def cc1plus():
    found = subprocess.run(["g++", "-print-prog-name=cc1plus"], capture_output=True, text=True, check=False)
    return found.stdout.strip() or "cc1plus"


def set_of(name):
    return "test" if [one[0] for one in candidates()].index(name) % 2 else "fit"


def processor_seconds(words, variables):
    child = subprocess.Popen(words, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise RuntimeError(f"{words[0]} ends with {child.returncode}")
    return usage.ru_utime + usage.ru_stime


class Bench:
    def __init__(self, settings, folder):
        self.settings = settings
        self.folder = folder
        self.tarn = os.path.join(settings.build, "bin", "tarn")
        self.library = next(path for path in (os.path.join(settings.build, "lib", name) for name in ("libtarn.so", "libtarn.so.1"))
                            if os.path.exists(path))
        self.environment = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "GLIBC_TUNABLES")}
        self.environment["TARN_LIBRARY"] = self.library

    def programs(self):
        wanted = self.settings.only.split(",") if self.settings.only else None
        for name, words, variables, small in candidates():
            if (wanted and name not in wanted) or not (wanted or small or self.settings.all) or not shutil.which(words[0]):
                continue
            for index, word in enumerate(words):
                if word.startswith("@"):
                    words[index] = os.path.join(self.folder, name + (".cpp" if "include" in word else ".txt"))
                    with open(words[index], "w", encoding="utf-8") as file:
                        file.write(word[1:])
            yield name, words, variables

    def recorded(self, name, words, variables):
        profile = os.path.join(self.folder, name + ".tarn")
        command = [self.tarn, "profile", "-q", "-o", profile, "--", *words]
        if self.settings.user is not None:
            os.chmod(self.folder, 0o777)
            command = ["setpriv", "--reuid", str(self.settings.user), "--clear-groups", "--", *command]
        subprocess.run(command, env={**self.environment, **variables}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       check=True)
        return profile

    def advised(self, profile, *options):
        text = subprocess.run([self.tarn, "advise", "--json", "--least", "0", *options, profile], env=self.environment, check=True,
                              capture_output=True, text=True).stdout
        return json.loads(text)

    def actions(self, advice):
        """Kind -> variables, of all that needs no edit, whether it is advised or not."""
        found = {"another malloc": {"LD_PRELOAD": self.library},
                 "tunable": {"GLIBC_TUNABLES": "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=268435456"}}
        for one in advice:
            if one["variables"]:
                found[one["kind"]] = one["variables"]
        return found

    def measured(self, words, variables, actions):
        plain = {**self.environment, **variables}
        ways = {None: plain, **{kind: {**plain, **change} for kind, change in actions.items()}}
        times = {kind: [] for kind in ways}
        for turn in range(self.settings.rounds + 1):
            for kind in random.sample(list(ways), len(ways)):
                seconds = processor_seconds(words, ways[kind])
                if turn > 0:  # the first warms files and links
                    times[kind].append(1e3 * seconds)
        savings = {}
        for kind in actions:
            differences = [before - after for before, after in zip(times[None], times[kind])]
            middle = statistics.median(differences)
            savings[kind] = (middle, statistics.median(abs(each - middle) for each in differences))
        return statistics.median(times[None]), savings

    def rows_of(self, name, words, variables):
        profile = self.recorded(name, words, variables)
        estimate, replay = self.advised(profile, "--estimate"), self.advised(profile, "-n", str(self.settings.replay_rounds))
        actions = self.actions(estimate["advice"] + replay["advice"])
        cpu, savings = self.measured(words, variables, actions)
        heap = "large" if estimate["peak_bytes"] >= LARGE_HEAP else "small"
        for grade, answer in (("estimated", estimate), ("replayed", replay)):
            first = next((one["kind"] for one in answer["advice"] if one["saving_ns"] >= 0.01 * answer["cpu_ns"]), "leave it")
            placement = any(one["kind"] == "placement" for one in answer["advice"])
            for kind, (saved, spread) in savings.items():
                one = next((each for each in answer["advice"] if each["kind"] == kind), {})
                yield {"program": name, "set": set_of(name), "kind": kind,
                       "grade": one.get("grade", grade), "heap": heap, "cpu_ms": round(cpu, 2),
                       **{column: round(1e-6 * one.get(column[:-3] + "_ns", 0), 3)
                          for column in ("raw_ms", "saving_ms", "low_ms", "high_ms")},
                       "measured_ms": round(saved, 3), "spread_ms": round(spread, 3), "rounds": self.settings.rounds,
                       "first": first, "placement": int(placement)}


def is_inside(row):
    slack = NOISE * row["cpu_ms"]
    return row["low_ms"] - slack <= row["measured_ms"] <= row["high_ms"] + slack


def read_residuals(path):
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    for row in rows:
        for column in COLUMNS:
            if column.endswith("_ms"):
                row[column] = float(row[column])
    return rows


def experience(rows):
    """Low, middle and high of what was saved over what was said. Said and saved within noise are equal."""
    ratios = []
    for row in rows:
        noise = NOISE * row["cpu_ms"]
        if row["raw_ms"] <= 0 or (row["raw_ms"] < noise and row["measured_ms"] < noise):
            continue
        ratios.append(max(0.0, row["measured_ms"]) / row["raw_ms"])
    if len(ratios) < FEWEST:
        return None
    ratios.sort()

    def quantile(part):
        at = part * (len(ratios) - 1)
        below = int(at)
        return ratios[below] + (at - below) * (ratios[min(below + 1, len(ratios) - 1)] - ratios[below])

    middle = quantile(0.5)
    return min(middle, WIDER_LOW * quantile(LOW)), middle, max(middle, WIDER_HIGH * quantile(HIGH)), len(ratios)


KINDS = {"tunable": "tunable", "huge pages": "huge_pages", "another malloc": "allocator"}


def fit(rows):
    fitted = {}
    for kind in KINDS:
        for grade in ("estimated", "replayed"):
            of_kind = [row for row in rows if row["kind"] == kind and row["grade"] == grade and row["set"] == "fit"]
            for heap in ("any", "small", "large"):
                found = experience([row for row in of_kind if heap in ("any", row["heap"])])
                if found and (kind == "another malloc" or heap == "any"):
                    fitted[(kind, grade, heap)] = found
    return fitted


def write_table(fitted):
    """Keeps the rows of what was not fitted: changes that need an edit."""
    with open(TABLE, encoding="utf-8") as file:
        lines = file.read().splitlines()
    prefix = "{{advice_kind::{}, advice_grade::{}, heap_size::{},"
    for (kind, grade, heap), (low, middle, high, programs) in fitted.items():
        begin = prefix.format(KINDS[kind], grade, heap)
        line = f"{begin} {{{low:.3g}, {middle:.3g}, {high:.3g}, {programs}}}}},"
        same = [index for index, old in enumerate(lines) if old.startswith(begin)]
        if same:
            lines[same[0]] = line
        else:
            lines.append(line)
    with open(TABLE, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def judge(rows, fitted):
    """How the programs that were not fitted came out, under what was fitted."""
    width, inside, said = [], 0, 0
    for row in rows:
        by = fitted.get((row["kind"], row["grade"], row["heap"])) or fitted.get((row["kind"], row["grade"], "any"))
        if row["set"] != "test" or not by or row["raw_ms"] <= 0:
            continue
        row = {**row, "low_ms": by[0] * row["raw_ms"], "high_ms": min(row["cpu_ms"], by[2] * row["raw_ms"])}
        said += 1
        inside += is_inside(row)
        if row["low_ms"] > 0:
            width.append(row["high_ms"] / row["low_ms"])
    print(f"{inside} of {said} rows of programs that were not fitted lie inside" +
          (f"; median width {statistics.median(width):.1f}" if width else ""))


def say(row):
    print(f"{row['program']:20} {row['kind']:15} {row['grade']:10} said {row['saving_ms']:8.1f} ms ({row['low_ms']:.1f} to "
          f"{row['high_ms']:.1f}), saved {row['measured_ms']:8.1f} of {row['cpu_ms']:.0f}: "
          f"{'inside' if is_inside(row) else 'OUTSIDE'}; first: {row['first']}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "bench"))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--replay-rounds", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--all", action="store_true", help="every program that is installed, not the small set")
    parser.add_argument("--user", type=int, help="record as this user, who may not see faults of the kernel")
    parser.add_argument("--residuals", default=os.path.join(ROOT, "bench", "advice_residuals.tsv"))
    parser.add_argument("--fit", metavar="FILE")
    settings = parser.parse_args()
    if settings.fit:
        rows = read_residuals(settings.fit)
        fitted = fit(rows)
        write_table(fitted)
        judge(rows, fitted)
        return 0
    outcomes = collections.Counter()
    with tempfile.TemporaryDirectory(prefix="tarn-advice-") as folder, \
         open(settings.residuals, "w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, COLUMNS, delimiter="\t", lineterminator="\n")
        table.writeheader()
        bench = Bench(settings, folder)
        for name, words, variables in bench.programs():
            try:
                for row in bench.rows_of(name, words, variables):
                    table.writerow(row)
                    file.flush()
                    say(row)
                    outcomes[row["grade"], is_inside(row)] += 1
            except (RuntimeError, subprocess.CalledProcessError) as error:
                print(f"{name}: left out: {error}", flush=True)
    for (grade, inside), count in sorted(outcomes.items()):
        print(f"{grade}: {count} {'inside' if inside else 'outside'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
