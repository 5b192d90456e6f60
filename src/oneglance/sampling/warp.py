"""The one definition of the law that tokens are drawn from (contract C1).

Plain decoding, every accept rule and every drafter that imitates the target call `log_law`,
`greedy_token` or their plain form `warp`, for every position, with the state that this position
has: so no option can reach one of them and miss another.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from oneglance.config import SamplingParams
from oneglance.sampling.adjust import adjusted
from oneglance.sampling.history import TokenHistory
from oneglance.sampling.log_law import LogLaw
from oneglance.sampling.row_kernels import row_kernels
from oneglance.types import Float32Array, Float64Array

_SMALLEST_NORMAL = float(np.finfo(np.float64).tiny)


def warp(
    logits: Float32Array | Float64Array,
    params: SamplingParams,
    history: TokenHistory,
    path: Sequence[int] = (),
    *,
    eos_ids: Collection[int],
    best: int | None = None,
) -> Float64Array:
    """Warps the model's logits after (prompt, output, path) into the law of the next token.

    In this order, each step seeing what the one before it left:

    1. `logits_processors`, in turn, given the ids of prompt, output and path;
    2. `repetition_penalty` on ids in prompt, output or path: l / penalty if l > 0,
       else l * penalty;
    3. `presence_penalty` and `frequency_penalty` on ids in output or path:
       l - presence - frequency * count;
    4. `logit_bias` is added;
    5. what `constraint` does not allow here and `banned_tokens` are forbidden (−inf), so that no
       step before can bring them back;
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
        best: what `RowKernels.argmax` finds in `logits`, if that is known.

    Returns:
        [V] log-probabilities up to a constant, −inf where forbidden, at least one finite; a new
        array. Greedy: the scores after step 6.

    Raises:
        ParameterError: a logits processor returned something other than [V] numbers, or a logit
            is NaN or +inf, or the constraint cannot be followed any further.
        DeadEndError: every token is forbidden.
    """
    if params.is_greedy:
        scores, _ = adjusted(logits, params, history, path, eos_ids, best)
        return np.array(scores, dtype=np.float64)
    return log_law(logits, params, history, path, eos_ids=eos_ids, best=best).logits()


def greedy_token(
    logits: Float32Array | Float64Array,
    params: SamplingParams,
    history: TokenHistory,
    path: Sequence[int] = (),
    *,
    eos_ids: Collection[int],
    best: int | None = None,
) -> int:
    """The argmax of what step 6 of `warp` leaves; arguments and errors as there."""
    _, token = adjusted(logits, params, history, path, eos_ids, best)
    return token


def log_law(
    logits: Float32Array | Float64Array,
    params: SamplingParams,
    history: TokenHistory,
    path: Sequence[int] = (),
    *,
    eos_ids: Collection[int],
    best: int | None = None,
) -> LogLaw:
    """The law of `warp` for a temperature above 0, over the tokens that truncation leaves.

    Arguments and errors as for `warp`. The law refers to `logits`, which must not change.
    """
    scores, token = adjusted(logits, params, history, path, eos_ids, best)
    law = LogLaw(scores, float(scores[token]), params.temperature, len(scores))
    if 0 < params.top_k < len(scores):
        law = _top_k(law, params.top_k)
    if params.top_p < 1:
        kept = row_kernels().nucleus(law.row, law.best, law.temperature, params.top_p)
        law = law.truncated(kept)
    if params.min_p > 0:
        # Weights that low are 0 as they are: see `elementary.exp`.
        law = _at_least(law, row_kernels().log(max(params.min_p, _SMALLEST_NORMAL)))
    return law


def _top_k(law: LogLaw, count: int) -> LogLaw:
    """Step 8. Logits that differ may have the same score, and then the lowest id stays."""
    last = row_kernels().ranked(law.row, count)[-1:]
    law = _at_least(law, float(law.truncated(last).row[0]))
    if len(law.row) == count:
        return law
    return law.truncated(np.sort(row_kernels().ranked(law.row, count)))


def _at_least(law: LogLaw, floor: float) -> LogLaw:
    return law.truncated(row_kernels().at_least(law.row, law.best, law.temperature, floor))
