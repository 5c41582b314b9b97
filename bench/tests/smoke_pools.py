# SPDX-License-Identifier: MIT
"""Runs every scene of the pool benchmarks with tiny work under every contender that is compiled in: each must end with
status 0 and print its figures. Wrong arguments must be refused. Then a quick session of the runner.
Usage: smoke_pools.py BUILD_FOLDER"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from peers.pools import POOLS, UNDER_EACH_MALLOC  # noqa: E402  (the path is set above)
from runner.pools import SCENES, program_of  # noqa: E402
from smoke import output_of  # noqa: E402

TINY = "2"  # per mille of the full work
FIGURES = {
    "pairs": ("pair1", "pair64", "batch1", "batch64", "ticks_per_ns"),
    "containers": ("insert", "erase", "again", "sum", "first"),
    "threads": ("ns", "share"),
    "memory": ("payload", "live"),
    "ring": ("rate", "millions"),
    "slots": ("rate",),
}


def check_scene(program: Path, scene: str) -> None:
    names = output_of([str(program), "--list"]).split()
    unknown = set(names) - set(POOLS) - set(UNDER_EACH_MALLOC)
    if unknown or len(names) < 5:
        raise AssertionError(f"{program.name} lists {names}")
    for name in names:
        for arguments in SCENES[scene]:
            command = [str(program), name, *arguments, TINY]
            figures = json.loads(output_of(command))
            wrong = [figure for figure in FIGURES[scene] if not figures[figure] > 0]
            if wrong:
                raise AssertionError(f"{' '.join(command)}: no figure for {wrong}: {figures}")
    last = SCENES[scene][-1]
    for bad in ([], ["nobody", *last, TINY], [names[0], *last, "0"], [names[0], *last, TINY, TINY]):
        output_of([str(program), *bad], status=2)


def check_runner(build: Path) -> None:
    runner = Path(__file__).resolve().parent.parent / "run_pools.py"
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.md"
        command = [
            sys.executable,
            str(runner),
            "--build-dir",
            str(build),
            "--quick",
            "--scenes",
            "pairs,slots",
        ]
        done = subprocess.run(
            [
                *command,
                "--contenders",
                "tarn::*,classic*",
                "--markdown",
                str(page),
                "--json",
                f"{folder}/r.json",
            ],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if done.returncode != 0:
            raise AssertionError(f"run_pools.py: status {done.returncode}: {done.stderr.strip()}")
        text = page.read_text()
        for expected in (
            "tarn::pool_of",
            "classic object pool",
            "What has to be reached",
            "no figures to quote",
        ):
            if expected not in text or expected not in done.stdout:
                raise AssertionError(f'run_pools.py wrote nothing of "{expected}"')
    output_of([*command, "--contenders", "nobody"], status=2)


def main() -> int:
    if len(sys.argv) != 2:
        print(f"usage: {sys.argv[0]} BUILD_FOLDER", file=sys.stderr)
        return 2
    build = Path(sys.argv[1])
    checks = [(scene, check_scene, (program_of(scene, build), scene)) for scene in SCENES]
    checks.append(("run_pools.py", check_runner, (build,)))
    failed = 0
    for name, check, arguments in checks:
        try:
            check(*arguments)
            print(f"ok      {name}")
        except (AssertionError, OSError, ValueError, KeyError, subprocess.TimeoutExpired) as error:
            failed += 1
            print(f"FAILED  {name}: {error}")
    print(f"{len(checks) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
