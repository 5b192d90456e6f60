"""The two-dimensional window of lookahead decoding, as columns.

Fu et al., "Break the Sequential Dependency of LLM Inference Using Lookahead Decoding"
(arXiv:2402.02057), figure 3. Column c of the window is a short trajectory of Jacobi iteration: its
row 0 guesses the token c places after the last decided one, and row l the token l further on, as
the target predicted it l passes after that guess was made. Row l of column c sees row 0 up to
column c and the rows above it in its own column, nothing else. So it is a path of a tree: row 0 is
a chain, and a column hangs off its row 0. Row 0 of column 0 is the last decided token itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence


class Window:
    """At most W columns of at most N − 1 rows, always contiguous from the last decided token."""

    def __init__(self, width: int, ngram: int, last: int, filler: Callable[[], int | None]) -> None:
        """Starts with row 0 alone; each pass adds a row until the columns are full.

        Args:
            width: W, at least 1.
            ngram: N, at least 2.
            last: the last decided token.
            filler: a token for a place of which nothing is known; None where there is none,
                and then the window stays narrower.
        """
        self._width = width
        self._num_rows = ngram - 1
        self._filler = filler
        self.columns: list[list[int]] = []
        self._placed: list[tuple[int, list[int]]] = []  # columns, and how far right each begins
        self._arrange(last)

    def path(self, column: int) -> list[int]:
        """The tokens on the way from the last decided one to the end of a column."""
        across = [each[0] for each in self.columns[1 : column + 1]]
        return across + self.columns[column][1:]

    def advance(self, ends: Mapping[int, int]) -> list[tuple[int, ...]]:
        """Takes what the target says at the ends of columns.

        Args:
            ends: for each column that was evaluated, the next token.

        Returns:
            The n-grams (N tokens) of columns that were full: each one's whole trajectory. Such a
            column then begins one place further on. So does one that is still growing, which keeps
            its first token and is one place late from then on: it would slide out of a narrow
            window before it is full, and once it is, its late tokens leave it one by one.
        """
        grams: list[tuple[int, ...]] = []
        for start, token in ends.items():
            tokens = [*self.columns[start], token]
            if len(tokens) > self._num_rows:
                grams.append(tuple(tokens))
            self._placed[start] = (start + 1, tokens[-self._num_rows :])
        return grams

    def slide(self, decided: Sequence[int]) -> None:
        """Moves to the right by the decided tokens.

        What the window knew of decided places is dropped; of two columns for one place the longer
        stays.
        """
        self._placed = [(start - len(decided), column) for start, column in self._placed]
        self._arrange(decided[-1] if decided else self.columns[0][0])

    def _arrange(self, last: int) -> None:
        """Lays out the columns by their places and fills the gaps."""
        known: dict[int, list[int]] = {}
        for begin, tokens in self._placed:
            start, column = max(begin, 0), tokens[max(-begin, 0) :]
            if len(column) > len(known.get(start, ())):
                known[start] = column
        self.columns = [[last, *known.get(0, [last])[1:]]]
        for start in range(1, self._width):
            # The column before has guesses of this place and those after it, from its row 1 on.
            column = known.get(start) or self.columns[-1][1:] or self._fill()
            if not column:
                break
            self.columns.append(column)
        self._placed = list(enumerate(self.columns))

    def _fill(self) -> list[int]:
        token = self._filler()
        return [] if token is None else [token]
