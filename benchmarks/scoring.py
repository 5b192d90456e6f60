"""How far an engine's laws are from the reference engine's on the same text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import numpy as np

from oneglance.types import Float32Array, Float64Array, IntArray


@dataclass(frozen=True)
class WindowScore:
    """One window of text, sums over the tokens that were predicted.

    Attributes:
        num_tokens: how many were predicted: all but the window's first.
        reference_nll: −log p of the text under the reference engine, in nats.
        nll: the same under the engine in question.
        kl: KL(reference ‖ engine), in nats.
        num_agreeing: positions at which both have the same most likely token.
    """

    num_tokens: int
    reference_nll: float
    nll: float
    kl: float
    num_agreeing: int


@dataclass(frozen=True)
class Score:
    """All windows together.

    Attributes:
        num_tokens: predicted tokens.
        reference_perplexity: exp of the mean −log p under the reference engine.
        perplexity: the same under the engine in question.
        ratio: `perplexity` ÷ `reference_perplexity`.
        ratio_error: standard error of the ratio, from the differences between windows.
        mean_kl: nats a token.
        agreement: share of positions with the same most likely token.
    """

    num_tokens: int
    reference_perplexity: float
    perplexity: float
    ratio: float
    ratio_error: float
    mean_kl: float
    agreement: float

    @classmethod
    def of(cls, windows: Sequence[WindowScore]) -> Score:
        """Pools windows, each weighted by its tokens."""
        num_tokens = sum(window.num_tokens for window in windows)
        reference = sum(window.reference_nll for window in windows) / num_tokens
        own = sum(window.nll for window in windows) / num_tokens
        differences = [
            (window.nll - window.reference_nll) / window.num_tokens for window in windows
        ]
        ratio = math.exp(own - reference)
        spread = stdev(differences) / math.sqrt(len(windows)) if len(windows) > 1 else math.nan
        return cls(
            num_tokens=num_tokens,
            reference_perplexity=math.exp(reference),
            perplexity=math.exp(own),
            ratio=ratio,
            ratio_error=ratio * spread,
            mean_kl=sum(window.kl for window in windows) / num_tokens,
            agreement=fmean(
                [window.num_agreeing / window.num_tokens for window in windows],
                [window.num_tokens for window in windows],
            ),
        )


def score_window(
    tokens: Sequence[int],
    reference_states: Float32Array,
    reference_head: Float32Array,
    logits: Mapping[str, Iterable[Float32Array]],
) -> dict[str, WindowScore]:
    """Compares laws with the reference engine's at every position that has a next token.

    Args:
        tokens: of the window, N of them.
        reference_states: [N, D] final states of the reference engine.
        reference_head: [V, D], which makes logits of them.
        logits: of each engine in question, by name, in parts of some rows [n, V], N rows in all;
            the parts of all engines have the same sizes.
    """
    following = np.asarray(tokens[1:], dtype=np.int64)
    parts: dict[str, list[WindowScore]] = {name: [] for name in logits}
    start = 0
    for rows in zip(*logits.values(), strict=True):
        stop = start + len(rows[0])
        wanted = following[start:stop]
        states = reference_states[start : start + len(wanted)]
        reference = log_softmax(states @ reference_head.T)
        for name, part in zip(logits, rows, strict=True):
            own = log_softmax(part[: len(wanted)])
            parts[name].append(_score_rows(wanted, reference, own))
        start = stop
    assert start == len(tokens), "logits of another window"
    return {name: _sum(scores) for name, scores in parts.items()}


def _sum(parts: Sequence[WindowScore]) -> WindowScore:
    return WindowScore(
        num_tokens=sum(part.num_tokens for part in parts),
        reference_nll=sum(part.reference_nll for part in parts),
        nll=sum(part.nll for part in parts),
        kl=sum(part.kl for part in parts),
        num_agreeing=sum(part.num_agreeing for part in parts),
    )


def log_softmax(logits: Float32Array) -> Float64Array:
    """Logs of the laws of rows [n, V], in float64."""
    shifted = logits.astype(np.float64)
    shifted -= shifted.max(axis=1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return shifted


def _score_rows(wanted: IntArray, reference: Float64Array, own: Float64Array) -> WindowScore:
    rows = np.arange(len(wanted))
    return WindowScore(
        num_tokens=len(wanted),
        reference_nll=-float(reference[rows, wanted].sum()),
        nll=-float(own[rows, wanted].sum()),
        kl=float((np.exp(reference) * (reference - own)).sum()),
        num_agreeing=int((reference.argmax(axis=1) == own.argmax(axis=1)).sum()),
    )
