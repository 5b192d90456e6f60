"""From a name to a file on this machine: known models, local paths, the hub.

`resolve` is what `oneglance.load` calls. The functions at the end work on the models of `CATALOG`
and the cache folder of this environment; `Catalog` is the same for any entries and folder.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

from oneglance.checkpoints.sources.cache import ModelCache
from oneglance.checkpoints.sources.description import (
    ModelInfo,
    describe_known,
    describe_local,
)
from oneglance.checkpoints.sources.entry import HubAccess, ModelEntry
from oneglance.checkpoints.sources.fetch import fetch
from oneglance.checkpoints.sources.files import file_errors, no_progress, sha256_of
from oneglance.checkpoints.sources.known import CATALOG
from oneglance.checkpoints.sources.local import find_local
from oneglance.checkpoints.sources.locate import (
    ModelStatus,
    find_checked,
    locate,
    model_status,
)
from oneglance.environment import read_environment
from oneglance.errors import CheckpointError, ParameterError, UnsupportedError
from oneglance.types import ProgressCallback

__all__ = [
    "CATALOG",
    "Catalog",
    "ModelInfo",
    "ModelStatus",
    "clear",
    "default_catalog",
    "info",
    "list_models",
    "local_drafts",
    "pull",
    "resolve",
    "verify",
]


class Catalog:
    """Known models and the folder where they are kept."""

    def __init__(
        self,
        entries: Sequence[ModelEntry],
        cache_dir: Path,
        hub: HubAccess | None = None,
    ) -> None:
        """Touches no file and no network.

        Args:
            entries: the models that are known, in the order of listing.
            cache_dir: where pulled models are kept; created when needed.
            hub: how the hub is reached; None: as its client is configured.
        """
        self.entries = {entry.name: entry for entry in entries}
        self._cache = ModelCache(cache_dir)
        self._hub = hub or HubAccess()

    def entry(self, name: str) -> ModelEntry:
        """What is known about a model.

        Raises:
            ParameterError: the name is not known; similar and all known names are in the message.
        """
        if name not in self.entries:
            raise ParameterError(
                f"There is no model {name!r} in the catalog{self._did_you_mean(name)}; "
                f"known are: {', '.join(self.entries)}."
            )
        return self.entries[name]

    def resolve(self, model: str | Path, progress: ProgressCallback = no_progress) -> Path:
        """Path of a GGUF file or model folder on this machine, fetched if need be.

        In this order: an existing local path; a name of the catalog; a repository of the hub,
        `[hf:]org/name` or `[hf:]org/name/file.gguf`.

        Raises:
            ParameterError: `model` is none of these.
            CheckpointError: it is written as a path, and there is no model.
            UnsupportedError: the engines cannot run this model of the catalog.
            DownloadError: no source delivered it.
        """
        local = find_local(model, is_known_name=str(model) in self.entries)
        if local is not None:
            return local
        name = str(model)
        if name in self.entries:
            reason = self.entries[name].unsupported_reason
            if reason is not None:
                raise UnsupportedError(f"{name} cannot be run: {reason}. Choose another model.")
            return self.pull(name, progress)
        # The hub's client is imported only where it is needed; it takes half a second.
        from oneglance.checkpoints.sources.hub import fetch_reference, parse_reference

        reference = parse_reference(name)
        if reference is None:
            raise ParameterError(
                f"Unknown model {name!r}{self._did_you_mean(name)}; give a path, a hub repository "
                f"(org/name) or one of: {', '.join(self.entries)}."
            )
        return fetch_reference(reference, progress, self._hub)

    def pull(
        self, name: str, progress: ProgressCallback = no_progress, accept_license: bool = False
    ) -> Path:
        """Path of a known model, fetched and checked against its pinned hash if need be.

        May be stopped at any point: the next call goes on with the parts that are complete. Two
        processes that pull the same model take turns.

        Raises:
            ParameterError: the name is not known, or its licence has to be accepted first.
            DownloadError: no source delivered the right file, or the disk has no room for it.
        """
        entry = self.entry(name)
        located = find_checked(entry, self._cache, progress)
        if located is not None:
            if located.state == "cached":
                self._cache.discard_partial(name)
            return located.path
        if entry.needs_acceptance and not accept_license:
            raise ParameterError(
                f"{name} is under the {entry.license}, which you have to accept before it is "
                f"fetched: pass --accept-license (accept_license=True). {entry.license_note}"
            )
        folder = self._cache.folder
        with file_errors(folder, name), self._cache.locked(name, progress):
            located = find_checked(
                entry, self._cache, progress
            )  # another process may have pulled it
            return (
                located.path
                if located is not None
                else fetch(entry, self._cache, self._hub, progress)
            )

    def list_models(self) -> list[ModelStatus]:
        """Where each known model stands; hashes nothing."""
        return [model_status(entry, self._cache) for entry in self.entries.values()]

    def local_drafts(self, name: str) -> list[str]:
        """Models on this machine that draft well for a model of the catalog, best first.

        None for what is not in the catalog: nothing is known of it.
        """
        if name not in self.entries:
            return []
        drafts = [self.entries[draft] for draft in self.entries[name].drafts]
        return [entry.name for entry in drafts if locate(entry, self._cache) is not None]

    def verify(self, name: str, progress: ProgressCallback = no_progress) -> Path:
        """Reads the whole file again and compares its hash.

        Returns:
            The file, if it is right.

        Raises:
            ParameterError: the name is not known.
            CheckpointError: the model is not on this machine, or the hash differs.
        """
        entry = self.entry(name)
        located = locate(entry, self._cache)
        if located is None:
            raise CheckpointError(
                f"{name} is not on this machine; get it with `oneglance models pull {name}`."
            )
        found = sha256_of(located.path, name, progress)
        if found != entry.sha256:
            self._cache.forget(name)
            raise CheckpointError(
                f"{located.path} has SHA-256 {found}, and {entry.sha256} is expected; replace it "
                f"with `oneglance models pull {name}`."
            )
        self._cache.record(entry, located.path, located.source)
        return located.path

    def info(self, name: str | Path, progress: ProgressCallback = no_progress) -> ModelInfo:
        """Facts about a known model or a local file or folder; fetches nothing.

        Raises:
            ParameterError: the name is not known, and there is no such path.
            CheckpointError: the file is damaged or of a kind that is not supported.
        """
        # `checkpoints` may import this module, so what it offers is imported late.
        from oneglance.checkpoints import load_checkpoint

        local = find_local(name, is_known_name=str(name) in self.entries)
        if local is not None:
            return describe_local(load_checkpoint(local, progress=progress))
        entry = self.entry(str(name))
        located = find_checked(entry, self._cache, progress)
        if located is None or not entry.is_supported:
            return describe_known(entry, None if located is None else located.path, None)
        checkpoint = load_checkpoint(located.path, name=entry.name, progress=progress)
        return describe_known(entry, located.path, checkpoint)

    def clear(self, name: str | None = None) -> int:
        """Removes a pulled model, or all known ones, finished or not, from the cache folder.

        Returns:
            Bytes freed.

        Raises:
            ParameterError: the name is not known.
            DownloadError: the model is being pulled, or a link leads out of the cache folder.
        """
        names = list(self.entries) if name is None else [self.entry(name).name]
        return sum(self._cache.clear(each) for each in names)

    def _did_you_mean(self, name: str) -> str:
        near = difflib.get_close_matches(name.lower(), self.entries, n=3, cutoff=0.5)
        return f" (did you mean {' or '.join(near)}?)" if near else ""


def default_catalog(cache_dir: Path | None = None) -> Catalog:
    """The models of `CATALOG`, kept in `cache_dir` or the cache folder of this environment.

    Raises:
        ParameterError: an environment variable of this package has a value that cannot be used.
    """
    return Catalog(CATALOG, read_environment().models_dir if cache_dir is None else cache_dir)


def resolve(
    model: str | Path, progress: ProgressCallback | None = None, cache_dir: Path | None = None
) -> Path:
    """Path of a model on this machine, fetched if need be; see `Catalog.resolve`."""
    return default_catalog(cache_dir).resolve(model, progress or no_progress)


def pull(name: str, progress: ProgressCallback | None = None, accept_license: bool = False) -> Path:
    """Path of a known model, fetched and checked if need be; see `Catalog.pull`."""
    return default_catalog().pull(name, progress or no_progress, accept_license)


def list_models() -> list[ModelStatus]:
    """Where each known model stands; see `Catalog.list_models`."""
    return default_catalog().list_models()


def local_drafts(name: str) -> list[str]:
    """Models on this machine that draft well for another; see `Catalog.local_drafts`."""
    return default_catalog().local_drafts(name)


def verify(name: str, progress: ProgressCallback | None = None) -> Path:
    """Hashes a known model again; see `Catalog.verify`."""
    return default_catalog().verify(name, progress or no_progress)


def clear(name: str | None = None) -> int:
    """Removes one known model, or all, from the cache folder; see `Catalog.clear`."""
    return default_catalog().clear(name)


def info(name: str, progress: ProgressCallback | None = None) -> ModelInfo:
    """Facts about a known model or a local path; see `Catalog.info`."""
    return default_catalog().info(name, progress or no_progress)
