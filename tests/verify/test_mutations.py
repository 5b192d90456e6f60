"""Each exactness test can fail: rules and drafters broken on purpose are far from exact."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from oneglance.audit.rules.mutations import (
    argmax_passed_off_as_drawn,
    block_breaking_early,
    block_with_running_product,
    resampling_from_target,
    tree_in_sorted_order,
    tree_without_update,
    truncated_reported_raw,
    with_stale_bonus,
    without_bonus,
)
from oneglance.audit.rules.tables import (
    Exactness,
    Rule,
    Table,
    drawn_chain,
    drawn_tree,
    fixed_tree,
    measure,
    table_pairs,
)
from oneglance.sampling.noise import Noise
from oneglance.types import Proposal
from oneglance.verify.block import accept_block
from oneglance.verify.chain import accept_chain
from oneglance.verify.point_mass import accept_point_mass
from oneglance.verify.tree import accept_tree
from tests.verify.oracles import expected_block, expected_chain, expected_point_mass, expected_tree

CLEAR_BIAS = 1e-3
TARGET, DRAFT = table_pairs(3, 15)["dense"]
TREE = (-1, -1, 0, 0)


def measure_chain(rule: Rule) -> Exactness:
    return measure(rule, lambda noise: drawn_chain(noise, DRAFT, 3), TARGET, 4)


def measure_tree(rule: Rule, with_replacement: bool) -> Exactness:
    return measure(rule, lambda noise: drawn_tree(noise, DRAFT, TREE, with_replacement), TARGET, 3)


@pytest.mark.parametrize("rule", [accept_chain, accept_block])
@pytest.mark.parametrize("mutate", [resampling_from_target, with_stale_bonus])
def test_broken_last_draw_of_a_chain(rule: Rule, mutate: Callable[[Rule], Rule]) -> None:
    assert measure_chain(rule).total_variation < 1e-12
    assert measure_chain(mutate(rule)).total_variation > CLEAR_BIAS


@pytest.mark.parametrize("mutant", [block_breaking_early, block_with_running_product])
def test_broken_block_rule(mutant: Rule) -> None:
    assert measure_chain(mutant).total_variation > CLEAR_BIAS


@pytest.mark.parametrize("with_replacement", [True, False])
@pytest.mark.parametrize("mutate", [resampling_from_target, with_stale_bonus])
def test_broken_last_draw_of_a_tree(with_replacement: bool, mutate: Callable[[Rule], Rule]) -> None:
    assert measure_tree(accept_tree, with_replacement).total_variation < 1e-12
    assert measure_tree(mutate(accept_tree), with_replacement).total_variation > CLEAR_BIAS


@pytest.mark.parametrize("mutant", [tree_without_update, tree_in_sorted_order])
def test_broken_order_or_law_of_siblings(mutant: Rule) -> None:
    assert measure_tree(mutant, with_replacement=False).total_variation > CLEAR_BIAS


@pytest.mark.parametrize("mutate", [resampling_from_target, with_stale_bonus])
def test_broken_last_draw_of_point_masses(mutate: Callable[[Rule], Rule]) -> None:
    tree = fixed_tree(TREE, 3, 1)
    found = measure(mutate(accept_point_mass), lambda _noise: tree, TARGET, 3)
    assert found.total_variation > CLEAR_BIAS


@pytest.mark.parametrize("rule", [accept_chain, accept_block, accept_tree])
@pytest.mark.parametrize("draft_by", [argmax_passed_off_as_drawn, truncated_reported_raw])
def test_law_that_the_draft_was_not_drawn_from(
    rule: Rule, draft_by: Callable[[Table, int], Callable[[Noise], Proposal]]
) -> None:
    found = measure(rule, draft_by(DRAFT, 3), TARGET, 4)
    assert found.total_variation > CLEAR_BIAS


def test_point_mass_tree_judged_by_a_law() -> None:
    def most_probable_children(_noise: Noise) -> Proposal:
        law = DRAFT(())
        best = (-law).argsort()[:2]
        return Proposal(best, fixed_tree((-1, -1), 3, 0).parents, (law, law))

    found = measure(accept_tree, most_probable_children, TARGET, 2)
    assert found.total_variation > CLEAR_BIAS


def test_a_missing_bonus_shows_in_the_number_of_tokens() -> None:
    """It is no bias of the law, so the joint law alone could not tell."""
    short_chain = measure_chain(without_bonus(accept_chain))
    short_block = measure_chain(without_bonus(accept_block))
    short_tree = measure_tree(without_bonus(accept_tree), with_replacement=True)
    points = fixed_tree(TREE, 3, 1)
    short_points = measure(without_bonus(accept_point_mass), lambda _noise: points, TARGET, 3)
    for found, expected in (
        (short_chain, expected_chain(TARGET, DRAFT, 3)),
        (short_block, expected_block(TARGET, DRAFT, 3)),
        (short_tree, expected_tree(TARGET, DRAFT, TREE, with_replacement=True)),
        (short_points, expected_point_mass(TARGET, points)),
    ):
        assert found.total_variation < 1e-12
        assert found.mean_accepted < expected - CLEAR_BIAS
