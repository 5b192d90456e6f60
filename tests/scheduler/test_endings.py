"""Requests that end before their answer does, and those that are refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from oneglance.config import SamplingParams
from oneglance.drafters.base import DraftContext, DraftHints, DraftRequest
from oneglance.drafters.draft_model import DraftModelDrafter
from oneglance.drafters.ngram import NgramDrafter
from oneglance.errors import (
    CancelledError,
    DeadlineError,
    OneglanceError,
    ParameterError,
)
from oneglance.scheduler.config import SchedulerConfig
from oneglance.scheduler.handle import Failure
from oneglance.testing import ScriptedEngine, random_script
from oneglance.types import Float64Array, Proposal
from tests.scheduler.stage import PagedEngine, Stage, V, alone, close, prompt_of

GREEDY = SamplingParams(max_tokens=8)


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
