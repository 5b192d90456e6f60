"""The losses against sums written out, and that none is smallest anywhere but at the target."""

from __future__ import annotations

import math

import pytest
import torch

from oneglance.train.losses import LOSSES, ce_loss, kl_loss, lk_loss, overlap

TARGET = torch.tensor([[0.5, 0.2, 0.1], [0.1, 0.1, 0.8]])
"""The first row has 0.2 of its mass on tokens that the draft does not have."""
LOGITS = torch.tensor([[1.0, 2.0, 0.0], [0.0, -1.0, 3.0]])


def laws() -> list[list[float]]:
    rows = []
    for row in LOGITS.tolist():
        total = sum(math.exp(x) for x in row)
        rows.append([math.exp(x) / total for x in row])
    return rows


def test_overlap_is_the_mass_that_both_laws_have() -> None:
    expected = [sum(map(min, q, p)) for q, p in zip(laws(), TARGET.tolist(), strict=True)]
    assert overlap(LOGITS, TARGET).tolist() == pytest.approx(expected, rel=1e-6)
    assert lk_loss(LOGITS, TARGET, torch.zeros(2)).tolist() == pytest.approx(
        [-math.log(x) for x in expected], abs=1e-5
    )


def test_divergence_is_over_the_tokens_of_the_draft() -> None:
    expected = [
        sum(-p * math.log(q) for p, q in zip(ps, qs, strict=True))
        for ps, qs in zip(TARGET.tolist(), laws(), strict=True)
    ]
    assert kl_loss(LOGITS, TARGET, torch.zeros(2)).tolist() == pytest.approx(expected, rel=1e-5)
    silent = torch.tensor([[0.0, 0.5, 0.5]])  # a probability of 0 adds nothing, and no NaN
    assert torch.isfinite(kl_loss(LOGITS[:1], silent, torch.zeros(1))).all()


def test_cross_entropy_skips_tokens_that_the_draft_lacks() -> None:
    losses = ce_loss(LOGITS, TARGET, torch.tensor([1, -1]))
    assert losses.tolist() == pytest.approx([-math.log(laws()[0][1]), 0.0], rel=1e-5)


@pytest.mark.parametrize("name", ["kl", "lk"])
def test_the_target_itself_is_the_minimum(name: str) -> None:
    target = torch.tensor([[0.6, 0.3, 0.1]])
    loss = float(LOSSES[name](target.log(), target, torch.zeros(1)).sum())
    entropy = float(-(target * target.log()).sum())
    assert loss == pytest.approx({"kl": entropy, "lk": 0.0}[name], abs=1e-5)
    for move in torch.eye(3):
        other = LOSSES[name](target.log() + 0.5 * move, target, torch.zeros(1)).sum()
        assert float(other) > loss + 0.01
