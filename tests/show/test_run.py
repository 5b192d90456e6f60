"""A shown answer is a real one: recorded, then raced against plain decoding by turns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oneglance.config import EngineConfig, SamplingParams
from oneglance.llm import LLM, load
from oneglance.show.run import MAX_SEED, record, show_answer, with_seed
from oneglance.show.trace import Pass, Request, Trace
from tests.tiny_models import write_tiny_gguf

PROMPT = "the the the the"
SEEDED = SamplingParams(max_tokens=24, temperature=0.8, seed=3)


@pytest.fixture(scope="module")
def llm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LLM]:
    path = write_tiny_gguf(tmp_path_factory.mktemp("tiny") / "tiny.gguf")
    # A drafter that remembers: but for the tenants, each run would be quicker than the last.
    with load(str(path), "suffix:global", 4, EngineConfig(kept_prefixes=0)) as loaded:
        yield loaded


def request_of(params: SamplingParams) -> Request:
    return Request(
        PROMPT, None, True, "tiny", "suffix:global", "4", None, params.temperature, params.seed
    )


def shown(llm: LLM, params: SamplingParams, rounds: int = 2, **others: Any) -> Trace:
    return show_answer(llm, PROMPT, request_of(params), params, rounds, {"date": "today"}, **others)


@pytest.mark.parametrize("params", [SamplingParams(max_tokens=24), SEEDED], ids=["greedy", "seed"])
def test_the_recorded_answer_is_the_answer(llm: LLM, params: SamplingParams) -> None:
    plain = llm.generate(PROMPT, raw=True, params=params, drafter="none")
    completion, passes = record(llm, PROMPT, True, params)
    assert completion.token_ids == plain.token_ids
    delivered: list[int] = []
    for item in passes:
        delivered += [item.nodes[node].token for node in item.accepted]
        delivered += [] if item.own is None else [item.own.token]
    assert tuple(delivered) == plain.token_ids
    assert any(item.accepted for item in passes), "a draft must have been of use"


def test_a_trace_has_the_race(llm: LLM) -> None:
    trace = shown(llm, SEEDED)
    assert trace.race is not None
    assert trace.race.is_identical
    assert trace.race.plain_text == trace.answer.text
    assert [run.passes for run in trace.race.plain] == [24, 24]
    assert [run.num_tokens for run in trace.race.speculative] == [24, 24]
    assert all(run.drafted == 0 for run in trace.race.plain)
    assert all(run.drafted > 0 for run in trace.race.speculative)
    assert trace.answer.num_tokens == 24
    assert trace.origin == {"date": "today"}


def test_no_run_learns_from_another(tmp_path: Path) -> None:
    """Who remembers an answer drafts more of it; a model that has answered nothing yet shows it."""
    path = write_tiny_gguf(tmp_path / "tiny.gguf")
    with load(str(path), "suffix:global", 4, EngineConfig(kept_prefixes=0)) as llm:
        race = shown(llm, SEEDED, rounds=3).race
        assert race is not None
        (drafted,) = {run.drafted for run in race.speculative}
        again = [llm.generate(PROMPT, raw=True, params=SEEDED, tenant="same") for _ in range(2)]
    assert [answer.stats.drafted > drafted for answer in again] == [False, True]


def test_both_ways_take_turns_in_going_first(llm: LLM, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    generate = LLM.generate

    def noting(self: LLM, *arguments: Any, **named: Any) -> Any:
        completion = generate(self, *arguments, **named)
        order.append(completion.drafter)
        return completion

    monkeypatch.setattr(LLM, "generate", noting)
    shown(llm, SEEDED, rounds=3)
    suffix = llm.drafter_name
    assert order[1:] == ["none", suffix, suffix, "none", "none", suffix]


def test_a_difference_is_noticed(llm: LLM, monkeypatch: pytest.MonkeyPatch) -> None:
    generate = LLM.generate

    def broken(self: LLM, *arguments: Any, **named: Any) -> Any:
        named["params"] = SamplingParams(max_tokens=24, temperature=0.8, seed=4)
        return generate(self, *arguments, **named)

    monkeypatch.setattr(LLM, "generate", broken)
    trace = shown(llm, SEEDED)
    assert trace.race is not None
    assert not trace.race.is_identical


def test_there_is_no_race_without_rounds_or_drafts(llm: LLM) -> None:
    assert shown(llm, SEEDED, rounds=0).race is None


def test_each_pass_is_told_as_it_comes(llm: LLM) -> None:
    told: list[Pass] = []
    trace = shown(llm, SEEDED, rounds=0, on_pass=told.append)
    assert tuple(told) == trace.passes


def test_an_answer_that_is_sampled_gets_a_seed() -> None:
    assert with_seed(SamplingParams()).seed is None
    assert with_seed(SEEDED).seed == 3
    drawn = with_seed(SamplingParams(temperature=1.0)).seed
    assert drawn is not None
    assert 0 <= drawn < MAX_SEED
