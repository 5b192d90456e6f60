"""How often Medusa's heads are right on a short text, depth by depth, before the first request.

A guess counts where the text goes on, up to the guess's own place, as the target would: there it
stands as in an answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oneglance.drafters.choice import best_siblings
from oneglance.drafters.medusa import WIDTH, Heads
from oneglance.drafters.medusa_calibration import Calibration
from oneglance.engine.base import Batch, Engine, TreeRows
from oneglance.types import Float32Array, IntArray


@dataclass(frozen=True)
class ReadText:
    """A text as the target reads it.

    Attributes:
        tokens: [T] the text.
        said: [T] the target's best token after each of them.
        states: [T, D] what the heads read.
    """

    tokens: IntArray
    said: IntArray
    states: Float32Array

    def num_agreed(self, start: int) -> int:
        """How many tokens after `start` are, one after another, what the target says."""
        differ = self.tokens[start + 1 :] != self.said[start:-1]
        return int(np.argmax(differ)) if differ.any() else len(differ)


def read_text(engine: Engine, tokens: Sequence[int], layer: int, vocab_size: int) -> ReadText:
    """Lets the target read a text, in one pass.

    Args:
        engine: the target's.
        tokens: the text; what does not fit the context is left out.
        layer: whose hidden states the heads read.
        vocab_size: tokens that can be best.
    """
    kept = tokens[: engine.config.context_length]
    sequence = engine.open()
    try:
        rows = TreeRows.chain(sequence, kept)
        output = engine.forward(Batch((rows,), (layer,), num_top=1, top_vocab_size=vocab_size))
    finally:
        engine.close(sequence)
    ids = np.asarray(kept, dtype=np.int64)
    return ReadText(ids, output.top[0].ids[:, 0], output.hidden[layer][0])


def measured(heads: Heads, texts: Sequence[ReadText]) -> Calibration:
    """How often guesses are what the target says, by depth and rank.

    Args:
        heads: the heads.
        texts: as the target reads them.
    """
    calibration = Calibration.fresh(heads.num_heads)
    for text in texts:
        every_top = heads.top(text.states, heads.num_heads, WIDTH)
        for start, top in enumerate(every_top):
            for depth in range(min(heads.num_heads, text.num_agreed(start))):
                choices = best_siblings(top, depth, WIDTH) or []
                guessed = [choice.token for choice in choices]
                truth = int(text.said[start + depth + 1])
                right = guessed.index(truth) if truth in guessed else None
                calibration.note(depth, [choice.confidence for choice in choices], right)
    return calibration
