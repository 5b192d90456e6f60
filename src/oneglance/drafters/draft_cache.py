"""Where a model that drafts keeps the keys and values of one request.

A draft model has a cache of its own, which lags behind what was decided and may hold drafts that
were rejected. A drafter that is a part of the target (some layers skipped, an early exit) reads
the target's own cache, which is always up to date, and leaves nothing in it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from oneglance.engine.base import Engine, PassLayers, SequenceId
from oneglance.engine.prefill import prefill
from oneglance.engine.prefix import PrefixStore


class DraftCache(ABC):
    """One request's keys and values in the engine that drafts.

    Attributes:
        sequence: to be evaluated and committed to while a draft is made.
    """

    sequence: SequenceId

    @abstractmethod
    def catch_up(self, tokens: Sequence[int]) -> list[int]:
        """Makes the cache ready for a draft.

        Args:
            tokens: prompt and answer so far.

        Returns:
            The tokens at the end that are still to be fed; at least one.
        """

    @abstractmethod
    def extend(self, tokens: Sequence[int]) -> None:
        """Notes that these tokens were evaluated and committed."""

    @abstractmethod
    def end_draft(self) -> None:
        """Notes that the draft is complete."""

    @abstractmethod
    def settle(self, tokens: Sequence[int]) -> None:
        """Keeps what agrees with what was decided: prompt and answer so far."""

    @abstractmethod
    def close(self) -> None:
        """Ends the request."""


class OwnCache(DraftCache):
    """A sequence of the draft model's own, rolled back to what was decided.

    It holds `cached`, which agrees with the decided tokens up to the last rejection; what differs
    is dropped after each pass, what is missing is fed before the next draft. So a token whose key
    and value were never computed (the last one of a draft that was accepted whole) is made up for
    like any other.
    """

    def __init__(
        self,
        engine: Engine,
        prefixes: PrefixStore,
        prompt: Sequence[int],
        prefill_chunk: int,
        layers: PassLayers = PassLayers(),
    ) -> None:
        """Opens a sequence, with what is kept of the prompt's beginning; nothing is fed yet.

        Args:
            engine: holds the draft model.
            prefixes: keeps sequences of `engine` that the same layers evaluated.
            prompt: token ids.
            prefill_chunk: most tokens of a pass that catches up.
            layers: which layers evaluate what is fed.
        """
        self.sequence = prefixes.open(prompt)
        self._engine = engine
        self._prefixes = prefixes
        self._prefill_chunk = prefill_chunk
        self._layers = layers
        self._cached = list(prompt[: engine.length(self.sequence)])
        self._num_agreed = len(self._cached)

    @property
    def cached(self) -> tuple[int, ...]:
        """Tokens whose keys and values are there."""
        return tuple(self._cached)

    def catch_up(self, tokens: Sequence[int]) -> list[int]:
        """Feeds what is missing, all but the last token."""
        pending = list(tokens[len(self._cached) :])
        if len(pending) > 1:
            prefill(self._engine, self.sequence, pending[:-1], self._prefill_chunk, self._layers)
            self._cached.extend(pending[:-1])
        return pending[-1:]

    def extend(self, tokens: Sequence[int]) -> None:
        """Notes that these tokens were evaluated and committed."""
        self._cached.extend(tokens)

    def end_draft(self) -> None:
        """Leaves the draft where it is: most of it will be accepted."""

    def settle(self, tokens: Sequence[int]) -> None:
        """Drops what differs, and the last decided token, which is fed again to draft after it."""
        limit = min(len(self._cached), len(tokens) - 1)
        num_valid = min(self._num_agreed, limit)
        while num_valid < limit and self._cached[num_valid] == tokens[num_valid]:
            num_valid += 1
        if num_valid < len(self._cached):
            self._engine.truncate(self.sequence, num_valid)
            del self._cached[num_valid:]
        self._num_agreed = num_valid

    def close(self) -> None:
        """Ends the request; its cache may serve the next one."""
        if self._cached:
            self._prefixes.keep(self.sequence, self._cached)
        else:  # nothing was drafted: it must not take the place of what is worth keeping
            self._engine.close(self.sequence)


class TargetCache(DraftCache):
    """The request's own sequence in the target's engine, given back after each draft."""

    def __init__(self, engine: Engine, sequence: SequenceId) -> None:
        """Takes the target's engine and the request's sequence in it."""
        self.sequence = sequence
        self._engine = engine
        self._length = engine.length(sequence)

    def catch_up(self, tokens: Sequence[int]) -> list[int]:
        """The last decided token, the only one that the target has not evaluated."""
        self._length = self._engine.length(self.sequence)
        assert self._length == len(tokens) - 1, "the target's cache is not up to date"
        return list(tokens[-1:])

    def extend(self, tokens: Sequence[int]) -> None:
        """Has nothing to note: the engine knows."""

    def end_draft(self) -> None:
        """Takes the draft's rows out of the target's cache."""
        self._engine.truncate(self.sequence, self._length)

    def settle(self, tokens: Sequence[int]) -> None:
        """Has nothing to do: the target has committed what was decided."""

    def close(self) -> None:
        """Leaves the sequence to the target."""
