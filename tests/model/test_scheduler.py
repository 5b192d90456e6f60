"""The scheduler on the real default model: every answer has the tokens and bits it has alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from oneglance import LLM, Completion, EngineConfig, SamplingParams, load
from oneglance.scheduler.config import SchedulerConfig
from oneglance.scheduler.request import Drafting, Request

PROMPTS = (
    "Name the capital of France.",
    "Write a haiku about the sea.",
    "Repeat this line three times: one two three four five six seven eight.",
    "def count(words):",
)
PARAMS = (
    SamplingParams(max_tokens=24),
    SamplingParams(max_tokens=24, temperature=0.8, top_p=0.95, seed=7, frequency_penalty=0.2),
)
DRAFTERS = (None, "none", "lookahead:2,3,1", "suffix:global", "self:skip:10,18")


@pytest.fixture(scope="module")
def llm() -> Iterator[LLM]:
    """With room for about two and a half answers."""
    with load(drafter="ngram", engine_config=EngineConfig(page_size=16, num_pages=12)) as llm:
        yield llm


def answer(completion: Completion) -> list[tuple[int, float]]:
    return [(token.token_id, token.logprob) for token in completion.tokens]


def test_answers_are_those_of_requests_alone(llm: LLM) -> None:
    """Begun at different times, read in pieces, and sent away for want of pages."""
    cases = [(prompt, params) for params in PARAMS for prompt in PROMPTS]
    expected = [
        answer(llm.generate(prompt, params=params, drafter="none")) for prompt, params in cases
    ]
    config = SchedulerConfig(pass_rows=24, min_prompt_rows=8)
    with llm.scheduler(config) as scheduler:
        handles = []
        for number, (prompt, params) in enumerate(cases):
            drafting = Drafting(DRAFTERS[number % len(DRAFTERS)], k=3)
            request = Request(tuple(llm.encode(prompt)), params, drafting)
            handles.append(scheduler.submit(request))
        assert [answer(handle.result(60)) for handle in handles] == expected
        stats = scheduler.stats()
        assert stats.num_preemptions > 0
        assert stats.accepted_by_depth.total() > 0
    assert scheduler.stats().pages_used == 0


def test_a_second_turn_and_a_second_run_begin_with_what_is_cached(llm: LLM) -> None:
    conversation = [{"role": "user", "content": PROMPTS[0]}]
    first = llm.generate(conversation, params=PARAMS[0], drafter="none")
    turns = [
        conversation,
        [
            *conversation,
            {"role": "assistant", "content": first.text},
            {"role": "user", "content": "And of Italy?"},
        ],
    ]
    expected = [answer(llm.generate(turn, params=PARAMS[1], drafter="none")) for turn in turns]
    with llm.scheduler() as scheduler:
        for turn, wanted in zip([*turns, *turns], [*expected, *expected], strict=True):
            handle = scheduler.submit(Request(tuple(llm.encode(turn)), PARAMS[1]))
            assert answer(handle.result(60)) == wanted
        assert scheduler.stats().num_prefix_hits == 3
    assert scheduler.stats().pages_used == 0
