"""Constrained answers have exactly the constrained law, with every shape of draft: enumeration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from tests.small_vocabularies import LongestMatch

from oneglance.config import SamplingParams
from oneglance.constraints import Constraint, TokenMask
from oneglance.decode import guidance
from oneglance.decode.guidance import Guide
from oneglance.decode.loop import Decoder
from oneglance.decode.sequence import Vocabulary
from oneglance.drafters.base import Drafter
from oneglance.drafters.cascade import CascadeDrafter
from oneglance.drafters.draft_model import DraftModelDrafter
from oneglance.drafters.lookahead import LookaheadDrafter, LookaheadShape
from oneglance.drafters.ngram import NgramDrafter
from oneglance.drafters.none import GrammarDrafter, NoDrafter
from oneglance.errors import DeadEndError, UnsupportedError
from oneglance.sampling import constraint as constraint_module
from oneglance.sampling.constraint import Grammars
from oneglance.sampling.grammar_mask import GrammarMask
from oneglance.sampling.softmax import softmax
from oneglance.testing import (
    ScriptedDrafter,
    ScriptedEngine,
    answer_law,
    random_script,
    total_variation,
)
from oneglance.types import Float64Array, Proposal

WORDS: list[bytes | str] = [b"a", b"b", b"ab", "<end>"]
V, END = len(WORDS), 3
TABLE = LongestMatch(WORDS, ends=["<end>"])
PROMPT = (0, 1, 2, 0, 1)
SCRIPT, DRAFT_SCRIPT = random_script(V, seed=5), random_script(V, seed=77)
FREE = Constraint.regex("[ab]{1,2}")
"""Nothing in it is certain before its end, so that which tokens are allowed can be told by hand."""
CERTAIN = Constraint.regex("a?baaba(b|a)|bbb(a|b)")
PARAMS = SamplingParams(
    max_tokens=3, temperature=0.9, frequency_penalty=0.3, logit_bias={1: 0.5}, top_p=0.98
)


def draft_law(prefix: tuple[int, ...]) -> Float64Array:
    """Knows nothing of the constraint: it often draws what is forbidden. One token it never draws,
    another one after each prefix."""
    law = softmax(DRAFT_SCRIPT(prefix).astype(np.float64))
    law[len(prefix) % V] = 0.0
    normalised: Float64Array = law / law.sum()
    return normalised


def draft_model() -> DraftModelDrafter:
    return DraftModelDrafter(ScriptedEngine(random_script(V, seed=78), V), vocab_size=V)


def cascade() -> Drafter[Any]:
    return CascadeDrafter(NgramDrafter(1, 2), ScriptedEngine(random_script(V, seed=78), V), V)


DRAFTERS: dict[str, tuple[Callable[[], Drafter[Any]], int | None]] = {
    "grammar": (GrammarDrafter, None),
    "chain": (lambda: ScriptedDrafter(draft_law), None),
    "point masses": (lambda: ScriptedDrafter(draft_law, kind="top"), None),
    "tree": (lambda: ScriptedDrafter(draft_law, (2, 1)), None),
    "tree with replacement": (lambda: ScriptedDrafter(draft_law, (2,), "replaced"), None),
    "tree of point masses": (lambda: ScriptedDrafter(draft_law, (2, 1), "top"), None),
    "ngram": (lambda: NgramDrafter(1, 2), None),
    "draft model": (draft_model, None),
    "draft model's tree": (draft_model, 3),
    "cascade": (cascade, None),
    "lookahead": (lambda: LookaheadDrafter(V, LookaheadShape(1, 2, 1)), None),
}


def decoder(drafter: Drafter[Any], k: int = 2, tree_nodes: int | None = None) -> Decoder:
    target = ScriptedEngine(SCRIPT, V)
    vocabulary = Vocabulary(V, TABLE.eos_ids, TABLE.token_bytes)
    return Decoder(target, vocabulary, drafter, k, tree_nodes, grammars=Grammars(TABLE))


@cache
def plain_law(constraint: Constraint) -> dict[tuple[int, ...], float]:
    return answer_law(decoder(NoDrafter()), PROMPT, replace(PARAMS, constraint=constraint))


def distance(constraint: Constraint, name: str, k: int | None = None) -> float:
    make, tree_nodes = DRAFTERS[name]
    params = replace(PARAMS, constraint=constraint)
    size = (3 if "tree" in name else 2) if k is None else k
    law = answer_law(decoder(make(), size, tree_nodes), PROMPT, params)
    return total_variation(law, plain_law(constraint))


def law_by_hand() -> dict[tuple[int, ...], float]:
    """The law of at most two letters a and b, from the script alone; only a temperature."""

    def grow(output: tuple[int, ...], weight: float, law: dict[tuple[int, ...], float]) -> None:
        letters = sum(len(TABLE.token_bytes(token)) for token in output)
        if output[-1:] == (END,) or len(output) == 3:
            law[output] = weight
            return
        sizes = {0: 1, 1: 1, 2: 2}
        possible = [token for token, size in sizes.items() if letters + size <= 2]
        possible += [END] if letters else []
        weights = np.exp(SCRIPT((*PROMPT, *output)).astype(np.float64)[possible] / 0.9)
        for token, share in zip(possible, weights / weights.sum(), strict=True):
            grow((*output, token), weight * float(share), law)

    law: dict[tuple[int, ...], float] = {}
    grow((), 1.0, law)
    return law


def test_the_constrained_law_is_the_models_own_where_that_is_allowed() -> None:
    params = SamplingParams(max_tokens=3, temperature=0.9, constraint=FREE)
    by_hand = law_by_hand()
    assert total_variation(answer_law(decoder(NoDrafter()), PROMPT, params), by_hand) < 1e-12
    chain = decoder(ScriptedDrafter(draft_law))
    assert total_variation(answer_law(chain, PROMPT, params), by_hand) < 1e-12
    assert len(by_hand) == 7


@pytest.mark.parametrize("constraint", [FREE, CERTAIN], ids=["free", "certain"])
@pytest.mark.parametrize("name", DRAFTERS)
def test_drafts_leave_the_law_alone(name: str, constraint: Constraint) -> None:
    assert distance(constraint, name) < 1e-12


@pytest.mark.parametrize("constraint", [FREE, CERTAIN], ids=["free", "certain"])
@pytest.mark.parametrize("name", DRAFTERS)
def test_greedy_and_seeded_answers_are_those_of_plain_decoding(
    name: str, constraint: Constraint
) -> None:
    make, tree_nodes = DRAFTERS[name]
    prompts = [(*PROMPT, *PROMPT[:more]) for more in range(4)]
    for params in (
        SamplingParams(max_tokens=9),
        *(SamplingParams(max_tokens=9, temperature=1.0, seed=seed) for seed in range(6)),
    ):
        # Constrained and free requests share the passes.
        both = [params if i == 2 else replace(params, constraint=constraint) for i in range(4)]
        plain = decoder(NoDrafter())
        expected = {i: s.tokens for i, s, _ in plain.run(prompts, both)}
        drafted = decoder(make(), 4, tree_nodes)
        found = {i: s.tokens for i, s, _ in drafted.run(prompts, both)}
        for i in range(4):
            assert [(t.token_id, t.logprob) for t in found[i]] == [
                (t.token_id, t.logprob) for t in expected[i]
            ]


def test_certain_tokens_save_passes_and_say_where_they_come_from() -> None:
    params = SamplingParams(constraint=Constraint.choices(["aaaaaaa", "baaaaaa"]))
    plain = list(decoder(NoDrafter()).run([PROMPT], [params]))
    target = decoder(GrammarDrafter())
    drafted = list(target.run([PROMPT], [params]))
    sequence = drafted[-1][1]
    assert len(plain) == 8
    assert len(drafted) == 2
    assert [token.drafter for token in sequence.tokens] == [None, *["grammar"] * 6, None]
    assert [each.num_certain for each in sequence.trace] == [0, 6]
    assert sequence.stats.accepted == sequence.stats.drafted == 6


def test_a_forgotten_rollback_changes_the_law(monkeypatch: pytest.MonkeyPatch) -> None:
    class WithoutRollback(GrammarMask):
        def _go_to(self, output: tuple[int, ...]) -> bool:
            self._tokens = output[: len(self._tokens)]  # as though that were where it stands
            return super()._go_to(output)

    plain_law(FREE)
    monkeypatch.setattr(constraint_module, "GrammarMask", WithoutRollback)
    assert distance(FREE, "chain") > 0.01


def test_a_mask_of_the_root_for_all_rows_changes_the_law(monkeypatch: pytest.MonkeyPatch) -> None:
    class OfTheRoot(GrammarMask):
        def allowed(self, output: tuple[int, ...]) -> Any:
            return super().allowed(output[: len(output) // 2])

    plain_law(FREE)
    monkeypatch.setattr(constraint_module, "GrammarMask", OfTheRoot)
    assert distance(FREE, "chain") > 0.01


def test_leaving_out_what_was_drawn_changes_the_law(monkeypatch: pytest.MonkeyPatch) -> None:
    def cut(self: Guide, draft: Proposal, output: tuple[int, ...]) -> Proposal:
        certain = replace(draft, draft_probs=None)
        kept = whole(self, certain, output)
        laws = draft.draft_probs
        return replace(kept, draft_probs=None if laws is None else laws[: len(kept)])

    whole = Guide._without_forbidden
    monkeypatch.setattr(Guide, "_without_forbidden", cut)
    assert distance(FREE, "chain") > 0.01


def test_certain_tokens_with_the_law_of_others_change_the_law(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def wrong(self: Guide, output: tuple[int, ...], most: int) -> list[int]:
        return right(self, output, most) or ([0] if most > 0 else [])

    right = Guide._certain
    monkeypatch.setattr(Guide, "_certain", wrong)
    monkeypatch.setattr(guidance, "_one_hot", lambda _token, size: np.full(size, 1 / size))
    assert distance(FREE, "chain", k=1) > 0.01


def test_a_dead_end_is_reported_alike() -> None:
    params = SamplingParams(constraint=Constraint.regex("ba"), banned_tokens=(0,))
    for drafter in (NoDrafter(), GrammarDrafter(), NgramDrafter(1, 2)):
        with pytest.raises(DeadEndError, match=r"forbidden at position 1; .* the constraint"):
            list(decoder(drafter).run([PROMPT], [params]))


@pytest.mark.parametrize("name", DRAFTERS)
def test_a_dead_end_off_the_answer_is_nobodys_error(name: str) -> None:
    """The vocabulary lacks x: an answer that begins with aa has no end, and drafts may go there."""
    make, tree_nodes = DRAFTERS[name]
    constraint = Constraint.regex("(aa|abba)x|ab{1,3}|b{1,3}a?")
    num_answers = num_dead_ends = 0
    for seed in range(12):
        params = SamplingParams(temperature=1.0, seed=seed, constraint=constraint)
        try:
            plain = list(decoder(NoDrafter()).run([PROMPT], [params]))[-1][1]
        except DeadEndError:
            num_dead_ends += 1
            with pytest.raises(DeadEndError):
                list(decoder(make(), 4, tree_nodes).run([PROMPT], [params]))
            continue
        drafted = list(decoder(make(), 4, tree_nodes).run([PROMPT], [params]))[-1][1]
        assert drafted.text == plain.text
        num_answers += 1
    assert min(num_answers, num_dead_ends) > 1


def test_a_decoder_without_grammars_refuses_constraints() -> None:
    bare = replace(decoder(NoDrafter()), grammars=None)
    with pytest.raises(UnsupportedError, match="regex cannot be used with a decoder without"):
        bare.check(PROMPT, SamplingParams(constraint=FREE))
    bare.check(PROMPT, SamplingParams())


def test_a_mask_of_ones_own_needs_no_grammars() -> None:
    class Alternating(TokenMask):
        def allowed(self, output: tuple[int, ...]) -> Any:
            return np.arange(V) % 2 == len(output) % 2

    bare = replace(decoder(ScriptedDrafter(draft_law)), grammars=None)
    params = SamplingParams(max_tokens=6, constraint=Alternating())
    tokens = list(bare.run([PROMPT], [params]))[-1][1].tokens
    assert [t.token_id % 2 for t in tokens] == [0, 1, 0, 1, 0, 1][: len(tokens)]
    plain = replace(bare, drafter=NoDrafter())
    assert list(plain.run([PROMPT], [params]))[-1][1].tokens[-1].token_id == tokens[-1].token_id
