"""A right server over a scripted model, whose parts a test can break; `serving.py` has its HTTP.

Its tokens are the printable characters of ASCII and one end of text; it drafts and verifies with
the real decoding loop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np

from oneglance.config import SamplingParams
from oneglance.decode.loop import Decoder
from oneglance.decode.sequence import Vocabulary
from oneglance.errors import OneglanceError
from oneglance.sampling.softmax import softmax
from oneglance.testing import Script, ScriptedDrafter, ScriptedEngine, random_script
from oneglance.types import Float32Array, Float64Array

EOS = 95
V = EOS + 1
EOS_TEXT = "<|end|>"
CONTEXT = 160
LIKELY = [ord(character) - 32 for character in "abcdefgh "]
"""Characters that the model prefers, so that its answers repeat themselves."""

_BASE = random_script(V, seed=5, spread=1.2)
_NEAR = random_script(V, seed=6, spread=0.5)
_SCHEMA_ANSWERS = ('{"answer": "yes"}', '{"answer": "no"}')


class RefusedError(Exception):
    """Becomes HTTP 400."""


class CrashError(Exception):
    """Becomes HTTP 500."""


def script(prefix: tuple[int, ...]) -> Float32Array:
    """Logits that depend on the first and the last token; some texts end at a length."""
    return _logits(prefix[0], prefix[-1], chr(prefix[0] + 32) in "OC" and len(prefix) >= 60)


@cache
def _logits(first: int, last: int, ends: bool) -> Float32Array:
    logits = _BASE((first, last)).copy()
    logits[LIKELY] += 3
    logits[EOS] = 30 if ends else -30
    return logits


def draft_law(prefix: tuple[int, ...]) -> Float64Array:
    """A law that resembles the target's: some drafts are kept, some are not."""
    return _draft_law(prefix[0], prefix[-1])


@cache
def _draft_law(first: int, last: int) -> Float64Array:
    logits = _logits(first, last, False) + _NEAR((first, last))
    return softmax(logits.astype(np.float64))


def encode(text: str) -> list[int]:
    return [(ord(character) - 32) % EOS for character in text]


def text_of(token: int) -> str:
    return EOS_TEXT if token == EOS else chr(32 + token)


def bytes_of(token: int) -> bytes:
    return b"" if token == EOS else bytes([32 + token])


VOCABULARY = Vocabulary(V, frozenset({EOS}), bytes_of)


@dataclass
class Entry:
    """One listed token."""

    text: str
    logprob: float
    top: list[tuple[str, float]]
    kind: str


@dataclass
class Generated:
    """An answer before it is put into JSON."""

    text: str
    entries: list[Entry]
    finish_reason: str
    counted: int


@dataclass
class ScriptedServer:
    """Answers requests; tests override its methods."""

    script: Script = script
    lock: threading.Lock = field(default_factory=threading.Lock)

    def params(self, body: dict[str, Any]) -> SamplingParams:
        """The request's parameters."""
        processors: tuple[Any, ...] = ()
        if "response_format" in body:
            processors = (obeying(prompt_length(body)),)
        stop = body.get("stop") or ()
        return SamplingParams(
            max_tokens=body.get("max_tokens", 16),
            temperature=body.get("temperature", 1.0),
            top_k=body.get("top_k", 0),
            top_p=body.get("top_p", 1.0),
            min_p=body.get("min_p", 0.0),
            presence_penalty=body.get("presence_penalty", 0.0),
            frequency_penalty=body.get("frequency_penalty", 0.0),
            logit_bias={int(key): value for key, value in body.get("logit_bias", {}).items()},
            stop=(stop,) if isinstance(stop, str) else tuple(stop),
            seed=body.get("seed"),
            top_logprobs=num_top(body),
            logits_processors=processors,
        )

    def decoder(self) -> Decoder:
        """What decodes a request."""
        engine = ScriptedEngine(self.script, V, CONTEXT)
        return Decoder(engine, VOCABULARY, ScriptedDrafter(draft_law), k=4)

    def generate(self, prompts: list[list[int]], params: SamplingParams) -> list[Generated]:
        """Answers prompts together."""
        decoder = self.decoder()
        found = {
            index: sequence for index, sequence, _ in decoder.run(prompts, [params] * len(prompts))
        }
        return [generated(found[index]) for index in range(len(prompts))]

    def answer(self, body: dict[str, Any]) -> list[Generated]:
        """All choices of a request."""
        given = body["prompt"] if "prompt" in body else body["messages"][-1]["content"]
        texts = [given] if isinstance(given, str) else list(given)
        try:
            with self.lock:
                return self.generate([encode(text) for text in texts], self.params(body))
        except OneglanceError as error:
            raise RefusedError(str(error)) from None

    def events(self, found: Generated) -> list[list[Entry]]:
        """The pieces of a stream."""
        return [found.entries[start : start + 3] for start in range(0, len(found.entries), 3)]

    def ends_stream(self) -> bool:
        """Whether a stream comes to its end."""
        return True


def generated(sequence: Any) -> Generated:
    """The answer of a sequence that has ended; its end of text is counted, not listed."""
    entries = [entry_of(token) for token in sequence.tokens if token.token_id != EOS]
    return Generated(sequence.text, entries, sequence.ending.finish_reason, len(sequence.tokens))


def entry_of(token: Any) -> Entry:
    top = [(text_of(other), value) for other, value in token.top_logprobs]
    return Entry(text_of(token.token_id), token.logprob, top, token.kind)


def one_by_one(
    server: ScriptedServer,
    prompt: list[int],
    params: SamplingParams,
    change: Callable[[int, list[int], SamplingParams], SamplingParams],
) -> Generated:
    """Decodes with parameters that change from position to position."""
    output: list[int] = []
    entries: list[Entry] = []
    assert params.max_tokens is not None
    for position in range(params.max_tokens):
        single = replace(change(position, output, params), max_tokens=1)
        decoder = ScriptedServer.decoder(server)
        ((_, sequence, _),) = decoder.run([[*prompt, *output]], [single])
        token = sequence.tokens[0]
        if token.token_id == EOS:
            text = "".join(entry.text for entry in entries)
            return Generated(text, entries, "stop", len(entries) + 1)
        output.append(token.token_id)
        entries.append(entry_of(token))
    return Generated("".join(entry.text for entry in entries), entries, "length", len(entries))


def obeying(prompt_length: int) -> Any:
    """A grammar: one of two JSON objects, then the end."""

    def processor(tokens: tuple[int, ...], logits: Float64Array) -> Float64Array:
        written = "".join(text_of(token) for token in tokens[prompt_length:])
        allowed = set()
        for target in _SCHEMA_ANSWERS:
            if target == written:
                allowed.add(EOS)
            elif target.startswith(written):
                allowed.add(ord(target[len(written)]) - 32)
        if not allowed:  # a broken server has left the grammar, which then knows nothing
            return logits
        masked = np.full_like(logits, -np.inf)
        masked[sorted(allowed)] = logits[sorted(allowed)]
        return masked

    return processor


def prompt_length(body: dict[str, Any]) -> int:
    given = body["prompt"] if "prompt" in body else body["messages"][-1]["content"]
    return len(given)


def num_top(body: dict[str, Any]) -> int:
    if "prompt" in body:
        return int(body.get("logprobs") or 0)
    return int(body.get("top_logprobs", 0)) if body.get("logprobs") else 0
