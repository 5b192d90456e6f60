"""A part of the target drafts on the target's own cache, and leaves it as it was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from oneglance.config import EngineConfig, SamplingParams
from oneglance.decode.loop import Decoder
from oneglance.decode.sequence import Vocabulary
from oneglance.drafters.base import DraftContext, DraftRequest
from oneglance.drafters.draft_model import DraftModelSession
from oneglance.drafters.none import NoDrafter
from oneglance.drafters.self_part import PartDrafter
from oneglance.engine.base import PassLayers, SequenceId
from oneglance.engine.cached import CachedEngine
from oneglance.engine.factory import make_engine
from oneglance.engine.native import is_available
from oneglance.sampling.noise import SequentialNoise
from oneglance.testing import check_drafter_on
from oneglance.types import Proposal
from tests.engine.passes import append, opened, random_tokens
from tests.engine.random_models import random_model

SHAPE = {"hidden_size": 64, "head_dim": 16, "intermediate_size": 96, "num_layers": 5}
V = 97
LAW_SHAPE = {"vocab_size": 3, "hidden_size": 32, "num_heads": 2, "num_kv_heads": 1}
PARTS = {"skip": PassLayers(skipped_layers=(1, 3)), "exit": PassLayers(num_layers=3)}
TOKENS = random_tokens(1, 9)
KINDS = ("reference", "native") if is_available() else ("reference",)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=list(PARTS.values()), ids=list(PARTS))
def layers(request: pytest.FixtureRequest) -> PassLayers:
    value = request.param
    assert isinstance(value, PassLayers)
    return value


def engine_of(kind: Any, context_length: int = 64, **overrides: Any) -> CachedEngine:
    shape = SHAPE | {"context_length": context_length} | overrides
    config, weights = random_model(3, **shape)
    engine = make_engine(config, weights, EngineConfig(page_size=4, kind=kind, num_threads=1))
    assert isinstance(engine, CachedEngine)
    return engine


def whole_drafts(engine: CachedEngine, layers: PassLayers) -> PartDrafter:
    """A drafter that does not stop before it must."""
    return PartDrafter(engine, V, layers, min_confidence=0.0)


def begin(
    drafter: PartDrafter,
    sequence: SequenceId | None,
    tokens: Sequence[int] = TOKENS,
    temperature: float = 0.0,
    eos_ids: frozenset[int] = frozenset(),
) -> DraftModelSession:
    params = SamplingParams(temperature=temperature)
    return drafter.start(
        DraftContext(tuple(tokens), params, SequentialNoise(3), eos_ids, sequence=sequence)
    )


def propose(
    drafter: PartDrafter, session: DraftModelSession, count: int, nodes: int | None = None
) -> Proposal:
    return drafter.propose([DraftRequest(session, count, nodes)])[0]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("nodes", [None, 6], ids=["chain", "tree"])
def test_the_targets_cache_is_as_before(
    kind: str, layers: PassLayers, temperature: float, nodes: int | None
) -> None:
    """Length, pages and every later bit; also of the sequence that shares the last page."""
    engine, untouched = engine_of(kind), engine_of(kind)
    sequence, other = opened(engine, TOKENS[:-1]), opened(untouched, TOKENS[:-1])
    sibling = engine.fork(sequence)
    pages = engine._book.pages(sequence)
    drafter = whole_drafts(engine, layers)
    session = begin(drafter, sequence, temperature=temperature)
    assert len(propose(drafter, session, 5, nodes)) >= (nodes or 5)
    assert engine.length(sequence) == len(TOKENS) - 1
    assert engine._book.pages(sequence)[: len(pages) - 1] == pages[:-1]
    drafter.close(session)
    later = random_tokens(2, 7)
    expected = append(untouched, other, later)
    np.testing.assert_array_equal(append(engine, sequence, later), expected)
    np.testing.assert_array_equal(append(engine, sibling, later), expected)


def test_it_reads_what_the_whole_model_wrote(kind: str, layers: PassLayers) -> None:
    """The first draft token follows from the target's keys and values, not from the part's own."""
    engine = engine_of(kind)
    drafter = whole_drafts(engine, layers)
    differ = []
    for seed in range(8):
        tokens = random_tokens(seed, 9)
        shared = begin(drafter, opened(engine, tokens[:-1]), tokens)
        own = begin(drafter, None, tokens)
        differ.append(propose(drafter, shared, 1).tokens[0] != propose(drafter, own, 1).tokens[0])
    # An early exit reads layers that are the same in either case; skipped layers are missed.
    assert any(differ) == bool(layers.skipped_layers)


@pytest.mark.parametrize("nodes", [None, 4], ids=["chain", "tree"])
def test_answers_and_their_law_stay_the_targets(layers: PassLayers, nodes: int | None) -> None:
    engine = engine_of("auto", **LAW_SHAPE)
    drafter = PartDrafter(engine, 3, layers, min_confidence=0.0)
    check_drafter_on(engine, drafter, 3, num_tokens=2, tree_nodes=nodes)
    assert not engine._book._evaluated, "a sequence was left open"


def test_limits_of_a_draft(layers: PassLayers) -> None:
    engine = engine_of("reference", context_length=12)
    drafter = whole_drafts(engine, layers)
    session = begin(drafter, opened(engine, TOKENS[:-1]))
    assert len(propose(drafter, session, 0)) == 0
    first = propose(drafter, session, 1)
    assert len(first) == 1
    assert len(propose(drafter, session, 9)) == 12 - len(TOKENS) + 1, "the context has no more"
    ending = frozenset(first.tokens.tolist())
    session = begin(drafter, opened(engine, TOKENS[:-1]), eos_ids=ending)
    assert propose(drafter, session, 4).tokens.tolist() == first.tokens.tolist()


def test_a_draft_stops_where_its_confidence_falls() -> None:
    engine = engine_of("reference")
    drafter = PartDrafter(engine, V, PARTS["skip"], min_confidence=0.9)
    session = begin(drafter, opened(engine, TOKENS[:-1]))
    assert len(propose(drafter, session, 5)) == 1


def test_answers_to_the_end_of_the_context(kind: str, layers: PassLayers) -> None:
    engine = engine_of(kind, context_length=24)
    vocabulary = Vocabulary(V, frozenset(), lambda token: bytes([token]))
    params = [SamplingParams(max_tokens=None)] * 5
    prompts = [TOKENS[: 3 + more] for more in range(5)]
    answers = []
    for drafter in (whole_drafts(engine, layers), NoDrafter()):
        sequences = {
            index: sequence
            for index, sequence, _ in Decoder(engine, vocabulary, drafter).run(prompts, params)
        }
        answers.append([[token.token_id for token in sequences[i].tokens] for i in range(5)])
        assert [len(answer) for answer in answers[-1]] == [24 - len(prompt) for prompt in prompts]
    assert answers[0] == answers[1]
