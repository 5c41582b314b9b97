# SPDX-License-Identifier: MIT
"""One line that says where a long measurement stands and how long it will still take."""

import shutil
import sys
import time


def clock_text(seconds: float) -> str:
    whole = max(0, int(round(seconds)))
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"


class Progress:
    """On a terminal one line that is rewritten; elsewhere a line of its own for every tenth of the way."""

    def __init__(self, total: int, stream=sys.stderr, now=time.monotonic):
        self.total = total
        self.done = 0
        self.stream = stream
        self.now = now
        self.start = now()
        self.tenths = 0
        self.live = stream.isatty()

    def remaining(self) -> float | None:
        if self.done == 0:
            return None
        return (self.now() - self.start) / self.done * (self.total - self.done)

    def line(self, text: str) -> str:
        left = self.remaining()
        eta = f", {clock_text(left)} left" if left is not None else ""
        return f"[{self.done}/{self.total}{eta}] {text}"

    def show(self, text: str) -> None:
        if self.live:
            width = shutil.get_terminal_size().columns - 1
            self.stream.write("\r\033[K" + self.line(text)[:width])
            self.stream.flush()

    def step(self, text: str) -> None:
        self.done += 1
        if self.live:
            self.show(text)
        elif self.done * 10 // max(self.total, 1) > self.tenths:
            self.tenths = self.done * 10 // self.total
            self.stream.write(self.line(text) + "\n")
            self.stream.flush()

    def note(self, text: str) -> None:
        """A line that stays."""
        self.stream.write(("\r\033[K" if self.live else "") + text + "\n")
        self.stream.flush()

    def finish(self) -> None:
        if self.live:
            self.stream.write("\r\033[K")
            self.stream.flush()
