"""What the machine gives: bandwidth of its memory, and how much of it the process takes."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from oneglance.types import EngineInfo

if TYPE_CHECKING:
    from oneglance import _native

READ_BYTES = 256 << 20
"""Far more than any cache holds."""
READS = 3
_PROCESSES = Path("/proc")


def memory_reader(runtime: _native.Runtime) -> Callable[[], list[float]]:
    """Makes a task: seconds to read `READ_BYTES` once by the runtime's threads, a few times."""
    from oneglance import _native

    data = np.ones(READ_BYTES, dtype=np.uint8)
    return lambda: [_native.time_read(runtime, data) for _ in range(READS)]


def read_bandwidth(engine: EngineInfo) -> float | None:
    """Bytes per second that the threads of the native engine read from memory, at best.

    Returns:
        None for another engine: it does not read memory as the native one does.
    """
    if engine.kind != "native":
        return None
    from oneglance import _native

    runtime = _native.Runtime(engine.isa or "", engine.num_threads)
    return READ_BYTES / min(memory_reader(runtime)())


def peak_memory() -> int:
    """Bytes of memory that this process has held at once, at most, since it began."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak  # the one tells bytes, others KiB


def held_memory(process: int | str = "self") -> int | None:
    """Bytes of memory that a process holds now; None where the system does not tell.

    Args:
        process: its number; "self" is this one.
    """
    status = _PROCESSES / str(process) / "status"
    if not status.is_file():
        return None
    for line in status.read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        if name == "VmRSS":
            return 1024 * int(value.split()[0])
    return None
