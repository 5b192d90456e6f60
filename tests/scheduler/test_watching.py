"""Looking on at one request of many: it sees all of its own passes, and nobody's tokens change."""

from __future__ import annotations

import pytest

from oneglance.completion import Piece
from oneglance.config import SamplingParams
from oneglance.decode.watch import SeenPass
from oneglance.drafters.ngram import NgramDrafter
from oneglance.scheduler.config import SchedulerConfig
from tests.scheduler.stage import PagedEngine, Stage, alone

PARAMS = SamplingParams(max_tokens=12, temperature=0.8, seed=3)
PROMPTS = [(0, 1, 2, 0, 1), (3, 1), (2, 2, 4)]


class Witness:
    """Notes what it is shown."""

    def __init__(self) -> None:
        self.contexts: list[int] = []
        self.paths: list[tuple[int, ...]] = []
        self.seconds: list[tuple[float, float, float]] = []

    def see(self, seen: SeenPass) -> None:
        self.contexts.append(seen.context)
        self.paths.append(seen.acceptance.path)

    def note_seconds(self, draft: float, verify: float, accept: float) -> None:
        self.seconds.append((draft, verify, accept))


@pytest.mark.parametrize("num_pages", [None, 10], ids=["room", "preempted"])
def test_one_of_many_is_watched(num_pages: int | None) -> None:
    stage = Stage(PagedEngine(num_pages), SchedulerConfig(cached_tokens=0))
    decoder = stage.decoder(NgramDrafter(min_ngram=1))
    witness = Witness()
    asked = []
    for prompt in PROMPTS:
        watcher = witness if prompt == PROMPTS[-1] else None
        asked += stage.ask(prompt, PARAMS, decoder, watcher=watcher)
    stage.run()
    for prompt, each in zip(PROMPTS, asked, strict=True):
        assert each.tokens == alone(prompt, PARAMS)
    pieces = [event for event in asked[-1].events if isinstance(event, Piece)]
    assert len(witness.contexts) == len(pieces) == len(witness.seconds)
    assert witness.contexts[0] == len(PROMPTS[-1])
    assert witness.contexts == sorted(set(witness.contexts))
    both = zip(witness.paths, pieces, strict=True)
    shown = [path[: len(piece.trace.accepted)] for path, piece in both]
    assert shown == [piece.trace.accepted for piece in pieces]
    verified = asked[-1].completion.stats.verify_seconds
    assert sum(verify for _, verify, _ in witness.seconds) == pytest.approx(verified)
    assert (asked[-1].handle.progress.num_preemptions > 0) == (num_pages is not None)
