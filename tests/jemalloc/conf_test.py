#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""MALLOC_CONF, malloc_conf and TARN_… together; bad options; statistics as text and JSON; the ways to get the library
into a program that asks for libjemalloc.so.2.

Usage: conf_test.py LIBTARN_JEMALLOC PROGRAM PROGRAM_WITH_CONF SCRATCH
"""
import json
import os
import pathlib
import subprocess
import sys

LIBRARY, PROGRAM, WITH_CONF = (os.path.realpath(path) for path in sys.argv[1:4])
SCRATCH = pathlib.Path(sys.argv[4])
failures = []


def check(what, condition, text=""):
    if not condition:
        failures.append(what)
        print(f"BROKEN: {what}: {text}")


def run(*words, program=PROGRAM, preload=True, code=0, **variables):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("TARN_", "MALLOC_CONF"))}
    environment.update(variables)
    if preload:
        environment["LD_PRELOAD"] = LIBRARY
    done = subprocess.run([program, *words], env=environment, capture_output=True, text=True, check=False)
    check(f"{words} with {variables} ends with {code}", done.returncode == code, f"{done.returncode} {done.stderr}")
    return done


def values(*names, **options):
    done = run(*names, **options)
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line), done.stderr


def test_environment():
    got, errors = values("opt.dirty_decay_ms", "arenas.dirty_decay_ms", "opt.thp", "opt.tcache", "opt.background_thread", "opt.narenas")
    check("nothing set", got == {"opt.dirty_decay_ms": "1000", "arenas.dirty_decay_ms": "1000", "opt.thp": "default",
                                 "opt.tcache": "true", "opt.background_thread": "true", "opt.narenas": "1"}, got)
    check("no message", errors == "", errors)
    got, errors = values("opt.dirty_decay_ms", "opt.thp", "opt.tcache", "opt.background_thread", "opt.percpu_arena",
                         MALLOC_CONF="dirty_decay_ms:5000,thp:always,tcache:false,background_thread:false,percpu_arena:percpu,narenas:4")
    check("MALLOC_CONF", got == {"opt.dirty_decay_ms": "5000", "opt.thp": "always", "opt.tcache": "false",
                                 "opt.background_thread": "false", "opt.percpu_arena": "percpu"}, got)
    check("options without a counterpart say nothing", errors == "", errors)
    got, _ = values("opt.dirty_decay_ms", MALLOC_CONF="dirty_decay_ms:5000", TARN_DECAY_MS="70")
    check("TARN_DECAY_MS goes before", got["opt.dirty_decay_ms"] == "70", got)
    for written, wanted in (("-1", "-1"), ("0", "0"), ("999999999999", "86400000"), ("0x10", "16")):
        got, _ = values("opt.dirty_decay_ms", MALLOC_CONF=f"dirty_decay_ms:{written}")
        check(f"dirty_decay_ms:{written}", got["opt.dirty_decay_ms"] == wanted, got)


def test_bad_options():
    for conf, word in (("nonsense:1", "nonsense"), ("dirty_decay_ms:abc", "dirty_decay_ms"), ("thp", "key:value"),
                       ("dirty_decay_ms:", "dirty_decay_ms"), ("tcache:maybe", "tcache"), (":1", "key:value"), ("thp:never,", "comma")):
        got, errors = values("opt.dirty_decay_ms", MALLOC_CONF=conf)
        check(f"{conf!r} is reported once", errors.count("\n") == 1 and "MALLOC_CONF" in errors and word in errors, errors)
        check(f"{conf!r} changes nothing else", got["opt.dirty_decay_ms"] == "1000", got)
    got, errors = values("opt.dirty_decay_ms", MALLOC_CONF="junk:true,nonsense:1,dirty_decay_ms:300")
    check("what follows a bad option counts", got["opt.dirty_decay_ms"] == "300", got)
    for conf, words in (("prof:true", "TARN_PROFILE"), ("xmalloc:true", "null"), ("junk:true", "libtarn-hardened"), ("zero:true", "libtarn-hardened"),
                        ("stats_print:true", "TARN_STATS")):
        done = run("version", MALLOC_CONF=conf)
        check(f"{conf} is not here, and that is said once", done.stderr.count("\n") == 1 and conf in done.stderr and words in done.stderr, done.stderr)
        done = run("version", MALLOC_CONF=conf.replace("true", "false"))
        check(f"{conf} is not asked for", done.stderr == "", done.stderr)
    long = run("version", MALLOC_CONF="x" * 5000)
    check("a long line is cut", len(long.stderr) < 2000, len(long.stderr))


def test_statistics():
    for letters in ("J", "Jgmdablxeh"):
        done = run(f"print:{letters}")
        found = json.loads(done.stdout)["jemalloc"]
        stats = found["stats"]
        check(f"{letters}: stats", 0 < stats["allocated"] <= stats["active"] <= stats["resident"] and "tarn" in found["version"], found)
    done = run("print:")
    check("text", done.stdout.startswith("___ Begin jemalloc statistics ___\n") and done.stdout.endswith("--- End jemalloc statistics ---\n")
          and "allocated: " in done.stdout, done.stdout[:200])
    done = run("print_to_message")
    check("without a function, to standard error", "Begin jemalloc statistics" in done.stderr and done.stdout == "", done.stderr[:100])


def mapped(words, **variables):
    """The libraries that a program maps, from the loader."""
    environment = dict(os.environ, LD_TRACE_LOADED_OBJECTS="1", **variables)
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False).stdout


def test_ways_into_a_program():
    folder = SCRATCH / "link"
    folder.mkdir(parents=True, exist_ok=True)
    link = folder / "libjemalloc.so.2"
    link.unlink(missing_ok=True)
    link.symlink_to(LIBRARY)
    by_path = {"LD_LIBRARY_PATH": str(folder), "preload": False}
    got, errors = values("opt.dirty_decay_ms", "opt.thp", "version", program=WITH_CONF, **by_path)
    check("a program that asks for libjemalloc.so.2 gets it by a link", "tarn" in got.get("version", ""), f"{got} {errors}")
    check("the program's malloc_conf counts", got.get("opt.dirty_decay_ms") == "1234" and got.get("opt.thp") == "never", got)
    got, _ = values("opt.dirty_decay_ms", "opt.thp", program=WITH_CONF, MALLOC_CONF="dirty_decay_ms:77", **by_path)
    check("MALLOC_CONF goes before malloc_conf", got == {"opt.dirty_decay_ms": "77", "opt.thp": "never"}, got)
    # Both ways at once: the same file is loaded once.
    text = mapped([WITH_CONF], LD_LIBRARY_PATH=str(folder), LD_PRELOAD=LIBRARY)
    check("loaded once", text.count("jemalloc.so") <= 2 and len({line.split("(")[-1] for line in text.splitlines() if "jemalloc" in line}) == 1, text)
    # Preloaded, beside the library that the program asks for (the stand-in of this test): tarn's names come first.
    got, errors = values("version", "opt.dirty_decay_ms", program=WITH_CONF)
    check("preloaded, tarn comes first", "tarn" in got.get("version", "") and got.get("opt.dirty_decay_ms") == "1234", f"{got} {errors}")


for test in (test_environment, test_bad_options, test_statistics, test_ways_into_a_program):
    test()
print("broken" if failures else "the options, statistics and ways into a program are as described")
sys.exit(1 if failures else 0)
