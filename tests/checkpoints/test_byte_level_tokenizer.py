from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence

from oneglance.checkpoints import Checkpoint, Tokenizer, load_checkpoint
from oneglance.checkpoints.gguf_file import read_gguf
from oneglance.errors import ParameterError
from tests.checkpoints.slow_bpe import merge_by_rank
from tests.tiny_models import TinyShape, byte_alphabet, write_tiny_gguf, write_tiny_hf

TRICKY = [
    "",
    " ",
    "  leading and trailing  ",
    "\n\n\t \r\n x",
    "caf\u00e9 cafe\u0301 \u212b",
    "😀👨‍👩‍👧‍👦🇫🇷",
    "\x00\x01\x7f\x80\xa0\u2028\ufeff\ufffd",
    "don't DON'T we'll",
    "<|im_start|>user\n<|im_end|><|endoftext|>",
    "\N{LATIN CAPITAL LETTER G WITH DOT ABOVE}the \u2581x",
    "日本語 中文 العربية עברית",
    "3.14159 ²½Ⅷ ١٢٣",
]
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    path = tmp_path_factory.mktemp("tiny") / "m.gguf"
    return load_checkpoint(write_tiny_gguf(path)).tokenizer


@pytest.fixture
def smollm(default_model: Checkpoint) -> Tokenizer:
    return default_model.tokenizer


@pytest.mark.parametrize("text", TRICKY)
def test_text_comes_back(tiny: Tokenizer, text: str) -> None:
    ids = tiny.encode(text)
    assert tiny.decode(ids) == text
    assert b"".join(map(tiny.token_bytes, ids)) == text.encode()
    assert tiny.special_ids.isdisjoint(ids)


@settings(max_examples=300, deadline=None)
@given(text=ANY_TEXT)
def test_any_text_comes_back(tiny: Tokenizer, text: str) -> None:
    assert tiny.decode(tiny.encode(text)) == text


@settings(max_examples=200, deadline=None)
@given(text=ANY_TEXT)
def test_the_default_model_gives_text_back_or_refuses_it(
    default_model: Checkpoint, text: str
) -> None:
    try:
        ids = default_model.tokenizer.encode(text)
    except ParameterError:
        lacking = {0x04, 0x06, 0x13, 0x14, 0x16, 0x1D, 0xF1, 0xF2}
        assert lacking & set(text.encode())
    else:
        assert default_model.tokenizer.decode(ids) == text


def test_names_a_character_without_a_token(smollm: Tokenizer) -> None:
    with pytest.raises(ParameterError, match=r"U\+0004 at position 3"):
        smollm.encode("aé \x04")
    with pytest.raises(ParameterError, match=r"U\+40000 at position 1"):
        smollm.encode("a\U00040000")


def test_names_a_lone_surrogate(smollm: Tokenizer) -> None:
    with pytest.raises(ParameterError, match=r"U\+D83D at position 2"):
        smollm.encode("ab\ud83d")


def random_texts(count: int) -> list[str]:
    rng = random.Random(5)
    words = ["the", " of", " 2024", "ing", "Ünï", "日本", "😀", "'s", "\n", "  ", "<|", "_end"]
    alphabet = "".join(map(chr, [*range(32, 127), *range(0xC0, 0x180), *range(0x3041, 0x3080)]))
    texts = []
    for _ in range(count):
        parts = [
            rng.choice(words) if rng.random() < 0.5 else "".join(rng.choices(alphabet, k=6))
            for _ in range(rng.randint(1, 10))
        ]
        texts.append("".join(parts))
    return texts


def test_ids_are_those_of_slow_byte_pair_encoding(
    smollm: Tokenizer, default_model_path: Path
) -> None:
    metadata = read_gguf(default_model_path).metadata
    ids = {token: i for i, token in enumerate(metadata["tokenizer.ggml.tokens"])}
    merges = [merge.split(" ") for merge in metadata["tokenizer.ggml.merges"]]
    ranks = {(left, right): rank for rank, (left, right) in enumerate(merges)}
    # The rule that SmolLM2's own tokenizer.json states: single digits, then GPT-2's words.
    words = Sequence([Digits(individual_digits=True), ByteLevel(add_prefix_space=False)])
    for text in [*random_texts(300), *TRICKY[:1], *TRICKY[1:4], *TRICKY[7:12]]:
        expected = [
            ids[symbol]
            for word, _ in words.pre_tokenize_str(text)
            for symbol in merge_by_rank(word, ranks)
        ]
        assert smollm.encode(text) == expected, text


def test_known_ids(smollm: Tokenizer) -> None:
    assert smollm.encode("Hello, world!") == [19556, 28, 905, 17]
    assert smollm.token_label(2) == "<|im_end|>"
    assert smollm.eos_ids == {0, 2, 4}
    assert (smollm.bos_id, smollm.adds_bos, smollm.vocab_size) == (1, False, 49152)


def test_control_tokens_are_parsed_only_on_request(tiny: Tokenizer) -> None:
    text = "in<|im_end|><|im_start|>the"
    assert tiny.encode(text, parse_special=True) == [
        *tiny.encode("in"),
        2,
        1,
        *tiny.encode("the"),
    ]
    assert tiny.special_ids.isdisjoint(tiny.encode(text))
    assert tiny.decode([2, 1, 0]) == ""


def test_the_longest_control_token_that_fits_is_parsed(tmp_path: Path) -> None:
    metadata = {
        "tokenizer.ggml.tokens": ["<x>", "<x>y", *byte_alphabet(), "ab"],
        "tokenizer.ggml.token_type": [3, 3] + [1] * 257,
        "tokenizer.ggml.merges": ["a b"],
        "tokenizer.ggml.eos_token_id": 0,
    }
    tokenizer = load_checkpoint(write_tiny_gguf(tmp_path / "m.gguf", metadata=metadata)).tokenizer
    assert tokenizer.encode("<x>y<x>ab", parse_special=True) == [1, 0, 258]


def test_a_merge_cannot_spell_a_control_token(tmp_path: Path) -> None:
    tokens = ["<s>", *byte_alphabet(), "<s"]
    metadata = {
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3] + [1] * 257,
        "tokenizer.ggml.merges": ["< s", "<s >"],
        "tokenizer.ggml.pre": "llama-bpe",
        "tokenizer.ggml.eos_token_id": 0,
    }
    tokenizer = load_checkpoint(write_tiny_gguf(tmp_path / "m.gguf", metadata=metadata)).tokenizer
    assert tokenizer.encode("<s>") == [257, tokens.index(">")]
    assert tokenizer.encode("<s>", parse_special=True) == [0]


def test_words_that_are_tokens_ignore_merges_under_the_rule_of_llama_3(tmp_path: Path) -> None:
    tokens = ["<e>", *byte_alphabet(), "ab", "abc"]
    metadata = {
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3] + [1] * 258,
        "tokenizer.ggml.merges": ["a b"],
        "tokenizer.ggml.eos_token_id": 0,
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.add_bos_token": None,
    }
    for rule, expected in (("llama-bpe", [258]), ("gpt-2", [257, tokens.index("c")])):
        metadata["tokenizer.ggml.pre"] = rule
        path = write_tiny_gguf(tmp_path / "m.gguf", metadata=metadata)
        tokenizer = load_checkpoint(path).tokenizer
        assert tokenizer.encode("abc") == expected
        bos = [0] if rule == "llama-bpe" else []
        assert tokenizer.encode("abc", add_bos=True) == [*bos, *expected]


def test_literal_tokens_are_always_parsed_and_unused_ones_never(tmp_path: Path) -> None:
    metadata = {
        "tokenizer.ggml.tokens": ["<e>", *byte_alphabet(), "<tool> ", "<gap>", "to", "[PAD]"],
        "tokenizer.ggml.token_type": [3] + [1] * 256 + [4, 5, 1, 5],
        "tokenizer.ggml.merges": ["t o"],
        "tokenizer.ggml.eos_token_id": 0,
    }
    tokenizer = load_checkpoint(write_tiny_gguf(tmp_path / "m.gguf", metadata=metadata)).tokenizer
    ids = tokenizer.encode("to<tool> <gap>[PAD]")
    assert ids[:2] == [259, 257]
    assert {258, 260}.isdisjoint(ids)
    assert tokenizer.decode(ids) == "to<tool> <gap>[PAD]"
    assert tokenizer.vocab_size == 260
    assert tokenizer.token_bytes(258) == tokenizer.token_bytes(260) == b""


def test_literal_tokens_that_look_like_control_tokens_are_such(tmp_path: Path) -> None:
    kinds = [4] * 3 + [1] * 268
    metadata = {"tokenizer.ggml.token_type": kinds, "tokenizer.ggml.eos_token_id": None}
    gguf = load_checkpoint(write_tiny_gguf(tmp_path / "m.gguf", metadata=metadata)).tokenizer
    folder = write_tiny_hf(tmp_path / "m", config={"eos_token_id": None})
    (folder / "generation_config.json").unlink()
    (folder / "tokenizer_config.json").unlink()
    path = folder / "tokenizer.json"
    path.write_text(path.read_text().replace('"special": true', '"special": false'))
    for tokenizer in (gguf, load_checkpoint(folder).tokenizer):
        assert tokenizer.special_ids == {0, 1, 2}
        assert tokenizer.eos_ids == {0, 2}
        assert tokenizer.special_ids.isdisjoint(tokenizer.encode("<|im_end|>"))


def test_ids_outside_the_vocabulary_have_no_bytes(tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "m.gguf", shape=TinyShape(vocab_padding=3))
    tokenizer = load_checkpoint(path).tokenizer
    assert tokenizer.vocab_size == 271
    assert [tokenizer.token_bytes(i) for i in (-1, 271, 273, 10**9)] == [b""] * 4
    assert tokenizer.token_label(272) == "[272]"


def test_labels_are_printable(smollm: Tokenizer) -> None:
    for token_id in range(smollm.vocab_size):
        assert smollm.token_label(token_id).isprintable()
    assert smollm.token_label(smollm.encode("\n")[0]) == "\\n"
    assert smollm.token_label(smollm.encode(" the")[0]) == " the"


def test_fingerprint_tells_vocabularies_apart(tmp_path: Path) -> None:
    def fingerprint(tokens: list[str], kinds: list[int], padding: int = 0) -> str:
        metadata = {
            "tokenizer.ggml.tokens": [*tokens, *["[PAD]"] * padding],
            "tokenizer.ggml.token_type": [*kinds, *[5] * padding],
            "tokenizer.ggml.merges": ["a b"],
        }
        path = write_tiny_gguf(tmp_path / "m.gguf", metadata=metadata)
        return load_checkpoint(path).tokenizer.fingerprint()

    controls, symbols = ["<a>", "<b>", "<c>"], byte_alphabet()
    plain = fingerprint([*controls, *symbols, "ab"], [3] * 3 + [1] * 257)
    assert fingerprint([*controls, *symbols, "ab"], [3] * 3 + [1] * 257, padding=4) == plain
    others = {
        fingerprint([*controls, *symbols[::-1], "ab"], [3] * 3 + [1] * 257),
        fingerprint([*controls, *symbols, "ab", "abc"], [3] * 3 + [1] * 258),
        fingerprint([*controls[::-1], *symbols, "ab"], [3] * 3 + [1] * 257),
        fingerprint([*controls, "<d>", *symbols, "ab"], [3] * 4 + [1] * 257),
        fingerprint([*controls, "<d>", *symbols, "ab"], [3] * 3 + [4] + [1] * 257),
    }
    assert len(others | {plain}) == 6


@pytest.mark.parametrize(
    "text", ["a" * 100_000, " " * 100_000, "the cat " * 12_500, "<" * 100_000, "\n " * 50_000]
)
def test_long_texts_take_no_quadratic_time(smollm: Tokenizer, text: str) -> None:
    start = time.process_time()
    ids = smollm.encode(text, parse_special=True)
    assert time.process_time() - start < 1.5
    assert smollm.decode(ids) == text


def test_a_folder_with_normal_form_c_keeps_other_text_as_it_is(tmp_path: Path) -> None:
    folder = write_tiny_hf(tmp_path / "m")
    path = folder / "tokenizer.json"
    description = json.loads(path.read_text())
    description["normalizer"] = {"type": "NFC"}
    path.write_text(json.dumps(description))
    tokenizer = load_checkpoint(folder).tokenizer
    assert tokenizer.decode(tokenizer.encode("cafe\u0301")) == "cafe\u0301"
