# SPDX-License-Identifier: MIT
"""The tests of a build folder, as ctest describes them."""
import json
import math
import pathlib
import re
import subprocess
from dataclasses import dataclass


@dataclass
class Test:
    name: str
    command: list
    environment: list  # NAME=VALUE
    timeout: float
    skip_code: int | None
    folder: str


def read(build, labels, wanted, unwanted):
    """The built tests that have one of `labels` and a name that matches `wanted` and not `unwanted` (regular expressions).

    In the order of the time that they took when ctest ran them last; tests that it has not run come last."""
    listing = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], check=True, stdout=subprocess.PIPE)
    root = str(pathlib.Path(build).resolve())
    tests = []
    for entry in json.loads(listing.stdout)["tests"]:
        properties = {item["name"]: item["value"] for item in entry.get("properties", [])}
        name = entry["name"]
        if not set(labels) & set(properties.get("LABELS", [])) or "command" not in entry:
            continue
        if not re.search(wanted, name) or (unwanted and re.search(unwanted, name)):
            continue
        command = entry["command"]
        environment = [e for e in properties.get("ENVIRONMENT", []) if e]
        emulated = [int(e.split("=")[1]) for e in environment if e.startswith("GUARANTEE_SLOWNESS=")]
        # Without the slowness of a cross build's emulator; run.py applies that of the guest.
        timeout = properties.get("TIMEOUT", 60) / (emulated[0] if emulated else 1)
        if "qemu-" in command[0]:  # a cross build's commands begin with an emulator; the guest needs none
            command = command[next(i for i, word in enumerate(command) if word.startswith(root)):]
        tests.append(Test(name, command, environment, timeout, properties.get("SKIP_RETURN_CODE"),
                          properties.get("WORKING_DIRECTORY", build)))
    seconds = costs(build)
    return sorted(tests, key=lambda test: seconds.get(test.name, math.inf))


def costs(build):
    """{test name: seconds that the test took when ctest last ran it in this build folder}."""
    file = pathlib.Path(build) / "Testing/Temporary/CTestCostData.txt"
    lines = [line.split() for line in file.read_text().splitlines()] if file.exists() else []
    return {words[0]: float(words[2]) for words in lines if len(words) == 3}
