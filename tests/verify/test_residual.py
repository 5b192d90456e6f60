"""Residual arithmetic at its edges: no mass, no overflow, never a token without probability."""

from __future__ import annotations

import numpy as np
import pytest

from oneglance.audit.rules.tables import Table, TableLaw, drawn_chain
from oneglance.sampling.noise import SequentialNoise
from oneglance.types import Proposal
from oneglance.verify.block import block_chance, block_weights
from oneglance.verify.residual import acceptance_ratio, excess, normalized, without


def test_ratio_is_exact_at_the_ends() -> None:
    assert acceptance_ratio(0.0, 0.5) == 0.0
    assert acceptance_ratio(0.5, 0.5) == 1.0
    assert acceptance_ratio(1.0, 5e-324) == 1.0
    assert acceptance_ratio(0.25, 0.5) == 0.5
    with pytest.raises(AssertionError, match="probability 0"):
        acceptance_ratio(0.5, 0.0)


def test_residual_has_no_mass_where_the_target_has_none() -> None:
    residual = excess(np.array([0.0, 0.7, 0.3]), np.array([0.5, 0.1, 0.4]))
    np.testing.assert_array_equal(residual, [0.0, 0.7 - 0.1, 0.0])
    np.testing.assert_array_equal(normalized(residual, fallback=np.ones(3)), [0.0, 1.0, 0.0])


def test_empty_residual_falls_back() -> None:
    law = np.array([0.25, 0.75])
    assert normalized(excess(law, law), fallback=law) is law


def test_ruling_out_the_last_token_leaves_nothing() -> None:
    np.testing.assert_array_equal(without(np.array([0.2, 0.3, 0.5]), 2), [0.4, 0.6, 0.0])
    np.testing.assert_array_equal(without(np.array([0.0, 1.0]), 1), [0.0, 0.0])


def test_block_chance_is_certain_where_laws_agree() -> None:
    assert block_chance(1.0, 0.0) == 1.0
    assert block_chance(0.5, 0.0) == 0.0
    assert block_chance(0.5, 0.25) == pytest.approx(0.25 / 0.75)


def test_block_weights_are_the_running_product_over_its_running_maximum() -> None:
    target, draft = Table(3, 1), Table(3, 2)
    for seed in range(20):
        chain = drawn_chain(SequentialNoise(seed), draft, 4)
        assert chain.draft_probs is not None
        law = TableLaw(target, chain)
        ratios = [1.0]
        for node, draft_probs in enumerate(chain.draft_probs):
            token = chain.tokens[node]
            ratios.append(ratios[-1] * float(law.probs(node - 1)[token] / draft_probs[token]))
        expected = [ratio / max(ratios[: i + 1]) for i, ratio in enumerate(ratios)]
        assert block_weights(chain, law) == pytest.approx(expected, rel=1e-12)


def test_block_weights_need_laws() -> None:
    points = Proposal.chain([0])
    with pytest.raises(AssertionError, match="laws"):
        block_weights(points, TableLaw(Table(3, 1), points))
