"""Builds and runs the program that prints what the kernels of an instruction set compute."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

ROOT = Path(__file__).parents[2]
BUILDS = ROOT / "build" / "digest"
SCRIPTS = os.pathsep.join([sysconfig.get_path("scripts"), os.defpath])
CMAKE = shutil.which("cmake", path=SCRIPTS)
NINJA = shutil.which("ninja", path=SCRIPTS)


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
    assert CMAKE is not None
    where = ["-S", str(ROOT / "csrc" / "digest"), "-B", str(folder)]
    how = ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={NINJA}", "-DCMAKE_BUILD_TYPE=Release"]
    with FileLock(folder / ".lock"):
        _run([CMAKE, *where, *how, *options])
        _run([CMAKE, "--build", str(folder)])
    return Digest((str(folder / "digest"),))


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
