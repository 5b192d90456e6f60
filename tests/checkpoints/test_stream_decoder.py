from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oneglance.checkpoints import StreamDecoder, Tokenizer, load_checkpoint
from tests.tiny_models import write_tiny_gguf

NUM_TOKENS = 271


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return load_checkpoint(write_tiny_gguf(tmp_path_factory.mktemp("stream") / "m.gguf")).tokenizer


@settings(max_examples=300, deadline=None)
@given(
    text=st.text(st.characters(exclude_categories=["Cs"])),
    token_ids=st.lists(st.integers(0, NUM_TOKENS + 5)),
)
def test_pieces_are_the_text_of_all_bytes(
    tokenizer: Tokenizer, text: str, token_ids: list[int]
) -> None:
    ids = [*tokenizer.encode(text), *token_ids]
    decoder = StreamDecoder(tokenizer)
    pieces = [decoder.push(token_id) for token_id in ids]
    whole = b"".join(map(tokenizer.token_bytes, ids)).decode(errors="replace")
    assert "".join(pieces) + decoder.flush() == whole


def test_never_shows_half_a_character(tokenizer: Tokenizer) -> None:
    decoder = StreamDecoder(tokenizer)
    ids = tokenizer.encode("😀é")
    assert [decoder.push(token_id) for token_id in ids] == ["", "", "", "😀", "", "é"]
    assert decoder.flush() == ""


def test_flush_shows_what_is_left_and_starts_anew(tokenizer: Tokenizer) -> None:
    decoder = StreamDecoder(tokenizer)
    first, *rest = tokenizer.encode("é")
    assert decoder.push(first) == ""
    assert decoder.flush() == "\ufffd"
    assert decoder.flush() == ""
    assert [decoder.push(token_id) for token_id in (first, *rest)] == ["", "é"]
