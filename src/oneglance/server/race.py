"""One answer with nothing drafted and with drafts, by turns: events of `/v1/oneglance/race`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import asdict
from typing import Literal

from oneglance.completion import Completion
from oneglance.scheduler.handle import Handle, Timing
from oneglance.server.admit import Admitted, Watching, admit_chat
from oneglance.server.answer import OnEnd, admit, failure
from oneglance.server.errors import invalid
from oneglance.server.http import DONE, event
from oneglance.server.keys import Client
from oneglance.server.schema.common import Speculation
from oneglance.server.schema.page import RaceRequest
from oneglance.server.service import Service
from oneglance.show.figures import race_figures
from oneglance.show.trace import Race, Run, Seconds

Side = Literal["plain", "speculative"]
TimedRun = tuple[Completion, Run]
SHORTEST_SECONDS = 1e-9
"""Two readings of a coarse clock may be equal."""


def check_race(service: Service, body: RaceRequest) -> None:
    """Refuses a race whose sides are the same, or whose answer does not repeat.

    Raises:
        ApiError: it cannot be run.
    """
    asked = body.speculation
    drafter = service.settings.drafter if asked is None else asked.drafter
    if (asked is not None and asked.off) or (drafter or service.settings.drafter) == "none":
        raise invalid(
            "Nothing is drafted, so that there is nothing to race; choose a drafter.", "speculation"
        )
    if body.temperature != 0 and body.seed is None:
        raise invalid(
            "A race needs an answer that repeats; give a seed, or set temperature to 0.", "seed"
        )


def submit_run(service: Service, body: RaceRequest, client: Client) -> Admitted:
    """Submits one run; as `admit_chat`. No run drafts from an earlier one."""
    return admit_chat(service, body, client, Watching(remembers=False))


def turns(rounds: int) -> list[Side]:
    """Who runs when; who is first changes, lest a machine that slows down favour one."""
    both: tuple[Side, Side] = ("plain", "speculative")
    return [side for number in range(rounds) for side in (both if number % 2 == 0 else both[::-1])]


def body_of_turn(body: RaceRequest, side: Side) -> RaceRequest:
    """What is asked for one run."""
    if side == "speculative":
        return body
    return body.model_copy(update={"speculation": Speculation(off=True), "prediction": None})


class RaceRunner:
    """Runs a race to its end, one answer after the other."""

    def __init__(
        self, service: Service, body: RaceRequest, client: Client, first: Admitted
    ) -> None:
        """Takes the first run, which is in progress already."""
        self._service = service
        self._body = body
        self._client = client
        self._admitted = first
        self._ended: dict[Side, list[TimedRun]] = {"plain": [], "speculative": []}

    async def events(self, request_id: str, on_end: OnEnd) -> AsyncGenerator[bytes]:
        """Whose turn it is, the text as it comes, the figures, the end.

        A failure becomes an event of its own, after which nothing comes.
        """
        try:
            for number, side in enumerate(turns(self._body.rounds)):
                if number:
                    body = body_of_turn(self._body, side)
                    self._admitted = await admit(submit_run, self._service, body, self._client)
                yield event({"object": "oneglance.turn", "side": side, "round": number // 2})
                async with aclosing(self._run(side)) as texts:
                    async for text in texts:
                        yield event({"object": "oneglance.piece", "side": side, "text": text})
            plain, speculative = self._ended["plain"], self._ended["speculative"]
            on_end([completion for completion, _ in (*speculative, *plain)])
            race = race_of(plain, speculative)
            result = {
                "race": asdict(race),
                "speculative_text": speculative[0][0].text,
                "figures": asdict(race_figures(race)),
            }
            yield event({"object": "oneglance.race", **result})
            yield DONE
        except Exception as error:
            yield event(failure(error, request_id).to_dict())

    def cancel(self) -> None:
        """Gives up the run in progress."""
        self._admitted.cancel()

    async def _run(self, side: Side) -> AsyncGenerator[str]:
        (handle,) = self._admitted.handles
        async with aclosing(handle.stream()) as pieces:
            async for piece in pieces:
                yield piece.text
                if piece.completion is not None:
                    self._note(side, handle, piece.completion)

    def _note(self, side: Side, handle: Handle, completion: Completion) -> None:
        self._service.metrics.note_answer(handle, len(completion.tokens))
        self._ended[side].append((completion, run_of(completion, handle.timing)))


def race_of(plain: Sequence[TimedRun], speculative: Sequence[TimedRun]) -> Race:
    """The race that these runs were; every token and text of all must be the same."""
    answers = {(each.token_ids, each.text) for each, _ in (*plain, *speculative)}
    return Race(
        tuple(run for _, run in plain),
        tuple(run for _, run in speculative),
        plain[0][0].text,
        len(answers) == 1,
    )


def run_of(completion: Completion, timing: Timing) -> Run:
    """A run's time from its first pass to its end, the reading of the prompt left out."""
    assert timing.admitted is not None, "the run was never admitted"
    assert timing.ended is not None, "the run has not ended"
    stats = completion.stats
    seconds = timing.ended - timing.admitted - stats.prefill_seconds
    return Run(
        decode_seconds=max(seconds, SHORTEST_SECONDS),
        num_tokens=len(completion.tokens),
        passes=stats.passes,
        drafted=stats.drafted,
        accepted=stats.accepted,
        seconds=Seconds(stats.draft_seconds, stats.verify_seconds, stats.accept_seconds),
    )
