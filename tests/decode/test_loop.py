"""Requests are refused before work starts, and whatever ends a run leaves nothing open."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from tests.engine.random_models import random_model

from oneglance.config import EngineConfig, SamplingParams
from oneglance.control.controller import cut_drafts
from oneglance.control.length import Control
from oneglance.decode import sequence as sequence_module
from oneglance.decode import step as step_module
from oneglance.decode.loop import Decoder
from oneglance.decode.sequence import DecodingSequence, Vocabulary
from oneglance.decode.watch import SeenPass
from oneglance.drafters.base import DraftContext, Drafter, DraftHints, DraftRequest
from oneglance.drafters.draft_model import DraftModelDrafter, DraftModelSession
from oneglance.drafters.ngram import NgramDrafter
from oneglance.drafters.none import NoDrafter
from oneglance.engine.base import Batch, PassOutput
from oneglance.engine.prefix import PrefixStore
from oneglance.engine.reference import ReferenceEngine
from oneglance.errors import CapacityError, ParameterError
from oneglance.testing import ScriptedDrafter, ScriptedEngine, random_script
from oneglance.types import Float64Array, Proposal

V = 5
SCRIPT = random_script(V, seed=1)
PROMPTS = ((0, 1, 2, 3), (4, 3, 2), (1, 1, 1, 1, 1))
VOCABULARY = Vocabulary(V, frozenset(), lambda token: bytes([97 + token]))
GREEDY = SamplingParams(max_tokens=12)


class Failing(ScriptedEngine):
    """Raises an error in a given pass, of which it has evaluated everything."""

    def __init__(self, failing_pass: int, error: BaseException, seed: int = 1) -> None:
        super().__init__(random_script(V, seed), V)
        self._failing_pass = failing_pass
        self._error = error

    def forward(self, batch: Batch) -> PassOutput:
        output = super().forward(batch)
        if self.num_passes == self._failing_pass:
            raise self._error
        return output


def answers(
    decoder: Decoder,
    prompts: Sequence[Sequence[int]] = PROMPTS,
    params: Sequence[SamplingParams] | None = None,
) -> list[list[int]]:
    results: dict[int, DecodingSequence] = {}
    for index, sequence, _ in decoder.run(prompts, params or [GREEDY] * len(prompts)):
        results[index] = sequence
    return [[t.token_id for t in results[index].tokens] for index in range(len(prompts))]


PLAIN = answers(Decoder(ScriptedEngine(SCRIPT, V), VOCABULARY, NoDrafter()))


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError()])
@pytest.mark.parametrize("failing_pass", range(1, 8))
def test_an_error_of_the_target_leaves_nothing_open(
    failing_pass: int, error: BaseException
) -> None:
    """Within a prompt (the first three passes or more) or within a pass of several sequences."""
    target = Failing(failing_pass, error)
    draft = ScriptedEngine(random_script(V, seed=2), V)
    drafter = DraftModelDrafter(draft, V)
    prefixes = PrefixStore(target, 4)
    decoder = Decoder(target, VOCABULARY, drafter, k=3, prefixes=prefixes)
    with pytest.raises(type(error)):
        answers(decoder)
    assert target.num_open == 0, "an interrupted sequence was kept"
    assert draft.num_open <= EngineConfig().num_kept_prefixes
    assert answers(decoder) == PLAIN


@pytest.mark.parametrize("failing_pass", range(1, 12))
def test_an_interrupted_draft_leaves_a_cache_that_is_true(failing_pass: int) -> None:
    """What is kept of a draft interrupted within `propose` serves the next request rightly."""
    draft = Failing(failing_pass, KeyboardInterrupt(), seed=2)
    drafter = DraftModelDrafter(draft, V, engine_config=EngineConfig(prefill_chunk=1))
    target = ScriptedEngine(SCRIPT, V)
    decoder = Decoder(target, VOCABULARY, drafter, k=3)
    with pytest.raises(KeyboardInterrupt):
        answers(decoder)
    assert target.num_open == 0
    fresh = DraftModelDrafter(ScriptedEngine(random_script(V, seed=2), V), V)
    traces = []
    for each in (drafter, fresh):
        results = list(Decoder(target, VOCABULARY, each, k=3).run(PROMPTS, [GREEDY] * 3))
        traces.append([delivery.trace for _, _, delivery in results])
    assert traces[0] == traces[1]


class Fussy(NgramDrafter):
    """Counts its sessions, and cannot start, or close, the one of a given prompt."""

    def __init__(self, bad: tuple[int, ...] = (), bad_close: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.num_open = 0
        self._bad = bad
        self._bad_close = bad_close

    def start(self, context: DraftContext) -> Any:
        if context.prompt == self._bad:
            raise MemoryError("no room to draft")
        self.num_open += 1
        return super().start(context)

    def close(self, session: Any) -> None:
        self.num_open -= 1
        if tuple(session.tokens[: len(self._bad_close)]) == self._bad_close != ():
            raise MemoryError("cannot close")


def test_a_drafter_that_cannot_start_leaves_nothing_open() -> None:
    for bad in PROMPTS:
        target = ScriptedEngine(SCRIPT, V)
        drafter = Fussy(bad)
        with pytest.raises(MemoryError, match="no room"):
            answers(Decoder(target, VOCABULARY, drafter))
        assert target.num_open == drafter.num_open == 0


@pytest.mark.parametrize("num_pieces", [1, 2, 40])
def test_a_drafter_that_cannot_close_leaves_nothing_open(num_pieces: int) -> None:
    """Closed by the caller after a few pieces, or at the end of an answer."""
    for bad in PROMPTS:
        target = ScriptedEngine(SCRIPT, V)
        drafter = Fussy(bad_close=bad)
        running = Decoder(target, VOCABULARY, drafter).run(PROMPTS, [GREEDY] * 3)
        with pytest.raises(MemoryError, match="cannot close"):  # noqa: PT012
            for _ in range(num_pieces):
                next(running)
            running.close()
        assert target.num_open == drafter.num_open == 0


def test_closing_after_any_piece_frees_everything_and_keeps_what_has_ended() -> None:
    params = [SamplingParams(max_tokens=count) for count in (3, 9, 6)]
    target = ScriptedEngine(SCRIPT, V)
    whole = list(Decoder(target, VOCABULARY, NoDrafter()).run(PROMPTS, params))
    for num_pieces in range(1, len(whole)):
        target = ScriptedEngine(SCRIPT, V)
        drafter = Fussy()
        prefixes = PrefixStore(target, 8)
        running = Decoder(target, VOCABULARY, drafter, prefixes=prefixes).run(PROMPTS, params)
        sequences = {}
        for _ in range(num_pieces):
            index, sequences[index], delivery = next(running)
            assert delivery.trace.next_token is not None
        running.close()
        assert drafter.num_open == 0
        assert target.num_open == sum(s.ending is not None for s in sequences.values())
        prefixes.clear()
        assert target.num_open == 0


def test_a_cache_that_fills_up_in_the_middle_is_usable_afterwards() -> None:
    """Three answers of 24 tokens do not fit 12 pages of 4; one does."""
    config, weights = random_model(seed=1)
    engine = ReferenceEngine(config, weights, EngineConfig(page_size=4, num_pages=12))
    words = Vocabulary(config.vocab_size, frozenset(), lambda _: b"x")
    params = SamplingParams(max_tokens=24)
    for drafter in (NoDrafter(), NgramDrafter(min_ngram=1)):
        decoder = Decoder(engine, words, drafter, k=3)
        running = decoder.run([[1, 2, 3], [4, 5], [6, 6, 6]], [params] * 3)
        assert next(running)[0] == 0
        with pytest.raises(CapacityError, match="num_pages"):
            list(running)
        # All pages are free again: this answer needs each of the twelve.
        [answer] = answers(decoder, [[1, 2, 3]], [SamplingParams(max_tokens=45)])
        assert len(answer) == 45


def test_an_error_of_one_request_ends_all_and_leaves_nothing_open() -> None:
    def fails_late(tokens: tuple[int, ...], logits: Float64Array) -> Float64Array:
        return logits if len(tokens) < 8 else np.zeros(3)

    bad = SamplingParams(max_tokens=12, logits_processors=(fails_late,))
    for position in range(3):
        params = [GREEDY] * 3
        params[position] = bad
        target = ScriptedEngine(SCRIPT, V)
        decoder = Decoder(target, VOCABULARY, NgramDrafter(), prefixes=PrefixStore(target, 2))
        with pytest.raises(ParameterError, match="'fails_late' returned an array of shape"):
            answers(decoder, params=params)
        assert target.num_open == 0
        assert answers(decoder) == PLAIN


@pytest.mark.parametrize(
    ("prompt", "params", "k", "message"),
    [
        ((), GREEDY, 3, "no tokens"),
        ((0, V), GREEDY, 3, f"token id {V}; ids must be below {V}"),
        ((-1,), GREEDY, 3, "token id -1"),
        ((0,), SamplingParams(banned_tokens=(V,)), 3, f"banned_tokens = {V}"),
        ((0,), SamplingParams(logit_bias={V: 1.0}), 3, "logit_bias"),
        ((0,), GREEDY, 0, "k = 0 cannot be used"),
    ],
)
def test_one_bad_request_is_refused_before_any_work(
    prompt: tuple[int, ...], params: SamplingParams, k: int, message: str
) -> None:
    target = ScriptedEngine(SCRIPT, V)
    decoder = Decoder(target, VOCABULARY, NgramDrafter(), k=k)
    with pytest.raises(ParameterError, match=message):
        decoder.check(prompt, params)
    with pytest.raises(ParameterError, match=message):
        answers(decoder, [(0, 1), prompt], [GREEDY, params])
    assert target.num_passes == target.num_open == 0


def test_a_kept_prefix_is_fed_once() -> None:
    target = ScriptedEngine(SCRIPT, V)
    decoder = Decoder(target, VOCABULARY, NoDrafter(), prefixes=PrefixStore(target, 1))
    [first] = answers(decoder, PROMPTS[:1])
    target.num_rows = 0
    turn = (*PROMPTS[0], *first, 3, 3)
    [second] = answers(decoder, [turn], [SamplingParams(max_tokens=1)])
    # The answer's last token was never fed; with it the two new ones.
    assert target.num_rows == 3
    fresh = Decoder(ScriptedEngine(SCRIPT, V), VOCABULARY, NoDrafter())
    assert [second] == answers(fresh, [turn], [SamplingParams(max_tokens=1)])


def test_a_kept_prefix_serves_its_own_tenant_alone() -> None:
    """Else the time to the first token would tell one tenant what another has asked."""
    target = ScriptedEngine(SCRIPT, V)
    decoder = Decoder(target, VOCABULARY, NoDrafter(), prefixes=PrefixStore(target, 8))
    prompt = [4, 3, 2, 1, 0, 1, 2, 3]
    one = [SamplingParams(max_tokens=1)]
    num_rows = []
    for tenant in ("a", "b", "a", "b", ""):
        target.num_rows = 0
        for _ in decoder.run([prompt], one, [DraftHints(tenant=tenant)]):
            pass
        num_rows.append(target.num_rows)
    whole, last = len(prompt), 1
    assert num_rows == [whole, whole, last, last, whole]


@pytest.mark.parametrize("chunk", [1, 2, 3, 100])
def test_prompts_are_fed_in_chunks(chunk: int) -> None:
    rows: list[int] = []

    class Noting(ScriptedEngine):
        def forward(self, batch: Batch) -> PassOutput:
            rows.append(len(batch.trees[0].tokens))
            return super().forward(batch)

    target = Noting(SCRIPT, V)
    config = EngineConfig(prefill_chunk=chunk)
    decoder = Decoder(target, VOCABULARY, NoDrafter(), engine_config=config)
    [answer] = answers(decoder, [(0, 1, 2, 3, 4)], [SamplingParams(max_tokens=1)])
    full, rest = divmod(4, chunk)
    assert rows == [chunk] * full + [rest] * (rest > 0) + [1]
    assert answer == [int(np.argmax(SCRIPT((0, 1, 2, 3, 4))))]


def test_the_drafter_is_told_what_the_target_knows() -> None:
    contexts: list[DraftContext] = []

    class Noting(DraftModelDrafter):
        def start(self, context: DraftContext) -> DraftModelSession:
            contexts.append(context)
            return super().start(context)

    eos_ids = frozenset({2, 4})
    words = Vocabulary(V, eos_ids, VOCABULARY.token_bytes)
    drafter = Noting(ScriptedEngine(SCRIPT, V), V)
    decoder = Decoder(ScriptedEngine(SCRIPT, V), words, drafter)
    for ignore_eos in (False, True):
        params = SamplingParams(max_tokens=4, seed=3, temperature=1.0, ignore_eos=ignore_eos)
        sequence = decoder.begin(PROMPTS[0], params)
        context = contexts.pop()
        assert (context.prompt, context.params) == (PROMPTS[0], params)
        assert context.noise is sequence.noise
        assert context.eos_ids == (frozenset() if ignore_eos else eos_ids)
        decoder.end(sequence)


def test_each_request_has_its_own_draft_length() -> None:
    """A request whose drafts fail does not shorten those of its neighbour."""
    control = Control.without_a_clock(row_share=0.4)
    target = ScriptedEngine(SCRIPT, V)
    decoder = Decoder(target, VOCABULARY, NgramDrafter(), k="auto", control=control)
    lengths = [decoder.begin((0,), SamplingParams(max_tokens=50)).draft_length for _ in range(2)]
    for _ in range(6):
        lengths[0].note(Proposal.chain([1]), 1, [0])
        lengths[1].note(Proposal.chain([1] * 5), 5, [1] * 6)
    drafts = cut_drafts(lengths, [Proposal.chain([1] * 8)] * 2)
    assert len(drafts[0]) == 0
    assert len(drafts[1]) > 4


class Greedy(Drafter[None]):
    """Drafts more than it is asked for."""

    name = "greedy"

    def start(self, context: DraftContext) -> None: ...

    def propose(self, requests: Sequence[DraftRequest[None]]) -> list[Proposal]:
        return [Proposal.chain([0] * (r.num_draft_tokens + 1)) for r in requests]

    def observe(self, session: None, tokens: Sequence[int]) -> None: ...

    def close(self, session: None) -> None: ...


def test_a_drafter_that_drafts_too_much_is_caught() -> None:
    with pytest.raises(AssertionError, match="more was drafted than asked for"):
        answers(Decoder(ScriptedEngine(SCRIPT, V), VOCABULARY, Greedy(), k=2))


class Eager(Greedy):
    """Drafts one token more than K, where the answer has room for it."""

    def propose(self, requests: Sequence[DraftRequest[None]]) -> list[Proposal]:
        return [Proposal.chain([0] * min(r.num_draft_tokens + 1, r.max_depth)) for r in requests]


class Further(Eager):
    """The same, but it says so: the tokens beyond K are there to learn from."""

    reaches_further = True
    num_further = 1


def test_only_a_drafter_that_reaches_further_may_exceed_k_within_the_room() -> None:
    with pytest.raises(AssertionError, match="more was drafted than asked for"):
        answers(Decoder(ScriptedEngine(SCRIPT, V), VOCABULARY, Eager(), k=2))
    plain = answers(Decoder(ScriptedEngine(SCRIPT, V), VOCABULARY, NoDrafter()))
    assert answers(Decoder(ScriptedEngine(SCRIPT, V), VOCABULARY, Further(), k=2)) == plain


def test_seconds_of_a_pass_are_shared_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Booked in equal parts, so that pooled sums are times that have passed."""
    ticks = itertools.accumulate(itertools.cycle([100, 1, 2, 4]))  # seconds before each
    monkeypatch.setattr(step_module, "perf_counter", lambda: next(ticks))
    drafter = ScriptedDrafter(lambda _: np.full(V, 1 / V), kind="top")
    target = ScriptedEngine(SCRIPT, V)
    decoder = Decoder(target, VOCABULARY, drafter, k=2)
    running = decoder.run(PROMPTS, [GREEDY] * 3)
    sequences = [next(running)[1] for _ in range(3)]
    for sequence in sequences:
        stats = sequence.stats
        assert stats.prefill_seconds > 0
        seconds = (stats.draft_seconds, stats.verify_seconds, stats.accept_seconds)
        assert seconds == pytest.approx((1 / 3, 2 / 3, 4 / 3))
    running.close()


class SlowWatcher:
    """Looks at every pass for 50 seconds."""

    def __init__(self, ticks: Iterator[int]) -> None:
        self._ticks = ticks
        self.seconds: list[tuple[float, float, float]] = []

    def see(self, seen: SeenPass) -> None:
        del seen
        for _ in range(50):
            next(self._ticks)

    def note_seconds(self, draft: float, verify: float, accept: float) -> None:
        self.seconds.append((draft, verify, accept))


def test_the_time_of_a_watcher_is_booked_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every reading of the clock is a second later: accepting is that, and nothing of the 50."""
    ticks = itertools.count()
    for module in (step_module, sequence_module):
        monkeypatch.setattr(module, "perf_counter", lambda: float(next(ticks)))
    watcher = SlowWatcher(ticks)
    control = Control()
    decoder = Decoder(ScriptedEngine(SCRIPT, V), VOCABULARY, NoDrafter(), control=control)
    sequence = decoder.begin(PROMPTS[0], GREEDY, watcher=watcher)
    decoder.step([sequence])
    assert watcher.seconds == [(1.0, 1.0, 2.0)]
    stats = sequence.stats
    assert (stats.draft_seconds, stats.verify_seconds, stats.accept_seconds) == (1.0, 1.0, 2.0)
    assert control.pass_costs.one_row == pytest.approx(3.0)
    decoder.end(sequence)


def test_a_watcher_looks_at_one_request() -> None:
    decoder = Decoder(ScriptedEngine(SCRIPT, V), VOCABULARY, NoDrafter())
    with pytest.raises(AssertionError, match="one request"):
        next(decoder.run(PROMPTS, [GREEDY] * 3, watcher=SlowWatcher(itertools.count())))
