"""Builds and runs the program that prints what the kernels of an instruction set compute."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import ninja
from filelock import FileLock

ROOT = Path(__file__).parents[2]
BUILDS = ROOT / "build" / "digest"


@dataclass(frozen=True)
class Digest:
    """A built program.

    Attributes:
        command: what runs it.
    """

    command: tuple[str, ...]

    def isas(self) -> list[str]:
        """Names of the instruction sets that it finds on its CPU, best first."""
        return self._lines()

    def of(self, isa: str) -> list[str]:
        """A line for each case, with a hash of the bits that the kernels gave."""
        return self._lines(isa)

    def on(self, *emulator: str) -> Digest:
        """The same program on another CPU."""
        return Digest((*emulator, *self.command))

    def _lines(self, *arguments: str) -> list[str]:
        done = subprocess.run([*self.command, *arguments], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()


def build(name: str, options: Sequence[str]) -> Digest:
    """Compiles what has changed since the last time.

    Args:
        name: of the folder that keeps the build.
        options: definitions for CMake.
    """
    folder = BUILDS / name
    folder.mkdir(parents=True, exist_ok=True)
    cmake = [sys.executable, "-m", "cmake"]
    make = [f"-DCMAKE_MAKE_PROGRAM={Path(ninja.BIN_DIR) / 'ninja'}", "-DCMAKE_BUILD_TYPE=Release"]
    source = ROOT / "csrc" / "digest"
    with FileLock(folder / ".lock"):
        _run([*cmake, "-S", str(source), "-B", str(folder), "-G", "Ninja", *make, *options])
        _run([*cmake, "--build", str(folder)])
    return Digest((str(folder / "digest"),))


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
