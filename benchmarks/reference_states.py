"""The reference engine's last hidden states over windows of text, kept on disk.

The reference engine needs a good part of a second for ten tokens. So what it gave for a window is
saved as soon as it is there: a run that is interrupted goes on where it was, and another run over
the same windows starts where the reference engine is done. The final states are kept and not the
logits, which the head makes of them and which take a hundred times the space.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from oneglance.checkpoints.base import Checkpoint
from oneglance.config import EngineConfig
from oneglance.engine.base import Batch, Engine, PassOutput, TreeRows
from oneglance.engine.reference import ReferenceEngine
from oneglance.types import Float32Array

CHUNK = 64
"""Rows of a pass; they change no bit."""


class ReferenceStates:
    """Final states [N, D] of windows, from the disk or else from the reference engine."""

    def __init__(self, checkpoint: Checkpoint, folder: Path) -> None:
        """Reads nothing yet but the model file, to know it again.

        Args:
            checkpoint: the model.
            folder: where states are kept; it is made when needed.
        """
        self._checkpoint = checkpoint
        self._folder = folder
        self._model_sha256 = sha256_of_model(checkpoint.path)
        self._engine: Engine | None = None

    def of(self, window: Sequence[int]) -> Float32Array:
        """The normalised states behind the last layer, one for each token of a window."""
        path = self._path(window)
        if path.exists():
            states: Float32Array = np.load(path)
            return states
        states = final_states(self._reference_engine(), window)
        self._folder.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial.npy")  # an interrupted run leaves no half a window
        np.save(partial, states)
        partial.replace(path)
        return states

    def _path(self, window: Sequence[int]) -> Path:
        key = f"{self._model_sha256} {' '.join(map(str, window))}"
        return self._folder / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.npy"

    def _reference_engine(self) -> Engine:
        if self._engine is None:
            config, weights = self._checkpoint.config, self._checkpoint.weights
            self._engine = ReferenceEngine(config, weights, EngineConfig(kind="reference"))
        return self._engine


def final_states(engine: Engine, tokens: Sequence[int]) -> Float32Array:
    """The normalised states behind the last layer, [N, D]."""
    last = engine.config.num_layers
    return np.concatenate(
        [output.hidden[last][0] for output in _passes(engine, tokens, False, (last,))]
    )


def logits_in_chunks(engine: Engine, tokens: Sequence[int]) -> Iterator[Float32Array]:
    """Logits of every token of a window, [at most `CHUNK`, V] at a time."""
    return (output.logits[0] for output in _passes(engine, tokens, True))


def _passes(
    engine: Engine,
    tokens: Sequence[int],
    wants_logits: bool,
    hidden_layers: tuple[int, ...] = (),
) -> Iterator[PassOutput]:
    sequence = engine.open()
    try:
        for start in range(0, len(tokens), CHUNK):
            part = tokens[start : start + CHUNK]
            rows = TreeRows.chain(sequence, part, wants_logits)
            yield engine.forward(Batch((rows,), hidden_layers))
            engine.commit(sequence, range(len(part)))
    finally:
        engine.close(sequence)


def sha256_of_model(path: Path) -> str:
    """Of a file, or of all files of a model folder in the order of their names."""
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()
