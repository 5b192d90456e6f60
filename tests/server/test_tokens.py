"""Tokens in writing: distinct, whole, and where they begin."""

from __future__ import annotations

import math

import pytest

from oneglance.checkpoints.base import Tokenizer
from oneglance.llm import load
from oneglance.server.tokens import (
    LEAST_LOGPROB,
    TextOffsets,
    chat_logprobs,
    completion_logprobs,
    origins,
    token_text,
)
from oneglance.types import Token
from tests.tiny_models import write_tiny_gguf


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    path = write_tiny_gguf(tmp_path_factory.mktemp("tiny") / "tiny.gguf")
    return load(str(path), "none").tokenizer


def token(token_id: int, logprob: float = -1.0, *top: tuple[int, float]) -> Token:
    return Token(token_id, "plain", None, logprob, 0, top)


def test_distinct_tokens_are_written_differently(tokenizer: Tokenizer) -> None:
    written = [token_text(tokenizer, each) for each in range(tokenizer.vocab_size)]
    assert len(set(written)) == len(written)
    assert all(written)


def test_bytes_make_up_the_text(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("Zoë 🙂!")
    shown = chat_logprobs(tokenizer, [token(each) for each in ids])["content"]
    data = bytes(byte for entry in shown for byte in entry["bytes"])
    assert data.decode() == "Zoë 🙂!"
    assert any(entry["token"].startswith("bytes:\\x") for entry in shown)


def test_offsets_count_characters(tokenizer: Tokenizer) -> None:
    text = "é🙂 a"
    ids = tokenizer.encode(text)
    offsets = TextOffsets(tokenizer, start=10)
    found = [offsets.push(each) for each in ids]
    # Two bytes, then four, one token each: a part of a character begins where that does.
    assert found[:7] == [10, 10, 11, 11, 11, 11, 12]


def test_the_delivered_token_is_among_those_shown(tokenizer: Tokenizer) -> None:
    a, b = tokenizer.encode("ab")
    shown = completion_logprobs(tokenizer, [token(a, -3.0, (b, -0.5))], 1, TextOffsets(tokenizer))
    assert shown["top_logprobs"] == [{"b": -0.5, "a": -3.0}]
    assert shown["token_logprobs"] == [-3.0]
    none = completion_logprobs(tokenizer, [token(a)], 0, TextOffsets(tokenizer))
    assert none["top_logprobs"] is None


def test_json_has_no_infinity(tokenizer: Tokenizer) -> None:
    shown = chat_logprobs(tokenizer, [token(5, -math.inf)])["content"]
    assert shown[0]["logprob"] == LEAST_LOGPROB


def test_origins_tell_who_drafted(tokenizer: Tokenizer) -> None:
    drafted = Token(5, "accepted", "ngram", -1.0, 3)
    assert origins(tokenizer, [drafted])[0] | {"text": ""} == {
        "id": 5,
        "text": "",
        "kind": "accepted",
        "drafter": "ngram",
        "pass": 3,
    }
