"""How much one drafter of several should draft, and what its draft is worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from oneglance.control.allocation import Fixed, Offer, allocate
from oneglance.control.controller import HORIZON, likeliest
from oneglance.control.draft_cost import DraftPrice
from oneglance.control.length import MAX_LENGTH, Control, MeasuredLength
from oneglance.types import Float64Array, Proposal

_WANTED_WEIGHT = 0.1


class PartLength:
    """The length policy of one part of a hybrid drafter, for one request.

    Beside the best length it tells what a draft is worth, in tokens a second, so that parts can be
    compared before the dear ones are asked. Every other sequence of the pass is taken to draft as
    much as this one.
    """

    def __init__(self, control: Control, num_prompt: int = 0) -> None:
        """Shares what `control` has learned and adds to it."""
        self._control = control
        self._length = MeasuredLength(control, num_prompt)
        self._wanted = 0.5

    def next(self, room: int, num_sequences: int) -> int:
        """How much to draft; 0 where drafting loses.

        Args:
            room: the most that could be made use of.
            num_sequences: of the pass.
        """
        length = self._length
        if room < 1 or not self._control.pass_costs.is_known:
            return 0
        if length.is_free:
            return length.ask_freely(min(room, MAX_LENGTH))
        if length.is_resting:
            return length.ask(0)
        fixed, price = self._fixed(num_sequences), self._price(num_sequences)
        self._note_wanted(self._promise(room, num_sequences, 0.0) > self._plain(num_sequences))
        offer = self._offer(room, num_sequences, self._entry(room))
        number = allocate([offer], fixed, self._control.pass_costs, price)[0]
        return length.ask(length.affordable(number, num_sequences, is_there=False))

    def promises_more(self, reached: float, room: int, num_sequences: int) -> bool:
        """Whether its best length promises more than the draft that is there.

        Drafting is included, and the price of catching up, spread over the passes in which the
        part will probably be asked: as many as it would have been asked in so far, had it been
        cheap to catch up.

        Args:
            reached: tokens a second that the draft of another part promises.
            room: the most that could be made use of.
            num_sequences: of the pass.
        """
        self._note_wanted(self._promise(room, num_sequences, 0.0) > reached)
        return self._promise(room, num_sequences, self._entry(room)) > reached

    def expected_of(self, draft: Proposal) -> float:
        """Tokens that are expected to be kept of a draft, see `MeasuredLength.reaches_of`."""
        return sum(self._length.reaches_of(draft)) if len(draft) else 0.0

    def expected_to(self, depth: int) -> float:
        """Tokens that are expected to be kept of a draft of some depth, as of earlier ones."""
        return sum(self._length.reaches(depth))

    def speed(self, num_expected: float, num_nodes: int, num_sequences: int) -> float:
        """Tokens a second of a pass that verifies a draft which is there already."""
        context = self._length.context
        rows = num_sequences * (1 + num_nodes)
        return (1.0 + num_expected) / self._control.pass_costs.seconds_of(rows, rows * context)

    def cut(self, draft: Proposal, num_sequences: int) -> Proposal:
        """The part of a draft that is worth its rows; what was drawn at random stays whole."""
        if len(draft) == 0 or not draft.may_be_cut:
            return draft
        length = self._length
        reaches = length.reaches_of(draft)
        offer = Offer(sorted(reaches, reverse=True), length.context, float(num_sequences))
        number = allocate([offer], self._fixed(num_sequences), self._control.pass_costs)[0]
        number = length.affordable(number, num_sequences, is_there=True)
        return likeliest(draft, reaches, number)

    def note_draft(self, num_tokens: int, seconds: float, num_unseen: int) -> None:
        """Learns what a call cost; arguments as for `DraftCosts.note`."""
        self._control.draft_costs.note(num_tokens, seconds, num_unseen)

    @property
    def num_unseen(self) -> int:
        """Decided tokens that the part has not been told of with a call."""
        return self._length.num_unseen

    def note(
        self, draft: Proposal, num_verified: int, decided: Sequence[int], num_sequences: int
    ) -> None:
        """Learns how a pass went; arguments as for `MeasuredLength.note`."""
        self._length.note(draft, num_verified, decided, num_sequences)

    def _promise(self, room: int, num_sequences: int, entry: float) -> float:
        """Tokens a second of the best length; `entry` is what must be paid for it first."""
        offer = self._offer(room, num_sequences, entry)
        fixed, price = self._fixed(num_sequences), self._price(num_sequences)
        numbers = np.arange(1.0, len(offer.reaches) + 1)
        if len(numbers) == 0:
            return 0.0
        rows: Float64Array = numbers * offer.rows_per_token
        passes = self._control.pass_costs.seconds(
            fixed.num_rows + rows, fixed.attended + rows * offer.context
        )
        drafting = price.call + price.token * numbers + offer.entry
        speeds = (1.0 + np.cumsum(offer.reaches)) / (passes + drafting)
        return float(speeds.max())

    def _plain(self, num_sequences: int) -> float:
        return self.speed(0.0, 0, num_sequences)

    def _note_wanted(self, is_wanted: bool) -> None:
        self._wanted += _WANTED_WEIGHT * (is_wanted - self._wanted)

    def _entry(self, room: int) -> float:
        """Seconds of catching up that a pass has to bear."""
        passes = min(room / 2, HORIZON) * self._wanted
        price = self._control.draft_costs.price
        return price.unseen * self._length.num_unseen / max(passes, 1.0)

    def _offer(self, room: int, num_sequences: int, entry: float) -> Offer:
        length = self._length
        reaches = length.reaches(max(min(room, MAX_LENGTH), 0))
        rows_per_token = num_sequences * length.rows_per_token
        return Offer(reaches, length.context, rows_per_token, num_sequences * entry)

    def _price(self, num_sequences: int) -> DraftPrice:
        """Of a call for all sequences, for each token that all of them draft."""
        price = self._control.draft_costs.price
        return replace(price, token=num_sequences * price.token)

    def _fixed(self, num_sequences: int) -> Fixed:
        return Fixed(num_sequences, 1.0, num_sequences * self._length.context)
