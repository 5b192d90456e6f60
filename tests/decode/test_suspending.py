"""An answer that is suspended and begun again keeps its law, its tokens and its figures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from oneglance.config import SamplingParams
from oneglance.control.length import Control
from oneglance.control.part import PartLength
from oneglance.decode.loop import Decoder
from oneglance.decode.reading import Chunk
from oneglance.decode.sequence import DecodingSequence, Vocabulary
from oneglance.decode.step import step
from oneglance.drafters.base import Drafter
from oneglance.drafters.draft_model import DraftModelDrafter
from oneglance.drafters.hybrid import HybridDrafter
from oneglance.drafters.lookahead import LookaheadDrafter
from oneglance.drafters.ngram import NgramDrafter
from oneglance.drafters.none import NoDrafter
from oneglance.drafters.suffix import SuffixDrafter
from oneglance.sampling.noise import Noise
from oneglance.testing import (
    ScriptedDrafter,
    ScriptedEngine,
    answer_law,
    random_script,
    total_variation,
)
from oneglance.types import Float64Array
from oneglance.verify.enumeration import enumerate_outcomes

V = 3
PROMPT = (0, 1, 0, 1)
SCRIPT = random_script(V, seed=5)
VOCABULARY = Vocabulary(V, frozenset(), lambda token: bytes([97 + token]))


def draft_law(prefix: tuple[int, ...]) -> Float64Array:
    logits = random_script(V, seed=6)(prefix).astype(np.float64)
    law: Float64Array = np.exp(logits) / np.exp(logits).sum()
    return law


def draft_model() -> Drafter[Any]:
    return DraftModelDrafter(ScriptedEngine(random_script(V, seed=6), V), V)


def hybrid() -> Drafter[Any]:
    parts = [NgramDrafter(min_ngram=1), draft_model()]
    control = Control.without_a_clock()
    return HybridDrafter(parts, lambda _, num_prompt: PartLength(control, num_prompt))


DRAFTERS: dict[str, Callable[[], Drafter[Any]]] = {
    "none": NoDrafter,
    "scripted": lambda: ScriptedDrafter(draft_law),
    "ngram": lambda: NgramDrafter(min_ngram=1),
    "suffix": SuffixDrafter,
    "draft": draft_model,
    "lookahead": lambda: LookaheadDrafter(V),
    "hybrid": hybrid,
}


def begin_again(decoder: Decoder, sequence: DecodingSequence) -> None:
    """Suspends an answer, and reads it again two tokens at a time."""
    target = decoder.target
    decoder.suspend(sequence)
    decoder.resume(sequence, target.open())
    while tokens := sequence.unread(target.length(sequence.handle)):
        _, failures = step(target, [], [Chunk(sequence, tokens[:2])])
        assert failures == [None]


def suspended(
    decoder: Decoder, params: SamplingParams, noise: Noise | None = None
) -> DecodingSequence:
    """The answer of a decoder that suspends it after every pass."""
    sequence = decoder.begin(PROMPT, params, noise)
    while not decoder.step([sequence])[0].ending:
        begin_again(decoder, sequence)
    decoder.end(sequence)
    return sequence


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_the_law_of_an_answer_that_is_suspended_after_every_pass(drafter: str) -> None:
    target = ScriptedEngine(SCRIPT, V)
    params = SamplingParams(max_tokens=3, temperature=0.9, frequency_penalty=0.3)

    def run(noise: Noise) -> tuple[int, ...]:
        decoder = Decoder(
            target, VOCABULARY, DRAFTERS[drafter](), k=2, control=Control.without_a_clock()
        )
        return tuple(token.token_id for token in suspended(decoder, params, noise).tokens)

    plain = answer_law(Decoder(target, VOCABULARY, NoDrafter()), PROMPT, params)
    assert total_variation(plain, enumerate_outcomes(run)) < 1e-12
    assert target.num_open == 0


@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_tokens_of_an_answer_that_is_suspended_after_every_pass(
    drafter: str, temperature: float
) -> None:
    target = ScriptedEngine(SCRIPT, V)
    params = SamplingParams(max_tokens=20, temperature=temperature, seed=3)
    plain = Decoder(target, VOCABULARY, NoDrafter())
    [(_, expected, _)] = list(plain.run([PROMPT], [params]))[-1:]
    decoder = Decoder(target, VOCABULARY, DRAFTERS[drafter](), k=3)
    answer = suspended(decoder, params)
    if drafter not in ("lookahead", "hybrid"):  # these learn while they draft
        [(_, steady, _)] = list(decoder.run([PROMPT], [params]))[-1:]
        assert answer.trace == steady.trace
    assert answer.history.output == expected.history.output
    assert answer.text == expected.text
    assert answer.stats.delivered == 20
    assert target.num_open == 0


def test_a_pass_holds_requests_of_several_drafters_and_prompts_besides() -> None:
    target = ScriptedEngine(SCRIPT, V)
    params = SamplingParams(max_tokens=6, temperature=1.0, seed=1)
    decoders = [Decoder(target, VOCABULARY, make(), k=2) for make in DRAFTERS.values()]
    sequences = [decoder.begin(PROMPT, params) for decoder in decoders]
    reader = decoders[2].open(target.open(), (0, 1, 2, 0, 1, 2, 0), params)
    target.num_passes = 0
    outcomes, failures = step(target, sequences, [Chunk(reader, reader.unread(0)[:4])])
    assert target.num_passes == 1
    assert target.length(reader.handle) == 4
    assert failures == [None]
    assert len(outcomes) == len(sequences)
    first = {sequence.history.output[0] for sequence in sequences}
    assert len(first) == 1
    for decoder, sequence in zip(decoders, sequences, strict=True):
        decoder.end(sequence)
    decoders[2].end(reader)
    assert target.num_open == 0
