# SPDX-License-Identifier: MIT
"""One line that says where a long measurement stands and how long it will still take."""

import datetime
import sys
import time


class Progress:
    """On a terminal one line that is rewritten; elsewhere a line of its own for every tenth of the way."""

    def __init__(self, total: int):
        self.total, self.done, self.start = total, 0, time.monotonic()
        self.begin, self.end = ("\r\033[K", "") if sys.stderr.isatty() else ("", "\n")

    def step(self, text: str) -> None:
        self.done += 1
        left = (time.monotonic() - self.start) / self.done * (self.total - self.done)
        if not self.end or self.done * 10 // self.total > (self.done - 1) * 10 // self.total:
            line = f"[{self.done}/{self.total}, {datetime.timedelta(seconds=round(left))} left] {text}"
            print(self.begin + line, end=self.end, file=sys.stderr, flush=True)

    def note(self, text: str) -> None:
        """A line that stays."""
        print(self.begin + text, file=sys.stderr, flush=True)
