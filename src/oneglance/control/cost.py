"""What a pass of the target and a draft cost on this machine, learned from the passes themselves.

Verifying K tokens is nearly free while a pass is bound by memory bandwidth and dear once it is
bound by arithmetic; where that turns depends on the machine, the model and what else runs there.
So it is measured, pass by pass.
"""

from __future__ import annotations

from bisect import bisect_left

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


class PassCosts:
    """Seconds of a target pass by its number of rows.

    The product of two moving averages: a level, which follows a longer context or a machine that
    others use too and moves fast, and a shape (what so many rows cost in units of one row), which
    belongs to model and machine and moves slowly. So passes of different sizes that were timed at
    different moments can be compared.
    """

    def __init__(self, row_share: float = 0.1) -> None:
        """Starts knowing nothing.

        Args:
            row_share: what each row after the first costs in units of a pass of one row, as long
                as nothing has been measured.
        """
        self._row_share = row_share
        self._level: float | None = None
        self._counts: dict[int, int] = {}
        # Costs in units of one row at sizes in ascending order; the first and the last size are
        # always there, extrapolated as guessed until they are seen.
        self._sizes = [1, _MANY_ROWS]
        self._ratios = [1.0, self._guess(_MANY_ROWS)]

    @property
    def is_known(self) -> bool:
        """Whether a pass has been timed."""
        return self._level is not None

    def note(self, num_rows: int, seconds: float) -> None:
        """Learns from one pass: `num_rows` of all sequences together, at least 1."""
        seconds = max(seconds, 1e-9)  # two readings of a coarse clock may be equal
        index = bisect_left(self._sizes, num_rows)
        if self._sizes[index] != num_rows:
            self._ratios.insert(index, self._between(index - 1, num_rows))
            self._sizes.insert(index, num_rows)
        if self._level is None:
            self._level = seconds / self._ratios[index]
        surprise = seconds / (self._level * self._ratios[index])
        surprise = min(max(surprise, 1 / _OUTLIER), _OUTLIER)
        self._level *= surprise**_LEVEL_WEIGHT
        self._counts[num_rows] = self._counts.get(num_rows, 1) + 1
        self._ratios[index] *= surprise ** max(_SHAPE_WEIGHT, 1 / self._counts[num_rows])
        self._extrapolate()

    def seconds(self, num_rows: IntArray) -> Float64Array:
        """Expected seconds of passes; in units of one row before any was timed.

        Args:
            num_rows: [n] numbers of rows, each at least 1.
        """
        level = 1.0 if self._level is None else self._level
        seconds: Float64Array = level * np.interp(num_rows, self._sizes, self._ratios)
        return seconds

    def _between(self, index: int, num_rows: int) -> float:
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

    def __init__(self, row_share: float = 0.1) -> None:
        """`row_share` is what each row after the first costs in units of a pass of one row."""
        super().__init__(row_share)
        self._level = 1.0

    def note(self, num_rows: int, seconds: float) -> None:
        """Learns nothing."""


class DraftCosts:
    """Seconds of drafting per token of depth, a moving average of logarithms."""

    def __init__(self) -> None:
        """Starts knowing nothing: drafts are free until one is timed."""
        self._seconds_per_token = 0.0

    @property
    def seconds_per_token(self) -> float:
        """Expected seconds for one more token on a path."""
        return self._seconds_per_token

    def note(self, num_tokens: int, seconds: float) -> None:
        """Learns from one draft.

        A draft that had to catch up first, after passes in which nothing was drafted, or that was
        interrupted, moves the estimate no further than one that took twice the time expected.

        Args:
            num_tokens: lengths of the drafted paths, of all sequences together; 0 tells nothing.
            seconds: how long the call took.
        """
        if num_tokens == 0:
            return
        measured = max(seconds, 1e-9) / num_tokens
        if self._seconds_per_token == 0.0:
            self._seconds_per_token = measured
        surprise = min(max(measured / self._seconds_per_token, 0.5), 2.0)
        self._seconds_per_token *= surprise**_LEVEL_WEIGHT


class KnownDraftCosts(DraftCosts):
    """A cost that is given, not learned."""

    def __init__(self, seconds_per_token: float = 0.0) -> None:
        """`seconds_per_token` is in the unit of the pass costs that go with it."""
        super().__init__()
        self._seconds_per_token = seconds_per_token

    def note(self, num_tokens: int, seconds: float) -> None:
        """Learns nothing."""
