# SPDX-License-Identifier: MIT
"""libtarn-jemalloc instead of jemalloc in an unchanged redis-server: throughput, CPU time, resident memory, fragmentation.

Each round starts one server per contender, in an order that changes from round to round: jemalloc, tarn, and jemalloc once
more as its twin, whose difference from jemalloc is that of the machine. A server is loaded by redis-benchmark, which counts
requests per second; then it is filled with values of many sizes, seven of eight are deleted, and after a pause its resident
memory is set against what redis itself counts as used. Then a program with a cache of its own defragments it as Valkey does
(tests/jemalloc/defragment.c).

    ./dev bench --jemalloc [-n ROUNDS] [--requests N] [--keys N] [--json FILE]

Goals, judged by the median of the rounds' ratios to jemalloc: throughput at least 0.98, CPU time and resident memory at most
1.00, each with the twin's difference as slack. Exit status: 0 if all are met, 1 if not, 2 if it cannot run here.
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
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GOALS = {
    "requests/s": (0.98, True),
    "CPU s": (1.0, False),
    "resident after load": (1.0, False),
    "resident after deletes": (1.0, False),
    "fragmentation": (1.0, False),
    "defragmented": (1.0, False),
    "defragmentation CPU s": (1.0, False),
}
LOAD = "-t set,get,incr,lpush,lpop,sadd,hset,zadd,lrange_100,mset -c 50 -P 16 -r 100000 -d 300 --csv".split()


class CannotRun(Exception):
    """What is missing, and how to get it."""


def plain_environment() -> dict:
    ours = ("TARN_", "MALLOC_CONF", "LD_")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


class Server:
    def __init__(self, folder: Path, library_folder: Path | None):
        self.socket = folder / "s"
        environment = plain_environment()
        if library_folder:
            environment["LD_LIBRARY_PATH"] = str(library_folder)
        settings = f"--port 0 --unixsocket {self.socket} --dir {folder} --appendonly no --daemonize no --logfile {folder}/log"
        self.process = subprocess.Popen(
            ["redis-server", *settings.split(), "--save", ""], env=environment, stdout=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            if self.socket.exists() and self.ask("ping") == "PONG":
                return
            time.sleep(0.02)
        raise CannotRun("redis-server does not answer")

    def ask(self, *words: str) -> str:
        command = ["redis-cli", "-s", str(self.socket), *words]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()

    def info(self, section: str, field: str) -> float:
        for line in self.ask("info", section).splitlines():
            if line.startswith(field + ":"):
                return float(line.split(":")[1])
        raise CannotRun(f"redis has no field {field}")

    def cpu(self) -> float:
        return self.info("cpu", "used_cpu_user") + self.info("cpu", "used_cpu_sys")

    def resident(self) -> int:
        for line in Path(f"/proc/{self.process.pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
        raise CannotRun("the kernel has no smaps_rollup")

    def maps(self) -> str:
        return Path(f"/proc/{self.process.pid}/maps").read_text(encoding="utf-8")

    def stop(self) -> None:
        if self.process.poll() is None:
            self.ask("shutdown", "nosave")
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def protocol(words: list[str]) -> bytes:
    return (f"*{len(words)}\r\n" + "".join(f"${len(word)}\r\n{word}\r\n" for word in words)).encode()


def write_load(folder: Path, keys: int) -> None:
    """Files with commands: one fills, one deletes seven of eight keys in random order."""
    chance = random.Random(1)
    filler = "0123456789" * 200
    with open(folder / "fill", "wb") as fill:
        for i in range(keys):
            length = chance.choice((30, 60, 100, 200, 400, 900)) + chance.randrange(40)
            fill.write(protocol(["SET", f"key:{i}", filler[:length]]))
    doomed = [i for i in range(keys) if chance.randrange(8) != 0]
    chance.shuffle(doomed)
    with open(folder / "delete", "wb") as delete:
        for i in doomed:
            delete.write(protocol(["DEL", f"key:{i}"]))


def send(server: Server, path: Path) -> None:
    with open(path, "rb") as commands:
        command = ["redis-cli", "-s", str(server.socket), "--pipe"]
        subprocess.run(command, stdin=commands, stdout=subprocess.DEVNULL, check=True)


def requests_per_second(server: Server, requests: int) -> float:
    command = ["redis-benchmark", "-s", str(server.socket), *LOAD, "-n", str(requests)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [line.split('","') for line in done.stdout.splitlines() if line.startswith('"')]
    rates = [float(row[1].strip('"')) for row in rows if row[0].strip('"') != "test"]
    if not rates:
        raise CannotRun(f"redis-benchmark gave no figure: {done.stdout[:200]}")
    return statistics.geometric_mean(rates)


def measure(contender: str, library_folder: Path | None, library: Path, load: Path, options) -> dict:
    with tempfile.TemporaryDirectory(prefix="tarn-drop-in") as name:
        server = Server(Path(name), library_folder)
        try:
            is_tarn = library_folder is not None
            if (str(library) in server.maps()) != is_tarn or ("/libjemalloc.so" in server.maps()) == is_tarn:
                raise CannotRun(f"{contender}: the server has loaded another malloc than it should have")
            found = {"requests/s": requests_per_second(server, options.requests)}
            found["CPU s"] = server.cpu()
            found["resident after load"] = server.resident()
            server.ask("flushall", "sync")
            send(server, load / "fill")
            found["resident full"] = server.resident()
            send(server, load / "delete")
            time.sleep(options.pause)
            found["resident after deletes"] = server.resident()
            found["fragmentation"] = server.resident() / server.info("memory", "used_memory")
        finally:
            server.stop()
    return found


def defragment(program: Path, library: Path) -> dict:
    environment = {**plain_environment(), "LD_PRELOAD": str(library)}
    done = subprocess.run([program], env=environment, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)
    return {"defragmented": found["ratio_after"], "defragmentation CPU s": found["seconds"], "moves": found["moves"]}


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="run.py jemalloc", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-n", "--rounds", type=int, default=7)
    parser.add_argument("--requests", type=int, default=200000, help="of each kind, per round")
    parser.add_argument("--keys", type=int, default=400000)
    pause_help = "seconds before resident memory is read; jemalloc gives memory back after 10"
    parser.add_argument("--pause", type=float, default=12.0, help=pause_help)
    parser.add_argument("--build", type=Path, help="build folder; without it build/bench, else build/release")
    parser.add_argument("--json", type=Path, help="writes the figures of every round into this file")
    options = parser.parse_args(words)
    try:
        return compare(options)
    except CannotRun as problem:
        print(f"cannot run here: {problem}", file=sys.stderr)
        return 2


def linked_jemalloc() -> Path:
    for command in ("redis-server", "redis-cli", "redis-benchmark"):
        if not shutil.which(command):
            raise CannotRun(f"{command} is missing: install the Debian packages redis-server and redis-tools")
    command = ["ldd", str(shutil.which("redis-server"))]
    linked = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    if "libjemalloc.so.2 => " not in linked:
        raise CannotRun("redis-server is not linked with libjemalloc.so.2 here")
    return Path(linked.split("libjemalloc.so.2 => ")[1].split()[0])


def compare(options) -> int:
    if options.build is None:
        choices = [ROOT / "build" / preset for preset in ("bench", "release")]
        options.build = next((b for b in choices if (b / "lib" / "libtarn-jemalloc.so.2").exists()), choices[-1])
    library = (options.build / "lib" / "libtarn-jemalloc.so.2").resolve()
    program = (options.build / "tests" / "jemalloc" / "defragment").resolve()
    for path in (library, program):
        if not path.exists():
            raise CannotRun(f"{path} is missing; build the targets tarn_jemalloc and jemalloc_defragment")
    peer = linked_jemalloc()
    rounds = []
    with tempfile.TemporaryDirectory(prefix="tarn-drop-in") as name:
        folder = Path(name)
        (folder / "link").mkdir()
        (folder / "link" / "libjemalloc.so.2").symlink_to(library)
        write_load(folder, options.keys)
        contenders = [("jemalloc", None, peer), ("tarn", folder / "link", library), ("twin", None, peer)]
        for number in range(options.rounds):
            found = {}
            for contender, library_folder, preloaded in contenders[number % 3 :] + contenders[: number % 3]:
                figures = measure(contender, library_folder, library, folder, options) | defragment(program, preloaded)
                found[contender] = figures
                text = ", ".join(f"{what} {value:.4g}" for what, value in figures.items())
                print(f"round {number + 1}, {contender}: {text}", file=sys.stderr)
            rounds.append(found)
            if options.json:
                options.json.write_text(json.dumps(rounds, indent=1) + "\n", encoding="utf-8")
    return judge(rounds)


def judge(rounds: list[dict]) -> int:
    missed = 0
    print(f"{'':24}{'jemalloc':>14}{'tarn':>14}{'tarn/jemalloc':>16}{'twin/jemalloc':>16}")
    for what, (goal, more_is_better) in GOALS.items():
        medians = [statistics.median(r[c][what] for r in rounds) for c in ("jemalloc", "tarn")]
        ratio, twin = (statistics.median(r[c][what] / r["jemalloc"][what] for r in rounds) for c in ("tarn", "twin"))
        slack = abs(twin - 1)
        met = ratio >= goal - slack if more_is_better else ratio <= goal + slack
        missed += not met
        verdict = "" if met else f"  goal {goal} missed"
        print(f"{what:24}{medians[0]:>14.5g}{medians[1]:>14.5g}{ratio:>16.3f}{twin:>16.3f}{verdict}")
    return 1 if missed else 0
