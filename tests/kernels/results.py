# SPDX-License-Identifier: MIT
"""Results of tests that a file keeps, so that a broken run goes on where it ended.

One line of JSON for each test. A result counts again for the same test, kernel and user while the
test's program and the build's libraries are the same bytes. Only what passed or was skipped is kept from run to run.
"""
import hashlib
import json
import pathlib

from guest import Result


class Kept:
    """The results in `path` that fit `place` (the kernel's release, the user); without a path nothing is kept."""

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
        return _hash(json.dumps([test.name, *self.place, test.command, files, self.libraries]).encode())


def _digest(file):
    return _hash(file.read_bytes())


def _hash(content):
    return hashlib.sha256(content).hexdigest()[:32]
