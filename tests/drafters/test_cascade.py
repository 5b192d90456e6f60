"""A draft model that is drafted for proposes what it would have drafted alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from oneglance.config import EngineConfig, SamplingParams
from oneglance.drafters.base import (
    DraftContext,
    Drafter,
    DraftHints,
    DraftRequest,
)
from oneglance.drafters.cascade import CascadeDrafter
from oneglance.drafters.draft_model import DraftModelDrafter
from oneglance.drafters.ngram import NgramDrafter
from oneglance.drafters.none import NoDrafter
from oneglance.errors import ParameterError
from oneglance.sampling.noise import KeyedNoise, Noise, SeededNoise, SequentialNoise
from oneglance.testing import (
    ScriptedDrafter,
    ScriptedEngine,
    check_drafter,
    random_script,
    total_variation,
)
from oneglance.types import Float32Array, Float64Array, Proposal
from oneglance.verify.enumeration import enumerate_outcomes
from tests.drafters.scripted_drafts import GREEDY, PROMPT, Recorder, V, begin, peaked, propose

SAMPLED = SamplingParams(temperature=1.0)


def middle(seed: int = 2, vocab_size: int = V) -> ScriptedEngine:
    return ScriptedEngine(random_script(vocab_size, seed), vocab_size)


def cascade(
    inner: Drafter[Any] | None = None,
    engine: ScriptedEngine | None = None,
    min_confidence: float = 0.0,
    vocab_size: int = V,
) -> CascadeDrafter:
    return CascadeDrafter(
        inner or NgramDrafter(min_ngram=1),
        engine or middle(vocab_size=vocab_size),
        vocab_size,
        min_confidence=min_confidence,
    )


def branching(seed: int = 2, vocab_size: int = V) -> ScriptedDrafter:
    """An inner drafter whose proposals are drawn trees."""

    def law(prefix: tuple[int, ...]) -> Float64Array:
        weights = np.exp(random_script(vocab_size, seed)(prefix).astype(np.float64))
        normalized: Float64Array = weights / weights.sum()
        return normalized

    return ScriptedDrafter(law, (2, 1, 1))


INNERS: dict[str, Callable[[], Drafter[Any]]] = {
    "ngram": lambda: NgramDrafter(min_ngram=1),
    "nothing": NoDrafter,
    "same model": lambda: DraftModelDrafter(middle(), V),
    "other model": lambda: DraftModelDrafter(middle(3), V),
    "trees": branching,
    "cascade": lambda: cascade(engine=middle(3)),
}


@pytest.mark.parametrize("min_confidence", [0.0, 0.5])
@pytest.mark.parametrize("noise", [None, SeededNoise(5)])
@pytest.mark.parametrize("inner", INNERS)
def test_the_very_tokens_of_the_draft_model_alone(
    inner: str, noise: SeededNoise | None, min_confidence: float
) -> None:
    """Greedy and with a seed, through acceptances, rejections and tokens of others."""
    params = GREEDY if noise is None else SAMPLED
    drafter = cascade(INNERS[inner](), min_confidence=min_confidence)
    alone = DraftModelDrafter(middle(), V, min_confidence=0.0)
    sessions = begin(drafter, params, noise), begin(alone, params, noise)
    for turn in range(6):
        found = propose(drafter, sessions[0], 5)
        expected = propose(alone, sessions[1], 5).tokens.tolist()
        assert found.tokens.tolist() == expected[: len(found)]
        assert found.draft_probs is None
        assert len(found) == 5 or (min_confidence > 0 and len(found) > 0)
        num_kept = turn % (len(found) + 1)
        decided = [*expected[:num_kept], (expected[num_kept % 5] + turn % 2) % V]
        drafter.observe(sessions[0], decided)
        alone.observe(sessions[1], decided)
    drafter.close(sessions[0])


@pytest.mark.parametrize("inner", ["ngram", "other model", "trees"])
@pytest.mark.parametrize("min_confidence", [0.0, 0.6])
def test_drawn_tokens_have_the_law_that_they_report(inner: str, min_confidence: float) -> None:
    """Their number included: all outcomes of a draft of up to three tokens."""
    size = 2
    inners: dict[str, Callable[[], Drafter[Any]]] = {
        "ngram": lambda: NgramDrafter(min_ngram=1),
        "other model": lambda: DraftModelDrafter(middle(3, size), size),
        "trees": lambda: branching(3, size),
    }

    def run(make: Callable[[], Drafter[Any]], noise: Noise) -> tuple[Any, ...]:
        drafter = make()
        context = DraftContext((0, 1, 0), SAMPLED, noise)
        proposal = drafter.propose([DraftRequest(drafter.start(context), 3)])[0]
        laws = tuple(tuple(np.round(law, 12)) for law in proposal.draft_probs or ())
        return (tuple(proposal.tokens.tolist()), laws)

    def law(make: Callable[[], Drafter[Any]]) -> dict[Any, float]:
        return enumerate_outcomes(lambda noise: run(make, noise))

    alone = law(lambda: DraftModelDrafter(middle(2, size), size, min_confidence=min_confidence))
    found = law(lambda: cascade(inners[inner](), middle(2, size), min_confidence, size))
    lengths = {len(tokens) for tokens, _ in found}
    assert lengths == ({3} if min_confidence == 0 else {2, 3})
    assert total_variation(found, alone) < 1e-12
    for prefix, report in {
        (tokens[:cut], laws[cut][tokens[cut]]): laws[cut]
        for tokens, laws in found
        for cut in range(len(tokens))
    }.items():
        start, _ = prefix
        cut = len(start)
        among = {key: p for key, p in found.items() if key[0][:cut] == start and len(key[0]) > cut}
        mass = sum(among.values())
        for token in range(size):
            share = sum(p for key, p in among.items() if key[0][cut] == token) / mass
            assert share == pytest.approx(report[token], abs=1e-12)


def test_a_batch_is_drafted_in_common_passes() -> None:
    engine = Recorder()
    drafter = cascade(engine=engine)
    sessions = [begin(drafter, prompt=[token, token]) for token in (0, 1, 2)]
    counts = [3, 0, 1]
    requests = [DraftRequest(s, c) for s, c in zip(sessions, counts, strict=True)]
    proposals = drafter.propose(requests)
    assert [len(proposal) for proposal in proposals] == counts
    assert len(engine.calls[0]) == 2
    for session, proposal in zip(sessions, proposals, strict=True):
        alone = cascade()
        single = propose(alone, begin(alone, prompt=session.context.prompt), len(proposal))
        assert single.tokens.tolist() == proposal.tokens.tolist()
    for session in sessions:
        drafter.close(session)
    assert engine.num_open == 2  # kept for the next prompt: those that were fed


def test_a_good_inner_drafter_saves_passes() -> None:
    calls = {}
    for name, inner in (("none", NoDrafter()), ("same", DraftModelDrafter(middle(), V))):
        engine = Recorder()
        drafter = cascade(inner, engine)
        assert len(propose(drafter, begin(drafter), 5)) == 5
        calls[name] = len(engine.calls)
    assert calls == {"none": 5, "same": 2}  # the inner draft stops at its own confidence
    engine = Recorder()
    drafter = cascade(DraftModelDrafter(middle(), V, min_confidence=0.0), engine)
    propose(drafter, begin(drafter), 5)
    assert len(engine.calls) == 1


class Listening(NgramDrafter):
    """Notes what it is told, and begins anew as it cannot rewind."""

    def __init__(self) -> None:
        super().__init__(min_ngram=1)
        self.told: list[list[int]] = []
        self.num_seen = 0

    def start(self, context: DraftContext) -> Any:
        self.told.append([])
        return super().start(context)

    def see(self, session: Any, proposal: Proposal, logits: Float32Array) -> None:
        assert session.tokens
        assert logits.shape == (len(proposal) + 1, V)
        self.num_seen += 1

    def observe(self, session: Any, tokens: Sequence[int]) -> None:
        assert tokens
        super().observe(session, tokens)
        self.told[-1].extend(tokens)


def test_the_inner_drafter_knows_what_was_decided_and_no_more() -> None:
    inner = Listening()
    drafter = cascade(inner)
    session = begin(drafter)
    decided: list[int] = []
    for turn in range(5):
        proposal = propose(drafter, session, 4).tokens.tolist()
        right = proposal[: turn % 4]
        new = [*right, (proposal[len(right)] + 1) % V]
        drafter.observe(session, new)
        decided += new
        assert inner.told[-1] == [*PROMPT, *decided]
        assert session.inner.tokens == [*PROMPT, *decided]
    assert len(inner.told) > 1, "it was never begun anew"
    assert inner.num_seen > 5


def test_rewinding_forgets_in_every_part() -> None:
    inner = DraftModelDrafter(middle(3), V)
    drafter = cascade(inner)
    session = begin(drafter)
    first = propose(drafter, session, 4).tokens.tolist()
    drafter.observe(session, [*first[:2], 0])
    propose(drafter, session, 4)
    drafter.rewind(session, 2)
    assert session.tokens == session.inner.tokens == [*PROMPT, first[0]]
    assert session.history.output == session.inner.history.output == (first[0],)
    drafter.observe(session, [1])
    fresh = cascade(DraftModelDrafter(middle(3), V))
    other = begin(fresh)
    fresh.observe(other, [first[0], 1])
    assert propose(drafter, session, 4).tokens.tolist() == propose(fresh, other, 4).tokens.tolist()


def test_rows_of_the_middle_model_are_fed_once() -> None:
    engine = Recorder()
    drafter = cascade(NoDrafter(), engine)
    session = begin(drafter)
    first = propose(drafter, session, 3).tokens.tolist()
    assert engine.calls == [[(0, [3, 1, 4, 1])], [(4, first[:1])], [(5, first[1:2])]]
    engine.calls.clear()
    drafter.observe(session, [*first[:2], (first[2] + 1) % V])
    propose(drafter, session, 1)
    assert engine.calls == [[(6, [(first[2] + 1) % V])]]


def test_ends_with_end_of_text() -> None:
    """Also where the inner drafter and a pass of the middle model go beyond it."""
    alone = DraftModelDrafter(middle(), V, min_confidence=0.0)
    tokens = propose(alone, begin(alone), 5).tokens.tolist()
    eos = tokens[2]
    count = tokens.index(eos) + 1
    engine = middle()
    # The inner drafter does not know the end, hence goes on.
    drafter = cascade(branching(), engine)
    session = begin(drafter, eos_ids=frozenset({eos}))
    assert propose(drafter, session, 5).tokens.tolist() == tokens[:count]
    drafter.observe(session, [*tokens[: count - 1], (eos + 1) % V])
    assert session.cache.cached[: 4 + count - 1] == (*PROMPT, *tokens[: count - 1])


@pytest.mark.parametrize(("context_length", "expected"), [(4, 1), (5, 2), (6, 3), (3, 0)])
def test_the_context_of_the_middle_model_bounds_the_draft(
    context_length: int, expected: int
) -> None:
    inner = DraftModelDrafter(middle(), V, min_confidence=0.0)
    drafter = cascade(inner, Recorder(context_length=context_length))
    assert len(propose(drafter, begin(drafter), 3)) == expected


@pytest.mark.parametrize(
    ("count", "tree_nodes", "expected"), [(0, None, 0), (1, None, 1), (4, 2, 2), (4, 0, 0)]
)
def test_stays_within_its_budget(count: int, tree_nodes: int | None, expected: int) -> None:
    drafter = cascade()
    assert len(propose(drafter, begin(drafter), count, tree_nodes)) == expected


def test_stops_where_its_confidence_falls_and_keeps_the_token() -> None:
    for noise in (None, SequentialNoise(1), SeededNoise(1)):
        params = GREEDY if noise is None else SAMPLED
        drafter = cascade(engine=peaked(0, 1), min_confidence=0.8)
        proposal = propose(drafter, begin(drafter, params, noise), 9)
        reach, expected = 1.0, 0.0
        for depth, token in enumerate(proposal.tokens.tolist()):
            assert reach >= 0.8
            probability = 0.9 if token == depth % 2 else 0.025
            reach *= probability if noise is None else (1 + probability) / 2
            expected += reach
        assert reach < 0.8
        assert proposal.expected == pytest.approx(expected, rel=1e-5)


def forbidding(after: int) -> SamplingParams:
    """Nothing may follow a certain token of the answer."""

    def processor(tokens: tuple[int, ...], logits: Float64Array) -> Float64Array:
        is_dead = len(tokens) > len(PROMPT) and tokens[-1] == after
        return np.full_like(logits, -np.inf) if is_dead else logits

    return SamplingParams(temperature=1.0, logits_processors=(processor,))


@pytest.mark.parametrize("inner", ["ngram", "same model", "trees"])
@pytest.mark.parametrize("seed", [None, 3])
def test_a_draft_ends_where_nothing_is_allowed(inner: str, seed: int | None) -> None:
    params = forbidding(after=4)
    lengths = set()
    for run in range(12):
        noise: Noise | KeyedNoise = (
            SequentialNoise(run) if seed is None else SeededNoise(seed + run)
        )
        drafter = cascade(INNERS[inner]())
        tokens = propose(drafter, begin(drafter, params, noise), 4).tokens.tolist()
        assert 4 not in tokens[:-1]
        assert len(tokens) == 4 or tokens[-1] == 4
        lengths.add(len(tokens))
    assert len(lengths) > 1


def test_where_nothing_at_all_is_allowed_nothing_is_drafted() -> None:
    params = SamplingParams(banned_tokens=tuple(range(V)))
    drafter = cascade()
    assert len(propose(drafter, begin(drafter, params), 3)) == 0


@pytest.mark.parametrize("width", [3, 8])
@pytest.mark.parametrize("params", [GREEDY, SAMPLED])
def test_padding_of_the_middle_models_matrix_is_never_drafted(
    width: int, params: SamplingParams
) -> None:
    script = random_script(width, 4)
    engine = ScriptedEngine(lambda prefix: script(prefix) + 10 * (np.arange(width) > 3), width)
    drafter = CascadeDrafter(NgramDrafter(min_ngram=1), engine, 4, min_confidence=0.0)
    session = begin(drafter, params, prompt=[0, 1, 0])
    proposal = propose(drafter, session, 6)
    assert len(proposal) == 6
    assert max(proposal.tokens) < min(4, width)
    assert all(law.shape == (4,) for law in proposal.draft_probs or ())


def test_hints_are_for_the_inner_drafter_to_judge() -> None:
    with pytest.raises(ParameterError, match="The drafter ngram makes no use of a prediction"):
        cascade().check(DraftHints(prediction=(1,)))
    with pytest.raises(ParameterError, match="min_confidence = "):
        cascade(min_confidence=2.0)


def test_the_configuration_is_used() -> None:
    engine = Recorder()
    config = EngineConfig(prefill_chunk=3, kept_prefixes=1)
    drafter = CascadeDrafter(NoDrafter(), engine, V, engine_config=config)
    for token in (1, 2):
        session = begin(drafter, prompt=[token, 0, 0, 0])
        propose(drafter, session, 1)
        drafter.close(session)
    assert engine.calls[:2] == [[(0, [1])], [(1, [0, 0, 0])]]
    assert engine.num_open == 1


# Exactness.


@pytest.mark.parametrize("inner", ["ngram", "model", "cascade"])
def test_exact(inner: str) -> None:
    def make() -> CascadeDrafter:
        inners: dict[str, Callable[[], Drafter[Any]]] = {
            "ngram": lambda: NgramDrafter(min_ngram=1),
            "model": lambda: DraftModelDrafter(middle(8, 2), 2),
            "cascade": lambda: cascade(engine=middle(7, 2), vocab_size=2),
        }
        return cascade(inners[inner](), middle(9, 2), 0.6, vocab_size=2)

    check_drafter(make, vocab_size=2, k=3, seeds=(0,))


def test_exact_with_a_budget_of_nodes() -> None:
    check_drafter(lambda: cascade(engine=middle(9, 3), vocab_size=3), k=2, seeds=(0,), tree_nodes=2)


class OnlyAccepted(CascadeDrafter):
    """Proposes what was accepted of the inner drafter's tokens, and none of the middle model's."""

    def _step(self, drafts: Sequence[Any]) -> None:
        super()._step(drafts)
        for draft in drafts:
            draft.is_complete = True
            for results in (draft.tokens, draft.reaches, draft.laws):
                del results[-1:]


def test_a_length_that_tells_of_the_acceptance_is_caught() -> None:
    def faulty() -> OnlyAccepted:
        inner = DraftModelDrafter(middle(8, 2), 2, min_confidence=0.0)
        return OnlyAccepted(inner, middle(9, 2), 2, min_confidence=0.0)

    with pytest.raises(AssertionError, match="changes the law"):
        check_drafter(faulty, vocab_size=2, k=2, seeds=(0,))
