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
from oneglance.types import ROOT


class DraftCache(ABC):
    """One request's keys and values in the engine that drafts.

    Attributes:
        sequence: whose tree in flight grows while a draft is made.
    """

    sequence: SequenceId

    @abstractmethod
    def catch_up(self, tokens: Sequence[int]) -> list[int]:
        """Makes the cache ready for a draft.

        Args:
            tokens: prompt and answer so far.

        Returns:
            The tokens at the end that are still to be fed: the first rows of the tree that the
            draft leaves in flight. None where there is nothing yet to draft from.
        """

    @abstractmethod
    def end_draft(self, tokens: Sequence[int], parents: Sequence[int]) -> None:
        """Notes that the draft is complete and has left this tree in flight.

        Args:
            tokens: [N] of its rows.
            parents: [N] of its rows, as `TreeRows` has them.
        """

    @abstractmethod
    def settle(self, tokens: Sequence[int]) -> None:
        """Keeps what agrees with what was decided: prompt and answer so far."""

    @abstractmethod
    def close(self) -> None:
        """Ends the request."""


class OwnCache(DraftCache):
    """A sequence of the draft model's own, rolled back to what was decided.

    A draft stays in flight until it is known what became of it; then what was accepted of it is
    committed. What is missing is fed with the next draft. So a token whose key and value were never
    computed (the last one of a draft that was accepted whole) is made up for like any other.
    """

    def __init__(
        self,
        engine: Engine,
        prefixes: PrefixStore,
        prompt: Sequence[int],
        prefill_chunk: int,
        layers: PassLayers = PassLayers(),
        tenant: str = "",
    ) -> None:
        """Opens a sequence, with what is kept of the prompt's beginning; nothing is fed yet.

        Args:
            engine: holds the draft model.
            prefixes: keeps sequences of `engine` that the same layers evaluated.
            prompt: token ids.
            prefill_chunk: most tokens of a pass that catches up.
            layers: which layers evaluate what is fed.
            tenant: who may begin with what is kept of it.
        """
        self.sequence = prefixes.open(prompt, tenant)
        self._tenant = tenant
        self._engine = engine
        self._prefixes = prefixes
        self._prefill_chunk = prefill_chunk
        self._layers = layers
        self._cached = list(prompt[: engine.length(self.sequence)])
        self._num_agreed = len(self._cached)
        self._in_flight: tuple[Sequence[int], Sequence[int]] = ((), ())
        self._num_decided = 0  # of the rows in flight, the first ones

    @property
    def cached(self) -> tuple[int, ...]:
        """Tokens whose keys and values are there."""
        return tuple(self._cached)

    def catch_up(self, tokens: Sequence[int]) -> list[int]:
        """Feeds what is missing, all but as much as the draft's first pass may take along.

        Nothing, and nothing is returned, where there is no room for it.
        """
        self.settle(tokens)  # what was drafted last may have come to nothing
        pending = list(tokens[len(self._cached) :])
        if self._engine.num_missing_pages({self.sequence: len(pending)}) > 0:
            return []
        num_fed = max(0, len(pending) - self._prefill_chunk)
        prefill(self._engine, self.sequence, pending[:num_fed], self._prefill_chunk, self._layers)
        self._cached.extend(pending[:num_fed])
        self._num_decided = len(pending) - num_fed
        return pending[num_fed:]

    def commit(self, rows: Sequence[int], tokens: Sequence[int]) -> None:
        """Keeps rows in flight, a path from the first level down, which are these tokens."""
        self._engine.commit(self.sequence, rows)
        self._cached.extend(tokens)

    def end_draft(self, tokens: Sequence[int], parents: Sequence[int]) -> None:
        """Leaves the draft where it is: most of it will be accepted."""
        self._in_flight = (tokens, parents)

    def settle(self, tokens: Sequence[int]) -> None:
        """Keeps what agrees, but for the last decided token, which is fed to draft after it."""
        path = path_along(*self._in_flight, tokens[len(self._cached) : -1])
        if path:
            self.commit(path, [self._in_flight[0][row] for row in path])
        self._in_flight = ((), ())
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
        decided = self._in_flight[0][: self._num_decided]
        if decided:  # it was interrupted between a draft and what became of it
            self.commit(range(len(decided)), decided)
        if self._cached:
            self._prefixes.keep(self.sequence, self._cached, self._tenant)
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

    def end_draft(self, tokens: Sequence[int], parents: Sequence[int]) -> None:  # noqa: ARG002
        """Takes the draft's rows out of the target's cache."""
        self._engine.truncate(self.sequence, self._length)

    def settle(self, tokens: Sequence[int]) -> None:
        """Has nothing to do: the target has committed what was decided."""

    def close(self) -> None:
        """Leaves the sequence to the target."""


def path_along(
    row_tokens: Sequence[int], parents: Sequence[int], tokens: Sequence[int]
) -> list[int]:
    """The rows of a tree that spell the longest beginning of some tokens, the first level first."""
    path: list[int] = []
    last = ROOT
    for row, (token, parent) in enumerate(zip(row_tokens, parents, strict=True)):
        if parent == last and len(path) < len(tokens) and token == tokens[len(path)]:
            path.append(row)
            last = row
    return path
