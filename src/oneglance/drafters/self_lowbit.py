"""The target's own weights in 4 bits draft for it, with a cache of their own.

Works for any model, with no second file: a pass of the copy reads about a quarter of what bf16
weights take, or half of what 8-bit ones take, and says nearly always the same. A copy of weights
that are small already would be little faster than the target, so that is refused.
"""

from __future__ import annotations

from dataclasses import replace

from oneglance.checkpoints.base import Checkpoint
from oneglance.checkpoints.low_bit import low_bit_weights, pass_bits
from oneglance.config import WeightsForm
from oneglance.errors import UnsupportedError
from oneglance.types import ProgressCallback

MAX_SHARE = 0.7
"""Most of what the target reads that the copy may read. With more, four drafts that are all
accepted would make decoding less than 1.32 times as fast, and most drafters give more for less."""

MIN_CONFIDENCE = 0.5
"""Where a draft stops: a pass of the copy takes a third to half of the target's time."""


def low_bit_copy(
    target: Checkpoint, form: WeightsForm, progress: ProgressCallback | None = None
) -> Checkpoint:
    """The target with 4-bit weights, under a name of its own.

    Args:
        target: as the file has it.
        form: what becomes of weights that are floats in the file.
        progress: told about the work.

    Raises:
        UnsupportedError: the copy would not be much smaller.
        CheckpointError: a weight is not finite.
    """
    share = pass_bits(target.weights, form, is_low_bit=True) / pass_bits(target.weights, form)
    if share > MAX_SHARE:
        raise UnsupportedError(
            f"self:lowbit cannot speed up {target.name!r}: a pass of its 4-bit copy would read "
            f"{share:.0%} of what a pass of the model reads, and more than {MAX_SHARE:.0%} does "
            "not pay; choose another drafter, or a file of the model with 8-bit or float weights."
        )
    return replace(
        target,
        name=f"{target.name} in 4 bits",
        weights=low_bit_weights(target.weights, form, progress),
    )
