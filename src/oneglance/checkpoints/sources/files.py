"""Byte work that all sources share: hashing, free space, errors of the file system, progress."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from oneglance.errors import DownloadError
from oneglance.types import ProgressCallback

CHUNK_BYTES = 1 << 20
BYTES_SUFFIX = " (bytes)"
"""Ends the name of a stage whose progress is counted in bytes."""

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST}


def byte_stage(verb: str, name: str) -> str:
    """Name of a stage that counts bytes, for example "download smollm2-135m (bytes)"."""
    return f"{verb} {name}{BYTES_SUFFIX}"


def no_progress(stage: str, done: int, total: int) -> None:
    """A progress callback that reports nowhere."""


def format_bytes(count: float) -> str:
    """A size for people, in decimal units: "92.3 MB"."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def sha256_of(path: Path, name: str, progress: ProgressCallback) -> str:
    """Hash of a file in hexadecimal digits, read in pieces; reports a stage "check NAME"."""
    stage, total, done = byte_stage("check", name), path.stat().st_size, 0
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
            done += len(chunk)
            progress(stage, done, total)
    return digest.hexdigest()


def folder_bytes(folder: Path) -> int:
    """Bytes in all files below a folder that may be changing; links are not followed."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(parent) / name).lstat().st_size
            except FileNotFoundError:
                continue  # it was renamed between the listing and now
    return total


def require_free_space(folder: Path, needed: int, name: str) -> None:
    """Refuses to start what cannot be finished.

    Raises:
        DownloadError: fewer than `needed` bytes are free where `folder` lies.
    """
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise DownloadError(
            f"{name} needs {format_bytes(needed)} of free disk space in {folder}, where "
            f"{format_bytes(free)} are free; free some, or set ONEGLANCE_CACHE to another folder."
        )


@contextmanager
def file_errors(folder: Path, name: str) -> Iterator[None]:
    """Turns a full disk or a folder that may not be written into an error with a remedy.

    Raises:
        DownloadError: in place of such an `OSError`; all others pass.
    """
    try:
        yield
    except OSError as error:
        raise_if_unwritable(error, folder, name)
        raise


def raise_if_unwritable(error: BaseException, folder: Path, name: str) -> None:
    """Raises DownloadError if an error says that nothing more can be written to `folder`."""
    code = error.errno if isinstance(error, OSError) else None
    if code in _FULL:
        raise DownloadError(
            f"The disk of {folder} is full, and {name} is not complete; free some space and pull "
            "again, what is there already is kept."
        ) from error
    if code in _FORBIDDEN:
        raise DownloadError(
            f"{folder} cannot be written ({os.strerror(code or 0)}); set ONEGLANCE_CACHE to a "
            "folder that can."
        ) from error


def sync(path: Path) -> None:
    """Forces a file, or the entries of a folder, onto the disk where the system can do that."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return  # Windows opens no folders; a rename is durable there without it
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
