"""The rule is chosen by request and shape; what does not fit the target is refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import oneglance.verify.select as selection
from oneglance.audit.rules.tables import Table, TableLaw, drawn_tree, fixed_tree, measure
from oneglance.errors import UnsupportedError
from oneglance.sampling.noise import KeyedNoise, Noise, SeededNoise, SequentialNoise
from oneglance.types import Proposal
from oneglance.verify.base import Acceptance
from oneglance.verify.select import accept

LAW = np.full(3, 1 / 3)
CHAIN = Proposal.chain([0, 1], [LAW, LAW])
TREE = Proposal(np.array([0, 1]), np.array([-1, -1]), (LAW, LAW))
POINTS = Proposal(np.array([0, 1]), np.array([-1, -1]))


@pytest.mark.parametrize(
    ("proposal", "is_greedy", "noise", "rule"),
    [
        (CHAIN, True, SequentialNoise(1), "accept_greedy"),
        (TREE, True, SeededNoise(1), "accept_greedy"),
        (CHAIN, False, SeededNoise(1), "accept_coupled"),
        (POINTS, False, SeededNoise(1), "accept_coupled"),
        (POINTS, False, SequentialNoise(1), "accept_point_mass"),
        (Proposal.empty(), False, SequentialNoise(1), "accept_point_mass"),
        (CHAIN, False, SequentialNoise(1), "accept_block"),
        (TREE, False, SequentialNoise(1), "accept_tree"),
    ],
)
def test_choice_of_rule(
    monkeypatch: pytest.MonkeyPatch,
    proposal: Proposal,
    is_greedy: bool,
    noise: Noise | KeyedNoise,
    rule: str,
) -> None:
    called = []
    for name in [name for name in vars(selection) if name.startswith("accept_")]:
        original: Callable[..., Acceptance] = getattr(selection, name)

        def spy(
            *arguments: object,
            _name: str = name,
            _original: Callable[..., Acceptance] = original,
        ) -> Acceptance:
            called.append(_name)
            return _original(*arguments)

        monkeypatch.setattr(selection, name, spy)
    outcome = accept(proposal, TableLaw(Table(3, 1), proposal, is_greedy=is_greedy), noise)
    assert called == [rule]
    assert 0 <= outcome.next_token < 3


@pytest.mark.parametrize("with_replacement", [True, False])
def test_the_chosen_rule_is_exact(with_replacement: bool) -> None:
    target, draft = Table(3, 1), Table(3, 2)
    for shape in ((-1, 0), (-1, -1, 0)):
        found = measure(
            accept,
            lambda noise, shape=shape: drawn_tree(noise, draft, shape, with_replacement),  # type: ignore[misc]
            target,
            3,
        )
        assert found.total_variation < 1e-12
    assert measure(accept, lambda _noise: fixed_tree((-1, -1), 3, 1), target, 2).total_variation < (
        1e-12
    )


@pytest.mark.parametrize("is_greedy", [True, False])
def test_law_of_another_width_is_refused(is_greedy: bool) -> None:
    wide = Proposal.chain([0], [np.full(4, 0.25)], drafter="draft:other")
    law = TableLaw(Table(3, 1), wide, is_greedy=is_greedy)
    with pytest.raises(UnsupportedError, match=r"'draft:other' has a law of shape \(4,\)"):
        accept(wide, law, SequentialNoise(1))


@pytest.mark.parametrize("token", [-1, 3])
def test_token_outside_the_vocabulary_is_refused(token: int) -> None:
    stray = Proposal.chain([0, token], drafter="ngram")
    with pytest.raises(UnsupportedError, match="'ngram' proposed a token id outside"):
        accept(stray, TableLaw(Table(3, 1), stray), SeededNoise(1))
