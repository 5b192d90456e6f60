"""What an engine is: one ragged forward pass over trees, and a cache that keeps what was accepted.

Each sequence has a committed prefix in the key-value cache. A pass evaluates, for each sequence
in it, a tree that hangs off that prefix: a prompt chunk is a chain, a draft is a chain or a tree
whose first row is the last decided token. After the accept rule, `commit` keeps the rows of the
accepted path and drops the rest.

Contract C2: the logits of a row are a bit-exact function of the weights and of the tokens on the
way from the start of the sequence to that row, and of nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from oneglance.config import ModelConfig
from oneglance.types import (
    ROOT,
    BoolArray,
    EngineInfo,
    Float32Array,
    IntArray,
    RowSummaries,
)

SequenceId = int


@dataclass(frozen=True)
class TreeRows:
    """The rows of one sequence in a pass: a tree off its committed prefix.

    Attributes:
        sequence: which sequence, as `Engine.open` returned it.
        tokens: [N] token ids.
        parents: [N] index of each row's parent among these rows; `ROOT` = the end of the prefix.
            Parents come before children.
        wants_logits: [N] rows whose logits are needed.
        num_kept: so many first rows are in flight already: the pass before has left them there,
            with these tokens and parents, evaluated by the same layers. They are not evaluated
            again, and nothing is returned of them; the others may hang off any of them. What that
            pass had behind them is dropped. 0: the rows in flight are dropped.
    """

    sequence: SequenceId
    tokens: IntArray
    parents: IntArray
    wants_logits: BoolArray
    num_kept: int = 0

    @classmethod
    def chain(
        cls, sequence: SequenceId, tokens: Sequence[int], wants_logits: bool | Sequence[bool] = True
    ) -> TreeRows:
        """Rows in a line, as in prefill; `wants_logits` for all or for each."""
        count = len(tokens)
        return cls(
            sequence=sequence,
            tokens=np.asarray(tokens, dtype=np.int64),
            parents=np.arange(-1, count - 1, dtype=np.int64),
            wants_logits=np.broadcast_to(np.asarray(wants_logits, dtype=np.bool_), (count,)),
        )

    def __post_init__(self) -> None:
        """Checks the shape; a caller that breaks it has a bug, hence assertions."""
        assert 0 <= self.num_kept < len(self.tokens), "a pass needs a new row for each sequence"
        is_new = self.num_kept == 0 or not self.wants_logits[: self.num_kept].any()
        assert is_new, "a kept row is not evaluated again"
        assert self.tokens.shape == self.parents.shape == self.wants_logits.shape
        # Most trees have few rows, for which numpy takes longer than the interpreter.
        parents = enumerate(self.parents.tolist())
        assert all(ROOT <= parent < row for row, parent in parents), "parent after child"


@dataclass(frozen=True)
class PassLayers:
    """Which layers a pass evaluates; by default all of them.

    Attributes:
        num_layers: see `Batch`.
        skipped_layers: see `Batch`.
    """

    num_layers: int | None = None
    skipped_layers: tuple[int, ...] = ()


@dataclass(frozen=True)
class Batch:
    """One pass: the trees of all sequences in it, each sequence at most once.

    Attributes:
        trees: the rows of each sequence, in the order in which outputs are returned.
        hidden_layers: layers whose hidden states are wanted for every row: i < num_layers is the
            residual stream that enters layer i, num_layers is the final normalised state.
            Rows that were in flight before have none.
        num_layers: evaluate only the first so many layers, then the final norm and head (early
            exit); None: all.
        skipped_layers: layers below `num_layers` that are left out, as though they were not there
            (Zhang et al., arXiv:2309.08168). What such a pass writes to the cache can be read by
            passes that skip the same layers, and by no others.
        num_top: return only the so many best tokens of each row that wants logits, and no row of
            all logits; None: all logits. At least 1; more than there are tokens means all of them.
        top_vocab_size: with `num_top`, only ids below this are chosen from; None: every row of
            the model's matrix. Rows beyond the vocabulary are padding, whose logits mean nothing.
        summary_vocab_size: with all logits, also return summaries over the ids below this, if the
            engine makes them; None: none.
    """

    trees: tuple[TreeRows, ...]
    hidden_layers: tuple[int, ...] = ()
    num_layers: int | None = None
    skipped_layers: tuple[int, ...] = ()
    num_top: int | None = None
    top_vocab_size: int | None = None
    summary_vocab_size: int | None = None

    @classmethod
    def through(
        cls,
        layers: PassLayers,
        trees: Sequence[TreeRows],
        num_top: int | None = None,
        top_vocab_size: int | None = None,
        hidden_layers: tuple[int, ...] = (),
    ) -> Batch:
        """A pass through some layers; the other arguments as for the constructor."""
        return cls(
            tuple(trees),
            num_layers=layers.num_layers,
            skipped_layers=layers.skipped_layers,
            num_top=num_top,
            top_vocab_size=top_vocab_size,
            hidden_layers=hidden_layers,
        )

    def __post_init__(self) -> None:
        """Checks that no sequence occurs twice, and that no part of the request is idle."""
        sequences = [tree.sequence for tree in self.trees]
        assert len(set(sequences)) == len(sequences), "a sequence occurs twice in one pass"
        assert self.top_vocab_size is None or self.num_top is not None, "a limit to nothing"
        assert self.num_top is None or self.summary_vocab_size is None, "summaries of no logits"


@dataclass(frozen=True)
class TopTokens:
    """The best tokens of some rows, best first.

    Equal logits are ordered by id, the lowest first. A NaN comes before every number, as for
    `np.argmax`: a row that is broken anywhere shows it in its first place.

    Attributes:
        ids: [rows, k] token ids.
        logits: [rows, k] float32, the bits that the row of all logits would have.
    """

    ids: IntArray
    logits: Float32Array


@dataclass(frozen=True)
class PassOutput:
    """What a pass returns, one entry per tree of the batch.

    Attributes:
        logits: for each tree, [number of its rows with wants_logits, V] float32, in row order;
            empty where the batch asked for the best tokens only.
        hidden: for each wanted layer, for each tree, [N - num_kept, hidden_size] float32.
        top: for each tree, the best tokens of its rows with wants_logits; empty where the batch
            asked for all logits.
        summaries: for each tree, of its rows with wants_logits; empty where the batch did not ask
            for them, or the engine has no cheaper way than to read the rows again.
    """

    logits: tuple[Float32Array, ...]
    hidden: Mapping[int, tuple[Float32Array, ...]] = field(default_factory=dict)
    top: tuple[TopTokens, ...] = ()
    summaries: tuple[RowSummaries, ...] = ()


@dataclass(frozen=True)
class PageUse:
    """How full a cache is.

    Attributes:
        page_size: positions of a page.
        limit: most pages that there may be; None: no limit.
        num_used: pages that sequences hold.
    """

    page_size: int
    limit: int | None
    num_used: int


class Engine(ABC):
    """A model with its weights, its key-value cache and its device. Not safe for several threads.

    Sequences are opened, evaluated with `forward`, advanced with `commit`, and closed. Between
    `forward` and `commit` the rows of a pass are in flight: they are visible to nobody, and the
    next `forward` of that sequence drops them, unless its tree grows out of them
    (`TreeRows.num_kept`).
    """

    config: ModelConfig

    @property
    @abstractmethod
    def info(self) -> EngineInfo:
        """Which engine this is, for reports."""

    @property
    def pass_bytes(self) -> int:
        """What a pass reads of the weights; as float32, unless an engine knows better."""
        return 4 * self.config.num_weights()

    @abstractmethod
    def open(self) -> SequenceId:
        """Starts a sequence with an empty prefix."""

    @abstractmethod
    def fork(self, sequence: SequenceId) -> SequenceId:
        """Starts a sequence with the committed prefix of another; pages are shared, not copied."""

    @abstractmethod
    def length(self, sequence: SequenceId) -> int:
        """Number of committed positions."""

    @abstractmethod
    def forward(self, batch: Batch) -> PassOutput:
        """Evaluates one pass and leaves its trees in flight.

        Raises:
            CapacityError: the rows do not fit the context or the cache; nothing has changed.
        """

    @abstractmethod
    def commit(self, sequence: SequenceId, rows: Sequence[int]) -> None:
        """Appends in-flight rows to the prefix and drops the others.

        Args:
            sequence: a sequence of the last pass.
            rows: indices into its tree, a path from the first level down (ascending); may be
                empty.
        """

    @abstractmethod
    def truncate(self, sequence: SequenceId, length: int) -> None:
        """Drops in-flight rows and all committed positions from `length` on (rollback)."""

    @abstractmethod
    def close(self, sequence: SequenceId) -> None:
        """Ends a sequence and releases its pages."""

    @property
    def page_use(self) -> PageUse | None:
        """How full the cache is; None where it is not made of pages."""
        return None

    def num_missing_pages(self, num_rows: Mapping[SequenceId, int]) -> int:  # noqa: ARG002
        """How many pages too few are free for a pass; 0: it fits.

        Args:
            num_rows: for each sequence of the pass, how many rows it has there.
        """
        return 0
