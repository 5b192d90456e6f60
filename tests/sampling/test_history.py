"""Counts of a history, with and without tokens of a path."""

from __future__ import annotations

import numpy as np
import pytest

from oneglance.sampling.history import TokenHistory
from oneglance.types import IntArray


def counts(pair: tuple[IntArray, IntArray]) -> dict[int, int]:
    ids, occurrences = pair
    return dict(zip(ids.tolist(), occurrences.tolist(), strict=True))


def test_counts_of_output_and_path() -> None:
    history = TokenHistory([5, 5, 6])
    for token in (7, 5, 7):
        history.append(token)
    assert counts(history.output_counts()) == {7: 2, 5: 1}
    assert counts(history.output_counts([7, 9])) == {7: 3, 5: 1, 9: 1}
    assert counts(history.output_counts()) == {7: 2, 5: 1}  # the path left no trace


def test_seen_ids_are_distinct() -> None:
    history = TokenHistory([5, 5, 6], [7, 5])
    assert sorted(history.seen_ids()) == [5, 6, 7]
    assert sorted(history.seen_ids([6, 7, 9, 9])) == [5, 6, 7, 9]
    assert sorted(history.seen_ids()) == [5, 6, 7]


def test_tokens_in_order() -> None:
    history = TokenHistory(np.array([1, 2]), [3])
    assert history.tokens([4, 5]) == (1, 2, 3, 4, 5)
    assert (history.prompt, history.output, history.num_output) == ((1, 2), (3,), 1)
    history.append(9)
    assert history.num_output == 2


def test_empty_history() -> None:
    history = TokenHistory([])
    assert history.tokens() == ()
    assert counts(history.output_counts()) == {}
    assert history.seen_ids().shape == (0,)


def test_negative_ids_are_a_bug_of_the_caller() -> None:
    with pytest.raises(AssertionError, match="negative"):
        TokenHistory([], [-1])


def test_output_can_be_taken_back() -> None:
    history = TokenHistory([5], [7, 7, 8])
    history.truncate(3)
    history.truncate(1)
    assert history.output == (7,)
    assert counts(history.output_counts()) == {7: 1}
    assert sorted(history.seen_ids()) == [5, 7]
    history.truncate(0)
    assert counts(history.output_counts()) == {}
    for num_output in (-1, 1):
        with pytest.raises(AssertionError, match="shorter"):
            history.truncate(num_output)
