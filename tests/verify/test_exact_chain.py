"""Chains: the joint law of the output is the target's, to rounding, and acceptance is as proved."""

from __future__ import annotations

import numpy as np
import pytest

from oneglance.audit.rules.tables import Exactness, Rule, Table, drawn_chain, measure, table_pairs
from oneglance.sampling.noise import Noise
from oneglance.types import Proposal
from oneglance.verify.block import accept_block
from oneglance.verify.chain import accept_chain
from oneglance.verify.point_mass import accept_point_mass
from oneglance.verify.select import accept
from tests.verify.oracles import expected_block, expected_chain

TOLERANCE = 1e-12
SIZES = [(4, 1, 11), (4, 2, 13), (4, 2, 14), (3, 3, 15), (3, 3, 16), (2, 4, 17)]
"""Vocabulary size, draft length, seed."""
PAIRS = tuple(table_pairs(2, 0))
CASES = [(*size, pair) for size in SIZES for pair in PAIRS]
CASES += [(4, 4, 19, "dense"), (4, 4, 19, "zeros in target")]


def measure_chain(rule: Rule, target: Table, draft: Table, length: int) -> Exactness:
    return measure(rule, lambda noise: drawn_chain(noise, draft, length), target, length + 1)


@pytest.mark.parametrize(("vocab_size", "length", "seed", "pair"), CASES)
def test_token_rule_is_exact(vocab_size: int, length: int, seed: int, pair: str) -> None:
    target, draft = table_pairs(vocab_size, seed)[pair]
    found = measure_chain(accept_chain, target, draft, length)
    assert found.total_variation < TOLERANCE
    assert found.mean_accepted == pytest.approx(expected_chain(target, draft, length), abs=1e-12)


@pytest.mark.parametrize(("vocab_size", "length", "seed", "pair"), CASES)
def test_block_rule_is_exact(vocab_size: int, length: int, seed: int, pair: str) -> None:
    target, draft = table_pairs(vocab_size, seed)[pair]
    found = measure_chain(accept_block, target, draft, length)
    assert found.total_variation < TOLERANCE
    assert found.mean_accepted == pytest.approx(expected_block(target, draft, length), abs=1e-12)
    assert found.mean_accepted >= expected_chain(target, draft, length) - 1e-12


@pytest.mark.parametrize("rule", [accept_chain, accept_block, accept_point_mass, accept])
def test_nothing_proposed_yields_one_plain_token(rule: Rule) -> None:
    target = Table(4, 1)
    empty = Proposal.chain([], draft_probs=[])
    found = measure(rule, lambda _noise: empty, target, 1)
    assert found.total_variation < TOLERANCE
    assert found.mean_accepted == 0


class FixedTable(Table):
    """The same law at every prefix."""

    def __init__(self, *law: float) -> None:
        super().__init__(len(law), seed=0)
        self._law = np.array(law)

    def _make(self, prefix: tuple[int, ...]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        del prefix
        return self._law


def test_block_keeps_more_than_the_token_rule_on_the_known_example() -> None:
    target, draft = FixedTable(1 / 3, 2 / 3), FixedTable(2 / 3, 1 / 3)
    assert measure_chain(accept_block, target, draft, 2).mean_accepted == pytest.approx(11 / 9)
    assert measure_chain(accept_chain, target, draft, 2).mean_accepted == pytest.approx(10 / 9)


@pytest.mark.parametrize("pair", PAIRS)
def test_one_token_is_kept_as_often_as_the_laws_overlap(pair: str) -> None:
    target, draft = table_pairs(4, 30)[pair]
    overlap = float(np.minimum(target(()), draft(())).sum())
    for rule in (accept_chain, accept_block):
        found = measure_chain(rule, target, draft, 1)
        assert found.mean_accepted == pytest.approx(overlap, abs=1e-14)


def test_with_one_hot_laws_all_rules_keep_equally_much() -> None:
    target, draft = table_pairs(4, 40)["one-hot draft"]

    def without_laws(noise: Noise) -> Proposal:
        return Proposal.chain([int(token) for token in drawn_chain(noise, draft, 3).tokens])

    as_points = measure(accept_point_mass, without_laws, target, 4)
    assert as_points.total_variation < TOLERANCE
    for rule in (accept_chain, accept_block):
        found = measure_chain(rule, target, draft, 3)
        assert found.mean_accepted == pytest.approx(as_points.mean_accepted, abs=1e-14)


@pytest.mark.parametrize("rule", [accept_chain, accept_block])
def test_a_token_outside_its_own_law_is_a_drafters_bug(rule: Rule) -> None:
    law = np.array([1.0, 0.0])
    with pytest.raises(AssertionError, match="probability 0"):
        measure(rule, lambda _noise: Proposal.chain([1], [law]), Table(2, 1), 2)


@pytest.mark.parametrize("rule", [accept_chain, accept_block])
def test_chain_rules_refuse_trees_and_chains_without_laws(rule: Rule) -> None:
    law = np.array([0.5, 0.5])
    siblings = Proposal(np.array([0, 1]), np.array([-1, -1]), (law, law))
    with pytest.raises(AssertionError, match="needs a chain"):
        measure(rule, lambda _noise: siblings, Table(2, 1), 2)
    with pytest.raises(AssertionError, match="laws"):
        measure(rule, lambda _noise: Proposal.chain([1]), Table(2, 1), 2)
