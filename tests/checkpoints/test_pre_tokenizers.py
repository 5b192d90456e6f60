from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence

from oneglance.checkpoints.byte_level import BYTE_OF_CHARACTER
from oneglance.checkpoints.pre_tokenizers import SPLIT_RULES, build_pre_tokenizer

ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]))


def words(rule: str, text: str) -> list[str]:
    """The words that a rule cuts a text into, back in characters."""
    pieces = build_pre_tokenizer(SPLIT_RULES[rule]).pre_tokenize_str(text)
    return [bytes(BYTE_OF_CHARACTER[c] for c in piece).decode() for piece, _ in pieces]


@pytest.mark.parametrize(
    ("rule", "text", "expected"),
    [
        ("smollm", "in 2024!", ["in", " ", "2", "0", "2", "4", "!"]),
        ("gpt-2", "in 2024!", ["in", " 2024", "!"]),
        ("llama-bpe", "in 2024!", ["in", " ", "202", "4", "!"]),
        ("llama-bpe", "1234567", ["123", "456", "7"]),
        ("qwen2", "in 2024!", ["in", " ", "2", "0", "2", "4", "!"]),
        ("default", "in 2024!", ["in", " ", "202", "4", "!"]),
        ("smollm", "don't DON'T", ["don", "'t", " DON", "'", "T"]),
        ("gpt-2", "we'll've", ["we", "'ll", "'ve"]),
        ("llama-bpe", "don't DON'T", ["don", "'t", " DON", "'T"]),
        ("qwen2", "don't DON'T", ["don", "'t", " DON", "'T"]),
        ("smollm", "a\n\nb", ["a", "\n", "\n", "b"]),
        ("llama-bpe", "a\n\nb", ["a", "\n\n", "b"]),
        ("qwen2", "x;\n\n  y", ["x", ";\n\n", " ", " y"]),
        ("qwen2", "a \n b", ["a", " \n", " b"]),
        ("smollm", "a   b  ", ["a", "  ", " b", "  "]),
        ("qwen2", "(foo_bar)", ["(foo", "_bar", ")"]),
        ("smollm", "(foo_bar)", ["(", "foo", "_", "bar", ")"]),
        ("llama-bpe", "日本語 ok", ["日本語", " ok"]),
        ("default", "a+b, c", ["a", "+", "b", ",", " c"]),
    ],
)
def test_cuts_as_the_models_were_trained(rule: str, text: str, expected: list[str]) -> None:
    assert words(rule, text) == expected


@settings(max_examples=300, deadline=None)
@given(text=ANY_TEXT)
def test_agrees_with_the_steps_that_tokenizer_files_name(text: str) -> None:
    whole = ByteLevel(add_prefix_space=False)
    digits = Sequence([Digits(individual_digits=True), whole])
    for rule, reference in (("gpt-2", whole), ("smollm", digits)):
        own = build_pre_tokenizer(SPLIT_RULES[rule])
        assert own.pre_tokenize_str(text) == reference.pre_tokenize_str(text)


@settings(max_examples=200, deadline=None)
@given(text=ANY_TEXT, rule=st.sampled_from(sorted(SPLIT_RULES)))
def test_no_rule_loses_text(text: str, rule: str) -> None:
    assert "".join(words(rule, text)) == text
