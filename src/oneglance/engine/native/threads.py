"""How many threads a machine has for us."""

from __future__ import annotations

import math
import os
from pathlib import Path

from oneglance.config import MAX_THREADS

CGROUP_LIMIT = Path("/sys/fs/cgroup/cpu.max")
"""Of a Linux container: "quota period" in microseconds, or "max period"."""


def num_usable_cpus(cgroup_limit: Path = CGROUP_LIMIT) -> int:
    """CPUs that this process may use, at least 1 and no more than the kernels take.

    A container's share of processor time counts too: threads beyond it would be stopped, and the
    others would spin until they are back.

    Args:
        cgroup_limit: the file that states that share; it need not exist.
    """
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    try:
        quota, period = cgroup_limit.read_text().split()
        share = math.ceil(int(quota) / int(period))
    except (OSError, ValueError):  # no such file, or no limit ("max")
        share = count
    return max(1, min(count, share, MAX_THREADS))
