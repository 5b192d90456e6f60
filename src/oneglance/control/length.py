"""How many tokens to draft next. A policy sees only what was drafted before, so exactness holds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np

from oneglance.control.acceptance import Acceptance
from oneglance.control.cost import DraftCosts, KnownCosts, KnownDraftCosts, PassCosts
from oneglance.errors import ParameterError
from oneglance.types import Float64Array

DraftLengthSpec = int | str
"""A number of draft tokens per pass, or "auto"."""

MAX_LENGTH = 32
"""Most tokens that "auto" drafts in a row."""

_LENGTHS = np.arange(MAX_LENGTH + 1)


@dataclass(frozen=True)
class Control:
    """What is learned over many requests of one drafter: costs and acceptance.

    Attributes:
        pass_costs: of the target's passes; all drafters of a target may share it.
        draft_costs: of the drafter.
        acceptance: of the drafter.
    """

    pass_costs: PassCosts = field(default_factory=PassCosts)
    draft_costs: DraftCosts = field(default_factory=DraftCosts)
    acceptance: Acceptance = field(default_factory=Acceptance)

    @classmethod
    def without_a_clock(cls, row_share: float = 0.1, draft_share: float = 0.0) -> Control:
        """One whose decisions depend on acceptance alone, so that a run can be repeated.

        Args:
            row_share: what each row of a pass after the first costs, in passes of one row.
            draft_share: what each draft token costs, in the same unit.
        """
        return cls(KnownCosts(row_share), KnownDraftCosts(draft_share))


class DraftLength(ABC):
    """Chooses K for one request, pass by pass."""

    @abstractmethod
    def next(self, num_sequences: int = 1) -> int:
        """Most tokens to draft for the next pass, in which so many sequences take part."""

    @abstractmethod
    def update(self, num_drafted: int, num_accepted: int, num_nodes: int | None = None) -> None:
        """Learns how the last pass went.

        Args:
            num_drafted: length of the longest path that was drafted.
            num_accepted: how many tokens were kept.
            num_nodes: draft tokens on all branches together; None: it was a chain.
        """


class FixedLength(DraftLength):
    """The same K in every pass."""

    def __init__(self, num_draft_tokens: int) -> None:
        """`num_draft_tokens` is K, at least 1."""
        self._num_draft_tokens = num_draft_tokens

    def next(self, num_sequences: int = 1) -> int:  # noqa: ARG002 (the same in any company)
        """Returns K."""
        return self._num_draft_tokens

    def update(self, num_drafted: int, num_accepted: int, num_nodes: int | None = None) -> None:
        """Nothing to learn."""


class MeasuredLength(DraftLength):
    """The K that promises most tokens a second, 0 where drafting loses.

    Expected tokens of a pass, 1 + Σ_k Π_{d≤k} rate(d), over its expected seconds, those of
    drafting included (Leviathan et al., arXiv:2211.17192, theorem 3.8, with measured costs).
    While drafting loses it is tried again now and then, ever more seldom.
    """

    _FIRST_WAIT = 8
    _LONGEST_WAIT = 64
    _LONGEST_AGE = 8

    def __init__(self, control: Control) -> None:
        """Shares what `control` has learned and adds to it."""
        self._control = control
        self._acceptance = Acceptance(control.acceptance)
        self._nodes_per_token = 1.0
        self._num_waited = 0
        self._wait = self._FIRST_WAIT
        self._best: int | None = None
        self._age = 0
        self._company = 1

    def next(self, num_sequences: int = 1) -> int:
        """The best K; a short draft where none seems to pay but it is time to try."""
        if not self._control.pass_costs.is_known:
            return 0  # the first pass of all tells what one row costs
        best = self._best_length(num_sequences)
        if best > 0:
            self._num_waited, self._wait = 0, self._FIRST_WAIT
            return best
        self._num_waited += 1
        if self._num_waited < self._wait:
            return 0
        self._num_waited, self._wait = 0, min(2 * self._wait, self._LONGEST_WAIT)
        return 1

    def _best_length(self, num_sequences: int) -> int:
        """Computed anew when an outcome was learned, and now and then as costs change slowly."""
        self._age += 1
        if self._best is None or self._age > self._LONGEST_AGE or num_sequences != self._company:
            self._best, self._age = int(np.argmax(self.speeds(num_sequences))), 0
            self._company = num_sequences
        return self._best

    def speeds(self, num_sequences: int = 1) -> Float64Array:
        """[MAX_LENGTH + 1] tokens a second of each sequence that are expected of each K."""
        tokens = 1.0 + self._acceptance.expected(MAX_LENGTH)
        nodes = np.rint(_LENGTHS * self._nodes_per_token).astype(np.int64)
        passes = self._control.pass_costs.seconds(num_sequences * (1 + nodes))
        drafts = _LENGTHS * (num_sequences * self._control.draft_costs.seconds_per_token)
        speeds: Float64Array = tokens / (passes + drafts)
        return speeds

    def update(self, num_drafted: int, num_accepted: int, num_nodes: int | None = None) -> None:
        """Learns how the last pass went; an empty draft changes nothing."""
        if num_drafted == 0:
            return
        self._best = None
        self._acceptance.update(num_drafted, num_accepted)
        if num_nodes is not None:
            self._nodes_per_token += 0.2 * (num_nodes / num_drafted - self._nodes_per_token)


def make_draft_length(spec: DraftLengthSpec, control: Control | None = None) -> DraftLength:
    """A fresh policy for one request.

    Args:
        spec: K, or "auto".
        control: what "auto" starts from; None: from nothing.

    Raises:
        ParameterError: `spec` is neither "auto" nor a whole number of at least 1.
    """
    if spec == "auto":
        return MeasuredLength(Control() if control is None else control)
    if isinstance(spec, int) and not isinstance(spec, bool) and spec >= 1:
        return FixedLength(spec)
    raise ParameterError(
        f"k = {spec!r} cannot be used; it must be auto or a whole number of at least 1. "
        "To switch speculation off, use the drafter none."
    )


def check_tree_nodes(tree_nodes: int | None) -> None:
    """Refuses what is no number of tree nodes.

    Raises:
        ParameterError: it is neither None nor a whole number of at least 1.
    """
    is_number = isinstance(tree_nodes, int) and not isinstance(tree_nodes, bool)
    if tree_nodes is not None and not (is_number and tree_nodes >= 1):
        raise ParameterError(
            f"tree_nodes = {tree_nodes!r} cannot be used; it must be a whole number of at least 1, "
            "or None for chains."
        )
