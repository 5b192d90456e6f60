"""Prompt lookup: longest match, latest first, copies itself past the end, ends at end of text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oneglance.config import SamplingParams
from oneglance.drafters.base import DraftContext, DraftRequest
from oneglance.drafters.ngram import NgramDrafter
from oneglance.errors import ParameterError
from oneglance.sampling.noise import SequentialNoise


def draft(
    tokens: list[int],
    count: int,
    drafter: NgramDrafter | None = None,
    eos_ids: frozenset[int] = frozenset(),
    num_observed: int = 0,
) -> list[int]:
    """Drafts after `tokens`, the last `num_observed` of which came after the prompt."""
    drafter = drafter or NgramDrafter()
    split = len(tokens) - num_observed
    context = DraftContext(tuple(tokens[:split]), SamplingParams(), SequentialNoise(), eos_ids)
    session = drafter.start(context)
    drafter.observe(session, tokens[split:])
    proposal = drafter.propose([DraftRequest(session, count)])[0]
    assert proposal.is_chain
    assert proposal.draft_probs is None
    assert proposal.drafter == "ngram"
    return [int(token) for token in proposal.tokens]


def test_copies_what_followed() -> None:
    assert draft([1, 2, 3, 4, 5, 9, 1, 2], 3) == [3, 4, 5]


def test_a_node_budget_bounds_a_chain_as_well() -> None:
    drafter = NgramDrafter()
    context = DraftContext((1, 2, 3, 4, 5, 9, 1, 2), SamplingParams(), SequentialNoise())
    session = drafter.start(context)
    for num_nodes, found in ((None, [3, 4, 5]), (2, [3, 4]), (0, []), (9, [3, 4, 5])):
        proposal = drafter.propose([DraftRequest(session, 3, num_nodes)])[0]
        assert proposal.tokens.tolist() == found


def test_the_longest_match_wins_over_a_later_shorter_one() -> None:
    assert draft([7, 1, 2, 3, 50, 8, 1, 2, 60, 7, 1, 2], 2) == [3, 50]


def test_of_equally_long_matches_the_latest_wins() -> None:
    assert draft([1, 2, 30, 5, 1, 2, 40, 6, 7, 1, 2], 1) == [40]


def test_a_loop_goes_on_past_its_end() -> None:
    assert draft([5, 6, 7, 5, 6, 7, 5, 6], 7) == [7, 5, 6, 7, 5, 6, 7]


def test_nothing_to_say_without_a_match() -> None:
    assert draft([1, 2, 3, 4], 5) == []
    assert draft([1], 5) == []


def test_ends_with_end_of_text() -> None:
    assert draft([1, 2, 3, 0, 4, 1, 2], 4, eos_ids=frozenset({0})) == [3, 0]


def test_asked_for_nothing() -> None:
    assert draft([1, 2, 3, 1, 2], 0) == []


@pytest.mark.parametrize(("low", "high"), [(0, 2), (3, 2)])
def test_impossible_lengths_are_refused(low: int, high: int) -> None:
    with pytest.raises(ParameterError, match=f"min_ngram = {low} and max_ngram = {high}"):
        NgramDrafter(low, high)


def slow_lookup(tokens: list[int], count: int, low: int, high: int) -> list[int]:
    """The definition: scan backwards for each length, longest first; copy with overlap."""
    for length in range(high, low - 1, -1):
        tail = tokens[-length:]
        for start in range(len(tokens) - length - 1, -1, -1):
            if length <= len(tokens) and tokens[start : start + length] == tail:
                copied = list(tokens)
                for offset in range(count):
                    copied.append(copied[start + length + offset])
                return copied[len(tokens) :]
    return []


@given(
    st.lists(st.integers(0, 2), min_size=1, max_size=30),
    st.integers(0, 8),
    st.integers(1, 3),
    st.integers(0, 2),
    st.integers(0, 30),
)
@settings(deadline=None, max_examples=300)
def test_agrees_with_a_slow_scan(
    tokens: list[int], count: int, low: int, more: int, num_observed: int
) -> None:
    drafter = NgramDrafter(low, low + more)
    observed = min(num_observed, len(tokens) - 1)
    found = draft(tokens, count, drafter, num_observed=observed)
    assert found == slow_lookup(tokens, count, low, low + more)
