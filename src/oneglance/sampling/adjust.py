"""Steps 1 to 6 of the warp: what a request does to the model's logits before the temperature."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import numpy as np

from oneglance.config import LogitsProcessor, SamplingParams
from oneglance.constraints import TokenMask
from oneglance.errors import DeadEndError, ParameterError
from oneglance.sampling.history import TokenHistory
from oneglance.sampling.row_kernels import contiguous, row_kernels
from oneglance.types import BoolArray, Float32Array, Float64Array


def adjusted(
    logits: Float32Array | Float64Array,
    params: SamplingParams,
    history: TokenHistory,
    path: Sequence[int],
    eos_ids: Collection[int],
    best: int | None = None,
) -> tuple[Float32Array | Float64Array, int]:
    """Steps 1 to 6 of `warp.warp`, whose arguments and errors these are.

    Returns:
        [V] C-contiguous scores, and the token of the largest, which is finite; none is NaN. The
        model's own row, not a copy, where nothing in the request changes it at this position.
    """
    position = history.num_output + len(path)
    forbids_end = bool(eos_ids) and position < params.min_tokens and not params.ignore_eos
    allowed = _allowed(params, history, path)
    if not params.moves_logits and not forbids_end:
        row = contiguous(logits)
        if allowed is not None:
            row = np.where(allowed, row, row.dtype.type(-math.inf))
            best = None
        return row, _best_token(row, position, best)
    scores = np.array(logits, dtype=np.float64)
    for processor in params.logits_processors:
        scores = _process(processor, history.tokens(path), scores)
    with np.errstate(over="ignore"):  # a score beyond float64 becomes -inf: it has no probability
        _adjust(scores, params, history, path)
    if allowed is not None:
        scores[~allowed] = -math.inf
    scores[list(params.banned_tokens)] = -math.inf
    if forbids_end:
        scores[list(eos_ids)] = -math.inf
    return scores, _best_token(scores, position)


def _allowed(
    params: SamplingParams, history: TokenHistory, path: Sequence[int]
) -> BoolArray | None:
    """[V] what the constraint allows at a position; None: everything."""
    if params.constraint is None:
        return None
    assert isinstance(params.constraint, TokenMask), "the constraint has no vocabulary yet"
    return params.constraint.allowed((*history.output, *path))


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


def _best_token(
    scores: Float32Array | Float64Array, position: int, known: int | None = None
) -> int:
    """The token of the largest score, `known` if that is given.

    NaN and +inf surface in it, the first NaN if there is one, so that one look is enough.
    """
    token = row_kernels().argmax(scores) if known is None else known
    best = float(scores[token])
    if best == -math.inf:
        raise DeadEndError(
            f"Every token is forbidden at position {position}; banned_tokens, min_tokens, "
            "logits_processors and the constraint together must leave at least one."
        )
    if not math.isfinite(best):
        raise ParameterError(
            f"The logit of token {token} at position {position} is {best}, which has no meaning "
            "as a probability; check logits_processors and the penalties, or the model's weights."
        )
    return token
