"""Which tokens a model that drafts puts next, how sure it is of them, and the law they come from.

Greedy requests get the draft's best tokens (point masses). Sampled ones get draws without
replacement from the draft's law under the request's own warps, and that law is reported. With a
seed the draws use the target's noise of the same position (`verify/coupled.py`), so that the two
agree as often as possible.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oneglance.drafters.base import DraftContext
from oneglance.engine.base import TopTokens
from oneglance.errors import DeadEndError, ParameterError
from oneglance.sampling.history import TokenHistory
from oneglance.sampling.log_law import LogLaw
from oneglance.sampling.noise import KeyedNoise, Noise, SeededNoise
from oneglance.sampling.row_kernels import row_kernels
from oneglance.sampling.warp import log_law, warp
from oneglance.types import Float32Array, Float64Array

NUM_COMPARED = 8
"""A token's share is taken among this many best ones: nearly all of what a law holds where it
decides anything, at a fraction of the cost of the sum over the vocabulary."""


MIN_CONFIDENCE = 0.4
"""Where a draft stops unless told otherwise: about where one more pass of a draft model of a fifth
of the target's cost stops paying."""


@dataclass(frozen=True)
class Choice:
    """A draft token.

    Attributes:
        token: its id.
        law: [V] what it was drawn from, the same object for siblings; None for a point mass.
        confidence: the draft's own estimate of how likely this token is to be the accepted one,
            if its parent was accepted; it has no influence on any answer. For an argmax the share
            among the best tokens. A drawn token is accepted far more often than it is probable,
            since the target would draw it too: (1 + share) / 2, of what the siblings before leave.
    """

    token: int
    law: Float64Array | None = None
    confidence: float = 1.0


def choose(
    row: Float32Array, context: DraftContext, history: TokenHistory, path: Sequence[int]
) -> Choice | None:
    """The next draft token of a chain: `siblings` of one, None where there is none."""
    found = siblings(row, context, history, path, 1)
    return found[0] if found else None


def siblings(
    row: Float32Array,
    context: DraftContext,
    history: TokenHistory,
    path: Sequence[int],
    count: int,
) -> list[Choice]:
    """The next draft tokens, as children of one node.

    Args:
        row: [V] the draft model's logits, as wide as the target's vocabulary.
        context: the request.
        history: what was decided.
        path: draft tokens after that.
        count: how many, at least 1.

    Returns:
        In the order of drawing, best first. Fewer where fewer are possible; none where the draft
        led where nothing is allowed: the target need not go there.
    """
    params, noise = context.params, context.noise
    try:
        if params.is_greedy:
            scores = warp(row, params, history, path, eos_ids=context.eos_ids)
            ids = row_kernels().ranked(scores, max(count, NUM_COMPARED))
            return _best(ids.tolist(), scores[ids], count)
        law = log_law(row, params, history, path, eos_ids=context.eos_ids)
    except DeadEndError:
        return []
    if isinstance(noise, KeyedNoise):
        return _keyed(law, noise, history.num_output + len(path), count)
    return _drawn(law.probs(), noise, count)


def best_siblings(top: TopTokens, row: int, count: int) -> list[Choice] | None:
    """What `siblings` gives where it takes the argmax of the model's own logits.

    Args:
        top: best tokens, `NUM_COMPARED` or more of each row unless there are fewer.
        row: which row of them.
        count: how many siblings.

    Returns:
        None where the logits are broken or nothing is allowed: `siblings` says which.
    """
    logits = top.logits[row].astype(np.float64)
    if not np.isfinite(logits[0]):
        return None
    return _best(top.ids[row].tolist(), logits, count)


def drawn_siblings(
    top: TopTokens, drawn: TopTokens, row: int, count: int, temperature: float
) -> list[Choice] | None:
    """What `siblings` gives where it draws from the model's own logits with the target's noise.

    Args:
        top: as for `best_siblings`.
        drawn: the best tokens with the noise; id −1: there are no more.
        row: which row of them.
        count: how many siblings.
        temperature: of the request.

    Returns:
        As of `best_siblings`.
    """
    if not np.isfinite(top.logits[row, 0]):
        return None
    chosen = [token for token in drawn.ids[row, :count].tolist() if token >= 0]
    best = float(top.logits[row, 0])
    weights = {
        token: math.exp((logit - best) / temperature)
        for found in (drawn, top)
        for token, logit in zip(found.ids[row].tolist(), found.logits[row].tolist(), strict=True)
        if token >= 0
    }
    mass = sum(weights.values())
    confidences = _confidences([weights[token] / mass for token in chosen])
    return [Choice(*pair) for pair in zip(chosen, [None] * len(chosen), confidences, strict=True)]


def check_min_confidence(min_confidence: float) -> None:
    """Refuses what is no probability.

    Raises:
        ParameterError: it is not 0 to 1.
    """
    if not 0 <= min_confidence <= 1:
        raise ParameterError(
            f"min_confidence = {min_confidence!r} cannot be used; it must be 0 (off) to 1."
        )


def takes_argmax(context: DraftContext, history: TokenHistory, path: Sequence[int]) -> bool:
    """Whether the next token is the argmax of the model's own logits."""
    return context.params.is_greedy and _keeps_logits(context, history, path)


def draws_from_logits(context: DraftContext, history: TokenHistory, path: Sequence[int]) -> bool:
    """Whether the next token is drawn from the model's own logits with the noise of a seed."""
    params = context.params
    is_whole = params.top_k == 0 and params.top_p == 1 and params.min_p == 0
    is_seeded = not params.is_greedy and isinstance(context.noise, SeededNoise)
    return is_seeded and is_whole and _keeps_logits(context, history, path)


def _keeps_logits(context: DraftContext, history: TokenHistory, path: Sequence[int]) -> bool:
    params = context.params
    position = history.num_output + len(path)
    is_end_allowed = not context.eos_ids or params.ignore_eos or position >= params.min_tokens
    return params.keeps_logits and is_end_allowed


def fit(logits: Float32Array, vocab_size: int) -> Float32Array:
    """Cuts rows [..., width] to the target's vocabulary, or pads them with what is never drawn."""
    *shape, width = logits.shape
    if width >= vocab_size:
        return logits[..., :vocab_size]
    padding = np.full((*shape, vocab_size - width), -np.inf, dtype=np.float32)
    return np.concatenate([logits, padding], axis=-1)


def drawn_confidence(share: float) -> float:
    """How likely a token that was drawn from a law is to be accepted, given its share of it."""
    return (1.0 + share) / 2


def _best(ids: Sequence[int], scores: Float64Array, count: int) -> list[Choice]:
    """Point masses of ranked tokens with their shares; −inf is forbidden."""
    weights = np.exp(scores - scores[0])
    shares = (weights / weights.sum()).tolist()
    possible = np.isfinite(scores).tolist()
    every = zip(ids[:count], shares, possible, strict=False)
    return [Choice(token, confidence=share) for token, share, is_possible in every if is_possible]


def _keyed(law: LogLaw, noise: KeyedNoise, position: int, count: int) -> list[Choice]:
    tokens = noise.sample_distinct_from(law, position, count)
    confidences = _confidences(_shares(law, tokens))
    return [Choice(*pair) for pair in zip(tokens, [None] * len(tokens), confidences, strict=True)]


def _drawn(probs: Float64Array, noise: Noise, count: int) -> list[Choice]:
    """Draws without replacement; all report the law of the first."""
    tokens = [noise.draw(probs)]
    rest = probs
    while len(tokens) < count:
        if rest is probs:
            rest = probs.copy()
        rest[tokens[-1]] = 0.0
        mass = rest.sum()
        if mass <= 0:
            break
        tokens.append(noise.draw(rest / mass))
    confidences = _confidences([float(probs[token]) for token in tokens])
    return [Choice(*pair) for pair in zip(tokens, [probs] * len(tokens), confidences, strict=True)]


def _shares(law: LogLaw, tokens: Sequence[int]) -> list[float]:
    """What each of some tokens holds of the mass of the best ones and these."""
    indices = np.asarray(tokens) if law.ids is None else np.searchsorted(law.ids, tokens)
    compared = np.union1d(row_kernels().ranked(law.row, NUM_COMPARED), indices)
    mass = np.exp((law.row[compared].astype(np.float64) - law.best) / law.temperature).sum()
    own = np.exp((law.row[indices].astype(np.float64) - law.best) / law.temperature)
    shares: list[float] = (own / mass).tolist()
    return shares


def _confidences(shares: Sequence[float]) -> list[float]:
    """Of tokens drawn one after another, each from what was left by those before it."""
    confidences: list[float] = []
    left, mass = 1.0, 1.0
    for share in shares:
        chance = drawn_confidence(min(1.0, share / mass)) if mass > 0 else 1.0
        confidences.append(left * chance)
        left -= confidences[-1]
        mass -= share
    return confidences
