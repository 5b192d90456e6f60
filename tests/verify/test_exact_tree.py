"""Trees: the joint law of the output is the target's, however the siblings came about."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from oneglance.audit.rules.tables import (
    Table,
    depth_of,
    drawn_chain,
    drawn_tree,
    fixed_tree,
    measure,
    table_pairs,
)
from oneglance.sampling.noise import Noise
from oneglance.types import Proposal
from oneglance.verify.chain import accept_chain
from oneglance.verify.point_mass import accept_point_mass
from oneglance.verify.tree import accept_tree
from tests.verify.oracles import expected_chain, expected_point_mass, expected_tree

TOLERANCE = 1e-12
PAIRS = tuple(table_pairs(2, 0))


def random_shape(seed: int, size: int) -> tuple[int, ...]:
    """Parents of a random tree in which no node has more than three children."""
    rng = np.random.default_rng(seed)
    shape: list[int] = []
    for slot in range(size):
        open_nodes = [node for node in range(-1, slot) if shape.count(node) < 3]
        shape.append(int(rng.choice(open_nodes)))
    return tuple(shape)


SHAPES = [(-1,), (-1, -1), (-1, -1, -1), (-1, 0, 0), (-1, -1, 0, 1), (-1, -1, 0, 0, 1)]
SHAPES += [(-1, 0, 0, 1, 1)] + [random_shape(seed, 5) for seed in (1, 2, 3)]


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("with_replacement", [True, False])
def test_drawn_trees_are_exact(shape: tuple[int, ...], with_replacement: bool, pair: str) -> None:
    target, draft = table_pairs(3, 50 + len(shape))[pair]
    found = measure(
        accept_tree,
        lambda noise: drawn_tree(noise, draft, shape, with_replacement),
        target,
        depth_of(shape) + 1,
    )
    expected = expected_tree(target, draft, shape, with_replacement)
    assert found.total_variation < TOLERANCE
    assert found.mean_accepted == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("with_replacement", [True, False])
def test_larger_vocabulary_and_three_siblings_are_exact(with_replacement: bool, pair: str) -> None:
    target, draft = table_pairs(4, 60)[pair]
    shape = (-1, -1, -1, 0)
    found = measure(
        accept_tree, lambda noise: drawn_tree(noise, draft, shape, with_replacement), target, 3
    )
    assert found.total_variation < TOLERANCE


@pytest.mark.parametrize("pair", ["zeros", "one-hot draft", "dense"])
@pytest.mark.parametrize("shape", [(-1, -1, -1), (-1, -1, -1, 2, 2)], ids=str)
def test_siblings_beyond_an_exhausted_law_are_point_masses(
    shape: tuple[int, ...], pair: str
) -> None:
    target, draft = table_pairs(3, 70)[pair]
    found = measure(
        accept_tree,
        lambda noise: drawn_tree(noise, draft, shape, with_replacement=False, fills_up=True),
        target,
        depth_of(shape) + 1,
    )
    assert found.total_variation < TOLERANCE
    assert found.mean_accepted >= 1  # three siblings are the whole vocabulary


@pytest.mark.parametrize("kind", ["dense", "zeros", "one_hot"])
@pytest.mark.parametrize("shape", [*SHAPES, (-1, 0, 1, 2)], ids=str)
def test_point_mass_trees_are_exact(shape: tuple[int, ...], kind: str) -> None:
    for seed in range(3):
        target = Table(4, 80 + seed, kind)  # type: ignore[arg-type]
        proposal = fixed_tree(shape, 4, seed)
        length = depth_of(shape) + 1
        found = measure(accept_point_mass, lambda _noise, p=proposal: p, target, length)  # type: ignore[misc]
        expected = expected_point_mass(target, proposal)
        assert found.total_variation < TOLERANCE
        assert found.mean_accepted == pytest.approx(expected, abs=1e-12)


def test_duplicate_siblings_are_harmless_to_point_masses() -> None:
    target = Table(3, 90)
    twice = Proposal(np.array([1, 1, 0, 2, 2]), np.array([-1, -1, 0, 1, -1]))
    found = measure(accept_point_mass, lambda _noise: twice, target, 3)
    assert found.total_variation < TOLERANCE


def test_point_masses_may_depend_on_the_drafters_own_randomness() -> None:
    target, draft = Table(3, 91), Table(3, 92)

    def propose(noise: Noise) -> Proposal:
        drawn = drawn_tree(noise, draft, (-1, -1, 0, 0), with_replacement=True)
        return Proposal(drawn.tokens, drawn.parents)

    assert measure(accept_point_mass, propose, target, 3).total_variation < TOLERANCE


@pytest.mark.parametrize("pair", PAIRS)
def test_on_a_chain_the_tree_rule_is_the_token_rule(pair: str) -> None:
    target, draft = table_pairs(3, 95)[pair]
    found = [
        measure(rule, lambda noise: drawn_chain(noise, draft, 3), target, 4)
        for rule in (accept_tree, accept_chain)
    ]
    assert found[0] == found[1]
    assert found[0].mean_accepted == pytest.approx(expected_chain(target, draft, 3), abs=1e-12)


def test_drawing_without_replacement_keeps_more() -> None:
    means = []
    for with_replacement in (True, False):
        kept = [
            expected_tree(Table(3, seed), Table(3, seed + 1000), (-1, -1), with_replacement)
            for seed in range(40)
        ]
        means.append(sum(kept) / len(kept))
    assert means[0] < means[1] - 0.05


def test_siblings_of_different_laws_are_a_drafters_bug() -> None:
    laws = (np.array([0.5, 0.5, 0.0]), np.array([0.5, 0.5, 0.0]))
    broken = Proposal(np.array([0, 1]), np.array([-1, -1]), laws)
    with pytest.raises(AssertionError, match="share one law"):
        measure(accept_tree, lambda _noise: broken, Table(3, 1), 2)


def test_a_sibling_outside_what_its_law_has_left_is_a_drafters_bug() -> None:
    law = np.array([0.5, 0.5, 0.0])
    broken = Proposal(np.array([0, 2]), np.array([-1, -1]), (law, law))
    with pytest.raises(AssertionError, match="probability 0"):
        measure(accept_tree, lambda _noise: broken, Table(3, 1), 2)


def test_the_tree_rule_needs_laws() -> None:
    with pytest.raises(AssertionError, match="laws"):
        measure(accept_tree, lambda _noise: fixed_tree((-1, -1), 2, 0), Table(2, 1), 2)


def test_random_shapes_do_branch_at_several_depths() -> None:
    branching = set()
    for shape in SHAPES:
        proposal = fixed_tree(shape, 4, 0)
        depths = [0, *proposal.depths()]
        for node in range(-1, len(shape)):
            if len(proposal.children(node)) > 1:
                branching.add(int(depths[node + 1]))
    assert {0, 1, 2} <= branching
    assert len(set(itertools.chain(SHAPES))) >= 9
