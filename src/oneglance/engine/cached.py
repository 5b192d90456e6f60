"""What every engine with a paged cache shares: all but the evaluation of a pass."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence

from oneglance.config import EngineConfig, ModelConfig
from oneglance.engine.base import Batch, Engine, PageUse, PassOutput, SequenceId
from oneglance.engine.paged_cache import PagedCache
from oneglance.engine.pass_plan import PassPlan, plan_pass


class CachedEngine(Engine):
    """Keeps the book of sequences; subclasses evaluate planned passes."""

    def __init__(self, config: ModelConfig, engine_config: EngineConfig, cache: PagedCache) -> None:
        """Takes the shape of the model and the cache that the subclass evaluates with."""
        self.config = config
        self.engine_config = engine_config
        self._book = cache

    def open(self) -> SequenceId:
        """Starts a sequence with an empty prefix."""
        return self._book.open()

    def fork(self, sequence: SequenceId) -> SequenceId:
        """Starts a sequence with the committed prefix of another; pages are shared, not copied.

        Raises:
            ParameterError: the sequence is not open.
        """
        return self._book.fork(sequence)

    def length(self, sequence: SequenceId) -> int:
        """Number of committed positions.

        Raises:
            ParameterError: the sequence is not open.
        """
        return self._book.length(sequence)

    def forward(self, batch: Batch) -> PassOutput:
        """Evaluates one pass and leaves its trees in flight.

        Raises:
            CapacityError: the rows do not fit the context or the cache; nothing has changed.
            ParameterError: a sequence, token or layer does not exist, a prefix that fewer layers
                evaluated (early exit, skipped layers) would be read by more, or rows in flight
                would be kept that other layers evaluated; nothing has changed.
        """
        if not batch.trees:
            return PassOutput((), dict.fromkeys(batch.hidden_layers, ()))
        plan = plan_pass(batch, self.config, self._book.length)
        self._book.begin_pass(batch.trees, plan.layers)
        return self._evaluate(plan)

    def commit(self, sequence: SequenceId, rows: Sequence[int]) -> None:
        """Appends in-flight rows, a path from the first level down, and drops the others.

        Raises:
            ParameterError: the sequence is not open.
        """
        self._book.commit(sequence, rows)

    def truncate(self, sequence: SequenceId, length: int) -> None:
        """Drops in-flight rows and all committed positions from `length` on (rollback).

        Raises:
            ParameterError: the sequence is not open or shorter than `length`.
        """
        self._book.truncate(sequence, length)

    def close(self, sequence: SequenceId) -> None:
        """Ends a sequence and releases its pages.

        Raises:
            ParameterError: the sequence is not open.
        """
        self._book.close(sequence)

    @property
    def page_use(self) -> PageUse:
        """How many pages the cache may have, and how many are in use."""
        return self._book.page_use()

    def num_missing_pages(self, num_rows: Mapping[SequenceId, int]) -> int:
        """How many pages too few are free for a pass with so many rows of each sequence.

        Raises:
            ParameterError: a sequence is not open.
        """
        return self._book.num_missing_pages(num_rows)

    @abstractmethod
    def _evaluate(self, plan: PassPlan) -> PassOutput:
        """Evaluates a pass whose rows have their slots in the cache."""
