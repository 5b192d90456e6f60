"""A scripted target whose cache is made of pages, and a scheduler that is driven by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from oneglance.completion import Completion, Piece
from oneglance.config import SamplingParams
from oneglance.decode.loop import Decoder
from oneglance.decode.sequence import Vocabulary
from oneglance.drafters.base import Drafter
from oneglance.drafters.none import NoDrafter
from oneglance.engine.base import Batch, Engine, PageUse, PassOutput, SequenceId
from oneglance.engine.pages import PagePool, PageTable
from oneglance.scheduler.config import SchedulerConfig
from oneglance.scheduler.core import Core
from oneglance.scheduler.handle import Event, Failure, Handle
from oneglance.scheduler.request import Request
from oneglance.testing import ScriptedEngine, random_script

V = 5
SCRIPT = random_script(V, seed=1)
VOCABULARY = Vocabulary(V, frozenset(), lambda token: bytes([97 + token]))


class PagedEngine(ScriptedEngine):
    """Keeps the book of its pages as a real engine does, and refuses passes that do not fit."""

    def __init__(self, num_pages: int | None = None, page_size: int = 4, context: int = 64) -> None:
        super().__init__(SCRIPT, V, context)
        self._table = PageTable(page_size, PagePool(num_pages))
        self._table_id: dict[SequenceId, SequenceId] = {}
        self.passes: list[dict[SequenceId, int]] = []

    @property
    def page_use(self) -> PageUse:
        pool = self._table.pool
        return PageUse(self._table.page_size, pool.limit, pool.num_used)

    def num_missing_pages(self, num_rows: Mapping[SequenceId, int]) -> int:
        available = self._table.pool.num_available()
        needed = self._table.num_needed(self._known(num_rows))
        return 0 if available is None else max(0, needed - available)

    def open(self) -> SequenceId:
        sequence = super().open()
        self._table_id[sequence] = self._table.open()
        return sequence

    def fork(self, sequence: SequenceId) -> SequenceId:
        new = super().fork(sequence)
        self._table.close(self._table_id[new])
        self._table_id[new] = self._table.fork(self._table_id[sequence])
        return new

    def forward(self, batch: Batch) -> PassOutput:
        rows = {tree.sequence: len(tree.tokens) for tree in batch.trees}
        self._table.reserve(self._known(rows))
        self.passes.append(rows)
        return super().forward(batch)

    def commit(self, sequence: SequenceId, rows: Sequence[int]) -> None:
        super().commit(sequence, rows)
        self._table.commit(self._table_id[sequence], rows)

    def truncate(self, sequence: SequenceId, length: int) -> None:
        super().truncate(sequence, length)
        self._table.truncate(self._table_id[sequence], length)

    def close(self, sequence: SequenceId) -> None:
        super().close(sequence)
        self._table.close(self._table_id.pop(sequence))

    def _known(self, num_rows: Mapping[SequenceId, int]) -> dict[SequenceId, int]:
        return {self._table_id[sequence]: count for sequence, count in num_rows.items()}


@dataclass
class Asked:
    """A request and all events that came of it."""

    handle: Handle
    events: list[Event] = field(default_factory=list)

    @property
    def last(self) -> Event | None:
        return self.events[-1] if self.events and self.handle.is_ended else None

    @property
    def tokens(self) -> list[int]:
        pieces = [event for event in self.events if isinstance(event, Piece)]
        return [token.token_id for piece in pieces for token in piece.tokens]

    @property
    def completion(self) -> Completion:
        assert isinstance(self.last, Piece), self.last
        assert self.last.completion is not None
        return self.last.completion

    @property
    def error(self) -> Exception:
        assert isinstance(self.last, Failure), self.last
        return self.last.error


class Stage:
    """A core with an engine, a clock that is set by hand, and everything that was asked of it."""

    def __init__(
        self,
        engine: Engine,
        config: SchedulerConfig = SchedulerConfig(),
        vocabulary: Vocabulary = VOCABULARY,
    ) -> None:
        self.engine = engine
        self.vocabulary = vocabulary
        self.now = 0.0
        self.core = Core(engine, config, lambda: self.now)
        self.asked: list[Asked] = []

    def decoder(self, drafter: Drafter[Any] | None = None, **options: Any) -> Decoder:
        return Decoder(self.engine, self.vocabulary, drafter or NoDrafter(), **options)

    def ask(
        self,
        prompt: Sequence[int],
        params: SamplingParams,
        decoder: Decoder | None = None,
        count: int = 1,
        **options: Any,
    ) -> list[Asked]:
        request = Request(tuple(prompt), params, **options)
        decoder = self.decoder() if decoder is None else decoder
        self.core.check(decoder, request)
        asked = []
        for _ in range(count):
            events: list[Event] = []
            asked.append(Asked(Handle(request, self.core.cancel, events.append), events))
        self.core.add([each.handle for each in asked], decoder)
        self.asked += asked
        return asked

    def run(self, most_passes: int = 2000) -> None:
        for _ in range(most_passes):
            if not self.core.has_work:
                return
            self.core.run_pass()
        raise AssertionError("there is no end to it")


def alone(
    prompt: Sequence[int],
    params: SamplingParams,
    engine: Engine | None = None,
    vocabulary: Vocabulary = VOCABULARY,
) -> list[int]:
    """The answer without a scheduler or a drafter."""
    target = ScriptedEngine(SCRIPT, V) if engine is None else engine
    decoder = Decoder(target, vocabulary, NoDrafter())
    answer: list[int] = []
    for _, _, delivery in decoder.run([prompt], [params]):
        answer += [token.token_id for token in delivery.tokens]
    return answer


def close(stage: Stage) -> None:
    """Ends everything; nothing may be left in the cache."""
    stage.core.close(RuntimeError("closed"))
    assert isinstance(stage.engine, PagedEngine)
    assert stage.engine.num_open == stage.engine.page_use.num_used == 0


def prompt_of(length: int, start: int = 0) -> list[int]:
    return [(start + i * i) % V for i in range(length)]
