# SPDX-License-Identifier: MIT
"""Boots a guest under QEMU or as User Mode Linux and reads its tests' results from the serial console."""
import os
import queue
import shutil
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass, field

from kernel_package import Unavailable

BOOT_LIMIT = 60  # seconds until the guest's first line, under KVM; five times as long without


@dataclass
class Result:
    name: str
    status: int | None  # None: the guest ended or hung before the test ended
    seconds: float
    output: list = field(default_factory=list)


@dataclass
class Outcome:
    kernel: str = ""
    results: list = field(default_factory=list)
    error: str = ""  # why the last guest ended early; empty if it ran all its tests

    def add(self, later):
        """Adds the outcome of a later guest."""
        self.kernel = later.kernel or self.kernel
        self.results += later.results
        self.error = later.error


class Machine:
    """How one architecture is emulated."""

    def __init__(self, architecture, memory):
        self.program = {"amd64": "qemu-system-x86_64", "arm64": "qemu-system-aarch64"}[architecture]
        if not shutil.which(self.program):
            raise Unavailable(f"{self.program} is not installed")
        self.native = architecture == {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine)
        self.console = "ttyS0" if architecture == "amd64" else "ttyAMA0"
        self.board = ["-M", "q35"] if architecture == "amd64" else ["-M", "virt"]
        # Without "fast string" instructions: the kernel clears pages with them, and the emulator executes them byte by
        # byte.
        self.cpu = "max,erms=off" if architecture == "amd64" else "cortex-a72"
        self.memory = memory
        # One processor: where the host runs other programs, several emulated processors spend most of the time waiting
        # for each other.
        self.cpus = 1
        self.nodes = 1  # memory nodes, among which the processors and the memory are divided

    def accelerators(self):
        """KVM where it can be opened, then emulation."""
        kvm = self.native and os.access("/dev/kvm", os.R_OK | os.W_OK) and _virtualizes()
        return (["kvm"] if kvm else []) + ["tcg"]

    def topology(self):
        if self.nodes == 1:
            return []
        each, cpus = _mebibytes(self.memory) // self.nodes, self.cpus // self.nodes
        words = []
        for node in range(self.nodes):
            words += ["-object", f"memory-backend-ram,id=node{node},size={each}M",
                      "-numa", f"node,nodeid={node},memdev=node{node},cpus={node * cpus}-{node * cpus + cpus - 1}"]
        return words

    def command(self, accelerator, image, initrd):
        cpu = "host" if accelerator == "kvm" else self.cpu
        return [self.program, *self.board, "-smp", str(self.cpus), "-m", self.memory, *self.topology(), "-accel", accelerator, "-cpu", cpu, "-nodefaults", "-no-reboot",
                "-display", "none", "-serial", "stdio", "-kernel", str(image), "-initrd", initrd,
                "-append", f"console={self.console} quiet loglevel=4 panic=-1 mitigations=off",
                "-virtfs", "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap"]


class UserModeMachine:
    """User Mode Linux, a kernel that is an ordinary program: needs no KVM, runs at full speed, has one processor."""

    def __init__(self, memory):
        self.memory = memory
        self.cpus = 1

    def command(self, _, image, initrd):
        return [str(image), f"mem={self.memory}", f"initrd={initrd}", "con=null", "con0=null,fd:1", "quiet", "loglevel=4",
                "panic=1"]


def _mebibytes(size):
    """The number in a size such as 3G or 512M."""
    return int(size[:-1]) * {"M": 1, "G": 1024}[size[-1]]


def _virtualizes():
    """Whether the processor can run guests. On x86 its flags tell; without them /dev/kvm boots no ordinary kernel."""
    if os.uname().machine != "x86_64":
        return True
    return has_processor_flag("vmx") or has_processor_flag("svm")


def has_processor_flag(name):
    with open("/proc/cpuinfo") as file:
        return any(line.startswith("flags") and name in line.split() for line in file)


def works(machine, accelerator, image):
    """Whether a guest starts with this accelerator: some nested hypervisors offer a KVM that boots nothing."""
    with tempfile.NamedTemporaryFile(suffix=".initrd") as empty:
        guest = _Console(machine.command(accelerator, image, empty.name) + ["-append", f"console={machine.console}"])
        try:
            limit = time.monotonic() + 20
            while (line := guest.line(limit)) is not None:
                if "Linux version" in line:
                    return True
            return False
        finally:
            guest.end()


def run(machine, accelerator, image, initrd, limits, echo, ended):
    """Runs the guest. `limits` maps a test's name to its time limit in seconds. Calls `echo` with every line of the
    console and `ended` with the Result of every test that has ended."""
    with tempfile.NamedTemporaryFile(suffix=".initrd") as file:
        file.write(initrd)
        file.flush()
        guest = _Console(machine.command(accelerator, image, file.name))
        try:
            return _read(guest, BOOT_LIMIT * (1 if accelerator == "kvm" else 5), limits, echo, ended)
        finally:
            guest.end()


def _read(guest, boot_limit, limits, echo, ended):
    outcome = Outcome()
    current = None
    finished = False
    limit = time.monotonic() + boot_limit
    while (line := guest.line(limit)) is not None:
        echo(line)
        words = line.split()
        if line.startswith("@@ kernel"):
            outcome.kernel = " ".join(words[2:])
            limit = time.monotonic() + boot_limit
        elif line.startswith("@@ begin"):
            current = Result(words[2], None, 0)
            limit = time.monotonic() + limits[words[2]] + 30
        elif line.startswith("@@ end"):
            current.status = int(words[3])
            current.seconds = float(words[5]) - float(words[4])
            outcome.results.append(current)
            ended(current)
            current = None
            limit = time.monotonic() + boot_limit
        elif line.startswith("@@ finished"):
            finished = True
        elif line.startswith("@@ broken"):
            outcome.error = line
        elif current is not None:
            current.output.append(line)
    if current is not None:
        outcome.results.append(current)
    if not finished and not outcome.error:
        outcome.error = "the guest ended or hung" + (f" in {current.name}" if current else "")
    return outcome


class _Console:
    """A guest's process and the lines that it prints, which a thread of its own reads."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT)
        self.lines = queue.Queue()
        threading.Thread(target=self._pump, daemon=True).start()

    def _pump(self):
        for line in self.process.stdout:
            self.lines.put(line.decode(errors="replace").rstrip("\r\n"))
        self.lines.put(None)

    def line(self, limit):
        """The next line; None if the guest has ended or the monotonic time `limit` has passed."""
        try:
            return self.lines.get(timeout=max(0.0, limit - time.monotonic()))
        except queue.Empty:
            return None

    def end(self):
        self.process.kill()
        self.process.wait()
