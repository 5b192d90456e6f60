"""Which file of a known model is on this machine, and whether it is the right one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from oneglance.checkpoints.sources.cache import ModelCache
from oneglance.checkpoints.sources.entry import InstalledFile, ModelEntry
from oneglance.checkpoints.sources.files import sha256_of
from oneglance.checkpoints.sources.installed import find_installed
from oneglance.types import ProgressCallback

ModelState = Literal["cached", "in package", "not pulled"]


@dataclass(frozen=True)
class ModelStatus:
    """Where a known model stands.

    Attributes:
        name: its name.
        description: one line.
        license: name of the licence.
        state: cached (in the cache folder), in package (an installed package carries it) or not
            pulled.
        path: the file; None if not pulled.
        bytes_on_disk: size of the file, or of what an unfinished pull has got.
        source: where the file came from, or would come from first.
        unsupported_reason: why the engines cannot run it; None if they can.
    """

    name: str
    description: str
    license: str
    state: ModelState
    path: Path | None
    bytes_on_disk: int
    source: str
    unsupported_reason: str | None


@dataclass(frozen=True)
class Located:
    """A file of a known model on this machine, its content perhaps not checked yet."""

    path: Path
    state: ModelState
    source: str


def locate(entry: ModelEntry, cache: ModelCache) -> Located | None:
    """The file of a model, its content unchecked: the pulled one, else an installed one."""
    pulled = cache.path(entry.name)
    if pulled.is_file():
        marker = cache.marker(entry.name)
        is_about_it = marker is not None and marker.path == str(pulled)
        label = marker.source if marker is not None and is_about_it else "cache folder"
        return Located(pulled, "cached", label)
    for source in entry.sources:
        if isinstance(source, InstalledFile):
            path = find_installed(source)
            if path is not None:
                return Located(path, "in package", source.label)
    return None


def find_checked(
    entry: ModelEntry, cache: ModelCache, progress: ProgressCallback
) -> Located | None:
    """The file of a model if it has the pinned hash; hashed only if not recorded already."""
    located = locate(entry, cache)
    if located is None or located.path.stat().st_size != entry.num_bytes:
        return None
    if not cache.is_recorded(entry, located.path):
        if sha256_of(located.path, entry.name, progress) != entry.sha256:
            return None
        cache.record(entry, located.path, located.source)
    return located


def model_status(entry: ModelEntry, cache: ModelCache) -> ModelStatus:
    """Where a known model stands; hashes nothing."""
    located = locate(entry, cache)
    size = cache.partial_bytes(entry.name)
    if located is not None:
        size = located.path.stat().st_size
    return ModelStatus(
        name=entry.name,
        description=entry.description,
        license=entry.license,
        state=located.state if located is not None else "not pulled",
        path=located.path if located is not None else None,
        bytes_on_disk=size,
        source=located.source if located is not None else _remote_label(entry),
        unsupported_reason=entry.unsupported_reason,
    )


def _remote_label(entry: ModelEntry) -> str:
    """The sources that can be fetched from, in order."""
    remote = [source for source in entry.sources if not isinstance(source, InstalledFile)]
    return ", else ".join(source.label for source in remote)
