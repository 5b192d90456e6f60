"""Files from the Hugging Face hub, through its own client, with a quick answer when it is away."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import (
    HfApi,
    get_hf_file_metadata,
    hf_hub_download,
    hf_hub_url,
    scan_cache_dir,
    snapshot_download,
    try_to_load_from_cache,
)
from huggingface_hub.errors import (
    CacheNotFound,
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
)
from huggingface_hub.utils.tqdm import tqdm as HubBar  # noqa: N812

from oneglance.checkpoints.sources.entry import HubAccess, HubFile, ModelEntry, SourceError
from oneglance.checkpoints.sources.files import (
    byte_stage,
    raise_if_unwritable,
    require_free_space,
)
from oneglance.errors import DownloadError, ParameterError
from oneglance.types import ProgressCallback

HUB_ERRORS: tuple[type[BaseException], ...] = (
    OSError,
    ValueError,
    RuntimeError,
    *HfHubHTTPError.__bases__,
)
"""What the client raises: its own errors, and those of whichever HTTP library its release uses,
whose base class is a base of HfHubHTTPError."""

FOLDER_PATTERNS = [
    "config.json",
    "generation_config.json",
    "*.safetensors",
    "*.safetensors.index.json",
    "tokenizer*",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "chat_template*",
]
"""What a folder of safetensors is made of; other formats of the same weights are not fetched."""

_SEGMENT = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_REFERENCE = re.compile(rf"(?:hf:)?({_SEGMENT}/{_SEGMENT})((?:/{_SEGMENT})+)?")


@dataclass(frozen=True)
class HubReference:
    """A repository, or one GGUF file in it, as a user names it: `[hf:]org/name[/file.gguf]`."""

    repo_id: str
    filename: str | None


def parse_reference(text: str) -> HubReference | None:
    """Reads `[hf:]org/name[/path/file.gguf]`; None if the text does not have that form."""
    match = _REFERENCE.fullmatch(text)
    if match is None:
        return None
    repo_id, rest = match.groups()
    if rest is None:
        return None if repo_id.endswith(".gguf") else HubReference(repo_id, None)
    return HubReference(repo_id, rest[1:]) if rest.endswith(".gguf") else None


def fetch_hub_file(
    source: HubFile,
    entry: ModelEntry,
    partial_dir: Path,
    progress: ProgressCallback,
    access: HubAccess,
) -> Path:
    """Brings a file of the hub into `partial_dir`; its hash is not checked here.

    A copy in the client's own cache is linked instead of fetched.

    Raises:
        SourceError: the hub cannot be reached, or has no such file of the pinned size.
        DownloadError: the disk is full.
    """
    target = partial_dir / f"{entry.name}.gguf"
    cached = try_to_load_from_cache(source.repo_id, source.filename, cache_dir=access.cache_dir)
    if isinstance(cached, str) and Path(cached).stat().st_size == entry.num_bytes:
        _link_or_copy(Path(cached).resolve(), target)
        return target
    folder = partial_dir / "hub"
    shutil.rmtree(folder, ignore_errors=True)  # the client cannot continue what it left there
    try:
        _require_size(source, entry, access)
        require_free_space(partial_dir, entry.num_bytes, entry.name)
        path = hf_hub_download(
            source.repo_id,
            source.filename,
            local_dir=folder,
            endpoint=access.endpoint,
            etag_timeout=access.timeout_seconds,
            tqdm_class=_reporting_bar(byte_stage("download", entry.name), progress),
        )
    except HUB_ERRORS as error:
        raise_if_unwritable(error, partial_dir, entry.name)
        raise SourceError(explain(error)) from error
    Path(path).replace(target)
    shutil.rmtree(folder, ignore_errors=True)
    return target


def fetch_reference(reference: HubReference, progress: ProgressCallback, access: HubAccess) -> Path:
    """Path of a GGUF file or of a folder of safetensors, in the client's own cache.

    A repository without a named file gives its only GGUF file, or else its safetensors.

    Raises:
        DownloadError: the hub cannot be reached, or has no such repository or file.
        ParameterError: the repository has several GGUF files, or nothing that can be read.
    """
    label = reference.repo_id
    try:
        listing = _list_files(label, access)
        filename = reference.filename or choose_gguf(label, listing.names)
        if filename is not None and filename not in listing.names:
            raise DownloadError(_no_such_file(label, filename, listing.names))
        common: dict[str, Any] = {
            "revision": listing.revision,
            "local_files_only": listing.revision is not None,
            "cache_dir": access.cache_dir,
            "endpoint": access.endpoint,
            "etag_timeout": access.timeout_seconds,
            "tqdm_class": _reporting_bar(byte_stage("download", label), progress),
        }
        if filename is None:
            return Path(snapshot_download(label, allow_patterns=FOLDER_PATTERNS, **common))
        return Path(hf_hub_download(label, filename, **common))
    except ParameterError:
        raise  # it is a ValueError too, and not the client's
    except HUB_ERRORS as error:
        raise DownloadError(
            f"{label!r} could not be fetched from the hub: {explain(error)}. Check the name and "
            "the network, or give the path of a local model."
        ) from error


def choose_gguf(repo_id: str, names: list[str]) -> str | None:
    """The only GGUF file among the names of a repository; None if its safetensors are to be used.

    Raises:
        ParameterError: there are several and no safetensors, or neither.
    """
    models = [name for name in names if name.endswith(".gguf") and "mmproj" not in name.lower()]
    if len(models) == 1:
        return models[0]
    if "config.json" in names and any(name.endswith(".safetensors") for name in names):
        return None
    if models:
        raise ParameterError(
            f"{repo_id!r} has {len(models)} GGUF files; name one of them, for example "
            f"{repo_id}/{models[0]} ({', '.join(models)})."
        )
    raise ParameterError(
        f"{repo_id!r} has neither a GGUF file nor config.json with safetensors; name another "
        "repository."
    )


def explain(error: BaseException) -> str:
    """The reason of a failure of the client, in a few words."""
    if isinstance(error, OfflineModeIsEnabled):
        return "HF_HUB_OFFLINE is set"
    if isinstance(error, GatedRepoError):
        return "the repository is gated; accept its terms on the hub and set HF_TOKEN"
    if isinstance(error, RepositoryNotFoundError):
        return "there is no such repository, or it is private and HF_TOKEN is not set"
    if isinstance(error, EntryNotFoundError) and not isinstance(error, FileNotFoundError):
        return "the repository has no such file"
    if isinstance(error, HfHubHTTPError) and error.response is not None:
        return f"the hub answered {error.response.status_code}"
    first_line = (str(error).strip() or type(error).__name__).splitlines()[0]
    return f"the hub cannot be reached ({first_line.rstrip('.')})"


def _require_size(source: HubFile, entry: ModelEntry, access: HubAccess) -> None:
    """Asks for the file's size: a quick failure if the hub is away, where a download would wait."""
    url = hf_hub_url(source.repo_id, source.filename, endpoint=access.endpoint)
    found = get_hf_file_metadata(url, timeout=access.timeout_seconds, endpoint=access.endpoint).size
    if found is not None and found != entry.num_bytes:
        raise SourceError(f"the file has {found} bytes there, and {entry.num_bytes} are expected")


@dataclass(frozen=True)
class _Listing:
    """Names of the files of a repository, and where they are to be taken from.

    Attributes:
        names: paths in the repository.
        revision: commit in the client's cache; None: the hub's main branch.
    """

    names: list[str]
    revision: str | None


def _list_files(repo_id: str, access: HubAccess) -> _Listing:
    """Asks the hub; if it is away, looks what the client's cache has of the repository."""
    try:
        info = HfApi(endpoint=access.endpoint).model_info(repo_id, timeout=access.timeout_seconds)
    except RepositoryNotFoundError:
        raise
    except HUB_ERRORS as error:
        listing = _list_cached(repo_id, access)
        if listing is None:
            raise error
        return listing
    return _Listing([item.rfilename for item in info.siblings or []], revision=None)


def _list_cached(repo_id: str, access: HubAccess) -> _Listing | None:
    """What the client's cache has of the main branch of a repository."""
    try:
        repositories = scan_cache_dir(access.cache_dir).repos
    except CacheNotFound:
        return None
    for repository in repositories:
        if repository.repo_id == repo_id and "main" in repository.refs:
            revision = repository.refs["main"]
            folder = revision.snapshot_path
            names = [file.file_path.relative_to(folder).as_posix() for file in revision.files]
            return _Listing(sorted(names), revision.commit_hash)
    return None


def _no_such_file(repo_id: str, filename: str, names: list[str]) -> str:
    models = ", ".join(name for name in names if name.endswith(".gguf")) or "none"
    return f"{repo_id!r} has no file {filename!r}; its GGUF files are: {models}."


def _link_or_copy(source: Path, target: Path) -> None:
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)  # another file system


def _reporting_bar(stage: str, progress: ProgressCallback) -> type[HubBar]:
    """A bar class for the client that draws nothing and reports bytes to a callback."""

    class ReportingBar(HubBar):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            # A repository has a second bar for bytes on the wire, and older clients one that
            # counts files; only bytes of the files are reported.
            is_wire = str(kwargs.get("name", "")).endswith(".transfer")
            self._is_reported = kwargs.get("unit") == "B" and not is_wire
            super().__init__(*args, **{**kwargs, "disable": True})  # type: ignore[no-untyped-call]

        def update(self, n: float | None = 1) -> bool | None:
            self.n += n or 0
            if self._is_reported:
                total = int(self.total or 0)
                progress(stage, min(int(self.n), total) if total else int(self.n), total)
            return None

    return ReportingBar
