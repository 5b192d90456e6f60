"""The window of lookahead decoding against its definition, and the pool of n-grams."""

from __future__ import annotations

from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from oneglance.drafters.lookahead_pool import GramPool
from oneglance.drafters.lookahead_window import Window

WIDTHS = st.integers(1, 5)
NGRAMS = st.integers(2, 5)
FILLER = -1


def window_of(width: int, ngram: int, last: int = 100) -> Window:
    return Window(width, ngram, last, filler=lambda: FILLER)


def visible(width: int, num_rows: int, row: int, column: int) -> list[tuple[int, int]]:
    """The cells that a cell sees, from the paper's mask: row 0 is causal, columns are too.

    Row 0 of column 0 is the last decided token, which all see.
    """
    cells = [(r, c) for r in range(num_rows) for c in range(width)]
    seen = [
        (r, c) for r, c in cells if (r == 0 and 0 < c <= column) or (c == column and 0 < r <= row)
    ]
    return sorted(seen, key=lambda cell: cell[0] + cell[1])  # by position: row l is l further on


@given(WIDTHS, NGRAMS)
def test_a_cell_sees_what_the_mask_of_the_paper_shows_it(width: int, ngram: int) -> None:
    window = window_of(width, ngram)
    fresh = count(1)
    for num_rows in range(1, ngram):
        columns = window.columns
        assert [len(column) for column in columns] == [num_rows] * width
        for column in range(width):
            cells = visible(width, num_rows, num_rows - 1, column)
            assert window.path(column) == [columns[c][r] for r, c in cells]
        if num_rows < ngram - 1:
            window.advance({column: next(fresh) for column in range(width)})
            window.slide([next(fresh)])


@given(WIDTHS, NGRAMS, st.lists(st.integers(1, 4), min_size=1, max_size=12))
def test_guesses_are_never_early_and_late_only_for_some_passes(
    width: int, ngram: int, steps: list[int]
) -> None:
    """The target of this test says at each place the number of the next one."""
    window = window_of(width, ngram)
    position = 100
    for num_decided in steps:
        for column, tokens in enumerate(window.columns):
            for row, token in enumerate(tokens):
                is_filler = row == 0 and token == FILLER
                assert is_filler or token <= position + column + row
        full = {c: tokens for c, tokens in enumerate(window.columns) if len(tokens) == ngram - 1}
        says = {c: position + c + len(tokens) for c, tokens in enumerate(window.columns)}
        grams = window.advance(says)
        assert grams == [(*tokens, says[c]) for c, tokens in full.items()]
        position += num_decided
        window.slide(range(position - num_decided + 1, position + 1))
        assert [window.columns[0][0], len(window.columns)] == [position, width]
        assert max(len(tokens) for tokens in window.columns) < ngram
    for _ in range(2 * ngram):
        advance_all(window, position)
        position += 1
        window.slide([position])
    assert window.columns == [
        [position + column + row for row in range(ngram - 1)] for column in range(width)
    ]


def advance_all(window: Window, position: int) -> None:
    window.advance({c: position + c + len(tokens) for c, tokens in enumerate(window.columns)})


def test_a_full_window_that_moves_by_one_stays_full_and_knows_each_place() -> None:
    window = window_of(3, 4)
    for position in range(100, 106):
        advance_all(window, position)
        window.slide([position + 1])
    assert window.columns == [[106, 107, 108], [107, 108, 109], [108, 109, 110]]


def test_a_partly_accepted_draft_moves_it_by_more() -> None:
    window = window_of(3, 4)
    for position in range(100, 106):
        advance_all(window, position)
        window.slide([position + 1])
    advance_all(window, 106)
    window.slide([107, 108])
    assert window.columns == [[108, 109, 110], [109, 110, 111], [110, 111]]


def test_columns_that_were_not_evaluated_move_all_the_same() -> None:
    window = window_of(3, 3)
    for position in (100, 101, 102, 103):
        advance_all(window, position)
        window.slide([position + 1])
    assert window.columns == [[104, 105], [105, 106], [106, 107]]
    assert window.advance({}) == []
    window.slide([105])
    assert window.columns == [[105, 106], [106, 107], [107]]
    assert window.advance({1: 7}) == [(106, 107, 7)]


def test_without_a_filler_the_window_stays_narrow() -> None:
    window = Window(4, 3, 5, filler=lambda: None)
    assert window.columns == [[5]]
    assert window.path(0) == []
    window.advance({0: 6})
    window.slide([7])
    assert window.columns == [[7, 6], [6]], "what was learned fills it"


def test_fillers_are_taken_one_by_one() -> None:
    tokens = iter([7, 8])
    window = Window(3, 3, 5, filler=lambda: next(tokens))
    assert window.columns == [[5], [7], [8]]


def test_the_pool_keeps_the_latest_grams_of_each_key() -> None:
    pool = GramPool(2)
    for gram in ((1, 1), (2, 2), (1, 1), (3, 3)):
        pool.add(9, gram)
    pool.add(8, (4, 4))
    assert pool.guesses(9) == [(3, 3), (1, 1)], "the one seen least recently made room"
    assert pool.guesses(8) == [(4, 4)]
    assert pool.guesses(7) == []


@given(st.integers(1, 3), st.lists(st.tuples(st.integers(0, 1), st.integers(0, 4)), max_size=30))
def test_the_pool_against_a_list(size: int, added: list[tuple[int, int]]) -> None:
    pool = GramPool(size)
    for key, token in added:
        pool.add(key, (token,))
    for key in (0, 1):
        latest = list(dict.fromkeys(token for k, token in reversed(added) if k == key))
        assert pool.guesses(key) == [(token,) for token in latest[:size]]
