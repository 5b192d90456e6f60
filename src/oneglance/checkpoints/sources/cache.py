"""The folder of pulled models: its layout, what is trusted in it, locks, and safe removal.

NAME.gguf        complete and checked
NAME.json        what was checked: path, size, time of change, hash, source
partial/NAME/    what an unfinished pull has got so far
locks/NAME.lock  held by the process that pulls or clears NAME
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from oneglance.checkpoints.sources.entry import ModelEntry
from oneglance.checkpoints.sources.files import file_errors, folder_bytes
from oneglance.errors import DownloadError
from oneglance.types import ProgressCallback

# Imported where a lock is taken, which loading a model that is here does not need.
if TYPE_CHECKING:
    import filelock


@dataclass(frozen=True)
class Marker:
    """Record that a file had a certain hash when it had this size and time of change."""

    path: str
    num_bytes: int
    modified_ns: int
    sha256: str
    source: str


class ModelCache:
    """The folder of pulled models. Nothing outside it is ever removed."""

    def __init__(self, folder: Path) -> None:
        """Does not create the folder; `locked` does."""
        self.folder = folder

    def path(self, name: str) -> Path:
        """Where the complete file is."""
        return self.folder / f"{name}.gguf"

    def partial_dir(self, name: str) -> Path:
        """Where an unfinished pull keeps what it has."""
        return self.folder / "partial" / name

    def _marker_path(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def marker(self, name: str) -> Marker | None:
        """The record of the last check; None if there is none that can be read."""
        try:
            return Marker(**json.loads(self._marker_path(name).read_text()))
        except (OSError, ValueError, TypeError):
            return None  # no record only means that the file is hashed again

    def is_recorded(self, entry: ModelEntry, path: Path) -> bool:
        """Whether this very file, unchanged since, has been found to have the pinned hash."""
        status = path.stat()
        marker = self.marker(entry.name)
        return marker is not None and (
            marker.path == str(path)
            and marker.num_bytes == status.st_size == entry.num_bytes
            and marker.modified_ns == status.st_mtime_ns
            and marker.sha256 == entry.sha256
        )

    def record(self, entry: ModelEntry, path: Path, source: str) -> None:
        """Records that `path` has the pinned hash; the file of the record changes in one step."""
        status = path.stat()
        marker = Marker(str(path), status.st_size, status.st_mtime_ns, entry.sha256, source)
        target = self._marker_path(entry.name)
        draft = target.with_name(f"{target.name}.{os.getpid()}.tmp")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            draft.write_text(json.dumps(asdict(marker), indent=2) + "\n")
            draft.replace(target)
        except OSError:
            return  # a record saves time, nothing else; a read-only folder does without

    def forget(self, name: str) -> None:
        """Removes the record of a check."""
        self._marker_path(name).unlink(missing_ok=True)

    def partial_bytes(self, name: str) -> int:
        """Bytes that an unfinished pull has got."""
        return folder_bytes(self.partial_dir(name))

    @contextmanager
    def locked(self, name: str, progress: ProgressCallback) -> Iterator[None]:
        """Holds the lock of a model, waiting for another process that has it.

        Raises:
            DownloadError: the folder cannot be created or written.
        """
        import filelock

        with file_errors(self.folder, name):
            lock = self._lock(name)
            try:
                lock.acquire(timeout=0)
            except filelock.Timeout:
                progress(f"wait for another process that pulls {name}", 0, 0)
                lock.acquire()
        try:
            yield
        finally:
            lock.release()

    def _lock(self, name: str) -> filelock.BaseFileLock:
        import filelock

        path = self.folder / "locks" / f"{name}.lock"
        path.parent.mkdir(parents=True, exist_ok=True)
        return filelock.FileLock(path)

    def discard_partial(self, name: str) -> None:
        """Removes what a pull left that was stopped just after it had finished the file."""
        if not self.partial_dir(name).is_dir():
            return
        import filelock

        try:
            with self._lock(name).acquire(timeout=0):
                self._remove(self.partial_dir(name))
        except (filelock.Timeout, OSError):
            return  # somebody is at work there, or nothing can be removed; it does no harm

    def clear(self, name: str) -> int:
        """Removes what the cache has of a model, finished or not.

        Returns:
            Bytes that this frees; a file that has other names elsewhere frees none.

        Raises:
            DownloadError: the model is being pulled, or a folder of the cache is a link that leads
                out of it.
        """
        if not self.folder.is_dir():
            return 0
        import filelock

        with file_errors(self.folder, name):
            lock = self._lock(name)
            try:
                lock.acquire(timeout=0)
            except filelock.Timeout:
                raise DownloadError(
                    f"{name} is being pulled by another process; clear it when that has ended."
                ) from None
            try:
                targets = [self.path(name), self._marker_path(name), self.partial_dir(name)]
                return sum(self._remove(target) for target in targets)
            finally:
                lock.release()

    def _remove(self, target: Path) -> int:
        """Removes a file, a link (never what it points to) or a folder; returns bytes freed."""
        if not target.parent.resolve().is_relative_to(self.folder.resolve()):
            raise DownloadError(
                f"{target.parent} leads out of the cache folder {self.folder}, so nothing is "
                "removed there; remove that link first."
            )
        if target.is_symlink():
            target.unlink()
            return 0
        if target.is_dir():
            freed = folder_bytes(target)
            shutil.rmtree(target)  # it unlinks links and does not follow them
            return freed
        if not target.exists():
            return 0
        status = target.stat()
        target.unlink()
        return status.st_size if status.st_nlink == 1 else 0
