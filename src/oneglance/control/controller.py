"""What to draft and what to verify in one pass, for all its sequences together.

Before the drafter is asked: how long drafts may become, from how earlier ones fared and what
drafting costs. Once drafts are there that are a function of the prefix: how much of each is worth
its rows, from what their drafter says of them. Both maximise the expected tokens a second of the
whole pass, so that drafts shrink as the batch grows, and end where speculation loses.

What is drawn at random must be verified whatever it came to; only point masses are cut. Of a tree
the tokens with the greatest reach are kept, so that what it costs a row is what it gains a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from oneglance.control.allocation import NOTHING, Fixed, Offer, allocate
from oneglance.control.length import MAX_LENGTH, DraftLength, FixedLength, MeasuredLength
from oneglance.types import Proposal

HORIZON = 64
"""Over how many passes at most the price of catching up is spread: what was caught up with need
not be read again."""


def choose_lengths(
    lengths: Sequence[DraftLength], rooms: Sequence[int], besides: Fixed = NOTHING
) -> list[int]:
    """The most tokens to draft in a row for each sequence of a pass.

    Args:
        lengths: what is known of each sequence.
        rooms: the most that each could make use of.
        besides: what else the pass will hold: prompts, and sequences that others draft for.
    """
    chosen = [0] * len(lengths)
    asking: list[tuple[int, MeasuredLength]] = []
    fixed_rows, attended = besides.num_rows, besides.attended
    for index, (length, room) in enumerate(zip(lengths, rooms, strict=True)):
        fixed_rows, attended = fixed_rows + 1, attended + length.context
        if isinstance(length, FixedLength):
            chosen[index] = min(length.num_draft_tokens, room)
            fixed_rows += chosen[index]
            attended += chosen[index] * length.context
        elif isinstance(length, MeasuredLength) and length.control.pass_costs.is_known:
            # Before any pass was timed nothing is drafted: the first tells what one row costs.
            if length.is_free:
                chosen[index] = length.ask_freely(min(room, MAX_LENGTH))
            elif length.is_resting:
                chosen[index] = min(length.ask(0), room)
            else:
                asking.append((index, length))
    if asking:
        fixed = Fixed(fixed_rows, len(lengths) + besides.tokens, attended)
        for (index, _), number in zip(asking, _lengths(asking, rooms, fixed), strict=True):
            chosen[index] = number
    return chosen


def _lengths(
    asking: Sequence[tuple[int, MeasuredLength]], rooms: Sequence[int], fixed: Fixed
) -> list[int]:
    """Lengths for those whose drafts have a price."""
    control = asking[0][1].control
    price = control.draft_costs.price
    offers = []
    for index, length in asking:
        room = max(rooms[index], 0)
        passes = min(max(room / 2, 1.0), HORIZON)
        offers.append(
            Offer(
                length.reaches(min(room, MAX_LENGTH)),
                length.context,
                length.rows_per_token,
                price.unseen * length.num_unseen / passes,
            )
        )
    numbers = allocate(offers, fixed, control.pass_costs, price)
    return [
        min(length.ask(length.affordable(number, round(fixed.tokens), False)), max(rooms[index], 0))
        for (index, length), number in zip(asking, numbers, strict=True)
    ]


def note_draft(
    lengths: Sequence[DraftLength],
    wishes: Sequence[int],
    drafts: Sequence[Proposal],
    seconds: float,
) -> None:
    """Learns what a call of the drafter cost, where its costs are asked for.

    Args:
        lengths: what is known of each sequence.
        wishes: how much was asked for it.
        drafts: what was drafted.
        seconds: how long the call took.
    """
    asked = [
        length
        for length, wish in zip(lengths, wishes, strict=True)
        if wish > 0 and isinstance(length, MeasuredLength)
    ]
    if asked:
        num_tokens = sum(draft.max_depth for draft in drafts)
        num_unseen = sum(length.num_unseen for length in asked)
        asked[0].control.draft_costs.note(num_tokens, seconds, num_unseen)


def cut_drafts(
    lengths: Sequence[DraftLength], drafts: Sequence[Proposal], besides: Fixed = NOTHING
) -> list[Proposal]:
    """The part of each draft that is worth its rows.

    Args:
        lengths: what is known of each sequence.
        drafts: what was drafted for it.
        besides: as for `choose_lengths`.

    Returns:
        The likeliest tokens of the drafts that can be cut, the others as they are.
    """
    cut = list(drafts)
    found = [
        (index, length, draft)
        for index, (length, draft) in enumerate(zip(lengths, drafts, strict=True))
        if isinstance(length, MeasuredLength) and len(draft) > 0 and draft.may_be_cut
    ]
    if not found:
        return cut
    is_open = {index for index, _, _ in found}
    fixed_rows = [0 if index in is_open else len(draft) for index, draft in enumerate(drafts)]
    taken = zip(lengths, fixed_rows, strict=True)
    said = [draft.expected or 0.0 for index, draft in enumerate(drafts) if index not in is_open]
    fixed = Fixed(
        besides.num_rows + len(lengths) + sum(fixed_rows),
        besides.tokens + len(lengths) + sum(said),
        besides.attended + sum(length.context * (1 + rows) for length, rows in taken),
    )
    reaches = [length.reaches_of(draft) for _, length, draft in found]
    offers = [
        Offer(sorted(each, reverse=True), length.context)
        for each, (_, length, _) in zip(reaches, found, strict=True)
    ]
    numbers = allocate(offers, fixed, found[0][1].control.pass_costs)
    for (index, length, draft), each, number in zip(found, reaches, numbers, strict=True):
        kept = length.affordable(number, len(lengths), is_there=True)
        cut[index] = likeliest(draft, each, kept)
    return cut


def likeliest(draft: Proposal, reaches: Sequence[float], num_tokens: int) -> Proposal:
    """The likeliest tokens of a draft that may be cut, with what is expected of them.

    Args:
        draft: of point masses.
        reaches: [N] of each token, never more than its parent's.
        num_tokens: how many to keep.
    """
    if num_tokens == 0:
        return Proposal.empty(draft.drafter)
    if draft.is_chain:
        expected, tokens = sum(reaches[:num_tokens]), draft.tokens[:num_tokens].tolist()
        return Proposal.chain(tokens, None, draft.drafter, expected)
    ranked = sorted(range(len(draft)), key=lambda node: (-reaches[node], node))[:num_tokens]
    return replace(draft.part(sorted(ranked)), expected=sum(reaches[node] for node in ranked))
