"""Servers with one fault each, as users of speculative decoders have reported them.

Numbers are those of `docs/known-faults.md`. What a broken server does right it does as the right
one, so that only the fault can be what an audit finds.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from oneglance.config import SamplingParams
from oneglance.decode.loop import Decoder
from oneglance.engine.base import Batch, PassOutput, SequenceId
from oneglance.testing import Script, ScriptedEngine
from oneglance.types import Float32Array
from tests.audit.scripted_server import (
    CONTEXT,
    EOS_TEXT,
    CrashError,
    Entry,
    Generated,
    RefusedError,
    ScriptedServer,
    V,
    one_by_one,
    script,
)

BLOCK = 3
"""Positions that are no multiple of this stand for those inside an accepted block."""


def is_inside(position: int) -> bool:
    return position % BLOCK != 0


@dataclass
class PositionByPosition(ScriptedServer, ABC):
    """Decodes each position with parameters of its own."""

    @abstractmethod
    def change(self, position: int, output: list[int], params: SamplingParams) -> SamplingParams:
        """What a position is decoded with."""

    @abstractmethod
    def is_touched(self, params: SamplingParams) -> bool:
        """Whether a request has what this server gets wrong."""

    def generate(self, prompts: list[list[int]], params: SamplingParams) -> list[Generated]:
        if not self.is_touched(params):
            return super().generate(prompts, params)
        return [one_by_one(self, prompt, params, self.change) for prompt in prompts]


class TruncationOnlyAtTheBonus(PositionByPosition):
    def is_touched(self, params: SamplingParams) -> bool:
        return params.min_p > 0 or params.top_k > 0

    def change(self, position: int, _output: list[int], params: SamplingParams) -> SamplingParams:
        return replace(params, min_p=0.0, top_k=0) if is_inside(position) else params


class BiasOnlyAtTheBonus(PositionByPosition):
    def is_touched(self, params: SamplingParams) -> bool:
        return bool(params.logit_bias)

    def change(self, position: int, _output: list[int], params: SamplingParams) -> SamplingParams:
        return replace(params, logit_bias={}) if is_inside(position) else params


class PenaltiesOfLastTokens(PositionByPosition):
    """The state of the penalties sees the last token of each pass only."""

    def is_touched(self, params: SamplingParams) -> bool:
        return bool(params.frequency_penalty or params.presence_penalty)

    def change(self, _position: int, output: list[int], params: SamplingParams) -> SamplingParams:
        seen = Counter(output[BLOCK - 1 :: BLOCK])
        bias = {
            token: -params.frequency_penalty * count - params.presence_penalty
            for token, count in seen.items()
        }
        return replace(params, frequency_penalty=0.0, presence_penalty=0.0, logit_bias=bias)


class PenaltiesIgnored(ScriptedServer):
    def params(self, body: dict[str, Any]) -> SamplingParams:
        return replace(super().params(body), frequency_penalty=0.0, presence_penalty=0.0)


class SchemaOnlyAtTheBonus(PositionByPosition):
    """What changes the logits is called for the last position of a pass, not within the block."""

    def is_touched(self, params: SamplingParams) -> bool:
        return bool(params.logits_processors)

    def change(self, position: int, _output: list[int], params: SamplingParams) -> SamplingParams:
        return replace(params, logits_processors=()) if is_inside(position) else params


class GoesOnAfterTheEnd(ScriptedServer):
    """An end of text inside an accepted block is passed over."""

    def generate(self, prompts: list[list[int]], params: SamplingParams) -> list[Generated]:
        found = super().generate(prompts, params)
        if params.stop or params.max_tokens == 1:
            return found
        for each in found:
            if each.finish_reason == "stop":
                end = Entry(EOS_TEXT, -0.01, [(EOS_TEXT, -0.01)], "accepted")
                each.entries += [end, replace(each.entries[0])]
                each.text += each.entries[-1].text
                each.counted += 1
        return found


class LengthBeforeStop(ScriptedServer):
    """The limit is looked at first; where both fall into one pass the stop string leaks."""

    def generate(self, prompts: list[list[int]], params: SamplingParams) -> list[Generated]:
        whole = super().generate(prompts, replace(params, stop=()))
        found = super().generate(prompts, params)
        for index, each in enumerate(whole):
            if (
                params.stop
                and each.text.find(params.stop[0]) + len(params.stop[0]) > len(each.text) - BLOCK
            ):
                found[index] = each
        return found


class StopMissedEarlyInABlock(ScriptedServer):
    """Only stop strings that end with a pass are seen."""

    def generate(self, prompts: list[list[int]], params: SamplingParams) -> list[Generated]:
        found = super().generate(prompts, params)
        if params.stop and found[0].finish_reason == "stop":
            end = len(found[0].text) + len(params.stop[0])
            if is_inside(end):
                return super().generate(prompts, replace(params, stop=()))
        return found


class TailAfterTheStop(ScriptedServer):
    """Text is cut at the stop string; tokens and logprobs keep what follows in the block."""

    def generate(self, prompts: list[list[int]], params: SamplingParams) -> list[Generated]:
        found = super().generate(prompts, params)
        whole = super().generate(prompts, replace(params, stop=()))
        for each, longer in zip(found, whole, strict=True):
            if params.stop and each.finish_reason == "stop":
                each.entries = longer.entries[: len(each.text) + len(params.stop[0]) + 2]
        return found


class ZeroLogprobs(ScriptedServer):
    def generate(self, prompts: list[list[int]], params: SamplingParams) -> list[Generated]:
        found = super().generate(prompts, params)
        for each in found:
            for entry in each.entries:
                if entry.kind == "accepted":
                    entry.logprob = 0.0
        return found


class LogprobsOfTheRowBefore(ScriptedServer):
    """Accepted tokens carry numbers of the position before theirs."""

    def generate(self, prompts: list[list[int]], params: SamplingParams) -> list[Generated]:
        found = super().generate(prompts, params)
        for each in found:
            rows = [(entry.top, dict(entry.top)) for entry in each.entries]
            for index, entry in enumerate(each.entries):
                if entry.kind == "accepted" and index:
                    entry.top, scores = rows[index - 1]
                    entry.logprob = scores.get(entry.text, -9.0)
        return found


class CountsTheBudget(ScriptedServer):
    """Delivers fewer tokens than were asked for, and reports that it delivered them."""

    def generate(self, prompts: list[list[int]], params: SamplingParams) -> list[Generated]:
        found = super().generate(prompts, params)
        for each in found:
            if each.finish_reason == "length" and each.counted > BLOCK:
                each.entries.pop()
                each.text = "".join(entry.text for entry in each.entries)
        return found


@dataclass
class OtherLogitsInWidePasses(ScriptedServer):
    """Kernels depend on the shape of the pass, by more than rounding."""

    size: float = 3.0

    def generate(self, prompts: list[list[int]], params: SamplingParams) -> list[Generated]:
        right = self.script
        if params.max_tokens != 1:
            self.script = self.shaken
        try:
            return super().generate(prompts, params)
        finally:
            self.script = right

    def shaken(self, prefix: tuple[int, ...]) -> Float32Array:
        noise = np.random.default_rng([len(prefix), prefix[-1]]).standard_normal(V)
        return script(prefix) + (self.size * noise).astype(np.float32)


class RecurrentEngine(ScriptedEngine):
    """A model with a state that rejected drafts go into and stay in."""

    def __init__(self, soiled: Script) -> None:
        super().__init__(self._look_up, V, CONTEXT)
        self._soiled = soiled
        self._is_soiled = False
        self._num_rows_of: dict[SequenceId, int] = {}

    def forward(self, batch: Batch) -> PassOutput:
        self._num_rows_of = {tree.sequence: len(tree.tokens) for tree in batch.trees}
        return super().forward(batch)

    def commit(self, sequence: SequenceId, rows: Sequence[int]) -> None:
        self._is_soiled |= len(rows) < self._num_rows_of[sequence]
        super().commit(sequence, rows)

    def _look_up(self, prefix: tuple[int, ...]) -> Float32Array:
        return self._soiled(prefix) if self._is_soiled else script(prefix)


class StateNotRestored(OtherLogitsInWidePasses):
    """After a rejection the state is that of the rejected draft, and answers change from there."""

    def decoder(self) -> Decoder:
        return replace(super().decoder(), target=RecurrentEngine(self.shaken))

    def generate(self, prompts: list[list[int]], params: SamplingParams) -> list[Generated]:
        return ScriptedServer.generate(self, prompts, params)


class SchemaIgnored(ScriptedServer):
    def params(self, body: dict[str, Any]) -> SamplingParams:
        return super().params({k: v for k, v in body.items() if k != "response_format"})


class CrashesInsideASchema(ScriptedServer):
    def params(self, body: dict[str, Any]) -> SamplingParams:
        if "response_format" in body:
            raise CrashError("the grammar was not rolled back")
        return super().params(body)


class CrashesAtTheEndOfTheContext(ScriptedServer):
    def generate(self, prompts: list[list[int]], params: SamplingParams) -> list[Generated]:
        if len(prompts[0]) + min(params.max_tokens or 0, 9) > CONTEXT:
            raise CrashError("a draft reaches beyond the context")
        return super().generate(prompts, params)


@dataclass
class CachedRunsDiffer(OtherLogitsInWidePasses):
    seen: set[tuple[int, ...]] = field(default_factory=set)

    def generate(self, prompts: list[list[int]], params: SamplingParams) -> list[Generated]:
        keys = {tuple(prompt) for prompt in prompts}
        is_cached = bool(keys & self.seen)
        self.seen |= keys
        run = super().generate if is_cached else super(OtherLogitsInWidePasses, self).generate
        return run(prompts, params)


class NoBatches(ScriptedServer):
    def answer(self, body: dict[str, Any]) -> list[Generated]:
        if isinstance(body.get("prompt"), list):
            raise CrashError("batches above 1 are not supported with a draft")
        return super().answer(body)


class EvenAcceptanceInBatches(ScriptedServer):
    """All rows of a batch keep as many tokens as the first one does: others get wrong ones."""

    def generate(self, prompts: list[list[int]], params: SamplingParams) -> list[Generated]:
        found = super().generate(prompts, params)
        for each in found[1:]:
            each.entries[5:8] = found[0].entries[5:8]
            each.text = "".join(entry.text for entry in each.entries)
        return found


MEETING_SECONDS = 0.05
"""How long a request waits, so that those which are sent together meet on a busy machine too."""


@dataclass
class DisturbedByOthers(OtherLogitsInWidePasses):
    """An answer depends on the requests that are in flight beside it."""

    waiting: int = 0
    counter: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, body: dict[str, Any]) -> list[Generated]:
        with self.counter:
            self.waiting += 1
        time.sleep(MEETING_SECONDS)
        try:
            return super().answer(body)
        finally:
            with self.counter:
                self.waiting -= 1

    def generate(self, prompts: list[list[int]], params: SamplingParams) -> list[Generated]:
        is_alone = self.waiting == 1
        run = super(OtherLogitsInWidePasses, self).generate if is_alone else super().generate
        return run(prompts, params)


class StreamsAbort(ScriptedServer):
    def ends_stream(self) -> bool:
        return False


class LastPieceLost(ScriptedServer):
    def events(self, found: Generated) -> list[list[Entry]]:
        return super().events(found)[:-1]


class SeedsIgnored(ScriptedServer):
    def params(self, body: dict[str, Any]) -> SamplingParams:
        return replace(super().params(body), seed=None)


def refusing(*names: str) -> ScriptedServer:
    """A right server that refuses parameters of these names."""

    class Refusing(ScriptedServer):
        def params(self, body: dict[str, Any]) -> SamplingParams:
            for name in names:
                if name in body:
                    raise RefusedError(f"{name} is not supported")
            return super().params(body)

    return Refusing()
