"""Contracts C2 and C3: greedy and seeded answers with a drafter are those without."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from oneglance.audit.model.subject import Subject, run
from oneglance.audit.tally import Tally
from oneglance.audit.verdict import Verdict
from oneglance.config import SamplingParams
from oneglance.decode.sequence import DecodingSequence
from oneglance.drafters.base import Drafter, DraftHints
from oneglance.drafters.none import NoDrafter
from oneglance.types import SpeculationStats

NUM_TREE_NODES = 12

REQUESTS = {
    "greedy": SamplingParams(),
    "seeded": SamplingParams(temperature=0.8, top_p=0.95, seed=7),
}


def plain_answers(
    subject: Subject, prompts: Sequence[str], num_tokens: int
) -> dict[str, list[DecodingSequence]]:
    """The answers of plain decoding, greedy and with a seed."""
    encoded = subject.encode(prompts)
    return {
        name: run(subject.decoder(NoDrafter()), encoded, replace(params, max_tokens=num_tokens))
        for name, params in REQUESTS.items()
    }


def hints_of(drafter: Drafter[Any], plain: Sequence[DecodingSequence]) -> list[DraftHints]:
    """What a drafter is told; one that reads a prediction, the plain answer less a token.

    The missing token is one of the middle, so that the prediction goes wrong there.
    """
    if not drafter.uses_prediction:
        return [DraftHints()] * len(plain)
    predictions = []
    for sequence in plain:
        ids = [token.token_id for token in sequence.tokens]
        middle = len(ids) // 2
        predictions.append(tuple(ids[:middle] + ids[middle + 1 :]))
    return [DraftHints(prediction=prediction) for prediction in predictions]


def audit_identity(
    subject: Subject,
    name: str,
    drafter: Drafter[Any],
    prompts: Sequence[str],
    plain: dict[str, list[DecodingSequence]],
) -> Iterator[Verdict]:
    """Answers with a drafter: in chains and trees, alone and in a batch, token by token.

    The target's logprobs are compared too, bit by bit.
    """
    encoded = subject.encode(prompts)
    hints = hints_of(drafter, plain["greedy"])
    for request, params in REQUESTS.items():
        tally = Tally(f"{request} answers", name, "tokens")
        stats = SpeculationStats()
        wanted = plain[request]
        limited = replace(params, max_tokens=len(max(wanted, key=_length).tokens))
        for nodes in (None, NUM_TREE_NODES):
            decoder = replace(subject.decoder(drafter), tree_nodes=nodes)
            shape = "chains" if nodes is None else f"trees of {nodes}"
            answers = run(decoder, encoded, limited, hints)
            _compare(tally, f"in a batch, {shape}", prompts, wanted, answers, stats)
            alone = run(decoder, encoded[-1:], limited, hints[-1:])
            _compare(tally, f"alone, {shape}", prompts[-1:], wanted[-1:], alone, stats)
        yield tally.verdict(
            f"Tokens and the bits of their logprobs are those of plain decoding; "
            f"{stats.accepted} of {stats.drafted} drafted tokens were kept."
        )


def _length(sequence: DecodingSequence) -> int:
    return len(sequence.tokens)


def _compare(
    tally: Tally,
    how: str,
    prompts: Sequence[str],
    wanted: Sequence[DecodingSequence],
    found: Sequence[DecodingSequence],
    stats: SpeculationStats,
) -> None:
    for prompt, one, other in zip(prompts, wanted, found, strict=True):
        stats.add(other.stats)
        tally.size += len(one.tokens)
        expected = [(token.token_id, token.logprob) for token in one.tokens]
        answer = [(token.token_id, token.logprob) for token in other.tokens]
        if answer != expected:
            pairs = zip(expected, answer, strict=False)
            place = next(
                (index for index, (a, b) in enumerate(pairs) if a != b),
                min(len(expected), len(answer)),
            )
            kind = "tokens"
            if [token for token, _ in answer] == [token for token, _ in expected]:
                kind = "logprobs"
            tally.fault(
                f"{how}: {kind} differ from token {place} on.",
                prompt=prompt,
                plain=one.text,
                drafted=other.text,
            )
