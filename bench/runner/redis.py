# SPDX-License-Identifier: MIT
"""Redis under load: the server runs under the contender, redis-benchmark (without it) measures the time."""

import json
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from peers.contender import Contender, c_library
from runner.launch import Launcher, Measurement, RunFailed, clean_environment, to_measurement
from runner.rows import Row

START_SECONDS = 10
LOAD = [
    "-t",
    "set,get,lpush,lrange_100,hset,zadd",
    "-n",
    "30000",
    "-r",
    "40000",
    "-d",
    "300",
    "-P",
    "16",
    "-c",
    "20",
    "-q",
]


class RedisRow(Row):
    name = "redis"
    group = "real"
    note = "redis-server under redis-benchmark, no persistence"

    def missing(self) -> str | None:
        if all(shutil.which(program) for program in ("redis-server", "redis-cli", "redis-benchmark")):
            return None
        return "not installed (Debian: apt-get install redis-server redis-tools)"

    def programs(self) -> list[str]:
        return [shutil.which("redis-server") or "redis-server"]

    def run(self, launcher: Launcher, contender: Contender) -> Measurement:
        # A socket's path is limited to 107 bytes, so it lies in a short folder of its own.
        with tempfile.TemporaryDirectory(prefix="redis") as folder:
            return self.serve(launcher, contender, Path(folder))

    def serve(self, launcher: Launcher, contender: Contender, folder: Path) -> Measurement:
        socket = folder / "s"
        command = [
            "redis-server",
            "--port",
            "0",
            "--unixsocket",
            str(socket),
            "--save",
            "",
            "--appendonly",
            "no",
            "--daemonize",
            "no",
            "--dir",
            str(folder),
            "--hash-max-listpack-entries",
            "0",
        ]
        # Debian's server is linked with jemalloc; the C library, preloaded, comes first again.
        library = contender.library or c_library()
        server = subprocess.Popen(
            launcher.wrap(command, library),
            stdout=subprocess.PIPE,
            text=True,
            stderr=subprocess.DEVNULL,
            env=clean_environment(contender),
        )
        try:
            self.wait_until_ready(server, socket)
            seconds = self.load(socket)
            keys = self.ask(socket, "dbsize")
        finally:
            self.stop(server, socket)
        try:
            report = json.loads(server.stdout.read())
        except ValueError as error:
            raise RunFailed(f"the server left no report{launcher.last_error()}") from error
        launcher.check(report, contender)
        return to_measurement(report, seconds, "answers" if keys.isdigit() else keys)

    def ask(self, socket: Path, *words: str) -> str:
        answer = subprocess.run(
            ["redis-cli", "-s", str(socket), *words], capture_output=True, text=True, check=False
        )
        return answer.stdout.strip()

    def wait_until_ready(self, server: subprocess.Popen, socket: Path) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and server.poll() is None:
            if socket.exists() and self.ask(socket, "ping") == "PONG":
                return
            time.sleep(0.02)
        raise RunFailed("redis-server did not answer a ping")

    def load(self, socket: Path) -> float:
        start = time.monotonic()
        done = subprocess.run(
            ["redis-benchmark", "-s", str(socket), *LOAD], capture_output=True, text=True, check=False
        )
        seconds = time.monotonic() - start
        if done.returncode != 0 or "Error" in done.stderr:
            raise RunFailed(f"redis-benchmark failed: {done.stderr.strip()[-200:]}")
        return seconds

    def stop(self, server: subprocess.Popen, socket: Path) -> None:
        if server.poll() is None and socket.exists():
            self.ask(socket, "shutdown", "nosave")
        try:
            server.wait(timeout=START_SECONDS)
        except subprocess.TimeoutExpired:
            server.terminate()  # the launcher ends the server with it
            server.wait()
