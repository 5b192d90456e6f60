"""Passes over requests that come and go: who is served when, and that no token depends on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from oneglance.completion import Piece
from oneglance.config import SamplingParams
from oneglance.drafters.base import DraftContext, DraftHints, DraftRequest
from oneglance.drafters.draft_model import DraftModelDrafter
from oneglance.drafters.lookahead import LookaheadDrafter
from oneglance.drafters.ngram import NgramDrafter
from oneglance.engine.prefill import prefill
from oneglance.errors import (
    CancelledError,
    CapacityError,
    DeadlineError,
    OneglanceError,
    ParameterError,
)
from oneglance.scheduler.config import SchedulerConfig
from oneglance.scheduler.handle import Failure
from oneglance.testing import ScriptedEngine, random_script
from oneglance.types import Float64Array, Proposal
from tests.scheduler.stage import Asked, PagedEngine, Stage, V, alone

GREEDY = SamplingParams(max_tokens=8)


def close(stage: Stage) -> None:
    """Ends everything; nothing may be left in the cache."""
    stage.core.close(RuntimeError("closed"))
    assert isinstance(stage.engine, PagedEngine)
    assert stage.engine.num_open == stage.engine.page_use.num_used == 0


def prompt_of(length: int, start: int = 0) -> list[int]:
    return [(start + i * i) % V for i in range(length)]


def test_a_prompt_is_read_beside_answers_within_the_rows_of_a_pass() -> None:
    engine = PagedEngine()
    stage = Stage(engine, SchedulerConfig(pass_rows=6, min_prompt_rows=2))
    [first] = stage.ask(prompt_of(3), GREEDY)
    stage.core.run_pass()
    [second] = stage.ask(prompt_of(15, 1), GREEDY)
    passes = []
    while stage.core.has_work:
        stage.core.run_pass()
        passes.append(sorted(engine.passes[-1].values()))
    # One row of the first answer and five of the prompt, until all but its last token are read.
    assert passes[:3] == [[1, 5], [1, 5], [1, 4]]
    assert all(sum(rows) <= 6 for rows in passes)
    for asked, prompt in ((first, prompt_of(3)), (second, prompt_of(15, 1))):
        assert asked.tokens == alone(prompt, GREEDY)
    close(stage)


def test_prompts_share_the_rows_of_a_pass_in_their_order() -> None:
    engine = PagedEngine()
    stage = Stage(engine, SchedulerConfig(pass_rows=7, min_prompt_rows=1))
    for start, length in ((0, 6), (1, 10), (2, 4)):
        stage.ask(prompt_of(length, start), GREEDY)
    stage.core.run_pass()
    assert list(engine.passes[-1].values()) == [5, 2]
    stage.core.run_pass()
    assert sorted(engine.passes[-1].values()) == [1, 6]
    stage.run()
    assert [each.tokens for each in stage.asked] == [
        alone(prompt_of(length, start), GREEDY) for start, length in ((0, 6), (1, 10), (2, 4))
    ]
    close(stage)


def test_prompts_get_on_where_answers_take_all_rows() -> None:
    engine = PagedEngine()
    stage = Stage(engine, SchedulerConfig(pass_rows=4, min_prompt_rows=2))
    for start in range(6):
        stage.ask([start % V], SamplingParams(max_tokens=40))
    stage.core.run_pass()
    stage.ask(prompt_of(9), GREEDY)
    for _ in range(4):
        stage.core.run_pass()
        assert sorted(engine.passes[-1].values()) == [1] * 6 + [2]
    close(stage)


@pytest.mark.parametrize("chunk", [1, 2, 3, 100])
def test_chunks_of_any_size_give_the_same_answers(chunk: int) -> None:
    config = SchedulerConfig(pass_rows=chunk, min_prompt_rows=chunk)
    stage = Stage(PagedEngine(), config)
    lookahead = stage.decoder(LookaheadDrafter(V), k=2)
    asked = []
    for seed in range(6):
        params = SamplingParams(max_tokens=9, temperature=1.0, seed=seed)
        prompt = prompt_of(4 * seed + 1, seed)
        asked += [(prompt, params, each) for each in stage.ask(prompt, params, lookahead)]
        stage.core.run_pass()
    stage.run()
    for prompt, params, each in asked:
        assert each.tokens == alone(prompt, params)
    close(stage)


def order_of_answers(stage: Stage) -> list[int]:
    """Runs until all have ended; the indices of the requests in the order of their ends."""
    ended: list[int] = []
    while stage.core.has_work:
        stage.core.run_pass()
        ended += [
            index
            for index, asked in enumerate(stage.asked)
            if asked.handle.is_ended and index not in ended
        ]
    return ended


def test_first_come_first_served_and_high_priorities_before() -> None:
    stage = Stage(PagedEngine(), SchedulerConfig(max_running=1, ageing_seconds=10.0))
    for priority, arrival in ((0, 0.0), (0, 1.0), (1, 2.0), (0, 3.0), (1, 13.5)):
        stage.now = arrival
        stage.ask([1, 2], SamplingParams(max_tokens=2), priority=priority)
    # The third counts as having come at -8, the last at 3.5: after all that came before.
    assert order_of_answers(stage) == [2, 0, 1, 3, 4]
    close(stage)


def test_a_stream_of_urgent_requests_starves_nobody() -> None:
    stage = Stage(PagedEngine(), SchedulerConfig(max_running=1, ageing_seconds=5.0))
    [patient] = stage.ask([1], SamplingParams(max_tokens=3), priority=0)
    stage.asked.clear()
    for _ in range(60):
        stage.ask([2], SamplingParams(max_tokens=1), priority=3)
        stage.core.run_pass()
        stage.now += 1.0
        if patient.handle.is_ended:
            break
    # Three steps of priority are 15 seconds: urgent ones that come later stand behind it.
    assert patient.handle.is_ended
    assert 15 <= stage.now <= 20
    close(stage)


def test_nobody_is_passed_for_want_of_pages() -> None:
    """A long prompt that must wait for pages is not overtaken for ever by short ones."""
    engine = PagedEngine(num_pages=8, page_size=4)
    stage = Stage(engine, SchedulerConfig(cached_tokens=0))
    stage.ask(prompt_of(8), SamplingParams(max_tokens=6))
    stage.core.run_pass()
    [long] = stage.ask(prompt_of(25), SamplingParams(max_tokens=2))
    shorts = [stage.ask([1, 2], SamplingParams(max_tokens=4))[0] for _ in range(4)]
    while not long.handle.is_ended:
        stage.core.run_pass()
        assert long.handle.timing.admitted or not any(a.handle.timing.admitted for a in shorts)
    stage.run()
    close(stage)


def test_the_newest_of_lowest_priority_gives_way_and_gets_the_same_answer() -> None:
    engine = PagedEngine(num_pages=9, page_size=4)
    stage = Stage(engine, SchedulerConfig(cached_tokens=0))
    params = [SamplingParams(max_tokens=20, temperature=1.0, seed=seed) for seed in range(3)]
    priorities = (0, 0, 1)
    for request, priority in zip(params, priorities, strict=True):
        stage.ask(prompt_of(5), request, stage.decoder(NgramDrafter(), k=3), priority=priority)
    stage.run()
    counts = [asked.handle.progress.num_preemptions for asked in stage.asked]
    assert counts[1] > 0
    assert counts[2] == 0
    for asked, request in zip(stage.asked, params, strict=True):
        assert asked.tokens == alone(prompt_of(5), request)
    stats = stage.core.book.snapshot()
    assert stats.num_preemptions == sum(counts)
    close(stage)


def test_an_answer_may_fill_the_whole_cache_and_no_more() -> None:
    engine = PagedEngine(num_pages=3, page_size=4)
    stage = Stage(engine)
    [asked] = stage.ask([1, 2], SamplingParams(max_tokens=None), stage.decoder(NgramDrafter(), k=4))
    stage.run()
    assert len(asked.tokens) == 10
    assert asked.completion.finish_reason == "length"
    assert asked.tokens == alone([1, 2], SamplingParams(max_tokens=10))
    with pytest.raises(CapacityError, match="12 tokens and the cache has room for 12"):
        stage.ask(prompt_of(12), GREEDY)
    close(stage)


@pytest.mark.parametrize("num_passes", range(8))
def test_cancelling_frees_everything_at_once(num_passes: int) -> None:
    """While it waits, reads or decodes, alone or beside another."""
    engine = PagedEngine()
    stage = Stage(engine, SchedulerConfig(pass_rows=2, min_prompt_rows=1, cached_tokens=0))
    draft = ScriptedEngine(random_script(V, 2), V)
    decoder = stage.decoder(DraftModelDrafter(draft, V), k=2)
    [other] = stage.ask([1, 2], SamplingParams(max_tokens=12))
    [asked] = stage.ask(prompt_of(6), SamplingParams(max_tokens=12), decoder)
    for _ in range(num_passes):
        stage.core.run_pass()
    asked.handle.cancel()
    assert isinstance(asked.error, CancelledError)
    assert engine.num_open == (1 if num_passes else 0)
    stage.core.cancel(asked.handle)  # a second time changes nothing
    stage.run()
    assert other.tokens == alone([1, 2], SamplingParams(max_tokens=12))
    assert stage.core.book.snapshot().ended == {"length": 1, "cancelled": 1}
    assert len([event for event in asked.events if isinstance(event, Failure)]) == 1
    close(stage)


def test_a_deadline_ends_a_request_that_waits_or_runs() -> None:
    stage = Stage(PagedEngine(), SchedulerConfig(max_running=1))
    [runs] = stage.ask([1], SamplingParams(max_tokens=50), deadline_seconds=5.0)
    [waits] = stage.ask([2], GREEDY, deadline_seconds=3.0)
    [patient] = stage.ask([3], GREEDY)
    for stage.now in (0.0, 2.9, 3.0):
        stage.core.run_pass()
    assert isinstance(waits.error, DeadlineError)
    assert not runs.handle.is_ended
    stage.now = 5.0
    stage.core.run_pass()
    assert isinstance(runs.error, DeadlineError)
    assert 0 < len(runs.tokens) < 50
    stage.run()
    assert patient.tokens == alone([3], GREEDY)
    close(stage)


def fails_late(tokens: tuple[int, ...], logits: Float64Array) -> Float64Array:
    return logits if len(tokens) < 9 else np.zeros(3)


class FailingToStart(NgramDrafter):
    def start(self, context: DraftContext) -> Any:
        assert context.prompt
        raise ParameterError("cannot start")


class FailingToSee(NgramDrafter):
    def observe(self, session: Any, tokens: Sequence[int]) -> None:
        raise ValueError(f"cannot see {tokens} of {session}")


class FailingForOne(NgramDrafter):
    """Fails whenever it is asked for the request whose prompt begins with 3."""

    def propose(self, requests: Sequence[DraftRequest[Any]]) -> list[Proposal]:
        if any(request.session.tokens[0] == 3 for request in requests):
            raise ParameterError("cannot guess")
        return super().propose(requests)


@pytest.mark.parametrize(
    ("drafter", "processors", "message"),
    [
        (NgramDrafter(), (fails_late,), "'fails_late' returned"),
        (DraftModelDrafter(ScriptedEngine(random_script(V, 2), V), V), (fails_late,), "'fails_l"),
        (FailingToStart(), (), "cannot start"),
        (FailingToSee(), (), "cannot see"),
        (FailingForOne(), (), "cannot guess"),
    ],
)
def test_an_error_of_one_request_reaches_no_other(
    drafter: Any, processors: Any, message: str
) -> None:
    stage = Stage(PagedEngine())
    is_shared = not isinstance(drafter, FailingToStart | FailingToSee)
    prompts = ([1, 2, 1, 2, 1], [3, 3, 3, 3], [2, 1, 2, 1, 2, 1])
    for position, prompt in enumerate(prompts):
        is_bad = position == 1
        own = stage.decoder(drafter if is_bad or is_shared else NgramDrafter(), k=2)
        params = SamplingParams(max_tokens=12, logits_processors=processors if is_bad else ())
        stage.ask(prompt, params, own)
    stage.run()
    assert message in str(stage.asked[1].error)
    for position in (0, 2):
        answer = alone(prompts[position], SamplingParams(max_tokens=12))
        assert stage.asked[position].tokens == answer
    close(stage)


def test_a_request_that_cannot_be_drafted_for_alone() -> None:
    stage = Stage(PagedEngine())
    [asked] = stage.ask([3, 3, 3], GREEDY, stage.decoder(FailingForOne(), k=2))
    stage.run()
    assert "cannot guess" in str(asked.error)
    close(stage)


class FailingPass(PagedEngine):
    def forward(self, batch: Any) -> Any:
        if self.num_passes == 3:
            self.num_passes += 1
            raise MemoryError("no room")
        return super().forward(batch)


def test_a_pass_that_fails_ends_those_in_it_and_leaves_nothing_open() -> None:
    stage = Stage(FailingPass(), SchedulerConfig(max_running=2))
    for prompt in ([1], [2], [3]):
        stage.ask(prompt, GREEDY)
    stage.run()
    assert [isinstance(asked.last, Failure) for asked in stage.asked] == [True, True, False]
    assert stage.asked[2].tokens == alone([3], GREEDY)
    close(stage)


def test_several_answers_read_their_prompt_once() -> None:
    engine = PagedEngine()
    stage = Stage(engine, SchedulerConfig(cached_tokens=0))
    prompt = prompt_of(22)
    answers = stage.ask(prompt, SamplingParams(max_tokens=5), count=3)
    stage.core.run_pass()
    assert sum(engine.passes[-1].values()) == 21
    stage.run()
    stats = stage.core.book.snapshot()
    assert stats.rows.prompt == 21
    assert stats.cached_prompt_tokens == 2 * 21
    assert [asked.tokens for asked in answers] == [alone(prompt, SamplingParams(max_tokens=5))] * 3
    close(stage)


def test_those_who_were_led_go_on_without_their_leader() -> None:
    stage = Stage(PagedEngine(), SchedulerConfig(pass_rows=3, cached_tokens=0))
    prompt = prompt_of(10)
    answers = stage.ask(prompt, GREEDY, count=3)
    stage.core.run_pass()
    answers[0].handle.cancel()
    stage.run()
    assert [asked.tokens for asked in answers[1:]] == [alone(prompt, GREEDY)] * 2
    close(stage)


def hits(stage: Stage, prompt: Sequence[int], group: str = "") -> Asked:
    [asked] = stage.ask(prompt, GREEDY, prefix_group=group)
    stage.run()
    assert asked.tokens == alone(prompt, GREEDY)
    return asked


def test_prompts_are_shared_across_requests_and_turns_but_not_across_groups() -> None:
    stage = Stage(PagedEngine())
    system = prompt_of(12)
    first = hits(stage, [*system, 1, 1], "a")
    assert first.handle.progress.cached_tokens == 0
    assert hits(stage, [*system, 2], "a").handle.progress.cached_tokens == 12
    # The next turn: all of the first but its answer's last token, which was never evaluated.
    turn = [*system, 1, 1, *first.tokens, 3]
    assert hits(stage, turn, "a").handle.progress.cached_tokens == len(turn) - 2
    assert hits(stage, [*system, 2], "b").handle.progress.cached_tokens == 0
    stats = stage.core.book.snapshot()
    assert stats.num_prefix_hits == 2
    assert stats.cached_prompt_tokens == 12 + len(turn) - 2
    assert stats.num_cached_tokens > 0
    close(stage)


def test_a_prompt_can_be_shared_while_its_answer_is_in_progress() -> None:
    stage = Stage(PagedEngine())
    [first] = stage.ask(prompt_of(12), SamplingParams(max_tokens=20))
    stage.core.run_pass()
    [second] = stage.ask([*prompt_of(12), 1], SamplingParams(max_tokens=3))
    stage.core.run_pass()
    assert second.handle.progress.cached_tokens == 11
    assert not first.handle.is_ended
    stage.run()
    close(stage)


def test_kept_prefixes_give_way_to_requests() -> None:
    engine = PagedEngine(num_pages=8, page_size=4)
    stage = Stage(engine)
    hits(stage, prompt_of(20))
    assert engine.page_use.num_used >= 6
    [asked] = stage.ask(prompt_of(20, 1), SamplingParams(max_tokens=10))
    stage.run()
    assert asked.tokens == alone(prompt_of(20, 1), SamplingParams(max_tokens=10))
    assert asked.handle.progress.num_preemptions == 0
    close(stage)


def test_drafts_are_left_out_where_there_are_no_pages_for_them() -> None:
    """Rather than that anyone is sent away: a draft only saves time."""
    engine = PagedEngine(num_pages=4, page_size=4)
    stage = Stage(engine, SchedulerConfig(cached_tokens=0))
    decoder = stage.decoder(NgramDrafter(min_ngram=1), k=8)
    for prompt in ([1, 1, 1, 1, 1], [2, 2, 2, 2, 2]):
        stage.ask(prompt, SamplingParams(max_tokens=3), decoder)
    stage.run()
    assert all(asked.handle.progress.num_preemptions == 0 for asked in stage.asked)
    for asked, prompt in zip(stage.asked, ([1] * 5, [2] * 5), strict=True):
        assert asked.tokens == alone(prompt, SamplingParams(max_tokens=3))
    close(stage)


def test_drafts_come_back_when_there_are_pages_again() -> None:
    engine = PagedEngine(num_pages=4, page_size=4)
    stage = Stage(engine, SchedulerConfig(cached_tokens=0))
    decoder = stage.decoder(NgramDrafter(min_ngram=1), k=8)
    [long] = stage.ask([1, 1, 1], SamplingParams(max_tokens=10), decoder)
    stage.ask([2, 2, 2, 2, 2, 2, 2], SamplingParams(max_tokens=2), decoder)
    stage.run()
    drafts = [len(each.draft_tokens) for each in long.completion.trace]
    assert drafts[0] == 0
    assert sum(drafts) > 0
    close(stage)


def test_a_cache_that_others_have_filled_fails_a_request_and_not_the_scheduler() -> None:
    engine = PagedEngine(num_pages=4, page_size=4)
    stage = Stage(engine)
    other = engine.open()
    prefill(engine, other, prompt_of(12), chunk=100)
    [asked] = stage.ask(prompt_of(8), GREEDY)
    stage.run()
    assert isinstance(asked.error, CapacityError)
    engine.close(other)
    assert hits(stage, prompt_of(8)).tokens
    close(stage)


def test_figures_are_those_of_the_answers() -> None:
    stage = Stage(PagedEngine(num_pages=50))
    decoder = stage.decoder(NgramDrafter(min_ngram=1), k=3)
    for prompt in ([1, 2] * 6, [3, 3, 3, 3], [4]):
        stage.ask(prompt, SamplingParams(max_tokens=15), decoder)
    stage.run()
    stats = stage.core.book.snapshot()
    answers = [asked.completion for asked in stage.asked]
    assert stats.delivered_tokens == sum(len(answer.tokens) for answer in answers) == 45
    assert stats.rows.decided == sum(answer.stats.passes for answer in answers)
    assert stats.rows.drafted == sum(answer.stats.drafted for answer in answers) > 0
    assert stats.drafted_by_depth.total() == stats.rows.drafted
    assert stats.accepted_by_depth.total() == sum(answer.stats.accepted for answer in answers) > 0
    assert sum(n * count for n, count in stats.accepted_lengths.items()) == (
        stats.accepted_by_depth.total()
    )
    assert stats.accepted_lengths.total() == stats.drafted_lengths.total() == stats.rows.decided
    assert stats.ended == {"length": 3}
    assert stats.num_submitted == 3
    assert (stats.num_waiting, stats.num_reading, stats.num_decoding) == (0, 0, 0)
    assert stats.pages_total == 50
    assert all(answer.stats.prefill_seconds > 0 for answer in answers[:2])
    close(stage)


def test_every_piece_is_delivered_once_and_the_last_one_has_the_completion() -> None:
    stage = Stage(PagedEngine())
    [asked] = stage.ask([1, 2, 1, 2], GREEDY, stage.decoder(NgramDrafter(), k=3))
    stage.run()
    pieces = [event for event in asked.events if isinstance(event, Piece)]
    assert "".join(piece.text for piece in pieces) == asked.completion.text
    assert asked.tokens == list(asked.completion.token_ids)
    assert [piece.completion is not None for piece in pieces] == [False] * (len(pieces) - 1) + [
        True
    ]
    assert len(pieces) == asked.completion.stats.passes
    timing = asked.handle.timing
    assert timing.admitted is not None
    assert timing.first_token is not None
    assert timing.ended is not None
    assert timing.submitted <= timing.admitted <= timing.first_token <= timing.ended
    close(stage)


@pytest.mark.parametrize(
    ("prompt", "options", "message"),
    [
        ((), {}, "no tokens"),
        ((9,), {}, "token id 9"),
        ((1,), {"hints": DraftHints(prediction=(1,))}, "makes no use of a prediction"),
        ((1,), {"priority": 0.5}, "priority = 0.5"),
        ((1,), {"deadline_seconds": 0}, "deadline_seconds = 0"),
    ],
)
def test_a_bad_request_is_refused_before_any_work(
    prompt: tuple[int, ...], options: dict[str, Any], message: str
) -> None:
    stage = Stage(PagedEngine())
    with pytest.raises(OneglanceError, match=message):
        stage.ask(prompt, GREEDY, stage.decoder(NgramDrafter()), **options)
    assert not stage.core.has_work


@pytest.mark.parametrize("name", ["max_running", "pass_rows", "cached_tokens", "ageing_seconds"])
def test_a_limit_without_meaning_is_refused(name: str) -> None:
    with pytest.raises(ParameterError, match=f"{name} = -1"):
        SchedulerConfig(**{name: -1})
