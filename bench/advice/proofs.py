# SPDX-License-Identifier: MIT
"""Records one program as root and as an ordinary user, has both files advised, and proves what needs no edit (tarn prove).

measure(tarn, program, ...) gives a plain dictionary, which results.py keeps. Savings are shares of CPU time: the proof runs at
another moment than the recording, when the same program may take longer.
"""
import json
import os
import shutil
import subprocess

from advice import inputs

# The ways of `tarn prove` that carry out a kind of advice. Pools: the way of the same kind and place.
WAY_OF = {"tunable": "keep-memory", "huge pages": "huge-pages", "another malloc": "tarn"}
POOLS = ("typed pool", "object pool", "buffer pool")
FIGURES = ("raw_ns", "raw_fault_ns", "saving_ns", "low_ns", "high_ns")


class CannotMeasure(Exception):
    """Why a program is left out."""


class Measurement:
    def __init__(self, tarn, library, folder, settings):
        self.tarn, self.folder, self.settings = tarn, folder, settings
        self.environment = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "GLIBC_TUNABLES")}
        self.environment["TARN_LIBRARY"] = library

    def command(self, program):
        if not shutil.which(program.words[0]):
            raise CannotMeasure(f"{program.words[0]} is not installed: apt-get install {program.package}")
        return [inputs.input_file(self.folder, word[1:]) if word.startswith("@") else word for word in program.words]

    def run(self, words, variables=None, accepted=(0,)):
        done = subprocess.run(words, env={**self.environment, **(variables or {})}, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, errors="replace", check=False, timeout=self.settings.timeout)
        if done.returncode not in accepted:
            raise CannotMeasure(f"{' '.join(words[:4])} … ends with {done.returncode}: {done.stderr.strip()[-300:]}")
        return done.stdout

    def recorded(self, program, user):
        folder = os.path.join(self.folder, "profiles" if user is None else f"profiles-{user}")
        os.makedirs(folder, exist_ok=True)
        profile = os.path.join(folder, program.name + ".tarn")
        words = [self.tarn, "profile", "-q", "-o", profile, "--", *self.command(program)]
        if user is not None:
            os.chown(folder, user, user)
            words = ["setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups", "--", *words]
        self.run(words, program.variables)
        return profile

    def advised(self, profile, *options):
        return json.loads(self.run([self.tarn, "advise", "--json", "--min", "0", *options, profile]))

    def proven(self, profile, program, kinds):
        ways = ["tarn", "keep-memory", "huge-pages"] + [f"pool-{number}" for number in (1, 2, 3)]
        if not any(kind in POOLS for kind in kinds):
            ways = ways[:3]
        while True:
            words = [self.tarn, "prove", "--json", "-r", str(self.settings.rounds), "--only", ",".join(ways), profile]
            try:
                # 1: the program ends differently under a way, which then has a failure and no figures.
                return json.loads(self.run(words, program.variables, accepted=(0, 1)))
            except CannotMeasure as error:
                absent = [way for way in ways if f"--only {way}: no way has this name" in str(error)]
                if not absent or len(ways) == 1:
                    raise
                ways.remove(absent[0])


def first_of(answer):
    """Kind and place of what comes first; None: leave it."""
    for one in answer["advice"]:
        if one["kind"] not in ("leave it", "placement", "ask for less") and one["share"] >= 0.01:
            return [one["kind"], one["place"] if one["kind"] not in WAY_OF else ""]
    return None


def way_of(one, ways):
    """The way that carries the advice out; None: it wants an edit."""
    for way in ways:
        if way["failure"]:
            continue
        if one["kind"] in POOLS and way["kind"] == one["kind"] and way["place"] == one["place"] and way["type"] == one["type"]:
            return way
        if WAY_OF.get(one["kind"]) == way["name"]:
            return way
    return None


def told(answer, ways):
    """What was said of each piece of advice that a way carries out; shares of the recorded CPU time."""
    pieces = []
    for one in answer["advice"]:
        way = way_of(one, ways)
        if way is not None:
            pieces.append({"kind": one["kind"], "grade": one["grade"], "way": way["name"],
                           **{name[:-3]: one[name] / answer["cpu_ns"] for name in FIGURES}})
    return pieces


def measure(measurement, program):
    profile = measurement.recorded(program, None)
    estimate = measurement.advised(profile, "--estimate")
    advice = measurement.advised(profile, "-r", str(measurement.settings.replay_rounds))
    other = measurement.recorded(program, measurement.settings.user)
    as_user = measurement.advised(other, "-r", str(measurement.settings.replay_rounds))
    kinds = {one["kind"] for one in estimate["advice"] if one["share"] >= 0.01}
    proof = measurement.proven(profile, program, kinds)
    ways = {}
    for way in proof["ways"]:
        if not way["failure"] and way["kind"] != "layer":
            cpu = way["figures"]["cpu_time"]
            ways[way["name"]] = {"saved": 1 - cpu["ratio"], "low": 1 - cpu["high"], "high": 1 - cpu["low"],
                                 "outcome": cpu["outcome"]}
    return {"program": program.name, "cpu_ms": 1e-6 * advice["cpu_ns"], "peak_bytes": advice["peak_bytes"],
            "placement": any(one["kind"] == "placement" for one in advice["advice"]),
            "own": 1 - min(1.0, advice["allocation_ns"] / advice["cpu_ns"]),
            "first": first_of(advice), "first_as_user": first_of(as_user), "notes": advice["notes"],
            "told": told(advice, proof["ways"]), "estimated": told(estimate, proof["ways"]), "measured": ways,
            "rounds": proof["rounds"]}
