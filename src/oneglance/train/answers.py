"""Collected answers on disk: shards that appear whole or not at all, mapped when they are read.

A collection is a folder with `collection.json`, which says what it was made from, and shards
`shard-000000`, …, each a folder of arrays. Disk space for each token, prompts included, is
2 · L · D bytes of states and little else.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from oneglance.checkpoints.sources.files import sync
from oneglance.errors import CheckpointError, ParameterError
from oneglance.heads.folder import write_json
from oneglance.train.answering import Answer
from oneglance.types import IntArray

MANIFEST = "collection.json"
UNFINISHED = ".unfinished"
SHARD_TOKENS = 32_768
"""Tokens after which a shard is written: some minutes of work, some hundred megabytes."""

COLUMNS = ("job", "key", "is_greedy", "start", "length", "prompt_length", "answer_start")
"""Columns of `answers.npy`: where an answer lies in `tokens` and `hidden` (of which the last row
of each answer is zero) and in `normalizers` and `best`, which have rows for answer tokens only."""


@dataclass(frozen=True)
class Shard:
    """Answers of one shard; arrays are mapped, not read.

    Attributes:
        table: [A, 7] see `COLUMNS`.
        tokens: [T] int32.
        hidden: [T, L, D] float16.
        normalizers: [U] float32.
        best: [U] int32.
    """

    table: IntArray
    tokens: NDArray[np.int32]
    hidden: NDArray[np.float16]
    normalizers: NDArray[np.float32]
    best: NDArray[np.int32]


class AnswerWriter:
    """Gathers answers and writes them as shards."""

    def __init__(self, folder: Path, shard_tokens: int = SHARD_TOKENS) -> None:
        """Takes a folder made by `open_collection`.

        Args:
            folder: of the collection.
            shard_tokens: a shard is written when it has so many.
        """
        self._folder = folder
        self._shard_tokens = shard_tokens
        self._waiting: list[Answer] = []
        there = shard_folders(folder)
        self._number = int(there[-1].name.removeprefix("shard-")) + 1 if there else 0

    def add(self, answer: Answer) -> None:
        """Takes an answer; it is on disk after the next `flush`, or when a shard is full."""
        self._waiting.append(answer)
        if sum(len(each.tokens) for each in self._waiting) >= self._shard_tokens:
            self.flush()

    def flush(self) -> None:
        """Writes what is waiting as a shard.

        Raises:
            OSError: the disk is full, say; the shards before it are whole.
        """
        if not self._waiting:
            return
        final = self._folder / f"shard-{self._number:06d}"
        unfinished = final.with_name(final.name + UNFINISHED)
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        for name, array in _arrays(self._waiting).items():
            path = unfinished / f"{name}.npy"
            np.save(path, array)
            sync(path)
        sync(unfinished)
        unfinished.rename(final)
        sync(self._folder)
        self._waiting.clear()
        self._number += 1


def _arrays(answers: Sequence[Answer]) -> dict[str, NDArray[Any]]:
    rows, start, answer_start = [], 0, 0
    for each in answers:
        length = len(each.tokens)
        place = (start, length, each.prompt_length, answer_start)
        rows.append((each.job, each.key, int(each.is_greedy), *place))
        start += length
        answer_start += len(each.best)
    padding = np.zeros((1, *answers[0].hidden.shape[1:]), dtype=np.float16)
    return {
        "answers": np.asarray(rows, dtype=np.int64),
        "tokens": np.concatenate([each.tokens for each in answers]),
        "hidden": np.concatenate([part for each in answers for part in (each.hidden, padding)]),
        "normalizers": np.concatenate([each.log_normalizers for each in answers]),
        "best": np.concatenate([each.best for each in answers]),
    }


def open_collection(folder: Path, manifest: Mapping[str, object]) -> None:
    """Begins a collection, or makes sure that the one that is there is of the same making.

    Args:
        folder: made if it is missing.
        manifest: what decides the answers and their states; JSON values.

    Raises:
        ParameterError: the folder holds a collection of another making, or other things.
        CheckpointError: its manifest cannot be read.
    """
    path = folder / MANIFEST
    if path.exists():
        found = read_manifest(folder)
        for name, value in manifest.items():
            if found.get(name) != value:
                raise ParameterError(
                    f"The answers in {str(folder)!r} were collected with {name} = "
                    f"{found.get(name)!r}, not {value!r}; name another folder, or the same values."
                )
    elif folder.exists() and any(not each.name.startswith(".") for each in folder.iterdir()):
        raise ParameterError(
            f"{str(folder)!r} holds other things than collected answers; name an empty folder."
        )
    else:
        folder.mkdir(parents=True, exist_ok=True)
        write_json(path, manifest)
    for each in folder.glob(f"shard-*{UNFINISHED}"):
        shutil.rmtree(each)


def read_manifest(folder: Path) -> dict[str, Any]:
    """What a collection says of itself.

    Raises:
        CheckpointError: the folder holds none that can be read.
    """
    try:
        value = json.loads((folder / MANIFEST).read_bytes())
    except (OSError, ValueError) as error:
        raise CheckpointError(
            f"{str(folder)!r} has no sound {MANIFEST}; collect the answers into another folder."
        ) from error
    assert isinstance(value, dict)
    return value


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keeps a second process away from a folder that this one writes to.

    Raises:
        ParameterError: another process is at work there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise ParameterError(
            f"Another process is writing to {str(folder)!r}; wait for it, or name another folder."
        ) from None
    try:
        yield
    finally:
        lock.release()


def shard_folders(folder: Path) -> list[Path]:
    """The shards that are complete, in order."""
    found = (each for each in folder.glob("shard-*") if not each.name.endswith(UNFINISHED))
    return sorted(found)


def read_shard(folder: Path) -> Shard:
    """Maps a shard.

    Raises:
        CheckpointError: a file is missing or unsound.
    """
    try:
        return Shard(
            table=np.load(folder / "answers.npy"),
            tokens=np.load(folder / "tokens.npy", mmap_mode="r"),
            hidden=np.load(folder / "hidden.npy", mmap_mode="r"),
            normalizers=np.load(folder / "normalizers.npy", mmap_mode="r"),
            best=np.load(folder / "best.npy", mmap_mode="r"),
        )
    except (OSError, ValueError) as error:
        raise CheckpointError(
            f"{str(folder)!r} is not a sound shard of answers; remove it and collect again."
        ) from error


def finished_jobs(folder: Path) -> set[int]:
    """Numbers of the jobs whose answers are there."""
    done: set[int] = set()
    for each in shard_folders(folder):
        done.update(read_shard(each).table[:, 0].tolist())
    return done
