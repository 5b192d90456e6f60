"""How many tokens to draft next. A policy sees only what was drafted before, so exactness holds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

from oneglance.control.acceptance import Acceptance
from oneglance.control.cost import KnownCosts, PassCosts
from oneglance.control.credit import Credit
from oneglance.control.draft_cost import DraftCosts, DraftPrice, KnownDraftCosts
from oneglance.control.reliability import Reliability
from oneglance.errors import ParameterError
from oneglance.types import Proposal

DraftLengthSpec = int | str
"""A number of draft tokens per pass, or "auto"."""

MAX_LENGTH = 32
"""Most tokens that "auto" drafts in a row."""

MAX_BRANCHES = 8
"""Most tokens that "auto" lets a drafter add beside the longest path of a draft."""

_FREE = 0.02
"""A drafter whose longest draft costs less than this share of a pass is asked for it every time."""
_LOOKUP_FIT_AFTER = 8.0
"""To look something up takes a tenth of the time of a fit, and always about as long."""
_MODEL_GUESS = 0.85
"""Acceptance expected of a model that drafts, before any of its drafts was verified."""
_MODEL_CALL = 0.02
_UNSEEN_SHARE = 0.15
"""A token that a model catches up with, in passes of one row: many are read in one pass. Prompts
took 0.11 to 0.2 of it a token (docs/performance.md)."""


@dataclass(frozen=True)
class Control:
    """What is learned over many requests of one drafter: costs, acceptance, trust in its estimates.

    Attributes:
        pass_costs: of the target's passes; all drafters of a target may share it.
        draft_costs: of the drafter.
        acceptance: of the drafter.
        reliability: of what the drafter says of its drafts.
        exploration: for trying again, now and then, what no single request can afford to try, such
            as a model that would have to read the prompt first.
    """

    pass_costs: PassCosts = field(default_factory=PassCosts)
    draft_costs: DraftCosts = field(default_factory=DraftCosts)
    acceptance: Acceptance = field(default_factory=Acceptance)
    reliability: Reliability = field(default_factory=Reliability)
    exploration: Credit = field(default_factory=lambda: Credit(0.0, per_pass=0.005))

    @classmethod
    def of_drafter(
        cls, pass_costs: PassCosts, weight_share: float, measured: DraftPrice | None = None
    ) -> Control:
        """One for a drafter of which nothing has been measured.

        Args:
            pass_costs: of its target.
            weight_share: weights that one of the drafter's own passes reads, in those of the
                target; 0: it runs no model, and drafts are free until one is timed.
            measured: its prices as `oneglance calibrate` measured them, in passes of one row.
        """
        if weight_share == 0.0:
            return cls(pass_costs, DraftCosts(fit_after=_LOOKUP_FIT_AFTER))
        token = weight_share + _MODEL_CALL
        guess = DraftPrice(_MODEL_CALL, token, _UNSEEN_SHARE * weight_share)
        prior = guess if measured is None else measured
        costs = DraftCosts(prior, lambda: pass_costs.seconds_of(1))
        return cls(pass_costs, costs, Acceptance(guess=_MODEL_GUESS))

    @classmethod
    def without_a_clock(cls, row_share: float = 0.1, draft_share: float = 0.0) -> Control:
        """One whose decisions depend on acceptance alone, so that a run can be repeated.

        Args:
            row_share: what each row of a pass after the first costs, in passes of one row.
            draft_share: what each draft token costs, in the same unit.
        """
        return cls(KnownCosts(row_share), KnownDraftCosts(DraftPrice(token=draft_share)))


class DraftLength(ABC):
    """What is known of one request, for choosing K pass by pass; see `control/controller.py`.

    Attributes:
        context: tokens so far.
        num_branches: tokens that may be drafted beside the longest path, see `DraftRequest`.
    """

    num_branches = 0

    def __init__(self, num_prompt: int = 0) -> None:
        """Begins a request whose prompt has so many tokens."""
        self.context = num_prompt

    @abstractmethod
    def note(
        self,
        draft: Proposal,
        num_verified: int,
        decided: Sequence[int],
        num_sequences: int = 1,
    ) -> None:
        """Learns how a pass went.

        Args:
            draft: what the drafter made, empty if it was not asked.
            num_verified: how many of its tokens were in the pass.
            decided: tokens that the pass decided.
            num_sequences: how many sequences took part.
        """


class FixedLength(DraftLength):
    """The same K in every pass."""

    def __init__(self, num_draft_tokens: int, num_prompt: int = 0, num_branches: int = 0) -> None:
        """`num_draft_tokens` is K, at least 0."""
        super().__init__(num_prompt)
        self.num_draft_tokens = num_draft_tokens
        self.num_branches = num_branches

    def note(
        self,
        draft: Proposal,  # noqa: ARG002 (there is nothing to learn)
        num_verified: int,  # noqa: ARG002
        decided: Sequence[int],
        num_sequences: int = 1,  # noqa: ARG002
    ) -> None:
        """Counts the tokens."""
        self.context += len(decided)


class MeasuredLength(DraftLength):
    """What "auto" knows of one request: how its drafts fared, and what it may spend on more.

    Attributes:
        control: what is known of all requests of this drafter.
        acceptance: of this request, by depth.
        reliability: of what the drafter says of this request's drafts.
        credit: what drafts may still cost it.
        rows_per_token: rows of a pass for each token of depth; 1 for chains without branches.
        num_unseen: decided tokens that the drafter has not been told of with a call.
        is_certain: its drafts may be cut: any part of one may be left out after it was made, and
            one that was not verified can still be compared with what was decided.
    """

    num_branches = MAX_BRANCHES
    FIRST_WAIT = 8
    LONGEST_WAIT = 64

    def __init__(self, control: Control, num_prompt: int = 0) -> None:
        """Shares what `control` has learned and adds to it."""
        super().__init__(num_prompt)
        self.control = control
        self.acceptance = Acceptance(control.acceptance)
        self.reliability = Reliability(control.reliability)
        self.credit = Credit()
        self.rows_per_token = 1.0
        self.num_unseen = num_prompt
        self.is_certain = False
        self.num_idle = 0
        self._wait = self.FIRST_WAIT
        self._is_asked, self._is_paid = False, False

    @property
    def is_free(self) -> bool:
        """Whether it is best asked for the longest draft every time, of which the rest is cut."""
        costs = self.control.draft_costs
        # To look something up takes about as long for one token as for many, and while drafts are
        # short, what any draft costs would be taken for the price of a token.
        num_tokens = MAX_LENGTH if costs.runs_model else 1
        return (
            self.is_certain and costs.price.of(num_tokens) < _FREE * self.control.pass_costs.one_row
        )

    @property
    def is_resting(self) -> bool:
        """Whether drafting lost a moment ago, so that it need not be thought about yet."""
        return self.num_idle % self.FIRST_WAIT > 0

    def ask(self, num_tokens: int) -> int:
        """Settles on a length; where that is 0, a short attempt is made now and then.

        Args:
            num_tokens: what seems best.

        Returns:
            That, or 1 for an attempt, which comes ever more seldom.
        """
        self.num_idle = 0 if num_tokens > 0 else self.num_idle + 1
        if num_tokens > 0:
            self._wait = self.FIRST_WAIT
        elif self.num_idle >= self._wait and self._can_try():
            num_tokens, self.num_idle = 1, 0
            self._wait = min(2 * self._wait, self.LONGEST_WAIT)
        self._is_asked, self._is_paid = num_tokens > 0, num_tokens > 0
        return num_tokens

    def ask_freely(self, num_tokens: int) -> int:
        """`ask` of a drafter that `is_free`: what it drafts need not be paid for."""
        num_tokens = self.ask(num_tokens)
        self._is_paid = False
        return num_tokens

    def _can_try(self) -> bool:
        """Whether a draft of one token, with all that must be caught up with, can be paid for."""
        costs = self.control
        catching_up = costs.draft_costs.price.unseen * self.num_unseen / costs.pass_costs.one_row
        price = self.price(1, 1, 1) + catching_up
        return price <= self.credit.tokens or costs.exploration.pay(price)

    def reaches(self, num_tokens: int) -> list[float]:
        """[num_tokens] probability that a path is kept down to each depth, as far as is known."""
        return self.acceptance.reaches(num_tokens)

    def reaches_of(self, draft: Proposal) -> list[float]:
        """Probability that tokens of a draft are kept, with all before them on their paths.

        From what the drafter says of it, corrected by how its earlier estimates turned out; where
        it says nothing, from how earlier drafts fared.

        Returns:
            As of `Reliability.reaches`: [N] of each token of a draft that may be cut.
        """
        if draft.expected is not None:
            return self.reliability.reaches(draft)
        return self.acceptance.reaches(draft.max_depth)

    def price(self, num_tokens: int, num_rows: float, num_sequences: int) -> float:
        """What a draft costs, in tokens that plain decoding would deliver in the same time.

        Args:
            num_tokens: depth to be drafted; 0 where the draft is there already.
            num_rows: of the draft, in the pass.
            num_sequences: of the pass.
        """
        costs = self.control.pass_costs
        attended = num_sequences * self.context
        plain = costs.seconds_of(num_sequences, attended)
        wide = costs.seconds_of(num_sequences + num_rows, attended + num_rows * self.context)
        drafting = self.control.draft_costs.price.of(num_tokens) if num_tokens else 0.0
        return (wide - plain + drafting) * num_sequences / plain

    def affordable(self, num_tokens: int, num_sequences: int, is_there: bool) -> int:
        """The part of a draft that the request's credit pays for.

        Args:
            num_tokens: what one would like: a depth, or rows of a draft that is there.
            num_sequences: of the pass.
            is_there: drafting is paid for already.
        """
        while num_tokens > 0:
            rows = num_tokens * (1.0 if is_there else self.rows_per_token)
            drafted = 0 if is_there else num_tokens
            if self.price(drafted, rows, num_sequences) <= self.credit.tokens:
                break
            num_tokens -= 1 + num_tokens // 4
        return max(num_tokens, 0)

    def note(
        self,
        draft: Proposal,
        num_verified: int,
        decided: Sequence[int],
        num_sequences: int = 1,
    ) -> None:
        """Learns how a pass went; a draft that was not verified tells as much as was decided."""
        num_kept = 0
        depth = draft.max_depth
        if depth > 0:
            num_known, num_matched = min(depth, len(decided)), draft.num_matched(decided)
            self.acceptance.update(num_known, num_matched)
            if draft.expected is not None:
                self.reliability.update(draft, decided[:num_known], num_matched)
            self.is_certain = draft.may_be_cut
            num_rows = num_verified if self.is_certain else len(draft)
            if num_rows > 0 and not (draft.is_chain and self.is_certain):
                rows_per_token = max(1.0, num_rows / depth)
                self.rows_per_token += 0.2 * (rows_per_token - self.rows_per_token)
            # Of a tree that was cut the token that was right may not have been verified.
            num_kept = num_matched if draft.is_chain else min(num_matched, len(decided) - 1)
        self._book(depth, num_verified, min(num_kept, num_verified), num_sequences)
        seen = num_kept if self._is_asked else -self.num_unseen
        self.num_unseen = len(decided) - seen
        self.context += len(decided)
        self._is_asked, self._is_paid = False, False

    def _book(self, depth: int, num_verified: int, num_kept: int, num_sequences: int) -> None:
        self.control.exploration.note_pass()
        if num_verified == 0 and not self._is_paid:
            self.credit.note_pass()
            return
        drafted = max(depth, 1) if self._is_paid else 0
        self.credit.note_pass(num_kept, self.price(drafted, num_verified, num_sequences))


def make_draft_length(
    spec: DraftLengthSpec, control: Control | None = None, num_prompt: int = 0
) -> DraftLength:
    """A fresh policy for one request.

    Args:
        spec: K, or "auto".
        control: what "auto" starts from; None: from nothing.
        num_prompt: tokens of the prompt.

    Raises:
        ParameterError: `spec` is neither "auto" nor a whole number of at least 1.
    """
    if spec == "auto":
        return MeasuredLength(Control() if control is None else control, num_prompt)
    if isinstance(spec, int) and not isinstance(spec, bool) and spec >= 1:
        return FixedLength(spec, num_prompt)
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
