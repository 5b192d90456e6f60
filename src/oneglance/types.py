"""Small value types that every part shares: arrays, proposals, delivered tokens, counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import takewhile
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Float32Array = NDArray[np.float32]
Float64Array = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

ROOT = -1
"""Index of the node that a proposal hangs off: the last token that is already decided."""

TokenKind = Literal["accepted", "recovered", "bonus", "plain"]
"""How a delivered token came about: a draft token that was kept; drawn from the residual after a
rejection; drawn from the target after a whole path was kept; decoded with nothing drafted."""

FinishReason = Literal["stop", "length"]


@dataclass(frozen=True)
class EngineInfo:
    """Which engine ran.

    Attributes:
        kind: "native", "reference", or what another engine calls itself.
        isa: instruction set of its kernels; None where it has no kernels of its own.
        num_threads: threads of a pass.
        weights: what became of weights that the file has as floats, see `EngineConfig.weights`.
    """

    kind: str
    isa: str | None = None
    num_threads: int = 1
    weights: str = "auto"

    def to_dict(self) -> dict[str, object]:
        """The object `engine` of `oneglance generate --json`."""
        return {
            "kind": self.kind,
            "isa": self.isa,
            "threads": self.num_threads,
            "weights": self.weights,
        }


@dataclass(frozen=True)
class RowSummaries:
    """What is read of every row of logits, over its first so many tokens.

    Attributes:
        best: [rows] index of the largest logit; of the first NaN, if there is one.
        log_normalizers: [rows] float64, as `RowKernels.log_normalizer` defines it.
    """

    best: IntArray
    log_normalizers: Float64Array


@dataclass(frozen=True)
class Proposal:
    """A tree of draft tokens hanging off the last decided token of one sequence.

    Attributes:
        tokens: [N] token ids. Siblings carry distinct ids unless they were drawn with replacement.
        parents: [N] index of each token's parent, `ROOT` for the first level; always smaller
            than the token's own index, so that ancestors come first.
        draft_probs: for each of the N tokens the law [V] (float64, sums to 1) it was drawn from,
            after every warp that was applied; siblings share one law (the same array object).
            None for tokens that are a function of the prefix alone (argmax, lookup): point masses.
        with_replacement: siblings were drawn independently from their law; otherwise each was
            drawn from the law without the earlier siblings. Order of index is order of drawing.
        drafter: name of the drafter, for provenance.
        expected: how many of the tokens the drafter expects to be accepted; None: it cannot tell.
            No accept rule looks at it.
        makers: for each of the N tokens the name of who drafted it, where several drafters made
            the proposal together; None: `drafter` made all of them.
        reaches: for each of the N tokens how likely the drafter holds it to be accepted, itself and
            all before it on its path, hence never more than its parent's; None: it tells no more
            than `expected`. No accept rule looks at it.
    """

    tokens: IntArray
    parents: IntArray
    draft_probs: tuple[Float64Array, ...] | None = None
    with_replacement: bool = False
    drafter: str = "none"
    expected: float | None = None
    makers: tuple[str, ...] | None = None
    reaches: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        """Checks the shape; a drafter that breaks it has a bug, hence assertions."""
        assert self.tokens.shape == self.parents.shape, "tokens and parents differ in length"
        assert self.tokens.ndim == 1, "tokens must be one-dimensional"
        if not self.is_chain:
            indices = np.arange(len(self.tokens))
            is_before = (self.parents >= ROOT) & (self.parents < indices)
            assert bool(np.all(is_before)), "parent after child"
        if self.draft_probs is not None:
            assert len(self.draft_probs) == len(self.tokens), "one law per draft token"
        assert self.makers is None or len(self.makers) == len(self.tokens), "one maker per token"
        if self.reaches is not None:
            assert len(self.reaches) == len(self.tokens), "one reach per token"
            assert self.expected is not None, "what is said of each adds up"

    @staticmethod
    def empty(drafter: str = "none", expected: float | None = None) -> Proposal:
        """A proposal of nothing: the pass yields one plain token."""
        return _empty(drafter, expected)

    @classmethod
    def chain(
        cls,
        tokens: Sequence[int],
        draft_probs: Sequence[Float64Array] | None = None,
        drafter: str = "none",
        expected: float | None = None,
    ) -> Proposal:
        """A tree with a single branch, the first token hanging off the root."""
        return cls(
            tokens=np.asarray(tokens, dtype=np.int64),
            parents=np.arange(-1, len(tokens) - 1, dtype=np.int64),
            draft_probs=None if draft_probs is None else tuple(draft_probs),
            drafter=drafter,
            expected=expected,
        )

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def is_chain(self) -> bool:
        """True if no node has two children (an empty proposal is a chain)."""
        in_a_row = list(range(-1, len(self.tokens) - 1))
        return bool(self.parents.tolist() == in_a_row)

    @property
    def may_be_cut(self) -> bool:
        """Whether tokens may be left out, with all that hangs off them, by what they are.

        Those that were drawn at random must stay. Of a tree it must be known which are worth less.
        """
        return self.draft_probs is None and (self.is_chain or self.reaches is not None)

    def part(self, nodes: Sequence[int]) -> Proposal:
        """Some of the tokens, the parents of each among them.

        Args:
            nodes: indices, ascending.
        """
        places = {ROOT: ROOT} | {node: place for place, node in enumerate(nodes)}
        parents = [places[int(self.parents[node])] for node in nodes]
        laws, makers, reaches = self.draft_probs, self.makers, self.reaches
        part = replace(
            self,
            tokens=self.tokens[list(nodes)],
            parents=np.array(parents, dtype=np.int64),
            draft_probs=None if laws is None else tuple(laws[node] for node in nodes),
            makers=None if makers is None else tuple(makers[node] for node in nodes),
            reaches=None if reaches is None else tuple(reaches[node] for node in nodes),
        )
        if part.expected is None:
            return part
        return replace(part, expected=min(part.expected, part.max_depth))

    @cached_property
    def _families(self) -> dict[int, list[int]]:
        """The children of each node that has any."""
        families: dict[int, list[int]] = {}
        for child, parent in enumerate(self.parents.tolist()):
            families.setdefault(parent, []).append(child)
        return families

    def children(self, node: int) -> list[int]:
        """Indices of the children of a node (or of `ROOT`), in order of drawing."""
        return self._families.get(node, [])

    def maker(self, node: int) -> str:
        """Name of who drafted a node."""
        return self.drafter if self.makers is None else self.makers[node]

    def path_to(self, node: int) -> list[int]:
        """Indices from the first level down to `node`, both included; empty for `ROOT`."""
        path: list[int] = []
        while node != ROOT:
            path.append(node)
            node = int(self.parents[node])
        return path[::-1]

    @cached_property
    def max_depth(self) -> int:
        """Length of the longest path; 0 if nothing is proposed."""
        if self.is_chain:
            return len(self.tokens)
        return int(self.depths().max())

    def num_matched(self, tokens: Sequence[int]) -> int:
        """How many of `tokens`, from the first on, lie on one path."""
        if self.is_chain:
            pairs = zip(self.tokens.tolist(), tokens, strict=False)
            return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        edges = zip(self.parents.tolist(), self.tokens.tolist(), strict=True)
        children = {edge: node for node, edge in enumerate(edges)}
        node, count = ROOT, 0
        while count < len(tokens) and (node, tokens[count]) in children:
            node = children[node, tokens[count]]
            count += 1
        return count

    def depths(self) -> IntArray:
        """[N] depth of each token, 1 for the first level."""
        depths = np.ones(len(self.tokens), dtype=np.int64)
        for node, parent in enumerate(self.parents):
            if parent != ROOT:
                depths[node] = depths[parent] + 1
        return depths


@cache
def _empty(drafter: str, expected: float | None) -> Proposal:
    """The same object each time: most passes of many requests draft nothing."""
    return Proposal.chain([], None, drafter, expected)


@dataclass(frozen=True)
class Token:
    """One delivered token and where it came from.

    Attributes:
        token_id: id in the target's vocabulary.
        kind: accepted, recovered, bonus or plain.
        drafter: who drafted it; None unless it was accepted.
        logprob: natural log of the target's probability of this token given everything before
            it, under the model's own law (temperature 1, before any warp).
        pass_index: which pass of this request delivered it, from 0.
        top_logprobs: the most probable alternatives (id, logprob), best first; empty unless asked.
    """

    token_id: int
    kind: TokenKind
    drafter: str | None
    logprob: float
    pass_index: int
    top_logprobs: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True)
class PassTrace:
    """What happened in one pass of one request; enough to draw it.

    Attributes:
        drafter: who proposed.
        draft_tokens: [N] proposed ids.
        parents: [N] tree structure, `ROOT` for the first level.
        accepted: indices of the delivered path, from the first level down.
        next_token: the target's own token that ends the pass; None if the answer ended before it.
        kind: kind of `next_token`.
        num_certain: how many of the ids, the last ones, were not drafted by the drafter but are all
            that a constraint allows.
    """

    drafter: str
    draft_tokens: tuple[int, ...]
    parents: tuple[int, ...]
    accepted: tuple[int, ...]
    next_token: int | None
    kind: TokenKind
    num_certain: int = 0


@dataclass
class SpeculationStats:
    """Raw counts of a request or of many, pooled over passes, and the two figures made of them.

    Invariant: `delivered` = `accepted` + tokens of the target's own (recovered, bonus, plain).
    """

    passes: int = 0
    """Passes of the target that verified a proposal, an empty one included; not prefill."""
    drafted: int = 0
    """Draft tokens that were verified."""
    accepted: int = 0
    """Draft tokens that were delivered; what is cut by a stop event does not count."""
    delivered: int = 0
    """Tokens delivered."""
    prefill_seconds: float = 0.0
    draft_seconds: float = 0.0
    verify_seconds: float = 0.0
    accept_seconds: float = 0.0

    @property
    def acceptance_rate(self) -> float:
        """Accepted ÷ drafted; 0 if nothing was drafted."""
        return self.accepted / self.drafted if self.drafted else 0.0

    @property
    def mean_accepted_length(self) -> float:
        """Delivered tokens ÷ target passes; 0 before the first pass."""
        return self.delivered / self.passes if self.passes else 0.0

    def add(self, other: SpeculationStats) -> None:
        """Pools the counts of another request into this one."""
        self.passes += other.passes
        self.drafted += other.drafted
        self.accepted += other.accepted
        self.delivered += other.delivered
        self.prefill_seconds += other.prefill_seconds
        self.draft_seconds += other.draft_seconds
        self.verify_seconds += other.verify_seconds
        self.accept_seconds += other.accept_seconds


ProgressCallback = Callable[[str, int, int], None]
"""Called with (what is being done, units done, units in all) during long work."""
