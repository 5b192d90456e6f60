"""Passes over requests that come and go: who is served when, and that no token depends on it."""

from __future__ import annotations

import numpy as np
import pytest

from oneglance.completion import Piece
from oneglance.config import SamplingParams
from oneglance.control.length import Control
from oneglance.drafters.lookahead import LookaheadDrafter
from oneglance.drafters.ngram import NgramDrafter
from oneglance.scheduler.config import SchedulerConfig
from oneglance.testing import ScriptedDrafter
from oneglance.types import Float64Array
from tests.scheduler.stage import SCRIPT, PagedEngine, Stage, V, alone, close, prompt_of

GREEDY = SamplingParams(max_tokens=8)


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


def test_speculation_fades_as_load_rises_and_returns_when_it_falls() -> None:
    """With drafts that are mostly right, and passes whose every further row costs the same."""

    def law(prefix: tuple[int, ...]) -> Float64Array:
        best = int(np.argmax(SCRIPT(prefix)))
        one_hot = np.zeros(V)
        one_hot[best if sum(prefix) % 4 else (best + 1) % V] = 1.0
        return one_hot

    stage = Stage(PagedEngine(), SchedulerConfig(pass_rows=400))
    control = Control.without_a_clock(row_share=0.5)
    decoder = stage.decoder(ScriptedDrafter(law, kind="top"), k="auto", control=control)
    longest: list[float] = []
    for count in (1, 30, 1):
        for start in range(count):
            prompt = [start % V, start // V % V, 1]
            stage.ask(prompt, SamplingParams(max_tokens=40), decoder)
        asked: list[float] = []
        while stage.core.has_work:
            stage.core.run_pass()
            stats = stage.core.book.snapshot()
            if stats.last_pass.decided == count:
                asked.append(stats.mean_k)
        # At first it has to learn how good the drafts are, and now and then it tries.
        longest.append(float(np.median(asked[len(asked) // 2 :])))
    assert longest[0] >= 1
    assert longest[1] == 0
    assert longest[2] >= 1
    close(stage)
