"""Pages of the cache: who shares them, who gives way, and that no token depends on it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from oneglance.config import SamplingParams
from oneglance.drafters.ngram import NgramDrafter
from oneglance.engine.prefill import prefill
from oneglance.errors import (
    CapacityError,
)
from oneglance.scheduler.config import SchedulerConfig
from tests.scheduler.stage import Asked, PagedEngine, Stage, alone, close, prompt_of

GREEDY = SamplingParams(max_tokens=8)


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
