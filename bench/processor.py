"""Processor time of processes, from the kernel's own account."""

from __future__ import annotations

import os
from pathlib import Path

_TICK_MS = 1_000 / os.sysconf("SC_CLK_TCK")
_USER, _SYSTEM = 11, 12


def processor_ms(pid: int) -> float:
    """Milliseconds that a process has used so far, all its threads together; 0 if it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0.0
    fields = stat.rpartition(")")[2].split()
    return (int(fields[_USER]) + int(fields[_SYSTEM])) * _TICK_MS


def spent(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    """What each process used in between."""
    return {name: after[name] - before.get(name, 0.0) for name in after}
