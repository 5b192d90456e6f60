"""The search between passes: what it looks at, what it costs, and that it leaves no trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from oneglance.config import EngineConfig, SamplingParams
from oneglance.decode.loop import Decoder
from oneglance.decode.sequence import Vocabulary
from oneglance.drafters.base import DraftContext, DraftRequest
from oneglance.drafters.layer_search import Agreement, Layers, LayerSearch
from oneglance.drafters.none import NoDrafter
from oneglance.drafters.self_skip import TIME_SHARE, WINDOW, SearchingDrafter
from oneglance.engine.base import Batch, Engine, PassLayers, PassOutput, TreeRows
from oneglance.engine.reference import ReferenceEngine
from oneglance.sampling.noise import SequentialNoise
from tests.engine.passes import append, random_tokens
from tests.engine.random_models import random_model

NUM_LAYERS = 4
PROMPTS = [random_tokens(seed, 4) for seed in range(5)]
VOCABULARY = Vocabulary(97, frozenset(), lambda token: bytes([token]))


class Clock:
    """Time that passes a second a pass of the engine."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class TimedEngine(ReferenceEngine):
    """Notes which layers its passes leave out, of how many rows, and takes a second for each."""

    def __init__(self, clock: Clock, num_pages: int | None = None) -> None:
        config, weights = random_model(3, num_layers=NUM_LAYERS)
        super().__init__(config, weights, EngineConfig(page_size=4, num_pages=num_pages))
        self.passes: list[tuple[Layers, int]] = []
        self._clock = clock

    def forward(self, batch: Batch) -> PassOutput:
        self._clock.now += 1.0
        output = super().forward(batch)
        self.passes.append((batch.skipped_layers, len(batch.trees[0].tokens)))
        return output


class Scripted(LayerSearch):
    """A search that notes what it learns and changes its mind at once."""

    def __init__(self) -> None:
        super().__init__((1,), NUM_LAYERS, 0.2)
        self.agreements: list[float] = []
        self.num_texts = 0

    def begin_text(self) -> None:
        self.num_texts += 1

    def advance(self, agreement: Agreement) -> None:
        self.agreements.append(agreement((2,)))
        self.best = (2,)


def run(
    engine: Engine, drafter: SearchingDrafter | NoDrafter, prompts: Sequence[Sequence[int]]
) -> list[list[int]]:
    params = [SamplingParams(max_tokens=90)] * len(prompts)
    sequences = {
        index: sequence
        for index, sequence, _ in Decoder(engine, VOCABULARY, drafter, k=2).run(prompts, params)
    }
    return [[token.token_id for token in sequences[i].tokens] for i in range(len(prompts))]


def searching(
    search: LayerSearch, clock: Clock, num_pages: int | None = None
) -> tuple[TimedEngine, SearchingDrafter]:
    engine = TimedEngine(clock, num_pages)
    return engine, SearchingDrafter(engine, 97, search, clock=clock)


def test_answers_are_the_same_and_nothing_stays_open() -> None:
    engine, drafter = searching(LayerSearch((1,), NUM_LAYERS, 0.2), Clock())
    expected = run(engine, NoDrafter(), PROMPTS)
    assert run(engine, drafter, PROMPTS) == expected
    assert [run(engine, drafter, [prompt])[0] for prompt in PROMPTS[:1]] == expected[:1]
    assert not engine._book._evaluated, "a sequence was left open"
    assert any(rows == WINDOW for _, rows in engine.passes), "there was no search"


def test_the_search_takes_its_share_of_the_time_and_no_more() -> None:
    clock = Clock()
    engine, drafter = searching(Scripted(), clock)
    run(engine, drafter, PROMPTS[:1])
    spent = sum(rows == WINDOW for _, rows in engine.passes)
    assert 2 <= spent <= TIME_SHARE * clock.now


def test_it_drafts_with_what_it_has_found() -> None:
    engine, drafter = searching(Scripted(), Clock())
    run(engine, drafter, PROMPTS[:1])
    drafts = [skipped for skipped, rows in engine.passes if skipped and rows == 1]
    assert drafts == sorted(drafts), "it went back"
    assert {(1,), (2,)} == set(drafts)


def test_a_text_is_the_tokens_generated_last() -> None:
    search = Scripted()
    engine, drafter = searching(search, Clock())
    answer = run(engine, drafter, PROMPTS[:1])[0]
    tokens = [*PROMPTS[0], *answer]

    def agreement_at(end: int) -> float:
        """Of the window before `end`, by a pass of its own."""
        sequence = engine.open()
        append(engine, sequence, tokens[: end - 1 - WINDOW])
        rows = TreeRows.chain(sequence, tokens[end - 1 - WINDOW : end - 1])
        batch = Batch.through(PassLayers(skipped_layers=(2,)), [rows])
        said = engine.forward(batch).logits[0].argmax(axis=1)
        return float(np.mean(said == np.array(tokens[end - WINDOW : end])))

    assert search.num_texts >= 2
    first = search.agreements[0]
    # The first text ends where the answer had as many tokens, or one or two more, with the pass.
    ends = range(len(PROMPTS[0]) + WINDOW, len(PROMPTS[0]) + WINDOW + 3)
    assert any(first == agreement_at(end) for end in ends)


def test_a_full_cache_postpones_the_search() -> None:
    pages = -(-(len(PROMPTS[0]) + 90 + 3) // 4)
    engine, drafter = searching(Scripted(), Clock(), num_pages=pages)
    assert len(run(engine, drafter, PROMPTS[:1])[0]) == 90
    assert len(run(engine, drafter, PROMPTS[:1])[0]) == 90


def test_time_between_requests_does_not_count() -> None:
    clock = Clock()
    search = Scripted()
    engine, drafter = searching(search, clock)
    run(engine, drafter, PROMPTS[:1])
    spent, busy = len(search.agreements), clock.now
    clock.now += 1e6
    run(engine, drafter, PROMPTS[:1])
    assert len(search.agreements) - spent <= TIME_SHARE * 2 * busy


@pytest.mark.parametrize("has_sequence", [True, False])
def test_a_cache_of_its_own_keeps_its_layers(has_sequence: bool) -> None:
    engine, drafter = searching(search := Scripted(), Clock())
    open_sequence: Callable[[], int | None] = engine.open if has_sequence else lambda: None
    context = DraftContext(
        tuple(PROMPTS[0]), SamplingParams(), SequentialNoise(0), sequence=open_sequence()
    )
    session = drafter.start(context)
    assert search.is_done != has_sequence
    if not has_sequence:
        drafter.observe(session, random_tokens(9, 2 * WINDOW))
        assert len(drafter.propose([DraftRequest(session, 3)])[0]) >= 1
        assert search.best == (1,)
