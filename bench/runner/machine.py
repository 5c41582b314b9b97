# SPDX-License-Identifier: MIT
"""What machine a result was measured on. Names nobody's host."""

import datetime
import os
import platform
import re
from pathlib import Path


def read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def describe() -> dict:
    model = re.search(r"^model name\s*:\s*(.+)$", read("/proc/cpuinfo"), re.MULTILINE)
    memory = re.search(r"^MemTotal:\s+(\d+)", read("/proc/meminfo"), re.MULTILINE)
    huge_pages = re.search(r"\[(\w+)\]", read("/sys/kernel/mm/transparent_hugepage/enabled"))
    return {
        "processor": model.group(1) if model else platform.machine(),
        "processors": processors(),
        "memory_gb": round(int(memory.group(1)) / 1e6) if memory else None,
        "kernel": platform.release(),
        "libc": platform.libc_ver()[1],
        "huge_pages": huge_pages.group(1) if huge_pages else "none",
        "load_before": [round(value, 2) for value in os.getloadavg()],
        "date": datetime.date.today().isoformat(),
    }


def processors() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0))


def say(machine: dict) -> str:
    return (
        f"{machine.get('processor', 'unknown processor')}, {machine.get('processors', '?')} processors, "
        f"{machine.get('memory_gb', '?')} GB, Linux {machine.get('kernel', '?')}, glibc {machine.get('libc', '?')}, "
        f"transparent huge pages `{machine.get('huge_pages', '?')}`"
    )
