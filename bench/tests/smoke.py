# SPDX-License-Identifier: MIT
"""Runs all programs of one suite with tiny work: each must end with status 0 and print its figures, a workload the same
checksum twice. Wrong arguments must be refused. Then quick sessions of the runner, which fetch and build nothing.
Usage: smoke.py BUILD_FOLDER SUITE"""

import json
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import run  # noqa: E402  (the path is set above)
from peers.contender import SYSTEM_MALLOC  # noqa: E402
from runner.launch import Launcher, RunFailed  # noqa: E402
from runner.session import Cell, Task  # noqa: E402
from suites import pools, recyclers  # noqa: E402

TINY = "3"  # per mille of the full work
SECONDS = 120
OWN = {"malloc": ("--no-micro",), "recyclers": ("--built-peers",)}
FIGURES = {
    "pairs": ("pair1", "pair64", "batch1", "batch64", "ticks_per_ns"),
    "containers": ("insert", "erase", "again", "sum", "first"),
    "threads": ("ns", "share"),
    "memory": ("payload", "live"),
    "ring": ("rate", "millions"),
    "slots": ("rate",),
    "workload": ("seconds", "rss"),
    "loops": ("reused us", "pool us", "zeroed us", "malloc us", "mmap us"),
    **{scene: ("ns",) for scene in recyclers.SCENES},
}


class Suite:
    def __init__(self, build: Path, name: str, folder: Path):
        self.build, self.name, self.folder = build, name, folder
        words = ["--build-dir", str(build), "--quick", "--scale", TINY, *OWN.get(name, ())]
        self.options = run.parse_arguments(run.SUITES[name], words)
        self.launcher = Launcher(build / "bench" / "bench_launch", folder, 0, SECONDS)

    def own_cells(self) -> list[Cell]:
        """Those of tarn's own programs, which take the scale as their last argument."""
        cells = run.SUITES[self.name].plan(self.options, self.folder).cells
        return [cell for cell in cells if any(task.command[-1] == TINY for task in cell.tasks)]

    def check_cell(self, cell: Cell) -> None:
        tasks = [task for task in cell.tasks if task.command[-1] == TINY and task.malloc.library is None]
        for task in tasks:
            self.check_task(cell, task)
        program, *arguments = tasks[0].command
        refused = ([], ["nobody", *arguments[1:]], [*arguments[:-1], "0"], [*arguments, TINY])
        for words in refused:
            output_of([program, *words], status=2)

    def check_task(self, cell: Cell, task: Task) -> None:
        figures = task.measure(self.launcher, touch=False)
        wrong = [name for name in FIGURES[cell.scene] if not figures[name] > 0]
        assert not wrong, f"{' '.join(task.command)}: no figure for {wrong}: {figures}"
        again = task.measure(self.launcher, touch=False) if "result" in figures else figures
        assert again.get("result") == figures.get("result"), f"{' '.join(task.command)}: checksums differ"
        if cell.scene in recyclers.COUNTED:
            fresh = task.command[1] == recyclers.FRESH
            assert (figures["allocations"] >= 1) == fresh, f"{task.contender}: allocations are counted wrongly: {figures}"

    def session(self, *words: str, status: int = 0) -> str:
        own = [word for word in OWN.get(self.name, ()) if word != "--no-micro"]
        command = [sys.executable, run.__file__, self.name, "--build-dir", str(self.build), *own, *words]
        return output_of(command, status)

    def check_session(self, words: list[str], expected: list[str]) -> None:
        """What is expected has to stand on the page and in the output, which the stored session has to repeat."""
        page, stored = self.folder / "page.md", self.folder / "stored.json"
        printed = self.session("--quick", *words, "--markdown", str(page), "--json", str(stored))
        for text in (*expected, "no figures to quote"):
            assert text in printed and text in page.read_text(), f'{self.name}: nothing of "{text}" in {printed}'
        again = self.session("--from-json", str(stored))
        assert again == printed, f"{self.name}: --from-json printed other tables than the session"
        self.session("--quick", "--contenders", "nobody", status=2)
        self.session("--quick", "--scenes", "nowhere", status=2)


def output_of(command: list[str], status: int = 0) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == status, f"{' '.join(command)}: status {done.returncode}, not {status}: {done.stderr.strip()}"
    return done.stdout


def check_launcher(suite: Suite) -> None:
    launcher = str(suite.launcher.program)
    report = json.loads(output_of([launcher, "--touch", "1", "--", "sh", "-c", "exit 3"]))
    assert report["status"] == 3 and report["rss"] > 0 and report["preload"] in ("used", "unknown"), report
    # The launcher itself is static: no library can be preloaded into it, and the report must say so.
    refused = json.loads(output_of([launcher, "--preload", "/no/such/library.so", "--", launcher, "--", "true"]))
    assert refused["preload"] in ("missing", "unknown"), f"a preload that failed was not noticed: {refused}"
    output_of([launcher], status=2)


def state_of(process: str) -> str:
    return subprocess.run(["ps", "-o", "stat=", "-p", process], capture_output=True, text=True, check=False).stdout.strip()


def check_limit(suite: Suite) -> None:
    """A run beyond its limit ends with its children, of which at most a zombie is left."""
    child = suite.folder / "child"
    launcher = Launcher(suite.launcher.program, suite.folder, 0, 1)
    try:
        launcher.run(["sh", "-c", f"sleep 60 & echo $! > {child}; wait"], SYSTEM_MALLOC)
        raise AssertionError("a program was not stopped at its limit")
    except RunFailed as error:
        assert "stopped after 1 s" in str(error), error
    state = state_of(child.read_text().strip())
    assert state == "" or state.startswith("Z"), state


def check_environment(suite: Suite) -> None:
    """A run keeps to its processors and loses the shell's settings."""
    script = "import os; print(len(os.sched_getaffinity(0)), 'GOGC' in os.environ, '_JAVA_OPTIONS' in os.environ)"
    os.environ.update(GOGC="off", _JAVA_OPTIONS="-Xint")
    suite.launcher.run([sys.executable, "-c", script], SYSTEM_MALLOC, processors=1)
    assert suite.launcher.output.read_text() == "1 False False\n", suite.launcher.output.read_text()


def check_micro(suite: Suite) -> None:
    cycles = json.loads(output_of([str(suite.build / "bench" / "bench_cycles"), "20"]))
    assert cycles["pair64"] > 0 and cycles["batch1000"] > 0, f"bench_cycles printed {cycles}"
    micro = suite.build / "bench" / "bench_micro"
    if micro.exists():
        done = json.loads(output_of([str(micro), "--benchmark_format=json", "--benchmark_min_time=0.0001"]))
        silent = [each["name"] for each in done["benchmarks"] if not each.get("items_per_second")]
        assert done["benchmarks"] and not silent, f"bench_micro gave no figure for {silent}"


def check_lists(suite: Suite) -> None:
    """The programs know the contenders that the suite knows."""
    for scene in pools.SCENES if suite.name == "pools" else recyclers.SCENES:
        program = suite.build / "bench" / f"{suite.name}_{scene}"
        if scene == "json" and not program.exists():
            continue
        names = output_of([str(program), "--list"]).split()
        if suite.name == "pools":
            assert len(names) >= 5 and set(names) <= {*pools.POOLS, *pools.UNDER_EACH_MALLOC}, f"{scene}: {names}"
        else:
            assert sorted(names) == sorted(recyclers.variants("tarn", scene)), f"{scene}: {names}"


def check_absent_peers(suite: Suite) -> None:
    """Nobody has built a peer in an empty folder: each is missed in one line, and nothing is built there."""
    none = suite.folder / "none"
    listed = suite.session("--peers-dir", str(none), "--list")
    missed = [line for line in listed.splitlines() if line.startswith("note: ") and "takes no part" in line]
    assert len(missed) >= 2 and not none.exists(), f"--list without peers printed {listed}"


def check_bad_file(suite: Suite) -> None:
    program = suite.build / "bench" / "recyclers_json"
    if program.exists():
        output_of([str(program), "fresh", "/no/such/file", TINY], status=2)


# Suite: checks of its own, and a quick session with what it has to print.
GOALS = "What has to be reached"
CHECKS = {
    "malloc": (
        [check_launcher, check_limit, check_environment, check_micro],
        ["--rows", "rbtree", "--contenders", "tarn,glibc"],
        ["Time over the best peer of the row", "tarn again", "Single calls"],
    ),
    "pools": (
        [check_lists],
        ["--scenes", "pairs,slots", "--contenders", "tarn::*,classic*"],
        ["tarn::pool_of", "classic object pool", GOALS],
    ),
    "recyclers": (
        [check_lists, check_absent_peers, check_bad_file],
        ["--scenes", "get_release,cross", "--contenders", "tarn*,Go*,Netty*"],
        ["tarn::recycler", GOALS],
    ),
    "buffers": ([], ["--sizes", "8"], ["malloc, glibc", GOALS]),
    "profiler": ([], ["--only", "churn"], ["churn", GOALS]),
}


def check_scaling(build: Path) -> int:
    """A quick session of two workloads, and the same again from its file."""
    with tempfile.TemporaryDirectory() as folder:
        stored = str(Path(folder) / "session.json")
        words = ["--quick", "--threads", "1,2,4", "--workloads", "own_blocks,larson", "--build-dir", str(build), "--json", stored]
        outputs = []
        for arguments in (words, ["--from-json", stored]):
            command = [sys.executable, str(Path(run.__file__)), "scaling", *arguments]
            result = subprocess.run(command, capture_output=True, text=True, timeout=4 * SECONDS)
            if result.returncode != 0:
                print(f"FAILED  {' '.join(command)}: {result.stderr}")
                return 1
            outputs.append(result.stdout)
        for expected in ("own_blocks, tarn, 2", "larson, tarn", "own_blocks, tarn: depot 64"):
            if expected not in outputs[0]:
                print(f"FAILED  {expected!r} is missing in:\n{outputs[0]}")
                return 1
        if outputs[0] != outputs[1]:
            print("FAILED  the stored session has other tables")
            return 1
    print("1 passed")
    return 0


def main() -> int:
    if len(sys.argv) == 3 and sys.argv[2] == "scaling":
        return check_scaling(Path(sys.argv[1]).resolve())
    if len(sys.argv) != 3 or sys.argv[2] not in CHECKS:
        print(f"usage: {sys.argv[0]} BUILD_FOLDER SUITE", file=sys.stderr)
        return 2
    own, words, expected = CHECKS[sys.argv[2]]
    with tempfile.TemporaryDirectory() as folder:
        suite = Suite(Path(sys.argv[1]), sys.argv[2], Path(folder))
        checks = {check.__name__: partial(check, suite) for check in own}
        if suite.name != "profiler":
            checks |= {cell.name: partial(suite.check_cell, cell) for cell in suite.own_cells()}
        checks["a session"] = partial(suite.check_session, words, expected)
        failed = 0
        for name, check in checks.items():
            try:
                check()
                print(f"ok      {name}")
            except (AssertionError, RunFailed, OSError, ValueError, KeyError, subprocess.TimeoutExpired) as error:
                failed += 1
                print(f"FAILED  {name}: {error}")
    print(f"{len(checks) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
