"""A short text that is read when trained heads are loaded, to see whether they match their target.

Heads of another target, or of the right one but reading the wrong layer, fit its shapes and draft
badly without a word. So the target reads a text, and the head's guesses are compared with what the
target says itself, at those places where the text goes on as the target would.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from oneglance.checkpoints.base import Tokenizer
from oneglance.engine.base import Batch, Engine, TreeRows
from oneglance.errors import UnsupportedError
from oneglance.types import Float32Array, IntArray

TEXT = """\
When in the Course of human events, it becomes necessary for one people to dissolve the political \
bands which have connected them with another, and to assume among the powers of the earth, the \
separate and equal station to which the Laws of Nature and of Nature's God entitle them, a decent \
respect to the opinions of mankind requires that they should declare the causes which impel them \
to the separation.

The sun rises in the east and sets in the west. There are seven days in a week: Monday, Tuesday, \
Wednesday, Thursday, Friday, Saturday and Sunday. The capital of France is Paris, and the capital \
of Italy is Rome.

def fibonacci(n):
    if n == 0:
        return 0
    if n == 1:
        return 1
    return fibonacci(n - 1) + fibonacci(n - 2)

for i in range(10):
    print(fibonacci(i))
"""
"""Prose that every language model has read, plain facts, and code."""

MIN_ACCEPTANCE = 0.1
"""First guesses that must be right. Heads that know nothing of the target guess a few percent, by
saying the most frequent tokens; trained ones a third and more."""


@dataclass(frozen=True)
class ReadText:
    """What the target says to the text.

    Attributes:
        tokens: [T] the text.
        said: [T] the target's best token after each of them.
        hidden: for each wanted layer the states [T, D].
    """

    tokens: IntArray
    said: IntArray
    hidden: Mapping[int, Float32Array]

    def num_agreed(self, start: int) -> int:
        """How many tokens after `start` are, one after another, what the target says."""
        differ = self.tokens[start + 1 :] != self.said[start:-1]
        return int(np.argmax(differ)) if differ.any() else len(differ)


def read_text(
    engine: Engine, tokenizer: Tokenizer, hidden_layers: tuple[int, ...], text: str = TEXT
) -> ReadText:
    """Lets the target read the text, in one pass.

    Args:
        engine: the target's.
        tokenizer: its vocabulary.
        hidden_layers: whose states are wanted, as `Batch.hidden_layers`.
        text: another one, for tests.
    """
    room = engine.config.context_length
    tokens = tokenizer.encode(text, add_bos=tokenizer.adds_bos)[:room]
    sequence = engine.open()
    try:
        rows = TreeRows.chain(sequence, tokens)
        output = engine.forward(
            Batch((rows,), hidden_layers, num_top=1, top_vocab_size=tokenizer.vocab_size)
        )
    finally:
        engine.close(sequence)
    hidden = {layer: states[0] for layer, states in output.hidden.items()}
    return ReadText(np.asarray(tokens, dtype=np.int64), output.top[0].ids[:, 0], hidden)


def check_acceptance(name: str, target: str, num_right: float, num_places: float) -> None:
    """Refuses heads that do not match their target.

    Args:
        name: of the drafter, such as medusa:PATH.
        target: name of the model.
        num_right: first guesses that were what the target said.
        num_places: first guesses.

    Raises:
        UnsupportedError: too few were right; the message has the figure.
    """
    share = num_right / num_places if num_places else 0.0
    if share < MIN_ACCEPTANCE:
        raise UnsupportedError(
            f"The heads {name} do not match {target!r}: of their first guesses for a built-in "
            f"text {share:.0%} are right ({num_right:.0f} of {num_places:.0f}), and "
            f"{MIN_ACCEPTANCE:.0%} are asked for; choose heads that were trained for this model."
        )
