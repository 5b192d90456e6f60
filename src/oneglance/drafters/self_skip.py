"""Skipped layers whose set is looked for while requests are answered (SWIFT, arXiv:2410.06916).

Between two passes a part of the target reads some of the tokens generated last, on a copy of the
request's sequence that shares its pages and is closed at once; what it would have said itself
tells how good the set is. Whatever the search finds, only the drafts change.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from oneglance.config import EngineConfig
from oneglance.drafters.base import DraftContext, DraftRequest
from oneglance.drafters.draft_model import DraftModelSession
from oneglance.drafters.layer_search import Layers, LayerSearch
from oneglance.drafters.self_part import PartDrafter
from oneglance.engine.base import Batch, Engine, PassLayers, TreeRows
from oneglance.errors import CapacityError
from oneglance.types import Proposal

WINDOW = 32
"""Generated tokens that a set of layers is judged by."""
TIME_SHARE = 0.1
"""Most of the time of answering that the search may take."""


@dataclass(frozen=True)
class _Text:
    """The `WINDOW` tokens before `end` of a request that is still being answered."""

    session: DraftModelSession
    end: int


class SearchingDrafter(PartDrafter):
    """Leaves out the best layers that the search has found so far."""

    def __init__(
        self,
        engine: Engine,
        vocab_size: int,
        search: LayerSearch,
        name: str = "self:skip",
        engine_config: EngineConfig = EngineConfig(),
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        """Takes the target's engine.

        Args:
            engine: the target's.
            vocab_size: width of the target's law.
            search: knows which layers to try.
            name: shown as the drafter of its tokens.
            engine_config: as for `DraftModelDrafter`.
            clock: seconds.
        """
        layers = PassLayers(skipped_layers=search.best)
        super().__init__(engine, vocab_size, layers, name, engine_config)
        self._search = search
        self._budget = _TimeBudget(clock)
        self._num_sessions = 0
        self._text: _Text | None = None

    def start(self, context: DraftContext) -> DraftModelSession:
        """Begins a request; one without a sequence of the target's ends the search."""
        if context.sequence is None:
            # Its own cache must be evaluated by the same layers for as long as it lives.
            self._search.is_done = True
        if self._num_sessions == 0:
            self._budget.resume()
        self._num_sessions += 1
        return super().start(context)

    def propose(self, requests: Sequence[DraftRequest[DraftModelSession]]) -> list[Proposal]:
        """Searches as far as there is time, then drafts with the best layers."""
        self._choose_text([request.session for request in requests])
        if self._text is not None:
            self._search_with(self._text)
            self._layers = PassLayers(skipped_layers=self._search.best)
        return super().propose(requests)

    def close(self, session: DraftModelSession) -> None:
        """Ends a request."""
        self._num_sessions -= 1
        if self._text is not None and self._text.session is session:
            self._text = None
        super().close(session)

    def _choose_text(self, sessions: Sequence[DraftModelSession]) -> None:
        """Goes on to another text once the present one has been followed by as much again."""
        if self._text is not None and len(self._text.session.tokens) < self._text.end + WINDOW:
            return
        for session in sessions:
            if session.history.num_output >= WINDOW:
                self._text = _Text(session, len(session.tokens))
                self._search.begin_text()
                return

    def _search_with(self, text: _Text) -> None:
        while not self._search.is_done and self._budget.allows():
            with self._budget.spending():
                try:
                    self._search.advance(lambda layers: self._agreement(text, layers))
                except CapacityError:  # the cache has no room for a copy, for now
                    return

    def _agreement(self, text: _Text, skipped: Layers) -> float:
        """Share of the text's tokens that the target says without these layers."""
        engine, tokens = self._engine, text.session.tokens[: text.end]
        start = len(tokens) - 1 - WINDOW
        sequence = engine.fork(text.session.cache.sequence)
        try:
            engine.truncate(sequence, start)
            rows = TreeRows.chain(sequence, tokens[start:-1])
            vocab_size = min(self._vocab_size, engine.config.vocab_size)
            layers = PassLayers(skipped_layers=skipped)
            batch = Batch.through(layers, [rows], num_top=1, top_vocab_size=vocab_size)
            said = engine.forward(batch).top[0].ids[:, 0]
        finally:
            engine.close(sequence)
        return float(np.mean(said == np.asarray(tokens[start + 1 :])))


class _TimeBudget:
    """Keeps what is spent on something below a share of all time."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._mark = clock()
        self._total = 0.0
        self._spent = 0.0
        self._last = 0.0

    def resume(self) -> None:
        """Time before now does not count: nothing was being done."""
        self._mark = self._clock()

    def allows(self) -> bool:
        """Whether doing it once more, at the price of the last time, is within the share."""
        now = self._clock()
        self._total += now - self._mark
        self._mark = now
        return self._spent + self._last <= TIME_SHARE * self._total

    @contextmanager
    def spending(self) -> Generator[None]:
        """Takes the time of what is done within."""
        begun = self._clock()
        try:
            yield
        finally:
            self._last = self._clock() - begun
            self._spent += self._last
