"""Which tokens a grammar allows after each output of one request: one matcher, walked to and fro.

Verification asks about the positions of a draft, then about those behind what was accepted, and a
draft model asks about paths of its own. The matcher goes back to where a path leaves the one that
it stands on (rollback) and forward along the rest.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

from oneglance.constraints import TokenMask
from oneglance.errors import DeadEndError
from oneglance.types import BoolArray

if TYPE_CHECKING:
    from llguidance import LLMatcher

_NUM_KEPT = 64
"""Masks that are remembered, as bits: those of a pass are asked for several times."""

_MEANINGS = {"NoExtensionBias": "no token of the model spells what must come"}
"""Reasons that the library gives as a name of its own."""


class GrammarMask(TokenMask):
    """A compiled grammar at the position of one request.

    A token is taken only where the mask allows it, also on the way to a position: the library
    would take some that its masks forbid, such as another division into tokens of a text that is
    certain, and what follows would then depend on what had been asked before.
    """

    def __init__(self, matcher: LLMatcher, vocab_size: int, eos_ids: Collection[int]) -> None:
        """Takes a matcher at its beginning, the vocabulary's size and its end-of-text tokens."""
        self._beginning = matcher
        self._matcher = matcher.deep_copy()
        self._vocab_size = vocab_size
        self._eos_ids = frozenset(eos_ids)
        self._tokens: tuple[int, ...] = ()  # where the matcher stands
        self._bits: OrderedDict[tuple[int, ...], bytes | None] = OrderedDict()

    def allowed(self, output: tuple[int, ...]) -> BoolArray | None:
        """[V] the tokens that may come after an output; see `TokenMask.allowed`.

        Raises:
            DeadEndError: no token spells what must come, or to follow the grammar takes more memory
                or time than the library's limits allow.
        """
        bits = self._bits_after(output)
        if bits is None:
            return None
        bytes_ = np.frombuffer(bits, dtype=np.uint8)
        return np.unpackbits(bytes_, count=self._vocab_size, bitorder="little").view(np.bool_)

    def _bits_after(self, output: tuple[int, ...]) -> bytes | None:
        if output in self._bits:
            self._bits.move_to_end(output)
            return self._bits[output]
        bits = self._compute() if self._go_to(output) else None
        self._bits[output] = bits
        if len(self._bits) > _NUM_KEPT:
            self._bits.popitem(last=False)
        return bits

    def _go_to(self, output: tuple[int, ...]) -> bool:
        """Whether there is a position after an output; the matcher stands there then."""
        num_shared = _num_shared(self._tokens, output)
        self._expect(self._matcher.rollback(len(self._tokens) - num_shared))
        self._tokens = output[:num_shared]
        for token in output[num_shared:]:
            # An end-of-text token is not for the grammar: no answer goes on behind it.
            if token in self._eos_ids or not self._allows(token):
                return False
            self._expect(self._matcher.consume_token(token))
            self._tokens = (*self._tokens, token)
        return True

    def _allows(self, token: int) -> bool:
        """Whether a token may come where the matcher stands."""
        bits = self._bits.get(self._tokens)
        if bits is None:
            bits = self._compute()
        return bool(bits[token // 8] >> token % 8 & 1)

    def _compute(self) -> bytes:
        """The bits of the tokens that may come where the matcher stands."""
        bits = self._matcher.compute_bitmask()
        self._expect(not self._matcher.is_error())
        return bits

    def _expect(self, is_well: bool) -> None:
        """Begins anew where the library has given up, so that other positions can be asked for."""
        if is_well:
            return
        reason, position = first_line(self._matcher.get_error()), len(self._tokens)
        self._matcher, self._tokens = self._beginning.deep_copy(), ()
        raise DeadEndError(
            f"The constraint cannot be followed at position {position} of the answer: "
            f"{_MEANINGS.get(reason, reason)}; change it."
        )


def first_line(message: str) -> str:
    """What went wrong, of a message of the library; the rest shows its state."""
    lines = [line.strip() for line in message.partition("<state>")[0].splitlines() if line.strip()]
    return " ".join(lines)[:300].rstrip(".;") if lines else "the library does not say why"


def _num_shared(tokens: tuple[int, ...], others: tuple[int, ...]) -> int:
    """How many tokens both begin with."""
    if others[: len(tokens)] == tokens:  # most often the one goes on where the other ends
        return len(tokens)
    pairs = enumerate(zip(tokens, others, strict=False))
    return next(
        (index for index, (token, other) in pairs if token != other), min(len(tokens), len(others))
    )
