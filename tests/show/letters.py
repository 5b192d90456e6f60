"""Scripted answers over a vocabulary of letters, recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from oneglance.checkpoints.base import Tokenizer
from oneglance.config import SamplingParams
from oneglance.decode.loop import Decoder
from oneglance.decode.sequence import DecodingSequence, Vocabulary
from oneglance.drafters.base import Drafter
from oneglance.sampling.noise import Noise
from oneglance.show.record import Recorder
from oneglance.show.trace import Answer, DraftNode, OwnToken, Pass, Request, Seconds, Trace
from oneglance.testing import ScriptedEngine, random_script
from oneglance.types import ROOT, Float64Array

V = 6
SCRIPT = random_script(V, seed=3)
PROMPT = (0, 1, 2, 0, 1)
VOCABULARY = Vocabulary(V, frozenset(), lambda token: bytes([97 + token]))


class Letters(Tokenizer):
    """Ids 0, 1, … are a, b, …; those of `pieces` are bytes of your own, () is a control token."""

    vocab_size = V
    bos_id = None
    eos_ids = frozenset[int]()
    special_ids = frozenset[int]()
    adds_bos = False

    def __init__(self, pieces: dict[int, bytes] | None = None) -> None:
        self._pieces = pieces or {}

    def encode(self, text: str, parse_special: bool = False, add_bos: bool = False) -> list[int]:
        assert not parse_special
        assert not add_bos
        return [ord(char) - 97 for char in text]

    def token_bytes(self, token_id: int) -> bytes:
        return self._pieces.get(token_id, bytes([97 + token_id]))

    def token_label(self, token_id: int) -> str:
        return f"<|{token_id}|>"

    def decode(self, token_ids: Sequence[int]) -> str:
        return b"".join(map(self.token_bytes, token_ids)).decode("utf-8", "replace")

    def fingerprint(self) -> str:
        return "letters"


def flat_law(_: tuple[int, ...]) -> Float64Array:
    """A draft that knows nothing but prefers low ids a little."""
    law = np.arange(V, 0, -1, dtype=np.float64)
    return np.asarray(law / law.sum())


def recorded(
    drafter: Drafter[Any],
    params: SamplingParams,
    noise: Noise | None = None,
    k: int = 3,
    tokenizer: Tokenizer | None = None,
) -> tuple[DecodingSequence, list[Pass]]:
    """A whole answer and its passes."""
    decoder = Decoder(ScriptedEngine(SCRIPT, V), VOCABULARY, drafter, k=k)
    recorder = Recorder(tokenizer or Letters())
    sequence = decoder.begin(PROMPT, params, noise, watcher=recorder)
    try:
        while sequence.ending is None:
            (delivery,) = decoder.step([sequence])
            recorder.record(delivery.trace)
    finally:
        decoder.end(sequence)
    return sequence, recorder.passes


def node_of(text: str, fate: Any, parent: int = ROOT, depth: int = 1) -> DraftNode:
    return DraftNode(1, text, text, parent, depth, "draft", fate, 0.5, 0.25, 0.2)


def chain(kept: str, wrong: str = "", own: str | None = "!", unused: str = "") -> Pass:
    """A pass over letters: a kept run, a wrong one with what is behind it, the target's own."""
    fates = ["kept"] * len(kept) + ["wrong", *["behind"] * len(wrong)][: len(wrong)]
    fates += ["unused"] * len(unused)
    nodes = tuple(
        node_of(char, fate, index - 1, index + 1)
        for index, (char, fate) in enumerate(zip(kept + wrong + unused, fates, strict=True))
    )
    kind = "recovered" if wrong else "bonus" if kept else "plain"
    return Pass(
        context=9,
        drafter="draft",
        num_asked=4,
        num_made=len(nodes),
        nodes=nodes,
        considered=(),
        accepted=tuple(range(len(kept))),
        own=None if own is None else OwnToken(2, own, own, kind, 0.75, None),  # type: ignore[arg-type]
        seconds=Seconds(0.001, 0.008, 0.001),
    )


def trace_of(passes: Sequence[Pass], prompt: str = "say it", **others: Any) -> Trace:
    text = "".join(
        "".join(each.nodes[node].text for node in each.accepted)
        + ("" if each.own is None else each.own.text)
        for each in passes
    )
    return Trace(
        request=Request(prompt, None, False, "letters", "draft", "4", None, 0.0, None),
        engine={"kind": "scripted", "isa": None, "threads": 1, "weights": "auto"},
        answer=Answer(
            text,
            "length",
            9,
            sum(each.num_delivered for each in passes),
            sum(len(each.accepted) for each in passes),
        ),
        passes=tuple(passes),
        **others,
    )
