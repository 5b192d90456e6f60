"""The rows of an EAGLE head for one request: only those of real pairs are ever kept.

A row whose feature is the head's own output is a guess, and stays one when its token is accepted:
what the target computed there is known then, and a row made of that takes its place. (Left in the
cache, guessed rows cost a tenth of the accepted length.)
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from oneglance.drafters.draft_cache import DraftCache
from oneglance.engine.base import Batch, TreeRows
from oneglance.engine.native.eagle import EagleEngine
from oneglance.engine.prefix import PrefixStore
from oneglance.types import Float32Array

MAX_PENDING = 64
"""Features beyond this many are fed when they come: those of a prompt. Others wait for the draft,
whose first pass takes them along."""

_ID_BITS = 32


class EagleCache(DraftCache):
    """A sequence of the head: rows for pairs of feature and token, and features yet to be fed."""

    def __init__(
        self,
        engine: EagleEngine,
        prefixes: PrefixStore,
        prompt: Sequence[int],
        chunk: int,
        tenant: str = "",
    ) -> None:
        """Opens a sequence, with what is kept of the prompt's beginning.

        Args:
            engine: of the head.
            prefixes: keeps its sequences, by the pairs that they hold.
            prompt: token ids.
            chunk: most rows of a pass that only feeds.
            tenant: who may begin with what is kept of it.
        """
        self.sequence = prefixes.open(pairs(prompt), tenant)
        self._tenant = tenant
        self._engine = engine
        self._prefixes = prefixes
        self._chunk = chunk
        self._held = list(prompt[: engine.length(self.sequence) + 1])
        # In parts, as they come: joined pass by pass they would be copied again and again.
        self._pending: list[Float32Array] = []

    @property
    def num_held(self) -> int:
        """Pairs whose rows are in the cache."""
        return len(self._held) - 1

    @property
    def num_seen(self) -> int:
        """Positions whose features have come."""
        return self.num_held + self._num_pending

    def take(self, start: int, features: Float32Array, tokens: Sequence[int]) -> None:
        """Takes features of positions from `start` on, [rows, F]; some may be known already.

        Args:
            start: position of the first one.
            features: in order of position.
            tokens: prompt and answer as far as they are decided.
        """
        num_known = self.num_seen - start
        assert num_known >= 0, "features are missing"
        if num_known < len(features):
            self._pending.append(features[num_known:])
        num_ready = min(self._num_pending, len(tokens) - len(self._held))
        if num_ready > MAX_PENDING and self._has_room(num_ready):
            self._feed(tokens, num_ready - 1)

    def catch_up(self, tokens: Sequence[int]) -> list[int]:
        """The second tokens of the pairs that are pending, whose features are offered."""
        pending = tokens[len(self._held) :]
        assert len(pending) == self._num_pending, "features are missing"
        if pending:
            self._engine.offer(self.sequence, self._joined())
        return list(pending)

    def end_draft(self, tokens: Sequence[int], parents: Sequence[int]) -> None:  # noqa: ARG002
        """Keeps the rows of the real pairs, which come first, and drops the guesses."""
        self._commit(tokens[: self._num_pending])

    def settle(self, tokens: Sequence[int]) -> None:
        """Has nothing to do: what is held was decided before."""

    def close(self) -> None:
        """Ends the request; its rows may serve the next one."""
        if self.num_held > 0:
            self._prefixes.keep(self.sequence, pairs(self._held), self._tenant)
        else:
            self._engine.close(self.sequence)

    def _has_room(self, num_rows: int) -> bool:
        return self._engine.num_missing_pages({self.sequence: num_rows}) == 0

    def _feed(self, tokens: Sequence[int], count: int) -> None:
        """Evaluates the first pending pairs, which nobody drafts from."""
        end = len(self._held) + count
        while len(self._held) < end:
            part = tokens[len(self._held) : min(end, len(self._held) + self._chunk)]
            self._engine.offer(self.sequence, self._joined()[: len(part)])
            self._engine.forward(Batch((TreeRows.chain(self.sequence, part, False),)))
            self._commit(part)

    def _commit(self, tokens: Sequence[int]) -> None:
        """Keeps the first rows in flight, those of pairs that end with these tokens."""
        self._engine.commit(self.sequence, range(len(tokens)))
        self._held.extend(tokens)
        rest = self._joined()[len(tokens) :]
        self._pending = [rest] if len(rest) else []

    @property
    def _num_pending(self) -> int:
        return sum(map(len, self._pending))

    def _joined(self) -> Float32Array:
        """[rows, F] all pending features."""
        if len(self._pending) > 1:
            self._pending = [np.concatenate(self._pending)]
        return self._pending[0]


def pairs(tokens: Sequence[int]) -> list[int]:
    """Each token with the next one, as one number: what a row of the head depends on, in order."""
    return [first << _ID_BITS | second for first, second in pairwise(tokens)]
