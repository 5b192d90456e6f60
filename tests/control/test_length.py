"""How many tokens to draft: fixed, or two up and one down within bounds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oneglance.control.length import AdaptiveLength, FixedLength, make_draft_length
from oneglance.errors import ParameterError


@pytest.mark.parametrize("k", [1, 7, 1000])
def test_a_fixed_length_never_changes(k: int) -> None:
    length = make_draft_length(k)
    assert isinstance(length, FixedLength)
    for drafted, accepted in ((k, 0), (k, k), (0, 0)):
        assert length.next() == k
        length.update(drafted, accepted)
    assert length.next() == k


def test_auto_begins_with_five_for_each_request() -> None:
    first, second = make_draft_length("auto"), make_draft_length("auto")
    first.update(5, 5)
    assert (first.next(), second.next()) == (7, 5)


@pytest.mark.parametrize(
    ("start", "drafted", "accepted", "expected"),
    [
        (5, 5, 5, 7),
        (5, 5, 4, 4),
        (5, 5, 0, 4),
        (5, 2, 2, 7),  # whole, though shorter than what was asked for
        (5, 0, 0, 5),  # nothing drafted, nothing learnt
        (1, 1, 0, 1),
        (15, 15, 15, 16),
        (16, 16, 16, 16),
    ],
)
def test_two_up_and_one_down_within_bounds(
    start: int, drafted: int, accepted: int, expected: int
) -> None:
    length = AdaptiveLength(start)
    assert length.next() == start
    length.update(drafted, accepted)
    assert length.next() == expected


@given(st.lists(st.booleans(), max_size=60))
@settings(deadline=None, max_examples=50)
def test_agrees_with_the_schedule_written_as_a_clip(outcomes: list[bool]) -> None:
    length = AdaptiveLength(start=3, lowest=2, highest=9)
    expected = 3
    for is_whole in outcomes:
        length.update(length.next(), length.next() if is_whole else 0)
        expected = int(np.clip(expected + (2 if is_whole else -1), 2, 9))
        assert length.next() == expected


@pytest.mark.parametrize("k", [0, -1, "many", "5", "", True, 2.0, None])
def test_what_is_no_length_is_refused(k: object) -> None:
    with pytest.raises(ParameterError, match=r"k = .* cannot be used; .* use the drafter none"):
        make_draft_length(k)  # type: ignore[arg-type]
