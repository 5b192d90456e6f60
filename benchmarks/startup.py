"""How long it takes until there is something to see: loading, and the first token."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.subject import Subject, load_engine
from oneglance.bench.timing import seconds_of
from oneglance.checkpoints import load_checkpoint
from oneglance.errors import UnsupportedError

FIRST_TOKENS = 8
"""Tokens of the answer whose first one is waited for."""


def time_load(subject: Subject) -> dict[str, float]:
    """Seconds to read the model's file and to pack its weights, everything imported."""
    start = time.perf_counter()
    checkpoint = load_checkpoint(subject.path)
    read_seconds = time.perf_counter() - start
    pack_seconds = seconds_of(lambda: load_engine(checkpoint, subject.engine_config))
    return {"read": read_seconds, "pack": pack_seconds}


def time_first_token(model_path: Path, num_threads: int, prompt: str) -> float:
    """Seconds from the start of a fresh `oneglance generate` to the first byte of its answer.

    Raises:
        UnsupportedError: the command printed nothing.
    """
    command = [sys.executable, "-m", "oneglance", "generate", "--raw", "--drafter", "none"]
    command += ["--engine", "native", "--threads", str(num_threads)]
    command += ["--max-tokens", str(FIRST_TOKENS), "--model", str(model_path), prompt]
    start = time.perf_counter()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
    ) as process:
        assert process.stdout is not None
        first = os.read(process.stdout.fileno(), 1)
        seconds = time.perf_counter() - start
        _, errors = process.communicate()
    if not first:
        raise UnsupportedError(
            f"`oneglance generate` with {model_path} gave no text: {errors.decode().strip()}."
        )
    return seconds
