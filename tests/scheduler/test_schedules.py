"""Random schedules: whatever comes, goes and gives way, every answer is the one it has alone."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from oneglance.completion import Piece
from oneglance.config import SamplingParams
from oneglance.drafters.base import Drafter
from oneglance.drafters.draft_model import DraftModelDrafter
from oneglance.drafters.lookahead import LookaheadDrafter
from oneglance.drafters.ngram import NgramDrafter
from oneglance.drafters.none import NoDrafter
from oneglance.errors import CancelledError, DeadlineError
from oneglance.scheduler.config import SchedulerConfig
from oneglance.scheduler.handle import Failure, Handle
from oneglance.testing import ScriptedEngine, random_script
from tests.scheduler.stage import Asked, PagedEngine, Stage, V, alone

PAGE_SIZE = 4
SYSTEM = (1, 2, 3, 1, 2, 3, 1, 2, 4)
PROMPTS = st.builds(
    lambda shared, own: (*SYSTEM[:shared], *own),
    st.sampled_from([0, 4, 8, 9]),
    st.lists(st.integers(0, V - 1), min_size=1, max_size=7).map(tuple),
)
PARAMS = st.builds(
    SamplingParams,
    max_tokens=st.integers(1, 14),
    temperature=st.sampled_from([0.0, 1.0]),
    seed=st.integers(0, 3),
    stop=st.sampled_from([(), ("ba",)]),
)


class Schedules(RuleBasedStateMachine):
    """Requests with several drafters come and go on a cache that is too small for them."""

    @initialize(
        num_pages=st.integers(8, 16),
        max_running=st.integers(1, 5),
        pass_rows=st.integers(1, 12),
        cached_tokens=st.sampled_from([0, 15, 1000]),
    )
    def begin(self, num_pages: int, max_running: int, pass_rows: int, cached_tokens: int) -> None:
        self.engine = PagedEngine(num_pages, PAGE_SIZE)
        self.draft = ScriptedEngine(random_script(V, 2), V)
        config = SchedulerConfig(
            max_running=max_running,
            pass_rows=pass_rows,
            min_prompt_rows=1,
            cached_tokens=cached_tokens,
        )
        self.stage = Stage(self.engine, config)
        self.expected: dict[Handle, list[int]] = {}
        drafters: list[tuple[Drafter[Any], dict[str, Any]]] = [
            (NoDrafter(), {}),
            (NgramDrafter(min_ngram=1), {"k": 3}),
            (LookaheadDrafter(V), {"k": 2}),
            (DraftModelDrafter(self.draft, V), {"k": 4}),
            (DraftModelDrafter(self.draft, V), {"k": 3, "tree_nodes": 5}),
        ]
        self.decoders = [self.stage.decoder(drafter, **options) for drafter, options in drafters]

    @rule(
        prompt=PROMPTS,
        params=PARAMS,
        drafter=st.integers(0, 4),
        priority=st.integers(-1, 2),
        count=st.sampled_from([1, 1, 3]),
        group=st.sampled_from(["", "b"]),
        deadline=st.sampled_from([None, None, 8.0]),
    )
    def ask(
        self,
        prompt: tuple[int, ...],
        params: SamplingParams,
        drafter: int,
        priority: int,
        count: int,
        group: str,
        deadline: float | None,
    ) -> None:
        asked = self.stage.ask(
            prompt,
            params,
            self.decoders[drafter],
            count,
            priority=priority,
            prefix_group=group,
            deadline_seconds=deadline,
        )
        self.expected |= dict.fromkeys((each.handle for each in asked), alone(prompt, params))

    @precondition(lambda self: self.stage.asked)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        asked = data.draw(st.sampled_from(self.stage.asked))
        was_ended = asked.handle.is_ended
        asked.handle.cancel()
        assert asked.handle.is_ended
        if not was_ended:
            assert isinstance(asked.error, CancelledError)

    @rule(count=st.integers(1, 6))
    def run_passes(self, count: int) -> None:
        for _ in range(count):
            self.stage.core.run_pass()
            self.stage.now += 1.0

    @invariant()
    def every_answer_is_a_beginning_of_its_own(self) -> None:
        for asked in self.stage.asked if hasattr(self, "stage") else ():
            self.check(asked)

    def teardown(self) -> None:
        if not hasattr(self, "stage"):
            return
        self.stage.run()
        for asked in self.stage.asked:
            assert asked.handle.is_ended
            self.check(asked)
        self.stage.core.close(RuntimeError("closed"))
        assert self.engine.num_open == self.engine.page_use.num_used == 0
        # What a draft model keeps of ended requests is all that is left of them.
        assert self.draft.num_open <= 2 * 4

    def check(self, asked: Asked) -> None:
        """The pieces of one request against its answer alone."""
        expected = self.expected[asked.handle]
        if isinstance(asked.last, Piece):
            assert asked.tokens == expected
        else:
            assert asked.tokens == expected[: len(asked.tokens)]
        if isinstance(asked.last, Failure):
            assert isinstance(asked.error, CancelledError | DeadlineError), asked.error


TestSchedules = Schedules.TestCase
TestSchedules.settings = settings(
    max_examples=40,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
