from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oneglance.checkpoints import StreamDecoder, Tokenizer, load_checkpoint
from oneglance.errors import CheckpointError
from tests.checkpoints.slow_bpe import merge_by_score
from tests.tiny_models import TinyShape, write_tiny_gguf, write_tiny_hf

BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
PIECES = [
    "▁t", "he", "▁the", "in", "▁a", "an", "▁an", "er", "▁▁", "▁▁▁▁", "nd", "▁and", "ing",
    "▁", "t", "h", "e", "i", "n", "a", "r", "g", "d", "s", "é", ".",
]  # fmt: skip
TOKENS = ["<unk>", "<s>", "</s>", *BYTES, *PIECES, "[TOOL]"]
KINDS = [2, 3, 3, *[6] * 256, *[1] * len(PIECES), 4]
SCORES = [0.0] * 259 + [-float(index) for index in range(len(PIECES) + 1)]
SHAPE = TinyShape(vocab_padding=60)
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from(" ▁theanding"))


def write_gguf(folder: Path, **changes: Any) -> Path:
    metadata = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": TOKENS,
        "tokenizer.ggml.token_type": KINDS,
        "tokenizer.ggml.scores": SCORES,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.add_bos_token": None,
        "tokenizer.ggml.pre": None,
        "tokenizer.ggml.merges": None,
        **{f"tokenizer.ggml.{key}": value for key, value in changes.items()},
    }
    return write_tiny_gguf(folder / "m.gguf", shape=SHAPE, metadata=metadata)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return load_checkpoint(write_gguf(tmp_path_factory.mktemp("spm"))).tokenizer


def spelled(tokenizer: Tokenizer, text: str, **options: bool) -> list[str]:
    return [TOKENS[token_id] for token_id in tokenizer.encode(text, **options)]


def test_merges_as_sentencepiece_does(tokenizer: Tokenizer) -> None:
    scores = {piece: SCORES[259 + index] for index, piece in enumerate(PIECES)}
    rng = random.Random(3)
    for _ in range(400):
        text = "".join(rng.choices("the and ing   aé.s", k=rng.randint(1, 30)))
        symbols = list("▁" + text.replace(" ", "▁"))
        assert spelled(tokenizer, text) == merge_by_score(symbols, scores), text


def test_spells_rare_characters_and_marks_in_bytes(tokenizer: Tokenizer) -> None:
    assert spelled(tokenizer, "the日") == ["▁the", "<0xE6>", "<0x97>", "<0xA5>"]
    assert spelled(tokenizer, "a▁a") == ["▁a", "<0xE2>", "<0x96>", "<0x81>", "a"]
    assert spelled(tokenizer, "\n") == ["▁", "<0x0A>"]
    assert spelled(tokenizer, "") == []


@settings(max_examples=300, deadline=None)
@given(text=ANY_TEXT)
def test_any_text_comes_back(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text, add_bos=True)
    assert ids[0] == 1
    assert tokenizer.decode(ids) == text


@pytest.mark.parametrize("text", ["[TOOL]", " [TOOL] a", "[TOOL] the", "a[TOOL][TOOL] ", "▁ a"])
def test_text_with_literal_tokens_comes_back(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert ids.count(TOKENS.index("[TOOL]")) == text.count("[TOOL]")


def test_a_literal_token_that_begins_with_a_space_keeps_it(tmp_path: Path) -> None:
    tokenizer = load_checkpoint(write_gguf(tmp_path, tokens=[*TOKENS[:-1], " [TOOL]"])).tokenizer
    ids = tokenizer.encode(" [TOOL]a")
    assert ids[0] == len(TOKENS) - 1
    assert tokenizer.decode(ids) == " [TOOL]a"


def test_a_text_without_a_prefix_comes_back(tmp_path: Path) -> None:
    tokenizer = load_checkpoint(write_gguf(tmp_path, add_space_prefix=False)).tokenizer
    for text in ("the", " the", "  the"):
        assert tokenizer.decode(tokenizer.encode(text)) == text
    assert spelled(tokenizer, "the") == ["t", "he"]


def test_tokens_keep_their_space_in_a_stream(tokenizer: Tokenizer) -> None:
    assert tokenizer.token_bytes(TOKENS.index("▁the")) == b" the"
    decoder = StreamDecoder(tokenizer)
    assert decoder.push(TOKENS.index("▁the")) == " the"


def test_control_tokens_are_parsed_only_on_request(tokenizer: Tokenizer) -> None:
    parsed = spelled(tokenizer, "the</s>the", parse_special=True)
    assert parsed == ["▁the", "</s>", "▁the"]
    assert tokenizer.special_ids.isdisjoint(tokenizer.encode("<s></s><unk>"))
    assert tokenizer.eos_ids == {2}
    assert tokenizer.adds_bos


@pytest.mark.parametrize("missing", ["<0x41>", "▁"])
def test_refuses_a_vocabulary_that_cannot_spell_every_text(tmp_path: Path, missing: str) -> None:
    tokens = ["x" if token == missing else token for token in TOKENS]
    with pytest.raises(CheckpointError, match=missing):
        load_checkpoint(write_gguf(tmp_path, tokens=tokens))


def write_hf(folder: Path, **changes: Any) -> Path:
    """The same vocabulary as Hugging Face writes it, its merges ordered by score."""
    write_tiny_hf(folder, shape=SHAPE, config={"bos_token_id": 1, "eos_token_id": 2})
    (folder / "generation_config.json").unlink()
    (folder / "tokenizer_config.json").write_text('{"add_bos_token": true}')
    merges = [
        [piece[:cut], piece[cut:]]
        for piece in PIECES
        for cut in range(1, len(piece))
        if piece[:cut] in PIECES and piece[cut:] in PIECES
    ]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    added = [(0, True), (1, True), (2, True), (len(TOKENS) - 1, False)]
    description = {
        "added_tokens": [
            {"id": i, "content": TOKENS[i], "special": special, **flags} for i, special in added
        ],
        "normalizer": {
            "type": "Sequence",
            "normalizers": [
                {"type": "Prepend", "prepend": "▁"},
                {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
            ],
        },
        "pre_tokenizer": None,
        "model": {
            "type": "BPE",
            "byte_fallback": True,
            "vocab": {token: i for i, token in enumerate(TOKENS[:-1])},
            "merges": merges,
        },
        **changes,
    }
    (folder / "tokenizer.json").write_text(json.dumps(description))
    return folder


def test_both_formats_give_the_same_ids(tmp_path: Path, tokenizer: Tokenizer) -> None:
    other = load_checkpoint(write_hf(tmp_path / "m")).tokenizer
    assert other.fingerprint() == tokenizer.fingerprint()
    assert (other.bos_id, other.adds_bos) == (1, True)
    assert other.eos_ids == {2}
    for text in ("the and", "  a日▁", "x[TOOL] the", "</s> the"):
        for parse_special in (True, False):
            expected = tokenizer.encode(text, parse_special, add_bos=True)
            assert other.encode(text, parse_special, add_bos=True) == expected


@pytest.mark.parametrize(
    ("scheme", "expected"),
    [
        ("first", ["▁the", "</s>", "t", "he"]),
        ("always", ["▁the", "</s>", "▁the"]),
        ("never", ["t", "he", "</s>", "t", "he"]),
    ],
)
@pytest.mark.parametrize("split", [True, False])
def test_reads_the_rule_for_spaces(
    tmp_path: Path, scheme: str, expected: list[str], split: bool
) -> None:
    step = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split}
    folder = write_hf(tmp_path / "m", normalizer=None, pre_tokenizer=step)
    tokenizer = load_checkpoint(folder).tokenizer
    assert spelled(tokenizer, "the</s>the", parse_special=True) == expected
    assert spelled(tokenizer, "a    a").count("▁▁") == (0 if split else 1)


@pytest.mark.parametrize(
    ("changes", "mention"),
    [
        ({"normalizer": {"type": "Lowercase"}}, "Lowercase"),
        ({"pre_tokenizer": {"type": "Whitespace"}}, "Whitespace"),
        ({"normalizer": None}, "spell spaces"),
        ({"model": {"type": "Unigram"}}, "Unigram"),
        ({"model": {"type": "BPE", "vocab": {}}}, "vocab"),
        ({"model": {"type": "BPE", "vocab": {"a": 9999}}}, "9999"),
        ({"model": {"type": "BPE", "vocab": {"a": "b"}}}, "'b'"),
        ({"model": {"type": "BPE", "vocab": {"a": 5}, "merges": ["a"]}}, "merges"),
        ({"added_tokens": [{"id": 3}]}, "added_tokens"),
        (
            {"added_tokens": [{"id": 3, "content": "q", "special": False, "lstrip": True}]},
            "white space",
        ),
    ],
)
def test_refuses_a_tokenizer_file(tmp_path: Path, changes: dict[str, Any], mention: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(write_hf(tmp_path / "m", **changes))
    assert mention in str(caught.value)
    assert "tokenizer.json" in str(caught.value)
