"""Sampled answers against the law that the server itself reports, and against a reference."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oneglance.audit.endpoint.answer import Answer, TokenInfo, is_special
from oneglance.audit.endpoint.session import Session
from oneglance.audit.statistics import (
    detectable_share,
    evenness_p,
    pair_counts,
    pooled_distance_p,
    transform,
    uniform_p,
)
from oneglance.audit.verdict import Status, Verdict
from oneglance.types import Float64Array

NUM_TESTS = 4
"""Tests per API, for the level that the stated power refers to."""


@dataclass(frozen=True)
class Transforms:
    """Tokens of sampled answers as numbers that are uniform if they follow the reported law.

    Attributes:
        first: [n] of the first token of each answer.
        later: [m] of all others.
        pairs: [2 l] of neighbours, which must be independent.
        head: mean probability of the likeliest token.
    """

    first: Float64Array
    later: Float64Array
    pairs: Float64Array
    head: float


def check_sampling(session: Session) -> list[Verdict]:
    """Samples at temperature 1 and tests tokens, positions and whole sequences."""
    samples = {prompt: _draw(session, prompt) for prompt in session.prompts}
    verdicts = _own_law(session, samples)
    if session.against is not None:
        verdicts.append(_two_samples(session, samples))
    return verdicts


def _draw(session: Session, prompt: str, from_reference: bool = False) -> list[Answer]:
    server = session.against if from_reference else session.server
    assert server is not None, "there is no reference"
    size = session.sizes.num_sampled_tokens
    count = math.ceil(session.sizes.num_samples / len(session.prompts))
    return [server.sample(prompt, size) for _ in range(count)]


def _own_law(session: Session, samples: dict[str, list[Answer]]) -> list[Verdict]:
    names = ("sampled first tokens", "sampled sequences", "independence of sampled tokens")
    if session.server.num_top < 2:
        why = "The server gives no top_logprobs to test against."
        return [_nothing(session, name, "not offered", why) for name in names]
    answers = [answer for each in samples.values() for answer in each]
    found = transforms(answers, session.server.num_top, session.sizes.seed)
    if not len(found.later):
        return [_nothing(session, name, "unclear", "No token came with its law.") for name in names]
    seed = session.sizes.seed
    tests = (
        (found.first, uniform_p(found.first, seed)),
        (found.later, uniform_p(found.later, seed + 1)),
        (found.pairs, evenness_p(pair_counts(found.pairs), seed + 2)),
    )
    return [
        Verdict(
            check=f"{name}: the reported law",
            subject=session.subject,
            status="pass",
            detail=_detail(sample),
            sample_size=len(sample),
            unit="tokens",
            p_value=p_value,
            power=_power(session, sample, found.head) if sample is not found.pairs else None,
        )
        for name, (sample, p_value) in zip(names, tests, strict=True)
    ]


def _nothing(session: Session, name: str, status: Status, why: str) -> Verdict:
    return Verdict(f"{name}: the reported law", session.subject, status, why)


def _detail(sample: Float64Array) -> str:
    share = float(np.mean(sample < 0.5))
    return f"{share:.1%} of the tokens are in the likelier half of their law; 50 % are expected."


def _power(session: Session, sample: Float64Array, head: float) -> str:
    alpha = session.sizes.alpha / NUM_TESTS
    share = detectable_share(len(sample), alpha, head, session.sizes.seed)
    if share >= 1:
        return "too few tokens to find any bias reliably; raise --samples"
    return f"finds, with 90 % power, the likeliest token delivered undrawn in {share:.1%} of cases"


def transforms(answers: Sequence[Answer], num_top: int, seed: int) -> Transforms:
    """The probability integral transforms of sampled answers, likeliest tokens first.

    Only as many tokens have a place of their own as are listed whatever was drawn: completions also
    list the drawn token where it is none of the likeliest, and of two tokens that are written alike
    a server may list one. All others are the rest of the law, together.

    Control tokens end an answer and are often not listed when drawn. So a position is taken given
    that it was no control token: they are left out of the law, which is renormalised.

    Args:
        answers: with logprobs.
        num_top: tokens that the server lists at a position, at least 2.
        seed: of the places within a token's share.
    """
    generator = np.random.default_rng([seed, 3])
    rows = [
        [_transform(token, num_top - 1, generator) for token in answer.tokens or ()]
        for answer in answers
    ]
    heads = [
        math.exp(token.top[0][1])
        for answer in answers
        for token in answer.tokens or ()
        if token.top
    ]
    first = [row[0] for row in rows if row and row[0] is not None]
    later = [value for row in rows for value in row[1:] if value is not None]
    pairs = [
        value
        for row in rows
        for one, other in zip(row[::2], row[1::2], strict=False)
        if one is not None and other is not None
        for value in (one, other)
    ]
    head = float(np.mean(heads)) if heads else 0.0
    return Transforms(np.array(first), np.array(later), np.array(pairs), head)


def _transform(token: TokenInfo, num_places: int, generator: np.random.Generator) -> float | None:
    uniform = float(generator.random())
    if not token.top or is_special(token.text):
        return None
    listed = [(text, math.exp(value)) for text, value in token.top[:num_places]]
    kept = [(text, value) for text, value in listed if not is_special(text)]
    special = math.fsum(value for text, value in listed if is_special(text))
    if special > 0.999:
        return None
    probs = np.array([value for _, value in kept]) / (1 - special)
    place = next((index for index, (text, _) in enumerate(kept) if text == token.text), -1)
    return min(1.0, transform(probs, range(len(kept)), place, uniform))


def _two_samples(session: Session, samples: dict[str, list[Answer]]) -> Verdict:
    groups = [
        (
            [answer.units for answer in answers],
            [answer.units for answer in _draw(session, prompt, from_reference=True)],
        )
        for prompt, answers in samples.items()
    ]
    p_value = pooled_distance_p(groups, session.sizes.seed)
    return Verdict(
        check="sampled sequences: as the reference",
        subject=session.subject,
        status="pass",
        detail="Sequences of both servers were compared by the beginnings that they share.",
        sample_size=sum(len(one) + len(other) for one, other in groups),
        unit="answers",
        p_value=p_value,
    )
