"""Several drafters, the cheapest first: each pass takes the one whose draft is worth most.

The hybrid of SuffixDecoding (Oliaro et al., arXiv:2411.04975), with worth in tokens a second: a
dear drafter is asked only where it promises more than the draft that the cheap ones have made. In a
tree, drafts of different drafters can be verified together.

What this does to exactness: the choice may depend on drafts that are a function of the prefix, and
on how long things took. It must not depend on tokens that were drawn at random in this pass. So a
draft that comes with laws is used as it is, once it was made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any, Protocol

import numpy as np

from oneglance.drafters.base import DraftContext, Drafter, DraftHints, DraftRequest
from oneglance.drafters.merge import Merged, merge
from oneglance.errors import ParameterError
from oneglance.types import Float32Array, IntArray, Proposal


class PartPolicy(Protocol):
    """What the hybrid must know of one part in one request; see `control/part.py`."""

    def next(self, room: int, num_sequences: int) -> int:
        """How much to draft; 0 where drafting loses."""

    def promises_more(self, reached: float, room: int, num_sequences: int) -> bool:
        """Whether its best length promises more tokens a second than a draft that is there."""

    def expected_of(self, draft: Proposal) -> float:
        """Tokens that are expected to be kept of a draft."""

    def expected_to(self, depth: int) -> float:
        """Tokens that are expected to be kept of a draft of that depth."""

    def speed(self, num_expected: float, num_nodes: int, num_sequences: int) -> float:
        """Tokens a second of a pass that verifies a draft which is there already."""

    def cut(self, draft: Proposal, num_sequences: int) -> Proposal:
        """The part of a draft that is worth its rows; what was drawn at random stays whole."""

    @property
    def num_unseen(self) -> int:
        """Decided tokens that the part has not been told of with a call."""

    def note_draft(self, num_tokens: int, seconds: float, num_unseen: int) -> None:
        """Hears what a call cost."""

    def note(
        self, draft: Proposal, num_verified: int, decided: Sequence[int], num_sequences: int
    ) -> None:
        """Hears what became of a draft, or what would have: the tokens that were decided."""


MakePolicy = Callable[[Drafter[Any], int], PartPolicy]
"""Makes the policy of a part for one request, whose prompt has so many tokens."""


@dataclass
class _Part:
    """One drafter in one request, and its draft for the coming pass.

    Attributes:
        drafter: the drafter.
        session: its session.
        policy: decides how much it drafts.
        made: what it drafted; None: nothing, or it was not asked.
        draft: what of that is worth its rows; None: nothing.
    """

    drafter: Drafter[Any]
    session: Any
    policy: PartPolicy
    made: Proposal | None = None
    draft: Proposal | None = None

    def expected(self) -> float:
        """Tokens of its draft that are expected to be kept."""
        assert self.draft is not None, "nothing is drafted"
        if self.draft is not self.made and self.draft.expected is not None:
            return self.draft.expected  # the policy's own estimate, of what it left
        return self.policy.expected_of(self.draft)


@dataclass
class HybridSession:
    """One request: its parts, cheapest first, and what is in flight.

    Attributes:
        parts: the drafters with their sessions.
        used: the parts whose drafts are being verified, in the order of `places`.
        places: for each of them, where its nodes lie in the proposal.
        num_sequences: of the pass that is under way.
    """

    parts: list[_Part]
    used: list[_Part] = field(default_factory=list)
    places: tuple[IntArray, ...] = ()
    num_sequences: int = 1


class HybridDrafter(Drafter[HybridSession]):
    """Asks its parts in order of cost until none of those left promises more."""

    chooses_length = True

    def __init__(self, drafters: Sequence[Drafter[Any]], make_length: MakePolicy) -> None:
        """Takes the parts.

        Args:
            drafters: at least two, in order of cost.
            make_length: makes the length policy of a part.

        Raises:
            ParameterError: a part occurs twice, or never drafts.
        """
        names = [drafter.name for drafter in drafters]
        self.name = "+".join(names)
        self.uses_prediction = any(drafter.uses_prediction for drafter in drafters)
        self.reaches_further = any(drafter.reaches_further for drafter in drafters)
        self.num_further = sum(drafter.num_further for drafter in drafters)
        self.hidden_layers = tuple(sorted({i for each in drafters for i in each.hidden_layers}))
        for name in names:
            if names.count(name) > 1:
                raise ParameterError(f"The drafter {self.name!r} has {name!r} twice; name it once.")
            if name in ("none", "grammar"):
                raise ParameterError(
                    f"The drafter {self.name!r} has the part {name}, which never drafts; drop it."
                )
        self._drafters = tuple(drafters)
        self._make_length = make_length

    @property
    def parts(self) -> tuple[Drafter[Any], ...]:
        """The drafters, in order of cost."""
        return self._drafters

    def check(self, hints: DraftHints) -> None:
        """Refuses a request that a part cannot serve; a prediction needs one part to use it."""
        super().check(hints)
        for drafter in self._drafters:
            drafter.check(hints if drafter.uses_prediction else replace(hints, prediction=()))

    def start(self, context: DraftContext) -> HybridSession:
        """Begins the request with every part."""
        num_prompt = len(context.prompt)
        return HybridSession(
            [
                _Part(drafter, drafter.start(context), self._make_length(drafter, num_prompt))
                for drafter in self._drafters
            ]
        )

    def propose(self, requests: Sequence[DraftRequest[HybridSession]]) -> list[Proposal]:
        """Asks the parts, each for all requests that still look for a better draft."""
        for request in requests:
            request.session.num_sequences = len(requests)
        looking = list(requests)
        for index in range(len(self._drafters)):
            self._ask(index, looking, len(requests))
            looking = [each for each in looking if _is_more_promised(each, index, len(requests))]
        return [_choose(request, len(requests), self.name) for request in requests]

    def see(self, session: HybridSession, proposal: Proposal, logits: Float32Array) -> None:
        """Shows each part that had a share in the proposal the rows of its own draft."""
        del proposal
        for part, places in zip(session.used, session.places, strict=True):
            if part.draft is not None and bool(np.all(places >= 0)):
                part.drafter.see(part.session, part.draft, logits[[0, *(1 + places)]])

    def first_unseen(self, session: HybridSession) -> int:
        """The first position that a part needs which reads hidden states at all."""
        readers = [part for part in session.parts if part.drafter.hidden_layers]
        return min(part.drafter.first_unseen(part.session) for part in readers)

    def see_hidden(
        self, session: HybridSession, start: int, hidden: Mapping[int, Float32Array]
    ) -> None:
        """Shows each part the layers that it reads."""
        for part in session.parts:
            if layers := part.drafter.hidden_layers:
                own = {layer: hidden[layer] for layer in layers}
                part.drafter.see_hidden(part.session, start, own)

    def observe(self, session: HybridSession, tokens: Sequence[int]) -> None:
        """Tells every part what was decided, and its policy how far its draft agrees with it."""
        for part in session.parts:
            is_used = any(part is used for used in session.used)
            num_verified = len(part.draft) if is_used and part.draft is not None else 0
            made = Proposal.empty(part.drafter.name) if part.made is None else part.made
            part.policy.note(made, num_verified, tokens, session.num_sequences)
            part.made = part.draft = None
            part.drafter.observe(part.session, tokens)
        session.used, session.places = [], ()

    def close(self, session: HybridSession) -> None:
        """Ends the request with every part, also where one fails."""
        with ExitStack() as endings:
            for part in session.parts:
                endings.callback(part.drafter.close, part.session)

    def shutdown(self) -> None:
        """Ends every part, also where one fails."""
        with ExitStack() as endings:
            for drafter in self._drafters:
                endings.callback(drafter.shutdown)

    def _ask(
        self, index: int, requests: Sequence[DraftRequest[HybridSession]], num_sequences: int
    ) -> None:
        """Lets one part draft for those requests for which it thinks that worth while."""
        asked: list[_Part] = []
        wishes: list[DraftRequest[Any]] = []
        for request in requests:
            part = request.session.parts[index]
            length = part.policy.next(request.num_draft_tokens, num_sequences)
            if length > 0:
                asked.append(part)
                wishes.append(replace(request, session=part.session, num_draft_tokens=length))
        if not asked:
            return
        num_unseen = sum(part.policy.num_unseen for part in asked)
        started = perf_counter()
        drafts = self._drafters[index].propose(wishes)
        num_tokens = sum(draft.max_depth for draft in drafts)
        asked[0].policy.note_draft(num_tokens, perf_counter() - started, num_unseen)
        for part, wish, draft in zip(asked, wishes, drafts, strict=True):
            part.made = draft if len(draft) else None
            is_cut = len(draft) > 0 and wish.num_tree_nodes is None and not self.reaches_further
            left = part.policy.cut(draft, num_sequences) if is_cut else draft
            part.draft = left if len(left) else None


def _is_more_promised(request: DraftRequest[HybridSession], index: int, num_sequences: int) -> bool:
    """Whether a part after `index` promises more than the drafts that are there."""
    session = request.session
    drafts = [part for part in session.parts[: index + 1] if part.draft is not None]
    if not drafts:
        return True
    if any(part.draft is not None and part.draft.draft_probs is not None for part in drafts):
        return False
    reached = max(_speed(part, num_sequences) for part in drafts)
    room = request.num_draft_tokens
    # Each is asked, not only until one promises more: each counts how often it would be wanted.
    promises = [
        part.policy.promises_more(reached, room, num_sequences)
        for part in session.parts[index + 1 :]
    ]
    return any(promises)


def _speed(part: _Part, num_sequences: int) -> float:
    assert part.draft is not None, "nothing is drafted"
    return part.policy.speed(part.expected(), len(part.draft), num_sequences)


def _choose(request: DraftRequest[HybridSession], num_sequences: int, name: str) -> Proposal:
    """The draft, or in a tree the drafts, worth most tokens a second."""
    session = request.session
    drafts = [part for part in session.parts if part.draft is not None]
    if not drafts:
        return Proposal.empty(name)
    # What was drawn at random must be used whatever it came to; it is always the last.
    if drafts[-1].draft is not None and drafts[-1].draft.draft_probs is not None:
        drafts = drafts[-1:]
    drafts.sort(key=lambda part: -_speed(part, num_sequences))
    best = drafts[0]
    assert best.draft is not None, "nothing is drafted"
    session.used = [best]
    session.places = (np.arange(len(best.draft)),)
    if request.num_tree_nodes is None or len(drafts) == 1:
        return best.draft
    return _with_branches(session, drafts, request.num_tree_nodes, num_sequences)


def _with_branches(
    session: HybridSession, drafts: list[_Part], max_nodes: int, num_sequences: int
) -> Proposal:
    """The best draft, with those of other parts as branches as long as that pays.

    Where two drafts differ, only one of them can be right: what is expected of both adds up, but
    for the tokens that they share.
    """
    best = drafts[0]
    assert best.draft is not None, "nothing is drafted"
    tree = Merged.only(best.draft)
    expected = best.expected()
    reached = best.policy.speed(expected, len(best.draft), num_sequences)
    for part in drafts[1:]:
        assert part.draft is not None, "nothing is drafted"
        wider = merge(tree, part.draft, max_nodes)
        both = expected + part.expected() * (1.0 - _share(part, wider.shared_depth))
        speed = part.policy.speed(both, len(wider.proposal), num_sequences)
        if speed > reached:
            tree, expected, reached = wider, both, speed
            session.used.append(part)
    session.places = tree.places
    return replace(tree.proposal, expected=expected)


def _share(part: _Part, depth: int) -> float:
    """Which share of what is expected of a draft lies within its first `depth` levels."""
    assert part.draft is not None, "nothing is drafted"
    whole = part.policy.expected_to(part.draft.max_depth)
    return min(1.0, part.policy.expected_to(depth) / whole) if whole > 0 else 0.0
