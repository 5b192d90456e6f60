"""Answers as PyTorch tensors: cut to a window, padded, with masks of what is to be predicted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from oneglance.train.collection import Item


@dataclass(frozen=True)
class Batch:
    """B answers, N tokens wide, L layers of states; beyond the end of an answer is padding.

    Attributes:
        tokens: [B, N] ids; padding is 0.
        hidden: [B, N − 1, L, D] float32 states of tokens 0..N − 2.
        is_answer: [B, N] tokens that the target chose in its answer, which are to be predicted.
        normalizers: [B, N] of the logits that each answer token was chosen from.
        best: [B, N] argmax of those logits; −1 elsewhere.
    """

    tokens: Tensor
    hidden: Tensor
    is_answer: Tensor
    normalizers: Tensor
    best: Tensor

    def to(self, device: torch.device) -> Batch:
        """The same on another device."""
        return Batch(**{name: value.to(device) for name, value in vars(self).items()})


def make_batch(items: Sequence[Item], max_length: int) -> Batch:
    """Pads answers to one width; of longer ones the last `max_length` tokens are taken.

    Args:
        items: at least one.
        max_length: most tokens of each.
    """
    width = min(max_length, max(len(item.tokens) for item in items))
    shape = (len(items), width)
    tokens, best = np.zeros(shape, np.int64), np.full(shape, -1, np.int64)
    is_answer, normalizers = np.zeros(shape, np.bool_), np.zeros(shape, np.float32)
    hidden = np.zeros((len(items), width - 1, *items[0].hidden.shape[1:]), np.float32)
    for row, item in enumerate(items):
        cut = max(0, len(item.tokens) - width)
        length = len(item.tokens) - cut
        first = max(0, item.prompt_length - cut)
        num_chosen = length - first
        tokens[row, :length] = item.tokens[cut:]
        hidden[row, : length - 1] = item.hidden[cut:]
        is_answer[row, first:length] = True
        normalizers[row, first:length] = item.normalizers[-num_chosen:]
        best[row, first:length] = item.best[-num_chosen:]
    arrays = (tokens, hidden, is_answer, normalizers, best)
    return Batch(*(torch.from_numpy(array) for array in arrays))
