#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Is what `tarn advise` says true? Records programs and carries the advice out. For an edit of the source: it saves CPU time,
and not more than half as much again as was counted for the places that it changes. For a setting: `tarn prove` measures it
first, and the saved CPU time lies in the interval that the advice then has. Programs for which no change pays get no advice
that claims a saving.

    truth_test.py --tarn TARN --library LIBTARN --source FOLDER --include FOLDER [--rounds N] [CASE ...]
"""
import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile

# A saving below this part of the program's CPU time is lost in the noise of a busy machine.
NOISE = 0.03


def run(words, variables, stdin_path=None):
    """User and system time, in seconds."""
    with open(stdin_path or os.devnull, "rb") as source, open(os.devnull, "wb") as sink:
        child = subprocess.Popen(words, env=variables, stdin=source, stdout=sink, stderr=sink)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise RuntimeError(f"{words[0]} ends with {child.returncode}")
    return usage.ru_utime + usage.ru_stime


class Case:
    def __init__(self, name, words, kinds, changed=None, mode="full", leave=False, variables=None):
        self.name = name
        self.words = words
        self.kinds = kinds  # kinds of advice that the change carries out; the first such advice in the list counts
        self.changed = changed  # command of the edited program; None: the advice's variables or library
        self.mode = mode
        self.leave = leave
        self.variables = variables or {}


class Truth:
    def __init__(self, settings, folder):
        self.settings = settings
        self.folder = folder
        self.environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        self.environment["TARN_LIBRARY"] = settings.library

    def path(self, name):
        return os.path.join(self.folder, name)

    def compile(self, name, changed):
        target = self.path(name + (".changed" if changed else ""))
        words = [self.settings.compiler, "-std=c++20", "-O2", "-g", "-pthread", "-o", target,
                 os.path.join(self.settings.source, name + ".cpp")]
        if changed:
            library = os.path.dirname(self.settings.library)
            words += ["-DTARN_CHANGED", "-I" + self.settings.include, "-L" + library, "-ltarn-api", "-Wl,-rpath," + library]
        subprocess.run(words, check=True)
        return target

    def cases(self):
        for name, kinds, rounds in (("buffers", ("buffer pool",), "60"), ("nodes", ("object pool",), "8000"),
                                    ("strings", ("reserve",), "2000000")):
            yield Case(name, [self.compile(name, False), rounds], kinds, [self.compile(name, True), rounds])
        yield Case("arithmetic", [self.compile("arithmetic", False)], (), leave=True)
        python = shutil.which("python3")
        if python:
            with open(self.path("rows.py"), "w", encoding="utf-8") as file:
                file.write("import json\nrows = [{'id': i, 'name': 'row %d' % i, 'tags': ['a', 'b', str(i)]} for i in range(4000)]\n"
                           "total = 0\nfor turn in range(25):\n"
                           "    total += len(json.loads(json.dumps(rows)))\nprint(total)\n")
            yield Case("python3", [python, self.path("rows.py")], ("tunable", "another malloc"), mode="sample",
                       variables={"PYTHONMALLOC": "malloc"})
        if shutil.which("sqlite3"):
            with open(self.path("load.sql"), "w", encoding="utf-8") as file:
                file.write("create table t(a integer primary key, b text, c real);\n"
                           "with recursive n(i) as (select 1 union all select i+1 from n where i < 400000)\n"
                           "insert into t select i, 'text ' || (i*7919 % 100003), i*0.37 from n;\n"
                           "create index bi on t(b);\nselect count(distinct b), sum(c) from t;\n"
                           "select b, count(*) from t group by b order by 2 desc, 1 limit 5;\n")
            yield Case("sqlite3", ["sqlite3", "-init", self.path("load.sql"), ":memory:", ".exit"],
                       ("tunable", "another malloc"), mode="sample")
        if shutil.which("perl"):
            yield Case("perl", ["perl", "-e", "for $r (1..6) { my %h; $h{\"key $_\"} = [$_, \"v$_\"] for 1..120000; "
                                "$s += keys %h; } print $s"], ("tunable", "another malloc"), mode="sample")
            yield Case("perl-sum", ["perl", "-e", "for $i (1..9000000) { $s += $i * 3 % 7 } print $s"], (), leave=True,
                       mode="sample")

    def advise(self, case):
        profile = self.path(case.name + ".prof")
        variables = {**self.environment, **case.variables}
        quiet = {"env": variables, "stdin": subprocess.DEVNULL, "check": True}
        subprocess.run([self.settings.tarn, "profile", "-q", "--no-events", "--mode", case.mode, "-o", profile, "--", *case.words],
                       stdout=subprocess.DEVNULL, **quiet)
        if not case.changed:
            subprocess.run([self.settings.tarn, "prove", "-r", "6", "--only", "tarn,keep-memory", profile],
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **quiet)
        text = subprocess.run([self.settings.tarn, "advise", "--min", "0", "--json", profile], env=variables, check=True,
                              capture_output=True, text=True).stdout
        return json.loads(text)["advice"]

    def changed_run(self, case, chosen):
        variables = {**self.environment, **case.variables}
        if case.changed:
            return lambda: run(case.changed, variables)
        if chosen["kind"] in ("another malloc", "huge pages") and not chosen["library"]:
            return lambda: run(case.words, {**variables, **chosen["variables"], "LD_PRELOAD": self.settings.library})
        return lambda: run(case.words, {**variables, **chosen["variables"]})

    def measure(self, case, chosen):
        """The saved seconds and those of the unchanged program: medians over rounds, each in random order."""
        variables = {**self.environment, **case.variables}
        ways = [lambda: run(case.words, variables), self.changed_run(case, chosen)]
        for way in ways:
            way()
        savings, plain = [], []
        for _ in range(self.settings.rounds):
            times = [0.0, 0.0]
            for index in random.sample((0, 1), 2):
                times[index] = ways[index]()
            savings.append(times[0] - times[1])
            plain.append(times[0])
        return statistics.median(savings), statistics.median(plain)

    def check_left_alone(self, case, advice):
        good = not any(one["grade"] == "measured" and one["share"] > NOISE for one in advice)
        best = "" if good else f"; advised: {advice[0]['headline']}, {100 * advice[0]['share']:.1f} %"
        print(f"{case.name:12} left alone: {'yes' if good else 'NO'}{best}", flush=True)
        return good

    def check(self, case):
        advice = self.advise(case)
        if case.leave:
            return self.check_left_alone(case, advice)
        wanted = [one for one in advice if one["kind"] in case.kinds]
        if not wanted:
            print(f"{case.name:12} NO advice of {case.kinds}; first: {advice[0]['headline']}", flush=True)
            return False
        chosen = wanted[0]
        saved, took = self.measure(case, chosen)
        slack = NOISE * took
        if case.changed:
            counted = chosen["counted_ns"] * 1e-9
            good = slack < saved <= 1.5 * counted + slack
            said = f"counted {counted * 1e3:8.1f} ms"
        elif chosen["grade"] == "measured":
            low, high = chosen["low_ns"] * 1e-9, chosen["high_ns"] * 1e-9
            good = low - slack <= saved <= high + slack
            said = f"measured by tarn prove {chosen['saving_ns'] * 1e-6:8.1f} ms ({low * 1e3:.1f} to {high * 1e3:.1f})"
        else:  # refuted, or the rounds decided nothing
            good = saved <= 2 * slack
            said = f"{chosen['grade']} by tarn prove"
        print(f"{case.name:12} {chosen['kind']:15} {said}, saves {saved * 1e3:8.1f} ms of {took * 1e3:.0f}: "
              f"{'true' if good else 'FALSE'}", flush=True)
        return good


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tarn", required=True)
    parser.add_argument("--library", required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("--include", required=True)
    parser.add_argument("--compiler", default="c++")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("cases", nargs="*")
    settings = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="tarn-truth-")
    try:
        truth = Truth(settings, folder)
        good = True
        for case in truth.cases():
            if not settings.cases or case.name in settings.cases:
                good = truth.check(case) and good
        return 0 if good else 1
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
