# SPDX-License-Identifier: MIT
"""The scenes of the recycler benchmarks in three languages, and a session that runs them: every round each cell under
each of its contenders once, in random order, each run a process of its own."""

import json
import os
import random
import signal
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from peers.contender import SYSTEM, Contender, ContenderError
from peers.recyclers import Peers
from report.recycler_results import RecyclerResults
from runner.launch import RunFailed, clean_environment
from runner.peer_output import OutputError, parse_go, parse_jmh
from runner.progress import Progress

ORDER = Path(__file__).resolve().parent.parent / "recyclers" / "order.json"
# Settings of the other languages that the caller's shell may hold.
LANGUAGE_VARIABLES = (
    "GOGC",
    "GODEBUG",
    "GOMAXPROCS",
    "GOMEMLIMIT",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "_JAVA_OPTIONS",
)

ONE, TWO = "1 processor", "2 processors"
# Scene: its cells. Where a cell names processors, the process has no others.
SCENES = {
    "get_release": ("",),
    "parallel": (TWO,),
    "burst100": ("",),
    "cross": (ONE, TWO),
    "buffer10k": ("",),
    "json": ("",),
}
THREADS = {"parallel": 2}  # that call at once; elsewhere one does

FRESH, BY_HAND, RECYCLED, BARE = "fresh", "by-hand", "recycled", "recycled-bare"
# Variants of each scene, in each language that takes part in it.
VARIANTS = {
    "tarn": {
        "get_release": (FRESH, RECYCLED, BARE),
        "parallel": (FRESH, RECYCLED),
        "burst100": (FRESH, RECYCLED, BARE),
        "cross": (FRESH, RECYCLED),
        "buffer10k": (FRESH, BY_HAND, RECYCLED),
        "json": (FRESH, BY_HAND, RECYCLED),
    },
    "go": {
        "get_release": (FRESH, RECYCLED),
        "parallel": (FRESH, RECYCLED),
        "burst100": (FRESH, RECYCLED),
        "cross": (FRESH, RECYCLED),
        "buffer10k": (FRESH, BY_HAND, RECYCLED),
        "json": (FRESH, BY_HAND, RECYCLED),
    },
    "netty": {
        "get_release": (FRESH, RECYCLED),
        "parallel": (FRESH, RECYCLED),
        "burst100": (FRESH, RECYCLED),
        "cross": (FRESH, RECYCLED),
        "buffer10k": (FRESH, BY_HAND, RECYCLED),
    },
}
# Language and variant: name in the tables, kind.
LABELS = {
    ("tarn", RECYCLED): ("tarn::recycler", "tarn"),
    ("tarn", BARE): ("tarn::recycler, take/give_back", "tarn"),
    ("tarn", FRESH): ("C++, fresh", "reference"),
    ("tarn", BY_HAND): ("C++, kept by hand", "reference"),
    ("go", RECYCLED): ("Go sync.Pool", "peer"),
    ("go", FRESH): ("Go, fresh", "reference"),
    ("go", BY_HAND): ("Go, kept by hand", "reference"),
    ("netty", RECYCLED): ("Netty Recycler", "peer"),
    ("netty", FRESH): ("Java, fresh", "reference"),
    ("netty", BY_HAND): ("Java, kept by hand", "reference"),
}
NAMES = {"get_release": "GetRelease", "parallel": "Parallel", "burst100": "Burst100", "cross": "Cross"}
NAMES |= {"buffer10k": "Buffer10k", "json": "Json"}
VARIANT_NAMES = {FRESH: "Fresh", BY_HAND: "ByHand", RECYCLED: "Recycled"}

# Stands in a command for a file that the program is to write its figures to, instead of standard output.
RESULT_FILE = "{result}"

# Of a scene's objects no more than this may be allocated per operation by who says that he recycles them; the documents
# of json hold strings that their parsers allocate.
REUSE_BYTES = 32
REUSING_SCENES = {"get_release", "parallel", "burst100", "cross", "buffer10k"}


@dataclass(frozen=True)
class Effort:
    scale: int  # of tarn's programs, per mille
    go_time: str
    jmh: tuple[str, ...]
    long_enough: bool = True  # for what the first objects cost to disappear in the mean


FULL = Effort(1000, "400ms", ("-wi", "2", "-w", "400ms", "-i", "3", "-r", "200ms"))
QUICK = Effort(20, "5ms", ("-wi", "1", "-w", "20ms", "-i", "1", "-r", "20ms"), False)


@dataclass(frozen=True)
class Task:
    """One contender's run in one cell."""

    label: str
    kind: str
    command: tuple[str, ...]
    parse: Callable[[str], dict[str, float]]
    processors: int | None = None  # the process may use only so many
    environment: dict[str, str] = field(default_factory=dict)
    reuses: bool = False


@dataclass(frozen=True)
class Cell:
    scene: str
    key: str
    tasks: tuple[Task, ...]


def program_of(scene: str, build_dir: Path) -> Path:
    return build_dir / "bench" / f"recyclers_{scene}"


def parse_own(text: str) -> dict[str, float]:
    figures = json.loads(text)
    if not isinstance(figures, dict) or not figures.get("ns", 0) > 0:
        raise OutputError(f"no figure: {text.strip()}")
    return figures


def own_command(program: Path, scene: str, variant: str, effort: Effort) -> tuple[str, ...]:
    order = [str(ORDER)] if scene == "json" else []
    return (str(program), variant, *order, str(effort.scale))


def go_name(scene: str, variant: str) -> str:
    return NAMES[scene] + VARIANT_NAMES[variant]


def go_command(program: Path, scene: str, variant: str, processors: int, effort: Effort) -> tuple[str, ...]:
    return (
        str(program),
        "-test.run=^$",
        f"-test.bench=^Benchmark{go_name(scene, variant)}$",
        "-test.count=1",
        f"-test.benchtime={effort.go_time}",
        f"-test.cpu={processors}",
        "-test.benchmem",
    )


def jmh_method(scene: str, variant: str) -> str:
    # The same method, by more threads.
    name = go_name("get_release" if scene == "parallel" else scene, variant)
    return name[0].lower() + name[1:]


def jmh_command(folder: Path, scene: str, variant: str, effort: Effort) -> tuple[str, ...]:
    # Netty's own threads: in others its Recycler does not keep anything.
    threads = "-Djmh.executor=CUSTOM -Djmh.executor.class=tarn.bench.recyclers.FastThreads"
    return (
        "java",
        "-Djmh.ignoreLock=true",
        *("-cp", f"{folder / 'classes'}:{folder / 'dependency'}/*", "org.openjdk.jmh.Main"),
        *("-f", "1", "-t", str(THREADS.get(scene, 1)), *effort.jmh, "-foe", "true", "-prof", "gc"),
        *("-v", "SILENT", "-rf", "json", "-rff", RESULT_FILE, "-jvmArgsAppend", threads),
        rf"\.{jmh_method(scene, variant)}$",
    )


def processors_of(scene: str, key: str) -> int | None:
    return {ONE: 1, TWO: 2}.get(key)


class Catalogue:
    """Who can run what here."""

    def __init__(self, build_dir: Path, peers: Peers, effort: Effort, patterns: Callable[[str], bool]):
        self.build_dir = build_dir
        self.peers = peers
        self.effort = effort
        self.wanted = patterns

    def task(self, language: str, scene: str, key: str, variant: str) -> Task:
        label, kind = LABELS[language, variant]
        processors = processors_of(scene, key)
        reuses = self.effort.long_enough and scene in REUSING_SCENES and variant == RECYCLED
        if language == "tarn":
            program = program_of(scene, self.build_dir)
            return Task(label, kind, own_command(program, scene, variant, self.effort), parse_own, processors)
        if language == "go":
            command = go_command(self.peers.go, scene, variant, processors or 1, self.effort)
            name = go_name(scene, variant)
            environment = {"RECYCLERS_ORDER": str(ORDER)}
            return Task(
                label, kind, command, lambda text: parse_go(text, name), processors, environment, reuses
            )
        method = jmh_method(scene, variant)
        command = jmh_command(self.peers.netty, scene, variant, self.effort)
        return Task(label, kind, command, lambda text: parse_jmh(text, method), processors, reuses=reuses)

    def languages(self, scene: str) -> list[str]:
        here = {
            "tarn": program_of(scene, self.build_dir).exists(),
            "go": self.peers.go is not None,
            "netty": self.peers.netty is not None,
        }
        return [name for name, is_here in here.items() if is_here and scene in VARIANTS[name]]

    def cell(self, scene: str, key: str) -> Cell:
        tasks = [
            self.task(language, scene, key, variant)
            for language in self.languages(scene)
            for variant in VARIANTS[language][scene]
        ]
        return Cell(scene, key, tuple(task for task in tasks if self.wanted(task.label)))


def cells(scenes: list[str], catalogue: Catalogue, processors: int, notices: list[str]) -> list[Cell]:
    """What can be measured here; what cannot becomes a notice."""
    found = []
    for scene in scenes:
        program = program_of(scene, catalogue.build_dir)
        if not program.exists() and scene != "json":
            raise ContenderError(
                f"{program} is missing; build the benchmarks first (./dev bench --recyclers does, or "
                "cmake --preset bench and cmake --build --preset bench)"
            )
        if not program.exists():
            notices.append(
                "json: simdjson was not found when the build was configured, so tarn takes no part in it "
                "(Debian: apt-get install libsimdjson-dev, then configure again)"
            )
        for key in SCENES[scene]:
            if (processors_of(scene, key) or 1) > processors:
                notices.append(f"{scene}: it wants two processors, and this process may use one")
                continue
            cell = catalogue.cell(scene, key)
            if cell.tasks:
                found.append(cell)
    return found


def bind(processors: int | None) -> Callable[[], None] | None:
    """What a child does before it becomes the program: keeps so many of the processors that this process may use."""
    if processors is None:
        return None
    chosen = set(sorted(os.sched_getaffinity(0))[-processors:])
    return lambda: os.sched_setaffinity(0, chosen)


def run_task(task: Task, limit_seconds: int) -> dict[str, float]:
    with tempfile.NamedTemporaryFile(prefix="tarn-bench") as result:
        command = [result.name if word == RESULT_FILE else word for word in task.command]
        output = output_of(task, command, limit_seconds)
        if RESULT_FILE in task.command:
            output = Path(result.name).read_text()
    figures = task.parse(output)
    if task.reuses and figures.get("bytes", 0) > REUSE_BYTES:
        raise RunFailed(f"it allocated {figures['bytes']:.0f} bytes per operation: nothing was reused")
    return figures


def output_of(task: Task, command: list[str], limit_seconds: int) -> str:
    environment = clean_environment(Contender(SYSTEM, None), task.environment)
    for name in LANGUAGE_VARIABLES:
        environment.pop(name, None)
    # A session of its own: JMH starts a second process, which ends with the first.
    with subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=bind(task.processors),  # noqa: PLW1509  (this process has one thread)
    ) as process:
        try:
            output, errors = process.communicate(timeout=limit_seconds)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise RunFailed(f"stopped after {limit_seconds} s (--limit)") from error
            raise
    if process.returncode != 0:
        lines = (errors.strip() or output.strip()).splitlines()
        raise RunFailed(f"ended with status {process.returncode}: {lines[-1] if lines else 'no word'}")
    return output


class RecyclerSession:
    """Fills results.runs: one entry per round, cell and contender."""

    def __init__(self, results: RecyclerResults, seed: int, limit_seconds: int, run=run_task):
        self.results = results
        self.random = random.Random(seed)
        self.limit_seconds = limit_seconds
        self.run = run
        self.broken: set[tuple[str, str, str]] = set()

    def measure(self, todo: list[Cell], rounds: int, progress: Progress) -> None:
        pairs = [(cell, task) for cell in todo for task in cell.tasks]
        for round_number in range(rounds):
            for cell, task in self.random.sample(pairs, len(pairs)):
                where = f"round {round_number + 1}/{rounds}  {cell.scene} {cell.key}  {task.label}"
                progress.show(where)
                if (cell.scene, cell.key, task.label) not in self.broken:
                    self.one_run(cell, task, round_number, progress)
                progress.step(where)

    def one_run(self, cell: Cell, task: Task, round_number: int, progress: Progress) -> None:
        entry = {"scene": cell.scene, "cell": cell.key, "contender": task.label, "round": round_number}
        try:
            figures = self.run(task, self.limit_seconds)
        except (RunFailed, OSError, ValueError) as error:
            self.broken.add((cell.scene, cell.key, task.label))
            self.results.failures.append({**entry, "reason": str(error)})
            progress.note(f"FAILED: {cell.scene} {cell.key}, {task.label}: {error}")
            return
        self.results.runs.append({**entry, "figures": figures})
