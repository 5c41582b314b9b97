# SPDX-License-Identifier: MIT
"""Runs every scene of the recycler benchmarks with tiny work in every variant: each must end with status 0 and print its
figures. Wrong arguments must be refused. Then a quick session of the runner, with the peers that are built already: it
fetches and builds nothing. Usage: smoke_recyclers.py BUILD_FOLDER"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from runner.recyclers import ORDER, SCENES, VARIANTS, program_of  # noqa: E402  (the path is set above)
from smoke import output_of  # noqa: E402

TINY = "2"  # per mille of the full work
COUNTED = ("buffer10k", "json")


def check_scene(program: Path, scene: str) -> None:
    names = output_of([str(program), "--list"]).split()
    if sorted(names) != sorted(VARIANTS["tarn"][scene]):
        raise AssertionError(f"{program.name} lists {names}, the runner {VARIANTS['tarn'][scene]}")
    own = [str(ORDER)] if scene == "json" else []
    for name in names:
        command = [str(program), name, *own, TINY]
        figures = json.loads(output_of(command))
        if not figures["ns"] > 0:
            raise AssertionError(f"{' '.join(command)}: no figure: {figures}")
        if scene in COUNTED and (figures["allocations"] >= 1) != (name == "fresh"):
            raise AssertionError(f"{' '.join(command)}: allocations are counted wrongly: {figures}")
    for bad in ([], ["nobody", *own, TINY], [names[0], *own, "0"], [names[0], *own, TINY, TINY]):
        output_of([str(program), *bad], status=2)


def check_bad_file(program: Path) -> None:
    output_of([str(program), "fresh", "/no/such/file", TINY], status=2)


def check_runner(build: Path) -> None:
    runner = Path(__file__).resolve().parent.parent / "run_recyclers.py"
    command = [sys.executable, str(runner), "--build-dir", str(build), "--built-peers"]
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.md"
        files = ["--markdown", str(page), "--json", f"{folder}/r.json"]
        done = subprocess.run(
            [*command, "--quick", "--scenes", "get_release,cross", "--contenders", "tarn*,Go*,Netty*", *files],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if done.returncode != 0:
            raise AssertionError(f"run_recyclers.py: status {done.returncode}: {done.stderr.strip()}")
        text = page.read_text()
        for expected in ("tarn::recycler", "What has to be reached", "no figures to quote"):
            if expected not in text or expected not in done.stdout:
                raise AssertionError(f'run_recyclers.py wrote nothing of "{expected}"')
        again = output_of([*command, "--from-json", f"{folder}/r.json"])
        if again != done.stdout:
            raise AssertionError("run_recyclers.py --from-json printed other tables than the session")
        # Nobody has built a peer in an empty folder: each is missed in one line, and nothing is built there.
        listed = output_of([*command, "--peers-dir", folder + "/none", "--list"])
        missed = [line for line in listed.splitlines() if line.startswith("note: ")]
        if len([line for line in missed if "takes no part" in line]) < 2 or Path(folder, "none").exists():
            raise AssertionError(f"run_recyclers.py --list without peers printed {missed}")
    output_of([*command, "--quick", "--contenders", "nobody"], status=2)
    output_of([*command, "--scenes", "nowhere"], status=2)


def main() -> int:
    if len(sys.argv) != 2:
        print(f"usage: {sys.argv[0]} BUILD_FOLDER", file=sys.stderr)
        return 2
    build = Path(sys.argv[1])
    checks = []
    for scene in SCENES:
        program = program_of(scene, build)
        if scene != "json" or program.exists():
            checks.append((scene, check_scene, (program, scene)))
        if scene == "json" and program.exists():
            checks.append(("json of no file", check_bad_file, (program,)))
    checks.append(("run_recyclers.py", check_runner, (build,)))
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
