"""A machine whose costs are known and a text whose drafts are right with a known probability."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from oneglance.control.controller import choose_lengths, cut_drafts, note_draft
from oneglance.control.cost import KnownCosts
from oneglance.control.draft_cost import FREE, DraftPrice, KnownDraftCosts
from oneglance.control.length import Control, MeasuredLength
from oneglance.types import Proposal

Truth = Callable[[int, np.random.Generator], Sequence[bool]]
"""Of each depth from 1 on, whether a drafted token is right; from the tokens so far."""

Says = Callable[[Sequence[bool]], tuple[int, float]]
"""How much a drafter drafts at most, and how much of it it expects to be kept."""


def independent(rate: float) -> Truth:
    return lambda _, generator: (generator.random(33) < rate).tolist()


@dataclass
class Machine:
    """Seconds of passes and drafts, in passes of one row."""

    row_share: float = 0.15
    price: DraftPrice = FREE
    says: Says | None = None
    control: Control = field(init=False)

    def __post_init__(self) -> None:
        self.control = Control(KnownCosts(self.row_share), KnownDraftCosts(self.price))

    def speed(self, truth: Truth, num_tokens: int = 200, seed: int = 0, prompt: int = 0) -> float:
        """Tokens in the time of a plain pass, of one request on its own."""
        generator = np.random.default_rng(seed)
        length = MeasuredLength(self.control, prompt)
        seconds, done = 0.0, 0
        while done < num_tokens:
            right = truth(done, generator)
            tokens, spent = self._pass(length, right, num_tokens - done - 1)
            seconds += spent
            done += tokens
        return done / seconds

    def best_speed(self, rate: float) -> float:
        """That of the best fixed K, or of plain decoding, where each token is right at `rate`."""
        speeds = [1.0]
        for k in range(1, 33):
            tokens = sum(rate**depth for depth in range(k + 1))
            speeds.append(tokens / (1 + self.row_share * k + self.price.of(k, 1)))
        return max(speeds)

    def _pass(self, length: MeasuredLength, right: Sequence[bool], room: int) -> tuple[int, float]:
        (k,) = choose_lengths([length], [max(room, 0)])
        draft, seconds = Proposal.empty(), 0.0
        if k > 0:
            depth, said = (k, None) if self.says is None else self.says(right)
            draft = Proposal.chain([1] * min(depth, k), expected=said)
            seconds = self.price.of(len(draft), length.num_unseen)
            note_draft([length], [k], [draft], seconds)
        (cut,) = cut_drafts([length], [draft])
        num_kept = 0
        while num_kept < len(cut) and right[num_kept]:
            num_kept += 1
        # Beyond what was verified the target may say the drafted token too.
        follows = num_kept == len(cut) and right[num_kept]
        decided = [1] * num_kept + [int(follows)]
        length.note(draft, len(cut), decided)
        return len(decided), seconds + self.control.pass_costs.seconds_of(1 + len(cut))
