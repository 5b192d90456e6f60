"""The law written out token by token, with none of the shortcuts of the real one."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from oneglance.config import SamplingParams


def slow_scores(
    logits: Sequence[float],
    params: SamplingParams,
    prompt: Sequence[int],
    output: Sequence[int],
    eos_ids: Collection[int],
) -> list[float]:
    """Steps 2 to 6: everything before the temperature."""
    scores = [float(value) for value in logits]
    for token in range(len(scores)):
        if params.repetition_penalty != 1 and token in [*prompt, *output]:
            if scores[token] > 0:
                scores[token] /= params.repetition_penalty
            else:
                scores[token] *= params.repetition_penalty
        count = list(output).count(token)
        if count and (params.presence_penalty or params.frequency_penalty):
            scores[token] -= params.presence_penalty + params.frequency_penalty * count
        if token in params.logit_bias:
            scores[token] += params.logit_bias[token]
        if token in params.banned_tokens:
            scores[token] = -math.inf
        if token in eos_ids and len(output) < params.min_tokens and not params.ignore_eos:
            scores[token] = -math.inf
    return scores


def slow_support(scores: Sequence[float], params: SamplingParams) -> list[int] | None:
    """Steps 7 to 10: the ids that stay; None if a cut falls where rounding could decide it."""
    best = max(scores)
    weights = [math.exp((score - best) / params.temperature) for score in scores]
    kept = [token for token in range(len(scores)) if scores[token] > -math.inf]
    if params.top_k:
        kept = sorted(kept, key=lambda token: (-scores[token], token))[: params.top_k]
    if params.top_p < 1:
        kept.sort(key=lambda token: (-scores[token], token))
        total = math.fsum(weights[token] for token in kept)
        running = [
            math.fsum(weights[token] for token in kept[: n + 1]) / total for n in range(len(kept))
        ]
        if any(abs(share - params.top_p) < 1e-9 for share in running):
            return None
        needed = next((n for n, share in enumerate(running) if share >= params.top_p), len(kept))
        kept = kept[: needed + 1]
    if params.min_p > 0:
        strongest = max(weights[token] for token in kept)
        if any(abs(weights[token] - params.min_p * strongest) < 1e-9 for token in kept):
            return None
        kept = [token for token in kept if weights[token] >= params.min_p * strongest]
    return sorted(kept)
