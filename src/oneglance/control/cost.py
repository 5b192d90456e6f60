"""What a pass of the target costs on this machine, learned from the passes themselves.

Verifying K tokens is nearly free while a pass is bound by memory bandwidth and dear once it is
bound by arithmetic; where that turns depends on the machine, the model and what else runs there.
So it is measured, pass by pass.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import numpy as np

from oneglance.types import Float64Array, IntArray

_LEVEL_WEIGHT = 0.2
"""How far one pass moves the estimate of how fast the machine is at present."""
_SHAPE_WEIGHT = 0.1
"""How far one pass moves the estimate of what its number of rows costs, at least."""
_OUTLIER = 4.0
"""A pass that takes more than so many times what was expected was interrupted by others."""
_MANY_ROWS = 1 << 20
"""More rows than any pass has; where the line that leads beyond the sizes that were seen ends."""
_MEASURED_COUNT = 8
"""How many passes a size counts for that was measured on purpose."""


class PassCosts:
    """Seconds of a target pass by its number of rows and by how much they attend to.

    level × (shape(rows) + attention share × Σ over rows of the context before them).

    The level is a moving average that follows a machine which others use too, and moves fast. The
    shape (what so many rows cost in units of one row) belongs to model and machine and moves
    slowly. So passes of different sizes that were timed at different moments can be compared.
    Attention reads keys and values once for each sequence and computes for each row, so its cost
    grows with both; its share follows from the model's dimensions or from `oneglance calibrate`.
    """

    def __init__(self, row_share: float = 0.1, attention_share: float = 0.0) -> None:
        """Starts knowing nothing.

        Args:
            row_share: what each row after the first costs in units of a pass of one row, as long
                as nothing has been measured.
            attention_share: what a row costs for each token of the context before it, in the same
                unit.
        """
        self._row_share = row_share
        self.attention_share = attention_share
        self._level: float | None = None
        self._counts: dict[int, int] = {}
        # Costs in units of one row at sizes in ascending order; the first and the last size are
        # always there, extrapolated as guessed until they are seen.
        self._sizes = [1, _MANY_ROWS]
        self._ratios = [1.0, self._guess(_MANY_ROWS)]

    @property
    def is_known(self) -> bool:
        """Whether a pass has been timed, here or by `oneglance calibrate`."""
        return self._level is not None

    @property
    def one_row(self) -> float:
        """Seconds of a pass of one row behind no context; 1 before any was timed."""
        return self._ratios[0] * (1.0 if self._level is None else self._level)

    def begin_from(
        self, num_rows: Sequence[int], seconds: Sequence[float], attention_share: float
    ) -> None:
        """Starts from passes that were measured earlier on this machine.

        Args:
            num_rows: sizes in ascending order, the first of them 1.
            seconds: of a pass of each size, behind no context.
            attention_share: as for the constructor.
        """
        self.attention_share = attention_share
        self._level = seconds[0]
        self._sizes = [*num_rows, _MANY_ROWS]
        self._ratios = [each / seconds[0] for each in seconds]
        self._counts = dict.fromkeys(num_rows, _MEASURED_COUNT)
        growth = self._guess(_MANY_ROWS) / self._guess(num_rows[-1])
        self._ratios.append(self._ratios[-1] * growth)

    def note(self, num_rows: int, seconds: float, attended: float = 0.0) -> None:
        """Learns from one pass.

        Args:
            num_rows: of all sequences together, at least 1.
            seconds: how long it took.
            attended: sum over the rows of the tokens of context before them.
        """
        seconds = max(seconds, 1e-9)  # two readings of a coarse clock may be equal
        attention = self.attention_share * attended
        index = bisect_left(self._sizes, num_rows)
        if self._sizes[index] != num_rows:
            self._ratios.insert(index, self._between(index - 1, num_rows))
            self._sizes.insert(index, num_rows)
        if self._level is None:
            self._level = seconds / (self._ratios[index] + attention)
        surprise = seconds / (self._level * (self._ratios[index] + attention))
        surprise = min(max(surprise, 1 / _OUTLIER), _OUTLIER)
        self._level *= surprise**_LEVEL_WEIGHT
        self._counts[num_rows] = self._counts.get(num_rows, 1) + 1
        self._ratios[index] *= surprise ** max(_SHAPE_WEIGHT, 1 / self._counts[num_rows])
        self._extrapolate()

    def seconds(
        self, num_rows: IntArray | Float64Array, attended: Float64Array | float = 0.0
    ) -> Float64Array:
        """Expected seconds of passes; in units of one row before any was timed.

        Args:
            num_rows: [n] numbers of rows, each at least 1.
            attended: [n] or one for all, as for `note`.
        """
        level = 1.0 if self._level is None else self._level
        shape = np.interp(num_rows, self._sizes, self._ratios)
        seconds: Float64Array = level * (shape + self.attention_share * attended)
        return seconds

    def seconds_of(self, num_rows: float, attended: float = 0.0) -> float:
        """`seconds` of one pass."""
        level = 1.0 if self._level is None else self._level
        index = bisect_right(self._sizes, num_rows) - 1
        return level * (self._between(index, num_rows) + self.attention_share * attended)

    def _between(self, index: int, num_rows: float) -> float:
        """The ratio of a size that lies between those at `index` and after it."""
        low, high = self._sizes[index], self._sizes[index + 1]
        share = (num_rows - low) / (high - low)
        return self._ratios[index] + share * (self._ratios[index + 1] - self._ratios[index])

    def _extrapolate(self) -> None:
        """Lets costs beyond the sizes that were seen grow as guessed."""
        for end, neighbour in ((0, 1), (-1, -2)):
            if self._sizes[end] not in self._counts:
                growth = self._guess(self._sizes[end]) / self._guess(self._sizes[neighbour])
                self._ratios[end] = self._ratios[neighbour] * growth

    def _guess(self, num_rows: int) -> float:
        return 1.0 + self._row_share * (num_rows - 1)


class KnownCosts(PassCosts):
    """Costs that are given, not learned: the same in every run, for tests and for planning."""

    def __init__(self, row_share: float = 0.1, attention_share: float = 0.0) -> None:
        """As for `PassCosts`; a pass of one row takes a second."""
        super().__init__(row_share, attention_share)
        self._level = 1.0

    def note(self, num_rows: int, seconds: float, attended: float = 0.0) -> None:
        """Learns nothing."""
