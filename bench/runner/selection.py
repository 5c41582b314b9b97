# SPDX-License-Identifier: MIT
"""What --scenes and --contenders choose."""

import fnmatch

from peers.contender import ContenderError


class Patterns:
    """Comma-separated shell patterns; none match everything."""

    def __init__(self, text: str | None):
        self.words = [word.strip() for word in (text or "*").split(",") if word.strip()]

    def match(self, *names: str) -> bool:
        return any(fnmatch.fnmatch(name, word) for name in names for word in self.words)

    def check(self, what: str, known: list[str]) -> None:
        """A word without wildcards must be a name; of the others one must match."""
        unknown = [word for word in self.words if not any(sign in word for sign in "*?[") and word not in known]
        if unknown or not self.match(*known):
            here = ", ".join(dict.fromkeys(name for name in known if name))
            raise ContenderError(f"unknown {what} {', '.join(unknown or self.words)}; here are: {here}")
