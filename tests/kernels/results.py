# SPDX-License-Identifier: MIT
"""Keeps test results in a file, so that an interrupted run can continue where it ended.

One line of JSON for each test. A kept result is used again for the same test, kernel and user as long as the test's
program and environment and the build's libraries have not changed. Only results of tests that passed or were skipped are kept.
"""
import hashlib
import json
import pathlib

from guest import Result


class Kept:
    """The results in the file `path` for `place` (kernel release, architecture, user). No path: nothing is kept."""

    def __init__(self, path, build, place):
        self.path = path
        self.place = place
        self.libraries = [_digest(file) for file in sorted((pathlib.Path(build) / "lib").glob("*.so*"))]
        self.known = {}
        if path and path.exists():
            for line in path.read_text().splitlines():
                entry = json.loads(line)
                self.known[entry["key"]] = Result(entry["name"], entry["status"], entry["seconds"], entry["output"])

    def result(self, test):
        return self.known.get(self._key(test)) if self.path else None

    def keep(self, test, result):
        if not self.path or result.status not in (0, test.skip_code):
            return
        entry = {"key": self._key(test), "name": test.name, "status": result.status, "seconds": result.seconds,
                 "output": result.output[-1:]}
        with self.path.open("a") as file:
            file.write(json.dumps(entry) + "\n")

    def _key(self, test):
        files = [_digest(pathlib.Path(word)) for word in test.command if pathlib.Path(word).is_file()]
        return _hash(json.dumps([test.name, *self.place, test.command, test.environment, files, self.libraries]).encode())


def _digest(file):
    return _hash(file.read_bytes())


def _hash(content):
    return hashlib.sha256(content).hexdigest()[:32]
