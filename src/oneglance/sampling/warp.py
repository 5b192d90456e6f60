"""The one definition of the law that tokens are drawn from (contract C1).

Plain decoding, every accept rule and every drafter that imitates the target call `warp`, for
every position, with the state that this position has: so no option can reach one of them and
miss another.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import numpy as np

from oneglance.config import LogitsProcessor, SamplingParams
from oneglance.errors import DeadEndError, ParameterError
from oneglance.sampling.history import TokenHistory
from oneglance.sampling.selection import largest, ranked
from oneglance.types import Float32Array, Float64Array, IntArray

_FIRST_NUCLEUS = 512
"""How many of the most probable tokens are sorted at first in search of the top-p set."""


def warp(
    logits: Float32Array | Float64Array,
    params: SamplingParams,
    history: TokenHistory,
    path: Sequence[int] = (),
    *,
    eos_ids: Collection[int],
) -> Float64Array:
    """Warps the model's logits after (prompt, output, path) into the law of the next token.

    In this order, each step seeing what the one before it left:

    1. `logits_processors`, in turn, given the ids of prompt, output and path;
    2. `repetition_penalty` on ids in prompt, output or path: l / penalty if l > 0,
       else l * penalty;
    3. `presence_penalty` and `frequency_penalty` on ids in output or path:
       l - presence - frequency * count;
    4. `logit_bias` is added;
    5. `banned_tokens` are forbidden (−inf);
    6. end-of-text tokens are forbidden while output and path hold fewer than `min_tokens`,
       unless `ignore_eos` makes them ordinary tokens;
    7. division by `temperature`. Greedy (temperature 0) ends before this step: the choice is the
       argmax of what step 6 left;
    8. `top_k`: the k largest stay;
    9. `top_p`: of what stayed, renormalised, the shortest prefix in descending order whose
       probability reaches top_p;
    10. `min_p`: of what stayed, tokens with at least min_p times the best one's probability.

    Ties are cut in favour of the lowest id, and at least one token always stays. All in float64.
    The result is the same, bit for bit, whether tokens are in the path or already appended.

    Args:
        logits: [V] the model's logits; never modified.
        params: the request's parameters, whose token ids were checked with `check_vocabulary`.
        history: prompt and output so far.
        path: drafted tokens between the output and this position.
        eos_ids: end-of-text tokens.

    Returns:
        [V] log-probabilities up to a constant, −inf where forbidden, at least one finite; a new
        array. Greedy: the scores after step 6.

    Raises:
        ParameterError: a logits processor returned something other than [V] numbers, or a logit
            is NaN or +inf.
        DeadEndError: every token is forbidden.
    """
    scores = np.array(logits, dtype=np.float64)
    for processor in params.logits_processors:
        scores = _process(processor, history.tokens(path), scores)
    with np.errstate(over="ignore"):  # a score beyond float64 becomes -inf: it has no probability
        _adjust(scores, params, history, path)
        _forbid(scores, params, history.num_output + len(path), eos_ids)
        best = _best_score(scores, history.num_output + len(path))
        if params.is_greedy:
            return scores
        # Relative to the best score, a tiny temperature overflows to -inf and never to +inf.
        scores -= best
        scores /= params.temperature
        return _truncate(scores, params)


def _process(
    processor: LogitsProcessor, tokens: tuple[int, ...], scores: Float64Array
) -> Float64Array:
    """Applies a user's function; copies, as it may hand out an array that it keeps."""
    name = getattr(processor, "__name__", type(processor).__name__)
    result = processor(tokens, scores.copy())
    try:
        processed = np.array(result, dtype=np.float64)
    except (TypeError, ValueError):
        raise ParameterError(
            f"Logits processor {name!r} returned {type(result).__name__}, which is not an array "
            f"of numbers; it must return {len(scores)} logits."
        ) from None
    if processed.shape != scores.shape:
        raise ParameterError(
            f"Logits processor {name!r} returned an array of shape {processed.shape}; "
            f"it must return {len(scores)} logits, shape {scores.shape}."
        )
    return processed


def _adjust(
    scores: Float64Array, params: SamplingParams, history: TokenHistory, path: Sequence[int]
) -> None:
    """Steps 2 to 4, in place."""
    if params.repetition_penalty != 1:
        ids = history.seen_ids(path)
        seen = scores[ids]
        penalty = params.repetition_penalty
        scores[ids] = np.where(seen > 0, seen / penalty, seen * penalty)
    if params.presence_penalty or params.frequency_penalty:
        ids, counts = history.output_counts(path)
        scores[ids] -= params.presence_penalty + params.frequency_penalty * counts
    if params.logit_bias:
        size = len(params.logit_bias)
        ids = np.fromiter(params.logit_bias.keys(), dtype=np.int64, count=size)
        scores[ids] += np.fromiter(params.logit_bias.values(), dtype=np.float64, count=size)


def _forbid(
    scores: Float64Array, params: SamplingParams, position: int, eos_ids: Collection[int]
) -> None:
    """Steps 5 and 6, in place."""
    if params.banned_tokens:
        scores[list(params.banned_tokens)] = -math.inf
    if eos_ids and position < params.min_tokens and not params.ignore_eos:
        scores[list(eos_ids)] = -math.inf


def _best_score(scores: Float64Array, position: int) -> float:
    """The largest score; NaN and +inf surface in it, so that one look at all scores is enough."""
    best = float(scores.max())
    if best == -math.inf:
        raise DeadEndError(
            f"Every token is forbidden at position {position}; banned_tokens, min_tokens and "
            "logits_processors together must leave at least one."
        )
    if not math.isfinite(best):
        token = int(np.argmax(scores))  # argmax returns the first NaN if there is one
        raise ParameterError(
            f"The logit of token {token} at position {position} is {best}, which has no meaning "
            "as a probability; check logits_processors and the penalties, or the model's weights."
        )
    return best


def _truncate(scores: Float64Array, params: SamplingParams) -> Float64Array:
    """Steps 8 to 10 on scores [V] whose largest is 0."""
    has_top_k = 0 < params.top_k < len(scores)
    if not has_top_k and params.top_p == 1 and params.min_p == 0:
        return scores
    ids = largest(scores, params.top_k if has_top_k else len(scores))
    if params.top_p < 1:
        ids = ids[_nucleus(scores[ids], params.top_p)]
    if params.min_p > 0:
        ids = ids[scores[ids] >= math.log(params.min_p)]
    kept = np.full_like(scores, -math.inf)
    kept[ids] = scores[ids]
    return kept


def _nucleus(scores: Float64Array, top_p: float) -> IntArray:
    """Indices of the smallest set of the best scores whose share of the mass reaches top_p.

    The sorted stretch grows until it is long enough; its prefix sums do not depend on how far it
    was sorted, so the outcome does not either.
    """
    weights = np.exp(scores)
    wanted = top_p * weights.sum()
    num_sorted = _FIRST_NUCLEUS
    while True:
        order = ranked(scores, num_sorted)
        cumulative = np.cumsum(weights[order])
        if cumulative[-1] >= wanted or num_sorted >= len(scores):
            break
        num_sorted *= 8
    num_kept = int(np.searchsorted(cumulative, wanted, side="left")) + 1
    return order[:num_kept]
