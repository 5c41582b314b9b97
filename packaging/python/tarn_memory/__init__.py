# SPDX-License-Identifier: MIT
"""tarn for Python programs: where the command and the malloc are, and the statistics of a process that runs on tarn.

The functions is_loaded(), stats(), trim(), options() and set_option() are about the present process. They need tarn's malloc
in it, which a process has if it was started by `tarn run`, or with LD_PRELOAD set to library_path(). It cannot be loaded
later. All functions may be called by any thread.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
from typing import Any, NamedTuple

__all__ = [
    "NotLoadedError", "Option", "command_path", "is_loaded", "library_path", "options", "set_option", "stats", "trim"]

_NATIVE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "native")


class NotLoadedError(RuntimeError):
    """The present process does not run on tarn."""


class Option(NamedTuple):
    """An option of tarn with its value in effect. Its environment variable is TARN_ and the name in capital letters."""

    name: str
    value: str
    standard: str
    accepts: str
    meaning: str
    source: str


class _Option(ctypes.Structure):
    # tarn_option of tarn/malloc.h
    _fields_ = [(name, ctypes.c_char_p) for name in Option._fields]


def _native_file(folder: str, name: str) -> str:
    path = os.path.join(_NATIVE, folder, name)
    if not os.path.isfile(path):
        raise FileNotFoundError(
            errno.ENOENT, "this installation of tarn-memory is incomplete; install it again (pip install --force-reinstall)",
            path)
    return path


def command_path() -> str:
    """The path of the tarn command, a native program."""
    return _native_file("bin", "tarn")


def library_path(hardened: bool = False) -> str:
    """The path of tarn's malloc, for LD_PRELOAD; with hardened=True that of the build that checks every block."""
    return _native_file("lib", "libtarn-hardened.so.1" if hardened else "libtarn.so.1")


def _functions() -> ctypes.CDLL | None:
    process = ctypes.CDLL(None)
    if not hasattr(process, "tarn_stats_json"):
        return None
    process.tarn_stats_json.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    process.tarn_stats_json.restype = ctypes.c_size_t
    process.tarn_trim.argtypes = [ctypes.c_size_t]
    process.tarn_trim.restype = ctypes.c_size_t
    process.tarn_option_at.argtypes = [ctypes.c_size_t, ctypes.POINTER(_Option)]
    process.tarn_option_at.restype = ctypes.c_int
    process.tarn_set_option.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
    process.tarn_set_option.restype = ctypes.c_int
    return process


# A preloaded library is there from the start and stays.
_tarn = _functions()


def is_loaded() -> bool:
    """Whether the present process runs on tarn."""
    return _tarn is not None


def _loaded() -> ctypes.CDLL:
    if _tarn is None:
        raise NotLoadedError(
            "this process does not run on tarn; start it by 'tarn run -- python …', or with LD_PRELOAD set to "
            "tarn_memory.library_path()")
    return _tarn


def stats() -> dict[str, Any]:
    """The statistics of tarn in this process: bytes by kind of use, and counts (the fields of tarn_stats).

    Raises NotLoadedError if the process does not run on tarn.
    """
    tarn = _loaded()
    capacity = 4096
    while True:
        text = ctypes.create_string_buffer(capacity)
        length = tarn.tarn_stats_json(text, capacity)
        if length < capacity:
            return json.loads(text.value)
        capacity = length + 4096  # figures grow between two calls


def trim(keep: int = 0) -> int:
    """Gives idle memory back to the system now, except `keep` bytes of free pages. Returns the bytes given back.

    Raises NotLoadedError if the process does not run on tarn, and ValueError if keep is negative or too large.
    """
    tarn = _loaded()
    if not 0 <= keep < 1 << 8 * ctypes.sizeof(ctypes.c_size_t):
        raise ValueError(f"keep must be a size in bytes, not {keep}")
    return tarn.tarn_trim(keep)


def options() -> dict[str, Option]:
    """The options of tarn in this process by name. Raises NotLoadedError if the process does not run on tarn."""
    tarn = _loaded()
    found: dict[str, Option] = {}
    option = _Option()
    while tarn.tarn_option_at(len(found), ctypes.byref(option)) == 0:
        values = (getattr(option, name).decode() for name in Option._fields)
        one = Option(*values)
        found[one.name] = one
    return found


def set_option(name: str, value: str | int) -> None:
    """Sets an option of tarn in this process, e.g. set_option("decay_ms", 5000).

    Raises NotLoadedError if the process does not run on tarn, and ValueError for an unknown option or a bad value, which
    change nothing.
    """
    tarn = _loaded()
    result = tarn.tarn_set_option(name.encode(), str(value).encode())
    if result == errno.ENOENT:
        raise ValueError(f"tarn has no option {name!r}; there are: {', '.join(options())}")
    if result != 0:
        raise ValueError(f"{name} does not accept {str(value)!r}; it accepts {options()[name].accepts}")
