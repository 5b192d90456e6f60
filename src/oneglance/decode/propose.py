"""The first part of a step: every drafter is asked once for all sequences that it drafts for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from oneglance.control.allocation import NOTHING, Fixed
from oneglance.control.controller import choose_lengths, cut_drafts, note_draft
from oneglance.decode.guidance import GuidedDraft
from oneglance.decode.sequence import DecodingSequence
from oneglance.drafters.base import Drafter, DraftRequest
from oneglance.types import Proposal


@dataclass(frozen=True)
class Guess:
    """What is guessed for a sequence.

    Attributes:
        num_asked: K, the most tokens on a path that the drafter was asked for.
        draft: what the drafter made.
        kept: the part of it that is worth its rows.
        guided: what a constraint makes of that.
        error: why there is none; the sequence takes no part in the pass.
    """

    num_asked: int
    draft: Proposal
    kept: Proposal
    guided: GuidedDraft
    error: Exception | None = None

    @property
    def proposal(self) -> Proposal:
        """What is verified."""
        return self.guided.proposal


def propose(sequences: Sequence[DecodingSequence], besides: Fixed = NOTHING) -> list[Guess]:
    """Drafts for each sequence, a chain or a tree.

    Args:
        sequences: answers in progress, with whatever drafters.
        besides: what else the pass will hold.
    """
    guesses: dict[int, Guess] = {}
    for drafter in {id(s.drafter): s.drafter for s in sequences}.values():
        own = [i for i, s in enumerate(sequences) if s.drafter is drafter]
        others = [s for s in sequences if s.drafter is not drafter]
        fixed = Fixed(
            besides.num_rows + len(others),
            besides.tokens + len(others),
            besides.attended + sum(s.context for s in others),
        )
        found = _propose(drafter, [sequences[i] for i in own], fixed)
        guesses.update(zip(own, found, strict=True))
    return [guesses[i] for i in range(len(sequences))]


def _propose(
    drafter: Drafter[Any], sequences: Sequence[DecodingSequence], besides: Fixed
) -> list[Guess]:
    lengths = [s.draft_length for s in sequences]
    wishes = choose_lengths(lengths, [s.draft_room for s in sequences], besides)
    requests = [s.draft_request(wish) for s, wish in zip(sequences, wishes, strict=True)]
    asked = perf_counter()
    answers = _ask(drafter, requests)
    drafts = [each if isinstance(each, Proposal) else Proposal.empty() for each in answers]
    note_draft(lengths, wishes, drafts, perf_counter() - asked)
    for request, draft in zip(requests, drafts, strict=True):
        _check_size(drafter, request, draft)
    # Of what is a function of the prefix, the part that is not worth its rows is left out.
    kept = drafts if drafter.reaches_further else cut_drafts(lengths, drafts, besides)
    errors = [None if isinstance(each, Proposal) else each for each in answers]
    asked_for = [request.num_draft_tokens for request in requests]
    return [_guess(*each) for each in zip(sequences, asked_for, drafts, kept, errors, strict=True)]


def _guess(
    sequence: DecodingSequence,
    num_asked: int,
    draft: Proposal,
    kept: Proposal,
    error: Exception | None,
) -> Guess:
    """A draft without what a constraint forbids, and with what it leaves no choice about."""
    try:
        return Guess(num_asked, draft, kept, sequence.guide(kept), error)
    except Exception as failure:  # a mask of the user's own, say
        empty = Proposal.empty()
        return Guess(num_asked, draft, empty, GuidedDraft(empty, 0), error or failure)


def _ask(drafter: Drafter[Any], requests: Sequence[DraftRequest[Any]]) -> list[Any]:
    """A proposal for each request, or the error that kept it from being made.

    An error that only one request is to blame for (a user's function that fails, say) ends all of
    the call. So each is asked for by itself then: what was drawn for the others is not used, for
    a reason that has nothing to do with what it was.
    """
    try:
        return list(drafter.propose(requests))
    except Exception as error:
        if len(requests) == 1:
            return [error]
    return [_ask(drafter, [request])[0] for request in requests]


def _check_size(drafter: Drafter[Any], request: DraftRequest[Any], proposal: Proposal) -> None:
    """A drafter that drafts more than it was asked for has a bug, hence assertions."""
    max_depth, max_nodes = request.max_depth, request.num_tree_nodes
    if not drafter.reaches_further:
        max_depth = request.num_draft_tokens
        max_nodes = max_depth + request.num_branches if max_nodes is None else max_nodes
    elif max_nodes is None:
        max_nodes = request.num_draft_tokens + drafter.num_further
    assert proposal.max_depth <= max_depth, "more was drafted than asked for"
    assert len(proposal) <= max_nodes, "more was drafted than asked for"
