"""How a drafter is trained: the settings that any kind has."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from oneglance.errors import ParameterError
from oneglance.train.task import check_choice

Precision = Literal["f32", "bf16"]


@dataclass(frozen=True)
class TrainingPlan:
    """How a drafter is trained.

    Attributes:
        learning_rate: highest, after the warm-up; it falls to a tenth along a cosine.
        epochs: most times through the answers.
        batch_tokens: tokens of a step, padding included.
        max_length: of longer answers only the last tokens are used.
        warmup_steps: steps over which the rate rises.
        clip: most norm of the gradient.
        weight_decay: of matrices.
        held_out: share of the prompts whose answers are for evaluation only.
        max_held_out: most answers that are used for that.
        evaluate_every: steps between evaluations, after each of which the state is written.
        patience: evaluations without a better one after which training ends.
        seed: of the first weights and of the order.
        precision: of the products in a step. Weights, moments and sums stay f32 with "bf16", which
            is several times as fast where the processor multiplies it (AVX-512 BF16, AMX, GPUs)
            and slower elsewhere.
    """

    learning_rate: float = 1e-3
    epochs: int = 10
    batch_tokens: int = 2048
    max_length: int = 512
    warmup_steps: int = 50
    clip: float = 0.5
    weight_decay: float = 0.01
    held_out: float = 0.03
    max_held_out: int = 200
    evaluate_every: int = 200
    patience: int = 5
    seed: int = 0
    precision: Precision = "f32"

    def __post_init__(self) -> None:
        """Refuses values that have no meaning.

        Raises:
            ParameterError: names the value and what is allowed.
        """
        for name in ("epochs", "batch_tokens", "max_held_out", "evaluate_every", "patience"):
            if getattr(self, name) < 1:
                raise ParameterError(
                    f"{name} = {getattr(self, name)} cannot be used; it must be at least 1."
                )
        for name in ("learning_rate", "clip"):
            if not 0 < getattr(self, name) < math.inf:
                raise ParameterError(
                    f"{name} = {getattr(self, name)} cannot be used; it must be above 0."
                )
        check_choice("precision", self.precision, get_args(Precision))
        if self.max_length < 8:
            raise ParameterError(
                f"max_length = {self.max_length} cannot be used; it must be at least 8."
            )
        if not 0 < self.held_out < 1:
            raise ParameterError(
                f"held_out = {self.held_out} cannot be used; it must lie between 0 and 1."
            )
