"""The whole loop (warp, drafter, rule, commit, stop) has exactly the target's law: enumeration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest

from oneglance.config import SamplingParams
from oneglance.control.allocation import Fixed
from oneglance.control.controller import cut_drafts
from oneglance.decode import propose as propose_module
from oneglance.decode import sequence as sequence_module
from oneglance.decode import step as step_module
from oneglance.decode.loop import Decoder
from oneglance.decode.sequence import Vocabulary
from oneglance.drafters.base import Drafter, DraftRequest
from oneglance.drafters.draft_model import DraftModelDrafter
from oneglance.drafters.ngram import NgramDrafter
from oneglance.drafters.none import NoDrafter
from oneglance.sampling.history import TokenHistory
from oneglance.sampling.noise import KeyedNoise, Noise
from oneglance.sampling.softmax import softmax
from oneglance.testing import (
    ScriptedDrafter,
    ScriptedEngine,
    answer_law,
    check_drafter,
    random_script,
    total_variation,
)
from oneglance.types import Float64Array, Proposal
from oneglance.verify.base import Acceptance, TargetLaw

V = 3
PROMPT = (0, 1, 0, 1)
WARPED = SamplingParams(
    max_tokens=4,
    temperature=0.8,
    top_p=0.97,
    presence_penalty=0.4,
    frequency_penalty=0.3,
    repetition_penalty=1.2,
    logit_bias={1: 0.5},
)


def vocabulary(*eos_ids: int) -> Vocabulary:
    return Vocabulary(V, frozenset(eos_ids), lambda token: bytes([97 + token]))


DRAFT_SCRIPT = random_script(V, seed=77)


def draft_law(prefix: tuple[int, ...]) -> Float64Array:
    return softmax(DRAFT_SCRIPT(prefix).astype(np.float64))


def sparse_draft_law(prefix: tuple[int, ...]) -> Float64Array:
    """One token is never drafted; which one changes with the prefix."""
    law = draft_law(prefix)
    law[len(prefix) % V] = 0.0
    normalised: Float64Array = law / law.sum()
    return normalised


def draft_model() -> DraftModelDrafter:
    return DraftModelDrafter(ScriptedEngine(random_script(V, seed=78), V), vocab_size=V)


Kind = Literal["sampled", "replaced", "top"]

# Drafter, draft tokens per pass, length of the answers: as long as a few thousand replays allow.
CASES: dict[str, tuple[Callable[[], Drafter[Any]], int, int]] = {
    "chain": (lambda: ScriptedDrafter(draft_law), 2, 4),
    "long chain": (lambda: ScriptedDrafter(sparse_draft_law), 3, 4),
    "point masses": (lambda: ScriptedDrafter(draft_law, kind="top"), 3, 5),
    "tree": (lambda: ScriptedDrafter(sparse_draft_law, (2, 1), "sampled"), 3, 4),
    "tree with replacement": (lambda: ScriptedDrafter(sparse_draft_law, (2,), "replaced"), 2, 4),
    "tree of point masses": (lambda: ScriptedDrafter(draft_law, (2, 2), "top"), 6, 5),
    "draft model": (draft_model, 2, 4),
    "ngram": (lambda: NgramDrafter(min_ngram=1), 3, 5),
    "none": (NoDrafter, 1, 5),
}


@pytest.mark.parametrize("case", CASES)
def test_law_of_sequences_with_penalties_bias_and_top_p(case: str) -> None:
    make_drafter, k, num_tokens = CASES[case]
    target = ScriptedEngine(random_script(V, seed=5), V)
    params = replace(WARPED, max_tokens=num_tokens)
    plain = answer_law(Decoder(target, vocabulary(), NoDrafter()), PROMPT, params)
    law = answer_law(Decoder(target, vocabulary(), make_drafter(), k=k), PROMPT, params)
    assert len(plain) > 2**num_tokens
    assert total_variation(plain, law) < 1e-12
    assert target.num_open == 0


def test_plain_law_is_the_product_of_the_warped_laws() -> None:
    """What all the others are compared with is itself right: the chain rule by hand."""
    target = ScriptedEngine(random_script(V, seed=5), V)
    params = SamplingParams(max_tokens=3, temperature=0.8)
    law = answer_law(Decoder(target, vocabulary(), NoDrafter()), PROMPT, params)
    script = random_script(V, seed=5)
    for answer, probability in law.items():
        expected = 1.0
        for count, token in enumerate(answer):
            logits = script((*PROMPT, *answer[:count])).astype(np.float64)
            expected *= softmax(logits / 0.8)[token]
        assert probability == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("kind", ["sampled", "top"])
def test_law_with_end_of_text_stop_string_and_minimum(kind: Kind) -> None:
    target = ScriptedEngine(random_script(V, seed=6), V)
    params = SamplingParams(max_tokens=4, min_tokens=1, temperature=1.0, stop=("bb",))
    plain = answer_law(Decoder(target, vocabulary(2), NoDrafter()), PROMPT, params)
    drafter = ScriptedDrafter(draft_law, kind=kind)
    law = answer_law(Decoder(target, vocabulary(2), drafter, k=2), PROMPT, params)
    assert total_variation(plain, law) < 1e-12
    assert all(2 not in answer[:-1] for answer in plain)
    endings = {(len(answer), answer[-1:] == (2,)) for answer in plain}
    assert endings >= {(2, True), (4, True), (4, False), (0, False)}, "some endings never happen"


def test_a_measured_length_keeps_the_law() -> None:
    """K that depends on how earlier drafts fared must not tell anything about this one."""
    target = ScriptedEngine(random_script(V, seed=7), V)
    params = SamplingParams(max_tokens=4, temperature=1.0)
    plain = answer_law(Decoder(target, vocabulary(), NoDrafter()), PROMPT, params)
    law = answer_law(Decoder(target, vocabulary(), draft_model(), k="auto"), PROMPT, params)
    assert total_variation(plain, law) < 1e-12


class Boasting(ScriptedDrafter):
    """Point masses whose worth it claims to know, so that its drafts are cut, each elsewhere."""

    def propose(self, requests: Sequence[DraftRequest[Any]]) -> list[Proposal]:
        drafts = super().propose(requests)
        return [
            replace(draft, expected=len(draft) * (0.02 if draft.tokens.sum() % 2 else 0.9))
            if len(draft)
            else draft
            for draft in drafts
        ]


def test_drafts_that_are_cut_keep_the_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left out depends on the draft itself, which is a function of the prefix."""
    sizes: set[tuple[int, int]] = set()

    def noting(lengths: Any, drafts: Sequence[Proposal], besides: Fixed) -> list[Proposal]:
        cut = cut_drafts(lengths, drafts, besides)
        sizes.update((len(draft), len(left)) for draft, left in zip(drafts, cut, strict=True))
        return cut

    monkeypatch.setattr(propose_module, "cut_drafts", noting)
    target = ScriptedEngine(random_script(V, seed=7), V)
    params = SamplingParams(max_tokens=5, temperature=1.0)
    plain = answer_law(Decoder(target, vocabulary(), NoDrafter()), PROMPT, params)
    drafter = Boasting(draft_law, kind="top")
    law = answer_law(Decoder(target, vocabulary(), drafter, k="auto"), PROMPT, params)
    assert total_variation(plain, law) < 1e-12
    assert any(0 < left < whole for whole, left in sizes)
    assert any(left == 0 < whole for whole, left in sizes)


@pytest.mark.parametrize("case", ["chain", "draft model", "tree"])
def test_dead_ends_where_only_the_draft_would_go(case: str) -> None:
    """Nothing is allowed after a 2, which the target never chooses and the draft does."""

    def forbid_after_2(tokens: tuple[int, ...], logits: Float64Array) -> Float64Array:
        return np.full_like(logits, -np.inf) if 2 in tokens[len(PROMPT) :] else logits

    script = random_script(V, seed=5)
    target = ScriptedEngine(lambda prefix: script(prefix) - 9 * (np.arange(V) == 2), V)
    params = SamplingParams(
        max_tokens=3, temperature=1.0, min_p=0.01, logits_processors=(forbid_after_2,)
    )
    plain = answer_law(Decoder(target, vocabulary(), NoDrafter()), PROMPT, params)
    drafter = CASES[case][0]()
    law = answer_law(Decoder(target, vocabulary(), drafter, k=3), PROMPT, params)
    assert all(2 not in answer for answer in plain)
    assert total_variation(plain, law) < 1e-12


class Liar(ScriptedDrafter):
    """Reports another law than it draws from (known fault 1)."""

    name = "liar"

    def propose(self, requests: object) -> list[Proposal]:
        proposals = super().propose(requests)  # type: ignore[arg-type]
        return [
            Proposal(
                p.tokens, p.parents, tuple(np.full(V, 1 / V) for _ in range(len(p))), drafter="liar"
            )
            for p in proposals
        ]


def test_negative_control_a_lying_drafter_is_caught() -> None:
    with pytest.raises(AssertionError, match="changes the law"):
        check_drafter(lambda: Liar(draft_law))


def test_negative_control_keep_if_it_agrees_is_biased(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws afresh from the full law after a mismatch: the classic mistake."""

    def resample(proposal: Proposal, target: TargetLaw, noise: Noise | KeyedNoise) -> Acceptance:
        assert isinstance(noise, Noise)
        path: list[int] = []
        for node, token in enumerate(proposal.tokens):
            if not noise.coin(float(target.probs(node - 1)[token])):
                break
            path.append(node)
        last = path[-1] if path else -1
        return Acceptance(tuple(path), noise.draw(target.probs(last)), "recovered")

    monkeypatch.setattr(step_module, "accept", resample)
    with pytest.raises(AssertionError, match="changes the law"):
        check_drafter(lambda: ScriptedDrafter(draft_law, kind="top"))


def test_negative_control_stale_penalties_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the last token of a pass reaches the penalties (known fault 5)."""
    target = ScriptedEngine(random_script(V, seed=5), V)
    plain = answer_law(Decoder(target, vocabulary(), NoDrafter()), PROMPT, WARPED)

    original = sequence_module.DecodingSequence.deliver

    def deliver(
        self: object, proposal: Proposal, acceptance: Acceptance, law: object, _certain: int
    ) -> object:
        sequence = self
        assert isinstance(sequence, sequence_module.DecodingSequence)
        before = sequence.history.output
        result = original(sequence, proposal, acceptance, law)  # type: ignore[arg-type]
        after = sequence.history.output
        if len(after) > len(before) + 1:
            sequence.history = TokenHistory(sequence.history.prompt, (*before, after[-1]))
        return result

    monkeypatch.setattr(sequence_module.DecodingSequence, "deliver", deliver)
    drafter = ScriptedDrafter(draft_law)
    law = answer_law(Decoder(target, vocabulary(), drafter, k=2), PROMPT, WARPED)
    assert total_variation(plain, law) > 1e-3


def test_check_drafter_passes_for_the_shipped_ones() -> None:
    check_drafter(lambda: NgramDrafter(min_ngram=1))
    check_drafter(draft_model)
    check_drafter(lambda: ScriptedDrafter(sparse_draft_law, (2, 1), "sampled"), k=3)
