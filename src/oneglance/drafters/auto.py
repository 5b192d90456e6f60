"""The drafter `auto`: what is there for this target, the cheapest first; the passes decide.

The parts are those of a hybrid, which measures from its first passes what each costs and how often
it is right, and leaves out what does not pay.
"""

from __future__ import annotations

from collections.abc import Sequence

from oneglance.checkpoints.base import FLOAT_TYPES, Checkpoint
from oneglance.config import WeightsForm


def auto_parts(
    target: Checkpoint,
    form: WeightsForm,
    drafts: Sequence[str],
    lookup: str = "suffix",
    heads: Sequence[str] = (),
) -> list[str]:
    """The drafters that `auto` is made of.

    Args:
        target: the model to draft for.
        form: what becomes of its float weights.
        drafts: models on this machine that are known to draft well for it, the best one first.
        lookup: the drafter that looks in the text itself.
        heads: kinds of trained heads that are there for it, the best one first.

    Returns:
        Names as after `--drafter`. Looking in the text costs nothing and is always one of them. To
        it come heads, which cost less than any model; without heads a model, the best that is
        there; or where the target has float weights and keeps them, a copy of it in fewer bits.
    """
    parts = [lookup]
    if heads:
        parts.append(heads[0])
    elif drafts:
        parts.append(f"draft:{drafts[0]}")
    elif form != "auto" and target.weights.layers[0].q_proj.quantization in FLOAT_TYPES:
        parts.append("self:lowbit")
    return parts
