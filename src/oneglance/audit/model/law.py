"""Contract C1 on a real model: sampled answers without a seed, tested against plain decoding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oneglance.audit.model.record import RecordingDrafter, Samples
from oneglance.audit.model.subject import Subject, run
from oneglance.audit.statistics import (
    counts_p,
    counts_power,
    detectable_share,
    evenness_p,
    pair_counts,
    pooled_distance_p,
    uniform_p,
)
from oneglance.audit.verdict import Verdict
from oneglance.config import SamplingParams
from oneglance.decode.sequence import DecodingSequence
from oneglance.drafters.base import Drafter, DraftHints
from oneglance.drafters.none import NoDrafter
from oneglance.types import Float64Array

NUM_SHARED = 4
"""First tokens of an answer by which two samples of answers are compared."""


Answers = dict[str, list[DecodingSequence]]
"""Sampled answers to each prompt."""


@dataclass(frozen=True)
class ModelSizes:
    """How much is decoded.

    Attributes:
        num_tokens: length of greedy and seeded answers.
        num_samples: sampled answers per drafter, over all prompts together.
        num_sampled_tokens: length of sampled answers.
        alpha: chance of a false alarm in the whole report.
        seed: of the audit's own randomness.
    """

    num_tokens: int = 32
    num_samples: int = 100
    num_sampled_tokens: int = 16
    alpha: float = 0.01
    seed: int = 0


def sample(
    subject: Subject,
    drafter: Drafter[Any],
    prompts: Sequence[str],
    sizes: ModelSizes,
    hints: Sequence[DraftHints],
    is_biased: bool = False,
) -> tuple[Samples, Answers]:
    """Samples each prompt equally often, at temperature 1; `is_biased`: by a rule that is wrong."""
    recording = RecordingDrafter(drafter, subject.vocabulary.size, sizes.seed)
    decoder = subject.decoder(recording, is_biased)
    params = SamplingParams(max_tokens=sizes.num_sampled_tokens, temperature=1.0)
    count = -(-sizes.num_samples // len(prompts))
    answers: Answers = {}
    for prompt, tokens, hint in zip(prompts, subject.encode(prompts), hints, strict=True):
        answers[prompt] = run(decoder, [tokens] * count, params, [hint] * count)
    return recording.samples, answers


def audit_law(
    subject: Subject,
    name: str,
    drafter: Drafter[Any],
    prompts: Sequence[str],
    sizes: ModelSizes,
    hints: Sequence[DraftHints],
    plain: Answers,
    num_tests: int,
) -> Iterator[Verdict]:
    """Tests the law of sampled answers, and shows that the test finds a biased rule.

    Args:
        subject: the model.
        name: of the drafter, for verdicts.
        drafter: drafts.
        prompts: texts.
        sizes: how much.
        hints: for the drafter, one for each prompt.
        plain: sampled answers of plain decoding; they are not looked at for the drafter none.
        num_tests: tests of the whole report, for the level that the power refers to.
    """
    level = sizes.alpha / num_tests
    found, answers = sample(subject, drafter, prompts, sizes, hints)
    tokens = found.pooled()
    head = float(np.mean(found.heads))
    share = detectable_share(len(tokens), level, head, sizes.seed)
    power = f"finds, with 90 % power, the likeliest token delivered undrawn in {share:.1%} of cases"
    yield _test(name, "sampled tokens", tokens, uniform_p(tokens, sizes.seed), power)
    pairs = found.pairs()
    independence = evenness_p(pair_counts(pairs), sizes.seed + 1)
    yield _test(name, "independence of sampled tokens", pairs, independence, None)
    if isinstance(drafter, NoDrafter):
        return
    biased, _ = sample(subject, drafter, prompts, sizes, hints, is_biased=True)
    if found.favoured:
        yield _favoured(name, found, counts_power(biased.favoured, level, sizes.seed))
    yield _two_samples(name, answers, plain, sizes)
    yield _control(name, biased, level, sizes.seed)


def _favoured(name: str, found: Samples, power: float) -> Verdict:
    """Whether tokens that the draft favours are delivered as often as the target wants them."""
    num_events = sum(is_event for is_event, _ in found.favoured)
    expected = sum(chance for _, chance in found.favoured)
    return Verdict(
        check="tokens that drafts favour",
        subject=name,
        status="pass",
        detail=f"{num_events} were delivered; the target's law expects {expected:.1f}.",
        sample_size=len(found.favoured),
        unit="drafts",
        p_value=counts_p(found.favoured),
        power=f"finds the biased rule of the negative control in {power:.0%} of audits",
    )


def _test(
    name: str, check: str, sample_of: Float64Array, p_value: float, power: str | None
) -> Verdict:
    share = float(np.mean(sample_of < 0.5))
    return Verdict(
        check=check,
        subject=name,
        status="pass",
        detail=f"{share:.1%} are in the first half of their law; 50 % are expected.",
        sample_size=len(sample_of),
        unit="tokens",
        p_value=p_value,
        power=power,
    )


def _two_samples(name: str, answers: Answers, plain: Answers, sizes: ModelSizes) -> Verdict:
    groups = [
        [
            [[token.token_id for token in each.tokens[:NUM_SHARED]] for each in side[prompt]]
            for side in (answers, plain)
        ]
        for prompt in answers
    ]
    p_value = pooled_distance_p([(one, other) for one, other in groups], sizes.seed)
    return Verdict(
        check="sampled sequences against plain sampling",
        subject=name,
        status="pass",
        detail=f"Beginnings of up to {NUM_SHARED} tokens are shared as often as among equals.",
        sample_size=sum(len(side) for group in groups for side in group),
        unit="answers",
        p_value=p_value,
    )


def _control(name: str, biased: Samples, level: float, seed: int) -> Verdict:
    """The same tests on a rule that draws from the full law after a rejection."""
    smallest = min(uniform_p(biased.pooled(), seed), counts_p(biased.favoured))
    is_caught = smallest < level
    detail = (
        f"A rule that draws from the full law after a rejection is caught (p = {smallest:.1g})."
        if is_caught
        else f"A rule that draws from the full law after a rejection is NOT caught (p = "
        f"{smallest:.2g}): too few drafts are rejected in so small a sample; raise --samples."
    )
    return Verdict(
        check="negative control",
        subject=name,
        status="pass" if is_caught else "unclear",
        detail=detail,
        sample_size=len(biased.favoured),
        unit="drafts",
    )
