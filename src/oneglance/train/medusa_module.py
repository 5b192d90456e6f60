"""Medusa's heads as a PyTorch module, to train them and to test the kernels against.

Cai et al., arXiv:2401.10774, §2.2.1 and §2.3.1 (Medusa-1: the target is frozen). From the target's
final normalised state h_t head k makes z = h + SiLU(W_k h + b_k), with more than one such block
where there are more layers, and its logits U_k z are for the token at t + k + 2.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from oneglance.heads.medusa import MedusaConfig

LOSS_DECAY = 0.8
"""λ: what head k counts in the loss is λ^k, as its guesses are needed that much less often."""

IGNORED = -100
"""A label that says nothing is to be learned there."""


class ResBlock(nn.Module):
    """x + SiLU(W x + b); with W and b zero, as they begin, it changes nothing."""

    def __init__(self, hidden_size: int) -> None:
        """Starts with the identity."""
        super().__init__()
        self.linear = nn.Linear(hidden_size, hidden_size)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, states: Tensor) -> Tensor:
        """States [..., D] to states [..., D]."""
        return states + functional.silu(self.linear(states))


class MedusaModule(nn.ModuleList):
    """All heads; the names of its weights are those of the file format (`heads/medusa.py`).

    Where the heads have no output matrices of their own, all use that of the target.
    """

    output: Tensor

    def __init__(self, config: MedusaConfig, output: Tensor) -> None:
        """Makes heads that predict what the target itself does.

        Args:
            config: shape of the heads.
            output: [V_d, D] rows of the target's output matrix, those of the draft vocabulary
                alone where it is reduced. Copied to each head, which trains it, or shared by all
                and never trained, as the configuration says.
        """
        super().__init__()
        self.config = config
        for _ in range(config.num_heads):
            blocks: list[nn.Module] = [
                ResBlock(config.hidden_size) for _ in range(config.num_layers)
            ]
            if config.has_own_outputs:
                matrix = nn.Linear(config.hidden_size, len(output), bias=False)
                matrix.weight.data.copy_(output)
                blocks.append(matrix)
            self.append(nn.Sequential(*blocks))
        # Not among the weights of the file: it is the target's.
        self.register_buffer("output", output.detach(), persistent=False)

    def head_logits(self, head: int, features: Tensor) -> Tensor:
        """Logits of one head.

        Args:
            head: from 0.
            features: [..., D] final normalised states of the target.

        Returns:
            [..., V_d] over the draft vocabulary.
        """
        states: Tensor = self[head](features)
        return states if self.config.has_own_outputs else functional.linear(states, self.output)

    def forward(self, features: Tensor) -> Tensor:
        """Logits [H, ..., V_d] of all heads for features [..., D]."""
        return torch.stack([self.head_logits(head, features) for head in range(len(self))])


def head_labels(labels: Tensor, head: int) -> Tensor:
    """What a head should have said after each position: the token after the next one and so on.

    Args:
        labels: [B, T] tokens as ids of the draft vocabulary; `IGNORED` where a token is not in it,
            or is not to be learned (prompts, padding).
        head: from 0.

    Returns:
        [B, T], `IGNORED` where the text ends before.
    """
    shift = head + 2
    shifted = torch.full_like(labels, IGNORED)
    if shift < labels.shape[1]:
        shifted[:, :-shift] = labels[:, shift:]
    return shifted


def medusa_loss(module: MedusaModule, features: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """The loss of Medusa-1, Σ_k λ^k CE_k, and how often each head's best token is right.

    One head after another, so that the logits of one are in memory at a time.

    Args:
        module: the heads.
        features: [B, T, D] final normalised states of the target.
        labels: [B, T] the tokens of the same positions, as for `head_labels`.

    Returns:
        The loss, a scalar; and [H] the share of places that each head guesses right, 0 where there
        is none to guess. It has no gradient.
    """
    loss = features.new_zeros(())
    accuracies = []
    for head in range(len(module)):
        wanted = head_labels(labels, head)
        is_wanted = wanted != IGNORED
        count = is_wanted.sum()
        logits = module.head_logits(head, features[is_wanted])
        total = functional.cross_entropy(logits, wanted[is_wanted], reduction="sum")
        loss = loss + LOSS_DECAY**head * total / count.clamp(min=1)
        is_right = logits.detach().argmax(dim=-1) == wanted[is_wanted]
        accuracies.append(is_right.sum() / count.clamp(min=1))
    return loss, torch.stack(accuracies)
