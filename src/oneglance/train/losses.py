"""What training makes small: how far a draft law is from the target's.

M rows, V_d draft tokens. `target_probs` are the target's own probabilities of the draft tokens:
they sum to less than 1 where others are possible.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

LossFunction = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Maps logits [M, V_d], target_probs [M, V_d] and the true next tokens [M] to losses [M]. A true
token is a draft id, or −1 if the draft has it not."""

TINY = 1e-6


def ce_loss(logits: Tensor, target_probs: Tensor, true_ids: Tensor) -> Tensor:
    """−log q(the token that the target chose); 0 where the draft does not have it."""
    del target_probs
    return torch.nn.functional.cross_entropy(logits, true_ids, ignore_index=-1, reduction="none")


def kl_loss(logits: Tensor, target_probs: Tensor, true_ids: Tensor) -> Tensor:
    """−Σ p log q over the draft tokens: forward KL but for what no draft can change.

    That is the target's own entropy, which is left out, and the mass the draft cannot have.
    """
    del true_ids
    return torch.nn.functional.cross_entropy(logits, target_probs, reduction="none")


def lk_loss(logits: Tensor, target_probs: Tensor, true_ids: Tensor) -> Tensor:
    """−log Σ min(p, q): the negative log of the acceptance itself (LK, arXiv:2602.23881)."""
    del true_ids
    return -(overlap(logits, target_probs) + TINY).log()


def overlap(logits: Tensor, target_probs: Tensor) -> Tensor:
    """[M] Σ min(p, q): with what probability a token drawn from the draft is accepted."""
    return torch.minimum(logits.softmax(dim=-1), target_probs).sum(dim=-1)


LOSSES: Mapping[str, LossFunction] = {"ce": ce_loss, "kl": kl_loss, "lk": lk_loss}
