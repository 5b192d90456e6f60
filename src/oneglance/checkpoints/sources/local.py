"""Models that are already on this machine, named by path."""

from __future__ import annotations

from pathlib import Path

from oneglance.errors import CheckpointError, ParameterError


def find_local(model: str | Path, is_known_name: bool) -> Path | None:
    """The file or folder that a path names; None if `model` is to be read as a name.

    A folder counts if it has `config.json`; another folder that happens to be called like a
    model of the catalog does not hide it.

    Raises:
        ParameterError: `model` is empty.
        CheckpointError: `model` is written as a path, and there is no model.
    """
    text = str(model)
    if not text.strip() or "\0" in text:
        raise ParameterError(f"{text!r} names no model; give a name or a path.")
    path = Path(text).expanduser()
    if path.is_file() or (path / "config.json").is_file():
        return path
    if is_known_name:
        return None
    if path.is_dir():
        raise CheckpointError(
            f"The folder {text} has no config.json; name a model folder or a GGUF file in it."
        )
    if isinstance(model, Path) or _looks_like_path(text):
        raise CheckpointError(f"There is no file or folder {text}; check the path.")
    return None


def _looks_like_path(text: str) -> bool:
    """Whether a text can only be meant as a path; `org/name/file.gguf` may be on the hub."""
    if text.startswith("hf:"):
        return False
    is_rooted = text.startswith(("/", "~", ".")) or "\\" in text
    return is_rooted or (text.endswith(".gguf") and text.count("/") < 2)
