"""How much one drafter of several should draft, and what its draft is worth."""

from __future__ import annotations

import numpy as np

from oneglance.control.length import Control, MeasuredLength


class PartLength(MeasuredLength):
    """The length policy of one part of a hybrid drafter, for one request.

    Beside the best length it tells what a draft is worth, in tokens a second, so that parts can be
    compared before the dear ones are asked.
    """

    def __init__(self, control: Control) -> None:
        """Shares what `control` has learned and adds to it."""
        super().__init__(control)
        self._said = 1.0
        self._kept = 1.0

    def promised_speed(self, num_sequences: int) -> float:
        """Tokens a second that the best length promises, drafting included."""
        return float(self.speeds(num_sequences).max())

    def expected_of(self, num_tokens: int, said: float | None) -> float:
        """Tokens that are expected to be kept of a draft.

        Args:
            num_tokens: length of its longest path.
            said: the drafter's own estimate, which is corrected by how its earlier ones turned
                out; None: as many as of its earlier drafts.
        """
        if said is None:
            return float(self._acceptance.expected(num_tokens)[num_tokens])
        return min(said * self._kept / self._said, num_tokens)

    def speed(self, num_expected: float, num_nodes: int, num_sequences: int) -> float:
        """Tokens a second of a pass that verifies a draft which is there already."""
        rows = np.array([num_sequences * (1 + num_nodes)])
        return (1.0 + num_expected) / float(self._control.pass_costs.seconds(rows)[0])

    def note_draft(self, num_tokens: int, seconds: float) -> None:
        """Learns what a draft cost; `num_tokens` is the length of its paths."""
        self._control.draft_costs.note(num_tokens, seconds)

    def note_outcome(
        self, num_drafted: int, num_accepted: int, num_nodes: int | None, said: float | None
    ) -> None:
        """Learns what became of a draft, or what would have: arguments as for `update`."""
        self.update(num_drafted, num_accepted, num_nodes)
        if said is not None and num_drafted > 0:
            self._said = 0.9 * self._said + said
            self._kept = 0.9 * self._kept + num_accepted
