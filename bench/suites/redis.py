# SPDX-License-Identifier: MIT
"""Redis under load: the server runs under the contender, redis-benchmark (without it) measures the time."""

import json
import subprocess
import tempfile
import time
from pathlib import Path

from peers.contender import Contender, c_library
from runner.launch import Launcher, RunFailed, clean_environment, cost
from runner.session import Figures, Task

NOTE = "redis-server under redis-benchmark, no persistence"
PROGRAMS, PACKAGES = ("redis-server", "redis-cli", "redis-benchmark"), "redis-server redis-tools"
START_SECONDS = 10
LOAD = "-t set,get,lpush,lrange_100,hset,zadd -n 30000 -r 40000 -d 300 -P 16 -c 20 -q".split()
SETTINGS = {"--port": "0", "--save": "", "--appendonly": "no", "--daemonize": "no", "--hash-max-listpack-entries": "0"}


class RedisTask(Task):
    def measure(self, launcher: Launcher, touch: bool) -> Figures:
        # A socket's path is limited to 107 bytes, so it lies in a short folder of its own.
        with tempfile.TemporaryDirectory(prefix="redis") as folder:
            return self.serve(launcher, self.malloc, Path(folder))

    def serve(self, launcher: Launcher, contender: Contender, folder: Path) -> Figures:
        socket = folder / "s"
        settings = {**SETTINGS, "--unixsocket": str(socket), "--dir": str(folder)}
        command = [*self.command, *(word for setting in settings.items() for word in setting)]
        # Debian's server is linked with jemalloc; the C library, preloaded, comes first again.
        library = contender.library or c_library()
        server = subprocess.Popen(
            launcher.wrap(command, library),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
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
        return cost(report, seconds, "answers" if keys.isdigit() else keys)

    def ask(self, socket: Path, *words: str) -> str:
        command = ["redis-cli", "-s", str(socket), *words]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()

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
