"""The machine and the versions, for the head of the report."""

from __future__ import annotations

import datetime
import os
import platform
import re
from pathlib import Path
from typing import Any

SYSTEM = Path("/sys/devices/system/cpu/cpu0/cache")


def describe() -> dict[str, Any]:
    """Processor, cores, caches, memory, operating system, Python and the day."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "caches": _caches(),
        "memory_gb": memory() / 1e9,
        "system": f"{platform.system()}, {platform.machine()}",
        "python": platform.python_version(),
        "date": datetime.date.today().isoformat(),
    }


def memory() -> int:
    """Bytes of physical memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _processor() -> str:
    """Name and, where it says little, family and model."""
    text = Path("/proc/cpuinfo").read_text()
    named = dict(re.findall(r"^(model name|cpu family|model)\s*: (.*)$", text, flags=re.M))
    if not named:
        return platform.machine()
    return f"{named['model name']} (family {named['cpu family']}, model {named['model']})"


def _caches() -> list[str]:
    """Level, kind and size of each cache that the first core sees."""
    found = []
    for folder in sorted(SYSTEM.glob("index*")):
        level, kind, size = ((folder / name).read_text().strip() for name in ("level", "type", "size"))
        found.append(f"L{level} {kind.lower()} {size}")
    return found
