"""Which layers a model can do without: a random search that judges by what was generated.

After SWIFT (Xia et al., arXiv:2410.06916): the first and the last layer are kept, and a set is
judged by how often the model without it agrees with tokens that the whole model has generated.
Here the number of layers is part of the search, since what counts is not agreement but the speedup
it gives. SWIFT leaves out 45 % throughout; a small model without so many agrees with nothing, and
no single change shows the way back, so the search begins with few.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

SKIP_RATIO = 0.1
"""Share of the layers that is left out at the start."""
PATIENCE = 100
"""The search ends after so many sets in a row that were no better."""
MAX_DRAFT = 16
"""Longest draft that an estimate looks at."""

Layers = tuple[int, ...]
Agreement = Callable[[Layers], float]
"""Share of a text's tokens that the model without these layers puts first itself."""


def estimated_speedup(agreement: float, cost: float) -> float:
    """Tokens per unit of time over plain decoding, with the best length of draft.

    A pass with K drafts delivers 1 + a + ... + a^K tokens (Leviathan et al., arXiv:2211.17192) in
    the time of 1 + K c passes; checking K + 1 rows is counted as one pass.

    Args:
        agreement: a, how likely a draft token is accepted.
        cost: c, of one draft token, in passes of the target.
    """
    tokens, best = 1.0, 0.0
    for length in range(1, MAX_DRAFT + 1):
        tokens += agreement**length
        best = max(best, tokens / (1 + length * cost))
    return best


def evenly_spaced(num_layers: int) -> Layers:
    """The set that a search starts from: spread over all but the first and the last layer."""
    count = max(1, min(num_layers - 2, round(SKIP_RATIO * num_layers)))
    return tuple(1 + (2 * i + 1) * (num_layers - 2) // (2 * count) for i in range(count))


@dataclass
class _Finalist:
    """A set that was better on one text, and must be on another."""

    layers: Layers
    score: float
    is_new: bool = True


class LayerSearch:
    """Changes the best set at random, and keeps a change that is better on two texts in a row.

    The same texts in the same order give the same sets.

    Attributes:
        best: layers that are best left out, as far as is known.
        is_done: nothing better has been found for long.
    """

    def __init__(self, start: Sequence[int], num_layers: int, layer_cost: float, seed: int = 0):
        """Begins with a set.

        Args:
            start: layers to leave out at first; at least one, neither first nor last.
            num_layers: of the model, at least 3.
            layer_cost: share of a pass that one layer takes.
            seed: of the changes.
        """
        assert num_layers >= 3, "there is no layer between the first and the last"
        self.best: Layers = tuple(sorted(start))
        self._inner = range(1, num_layers - 1)
        self.is_done = len(self._inner) < 2
        self._layer_cost = layer_cost
        self._random = random.Random(seed)
        self._best_score: float | None = None
        self._finalist: _Finalist | None = None
        self._num_failures = 0

    def begin_text(self) -> None:
        """From here on, agreement is with another text."""
        self._best_score = None
        if self._finalist is not None:
            self._finalist.is_new = False

    def advance(self, agreement: Agreement) -> None:
        """Judges one set, by one call of `agreement`, which must be about the present text."""
        if self._best_score is None:
            self._best_score = self._score(self.best, agreement)
            return
        finalist = self._finalist
        if finalist is not None and not finalist.is_new:
            self._finalist = None
            self._decide(finalist.layers, self._score(finalist.layers, agreement))
            return
        layers = self._changed()
        score = self._score(layers, agreement)
        if score > self._best_score and (finalist is None or score > finalist.score):
            self._finalist = _Finalist(layers, score)
        else:
            self._note_failure()

    def _decide(self, layers: Layers, score: float) -> None:
        if self._best_score is not None and score > self._best_score:
            self.best, self._best_score, self._num_failures = layers, score, 0
        else:
            self._note_failure()

    def _note_failure(self) -> None:
        self._num_failures += 1
        self.is_done = self._num_failures >= PATIENCE

    def _score(self, layers: Layers, agreement: Agreement) -> float:
        return estimated_speedup(agreement(layers), 1 - self._layer_cost * len(layers))

    def _changed(self) -> Layers:
        """The best set with one layer exchanged, added or removed."""
        kept = [layer for layer in self._inner if layer not in self.best]
        changes = ["exchange", "exchange", "add"] if kept else []
        changes += ["remove"] if len(self.best) > 1 else []
        change = self._random.choice(changes)
        layers = set(self.best)
        if change != "add":
            layers.remove(self._random.choice(self.best))
        if change != "remove":
            layers.add(self._random.choice(kept))
        return tuple(sorted(layers))
