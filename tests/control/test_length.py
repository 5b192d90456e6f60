"""How many tokens to draft: fixed, or as many as promise most tokens a second."""

from __future__ import annotations

import numpy as np
import pytest

from oneglance.control.length import (
    MAX_LENGTH,
    Control,
    FixedLength,
    MeasuredLength,
    check_tree_nodes,
    make_draft_length,
)
from oneglance.errors import ParameterError


@pytest.mark.parametrize("k", [1, 7, 1000])
def test_a_fixed_length_never_changes(k: int) -> None:
    length = make_draft_length(k)
    assert isinstance(length, FixedLength)
    for drafted, accepted in ((k, 0), (k, k), (0, 0)):
        assert length.next() == k
        length.update(drafted, accepted)
    assert length.next() == k


def best_length(rate: float, row_share: float, draft_share: float, num_sequences: int = 1) -> int:
    """The optimum on a machine whose costs and acceptance are known, by trying every K."""
    speeds = []
    for k in range(MAX_LENGTH + 1):
        tokens = sum(rate**depth for depth in range(k + 1))
        rows = num_sequences * (k + 1)
        seconds = 1 + row_share * (rows - 1) + num_sequences * k * draft_share
        speeds.append(tokens / seconds)
    return int(np.argmax(speeds))


def simulate(
    length: MeasuredLength, rate: float, num_passes: int, seed: int = 0
) -> list[tuple[int, int]]:
    """Drafts of which each token is kept with the given probability: (K, kept) of each pass."""
    generator = np.random.default_rng(seed)
    passes = []
    for _ in range(num_passes):
        k = length.next()
        kept = 0
        while kept < k and generator.random() < rate:
            kept += 1
        length.update(k, kept)
        passes.append((k, kept))
    return passes


@pytest.mark.parametrize("draft_share", [0.0, 0.1, 0.35])
@pytest.mark.parametrize("row_share", [0.02, 0.1, 0.5])
@pytest.mark.parametrize("rate", [0.3, 0.6, 0.8, 0.95])
def test_the_speed_is_near_that_of_the_best_length(
    rate: float, row_share: float, draft_share: float
) -> None:
    """On a simulated machine with a known optimum; five percent are left to learning."""
    length = MeasuredLength(Control.without_a_clock(row_share, draft_share))
    simulate(length, rate, 100)
    passes = simulate(length, rate, 4000, seed=1)
    seconds = sum(1 + row_share * k + draft_share * k for k, _ in passes)
    speed = sum(kept + 1 for _, kept in passes) / seconds
    k = best_length(rate, row_share, draft_share)
    best = sum(rate**depth for depth in range(k + 1)) / (1 + row_share * k + draft_share * k)
    assert speed > 0.93 * best


def test_where_drafting_loses_it_stops_but_for_an_attempt_now_and_then() -> None:
    length = MeasuredLength(Control.without_a_clock(row_share=0.2))
    passes = simulate(length, 0.0, 1000)
    drafted = [index for index, (k, _) in enumerate(passes) if k > 0]
    assert len(drafted) < 30
    assert drafted[-1] > 900, "it must not give up for ever"
    seconds = sum(1 + 0.2 * k for k, _ in passes)
    assert len(passes) / seconds > 0.99, "the speed of plain decoding"


def test_it_comes_back_when_drafts_are_kept_again() -> None:
    length = MeasuredLength(Control.without_a_clock(row_share=0.2))
    simulate(length, 0.0, 200)
    passes = simulate(length, 1.0, 200)
    assert passes[-1][0] > 8


def test_nothing_is_drafted_before_a_pass_was_timed() -> None:
    control = Control()
    length = make_draft_length("auto", control)
    assert length.next() == 0
    control.pass_costs.note(1, 0.01)
    assert length.next() > 0


def test_more_sequences_in_a_pass_make_rows_dearer_and_drafts_shorter() -> None:
    length = MeasuredLength(Control.without_a_clock(row_share=0.1))
    for _ in range(20):
        length.update(8, 6)
    lengths = [length.next(num_sequences) for num_sequences in (1, 4, 16)]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] > lengths[-1]


def test_the_nodes_of_a_tree_are_paid_for() -> None:
    chain, tree = (MeasuredLength(Control.without_a_clock(row_share=0.1)) for _ in range(2))
    for _ in range(20):
        chain.update(8, 7)
        tree.update(8, 7, num_nodes=48)
    assert tree.next() < chain.next()


def test_requests_learn_from_those_before() -> None:
    control = Control.without_a_clock()
    for _ in range(20):
        MeasuredLength(control).update(8, 8)
    assert MeasuredLength(control).next() > MeasuredLength(Control.without_a_clock()).next()


def test_an_empty_draft_changes_nothing() -> None:
    length = MeasuredLength(Control.without_a_clock())
    before = length.next()
    for _ in range(50):
        length.update(0, 0)
    assert length.next() == before


@pytest.mark.parametrize("k", [0, -1, "many", "5", "", True, 2.0, None])
def test_what_is_no_length_is_refused(k: object) -> None:
    with pytest.raises(ParameterError, match=r"k = .* cannot be used; .* use the drafter none"):
        make_draft_length(k)  # type: ignore[arg-type]


@pytest.mark.parametrize("tree_nodes", [0, -1, "many", True, 2.0])
def test_what_is_no_number_of_nodes_is_refused(tree_nodes: object) -> None:
    with pytest.raises(ParameterError, match=r"tree_nodes = .* or None for chains"):
        check_tree_nodes(tree_nodes)  # type: ignore[arg-type]
    check_tree_nodes(None)
    check_tree_nodes(1)
