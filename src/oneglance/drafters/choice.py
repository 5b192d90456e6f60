"""Which token a model that drafts puts next, and the law that it was drawn from.

Greedy requests get the draft's argmax (a point mass). Sampled ones get a draw from the draft's law
under the request's own warps, and that law is reported. With a seed the draw uses the target's
noise of the same position (`verify/coupled.py`), so that the two agree as often as possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oneglance.drafters.base import DraftContext
from oneglance.errors import DeadEndError
from oneglance.sampling.history import TokenHistory
from oneglance.sampling.noise import KeyedNoise
from oneglance.sampling.warp import greedy_token, log_law
from oneglance.types import Float32Array, Float64Array


@dataclass(frozen=True)
class Choice:
    """A draft token.

    Attributes:
        token: its id.
        law: [V] what it was drawn from; None for a point mass.
    """

    token: int
    law: Float64Array | None = None


def choose(
    row: Float32Array, context: DraftContext, history: TokenHistory, path: Sequence[int]
) -> Choice | None:
    """The next draft token.

    Args:
        row: [V] the draft model's logits, as wide as the target's vocabulary.
        context: the request.
        history: what was decided.
        path: draft tokens after that.

    Returns:
        None where the draft led where nothing is allowed; the target need not go there.
    """
    params, noise = context.params, context.noise
    try:
        if params.is_greedy:
            return Choice(greedy_token(row, params, history, path, eos_ids=context.eos_ids))
        law = log_law(row, params, history, path, eos_ids=context.eos_ids)
    except DeadEndError:
        return None
    if isinstance(noise, KeyedNoise):
        return Choice(noise.sample_from(law, history.num_output + len(path)))
    probs = law.probs()
    return Choice(noise.draw(probs), probs)


def takes_argmax(context: DraftContext, history: TokenHistory, path: Sequence[int]) -> bool:
    """Whether the next token is the argmax of the model's own logits."""
    params = context.params
    position = history.num_output + len(path)
    is_end_allowed = not context.eos_ids or params.ignore_eos or position >= params.min_tokens
    return params.is_greedy and params.keeps_logits and is_end_allowed


def fit(logits: Float32Array, vocab_size: int) -> Float32Array:
    """Cuts a row to the target's vocabulary, or pads it with tokens that are never drawn."""
    if len(logits) >= vocab_size:
        return logits[:vocab_size]
    padding = np.full(vocab_size - len(logits), -np.inf, dtype=np.float32)
    return np.concatenate([logits, padding])
