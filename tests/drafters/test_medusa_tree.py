"""Trees of independent guesses: the most valuable nodes, against every tree there is."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product

import numpy as np
import pytest

from oneglance.drafters.choice import Choice
from oneglance.drafters.medusa_calibration import Calibration
from oneglance.drafters.medusa_tree import GrowthLimits, Guess, GuessedTree, shape_for
from oneglance.types import ROOT

Path = tuple[int, ...]


def table_guess(chances: Sequence[Sequence[float]]) -> Guess:
    """Guesses whose token is their rank, with the chance that a table has for depth and rank."""

    def guess(path: Sequence[int], count: int) -> list[Choice]:
        row = chances[len(path)][:count]
        return [Choice(rank, confidence=chance) for rank, chance in enumerate(row)]

    return guess


def value(chances: Sequence[Sequence[float]], path: Path) -> float:
    return float(np.prod([chances[depth][rank] for depth, rank in enumerate(path)]))


def best_tree(chances: Sequence[Sequence[float]], num_nodes: int) -> float:
    """The most accepted tokens that any tree of so many nodes can expect, by trying all."""
    every = [
        path
        for depth in range(1, len(chances) + 1)
        for path in product(*(range(len(chances[level])) for level in range(depth)))
    ]
    best = 0.0
    for nodes in combinations(every, num_nodes):
        if all(len(path) == 1 or path[:-1] in nodes for path in nodes):
            best = max(best, sum(value(chances, path) for path in nodes))
    return best


def fresh(chances: Sequence[Sequence[float]]) -> GuessedTree:
    return GuessedTree(table_guess(chances), Calibration.fresh(len(chances)))


CHANCES = [(0.6, 0.25, 0.1), (0.5, 0.3, 0.2), (0.4, 0.1, 0.05)]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("num_nodes", [1, 2, 3, 4])
def test_no_tree_of_as_many_nodes_expects_more(num_nodes: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    chances = [sorted(generator.dirichlet(np.ones(3)), reverse=True) for _ in range(3)]
    guessed = fresh(chances)
    nodes = guessed.grow_best(GrowthLimits(num_nodes, max_depth=3, width=3))
    assert len(nodes) == num_nodes
    expected = guessed.tree.proposal(nodes, "x").expected
    assert expected == pytest.approx(best_tree(chances, num_nodes), rel=1e-12)


def test_a_tree_of_width_1_is_the_chain_of_best_guesses() -> None:
    guessed = fresh(CHANCES)
    nodes = guessed.grow_best(GrowthLimits(3, max_depth=3, width=1))
    proposal = guessed.tree.proposal(nodes, "x")
    assert proposal.is_chain
    assert proposal.tokens.tolist() == [0, 0, 0]
    assert proposal.expected == pytest.approx(0.6 + 0.3 + 0.12)


def test_depth_and_width_are_limits() -> None:
    guessed = fresh(CHANCES)
    nodes = guessed.grow_best(GrowthLimits(20, max_depth=2, width=2))
    proposal = guessed.tree.proposal(nodes, "x")
    assert proposal.max_depth == 2
    assert len(proposal) == 2 + 4


def test_what_is_unlikely_is_left_out() -> None:
    guessed = fresh(CHANCES)
    nodes = guessed.grow_best(GrowthLimits(20, max_depth=3, width=3, min_reach=0.15))
    reaches = sorted((guessed.tree.reaches[node] for node in nodes), reverse=True)
    assert reaches == pytest.approx([0.6, 0.3, 0.25, 0.18])


def test_nothing_hangs_off_the_end_of_a_text() -> None:
    guessed = fresh(CHANCES)
    guessed.eos_ids = {0}
    nodes = guessed.grow_best(GrowthLimits(6, max_depth=3, width=2))
    ends = [node for node in nodes if guessed.tree.tokens[node] == 0]
    assert ends
    assert not any(guessed.tree.parents[node] in ends for node in nodes)


def test_no_guesses_make_no_draft() -> None:
    guessed = GuessedTree(lambda *_: [], Calibration.fresh(2))
    assert guessed.grow_best(GrowthLimits(4, 2, 2)) == []
    assert guessed.grow_shape([[1], [2], []], GrowthLimits(4, 2, 2)) == []


def test_a_shape_is_drawn_whole() -> None:
    drawn: list[tuple[Path, int]] = []

    def guess(path: Sequence[int], count: int) -> list[Choice]:
        drawn.append((tuple(path), count))
        return [Choice(10 + rank, confidence=0.5) for rank in range(count)]

    guessed = GuessedTree(guess, Calibration.fresh(2))
    nodes = guessed.grow_shape([[1, 2], [3], [], []], GrowthLimits(3, 2, 2))
    assert drawn == [((), 2), ((10,), 1)]
    assert guessed.tree.proposal(nodes, "x").parents.tolist() == [ROOT, ROOT, 0]


def test_a_shape_ends_where_it_is_not_reached() -> None:
    guessed = fresh([(0.05, 0.6), (0.5, 0.5)])
    nodes = guessed.grow_shape([[1, 2], [3], [4], [], []], GrowthLimits(4, 2, 2, min_reach=0.1))
    assert [guessed.tree.path(node) for node in nodes] == [[0], [1], [1, 0]]


@pytest.mark.parametrize("num_nodes", [1, 3, 6, 12])
def test_a_shape_is_a_tree_with_as_many_places(num_nodes: int) -> None:
    shape = shape_for(Calibration.fresh(3), GrowthLimits(num_nodes, max_depth=3, width=10))
    assert len(shape) == num_nodes + 1
    children = [place for places in shape for place in places]
    assert sorted(children) == list(range(1, num_nodes + 1))


def test_a_shape_follows_the_rates() -> None:
    limits = GrowthLimits(4, max_depth=4, width=4)
    sure, unsure = Calibration.fresh(4), Calibration.fresh(4)
    for depth in range(4):
        for _ in range(100):
            sure.note(depth, [0.9], 0)
            unsure.note(depth, [0.9], None)
    assert shape_for(sure, limits) == [[1], [2], [3], [4], []]
    assert len(shape_for(unsure, limits)[0]) > 1


def test_outcomes_are_learned_down_to_the_first_wrong_place() -> None:
    guessed = fresh(CHANCES)
    guessed.grow_best(GrowthLimits(4, max_depth=3, width=3))
    guessed.learn([1, 2, 7])
    calibration = guessed.calibration
    assert calibration.hits[0, :3].tolist() == [0, 1, 0]
    assert calibration.said[0, :3].tolist() == pytest.approx(CHANCES[0])
    assert calibration.hits[1, :3].tolist() == [0, 0, 1]
    assert calibration.counts.tolist() == [1, 1, 0]  # (1, 2) was not grown on


def test_what_was_learned_weighs_the_next_guesses() -> None:
    guessed = fresh(CHANCES)
    for _ in range(50):  # the second guess is right each time, which its head says of the first
        guessed.calibration.note(0, CHANCES[0], 1)
    nodes = guessed.grow_best(GrowthLimits(1, max_depth=3, width=3))
    assert [guessed.tree.tokens[node] for node in nodes] == [1]
