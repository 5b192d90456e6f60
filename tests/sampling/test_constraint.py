"""Constraints compiled for a vocabulary: what they allow, and what is refused before any work."""

from __future__ import annotations

import sys
from itertools import product

import numpy as np
import pytest

from oneglance.constraints import Constraint, TokenMask
from oneglance.errors import ParameterError, UnsupportedError
from oneglance.sampling import constraint as constraint_module
from oneglance.sampling import grammar_mask
from oneglance.sampling.constraint import Grammars
from oneglance.sampling.grammar_mask import GrammarMask, first_line
from oneglance.sampling.grammar_tokens import GrammarTokens
from oneglance.types import BoolArray
from tests.small_vocabularies import LongestMatch

WORDS: list[bytes | str] = [b"a", b"b", b"ab", b"c", "<end>", "<other>", b"", b"\xc3", b"\xa4"]
A, B, AB, C, END, OTHER, EMPTY, HALF, REST = range(9)
TABLE = LongestMatch(WORDS, ends=["<end>"])
GRAMMARS = Grammars(TABLE)


def allowed(mask: TokenMask, *output: int) -> set[int] | None:
    found = mask.allowed(output)
    if found is None:
        return None
    assert found.shape == (len(WORDS),)
    return {int(token) for token in np.flatnonzero(found)}


def mask_of(constraint: Constraint, grammars: Grammars = GRAMMARS) -> TokenMask:
    mask = grammars.mask(constraint)
    assert mask is not None
    return mask


def test_tokens_are_allowed_where_some_text_goes_on_with_them() -> None:
    mask = mask_of(Constraint.regex("[ab]{1,3}"))
    assert allowed(mask) == {A, B, AB}
    assert allowed(mask, AB) == {A, B, END}
    assert allowed(mask, A) == {A, B, AB, END}
    assert allowed(mask, AB, A) == {END}


def test_certain_text_is_certain_in_tokens() -> None:
    mask = mask_of(Constraint.regex("abab(b|a)"))
    assert [allowed(mask), allowed(mask, AB), allowed(mask, AB, AB)] == [{AB}, {AB}, {A, B}]


def test_halves_of_a_character_are_tokens_too() -> None:
    mask = mask_of(Constraint.regex("aä|b"))
    assert allowed(mask, A) == {HALF}
    assert allowed(mask, A, HALF) == {REST}


def test_a_grammar_can_name_control_tokens() -> None:
    mask = mask_of(Constraint.grammar('start: "c" <other> "c"'))
    assert allowed(mask, C) == {OTHER}
    assert allowed(mask, C, OTHER) == {C}


def test_choices_are_allowed_as_they_are_written() -> None:
    mask = mask_of(Constraint.choices(["ab", "c", "ab"]))
    assert allowed(mask) == {A, AB, C}
    assert allowed(mask, C) == {END}
    assert allowed(mask, A) == {B}


def test_white_space_in_json_is_bounded_and_up_to_the_schema() -> None:
    words: list[bytes | str] = [b"[", b"]", b" " * 39, b" ", b"  ", "<end>"]
    grammars = Grammars(LongestMatch(words, ends=["<end>"]))
    schema = {"type": "array", "maxItems": 0}
    table = {
        "free": (Constraint.json_schema(schema), {1, 2, 3, 4}),
        "fixed": (
            Constraint.json_schema({"x-guidance": {"whitespace_flexible": False}, **schema}),
            {1},
        ),
        "own": (
            Constraint.json_schema({"x-guidance": {"whitespace_pattern": " "}, **schema}),
            {1, 3},
        ),
    }
    for constraint, expected in table.values():
        found = mask_of(constraint, grammars).allowed((0,))
        assert found is not None
        assert set(np.flatnonzero(found).tolist()) == expected
    found = mask_of(table["free"][0], grammars).allowed((0, 2))
    assert found is not None
    assert set(np.flatnonzero(found).tolist()) == {1, 3}, "39 and 2 are too many"


def test_nothing_is_said_where_no_answer_gets() -> None:
    mask = mask_of(Constraint.regex("abab(b|a)"))
    assert allowed(mask, AB, AB, A, END) is None, "behind the end"
    assert allowed(mask, C) is None, "behind a forbidden token"
    assert allowed(mask, A) is None, "behind another division of a certain text"
    assert allowed(mask, C, A) is None
    assert allowed(mask, AB) == {AB}, "and other positions are as before"


@pytest.mark.parametrize(
    "constraint",
    [
        Constraint.regex("a?(ab|bc){1,2}a{0,2}"),
        Constraint.grammar('start: "a" start? "b" | "c"'),
        Constraint.choices(["abcab", "abba", "cab", "a"]),
    ],
)
def test_what_is_allowed_does_not_depend_on_what_was_asked_before(constraint: Constraint) -> None:
    outputs = [out for size in range(4) for out in product((A, B, AB, C, END), repeat=size)]
    expected = {output: allowed(mask_of(constraint), *output) for output in outputs}
    order = np.random.default_rng(0)
    mask = mask_of(constraint)
    for _ in range(3):
        order.shuffle(outputs)
        assert {output: allowed(mask, *output) for output in outputs} == expected
    assert sum(found is None for found in expected.values()) > 10
    assert len({frozenset(found) for found in expected.values() if found}) > 3


class WithoutRollback(GrammarMask):
    """Goes on from where it stands, as though the path had led there."""

    def _go_to(self, output: tuple[int, ...]) -> bool:
        self._tokens = output[: len(self._tokens)]
        return super()._go_to(output)


def test_the_test_above_would_find_a_forgotten_rollback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constraint_module, "GrammarMask", WithoutRollback)
    with pytest.raises(AssertionError):
        test_what_is_allowed_does_not_depend_on_what_was_asked_before(
            Constraint.choices(["abcab", "abba", "cab", "a"])
        )


def test_only_the_last_masks_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grammar_mask, "_NUM_KEPT", 3)
    mask = mask_of(Constraint.regex("[ab]{1,12}"))
    assert isinstance(mask, GrammarMask)
    for size in range(10):
        assert allowed(mask, *[A] * size) == {A, B, AB} | ({END} if size else set())
        assert len(mask._bits) <= 3
    assert allowed(mask, A) == {A, B, AB, END}


def test_only_the_last_grammars_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constraint_module, "_NUM_KEPT", 2)
    grammars = Grammars(TABLE)
    for pattern in ("a", "b", "a", "c"):
        mask_of(Constraint.regex(pattern), grammars)
    assert [each.text for each in grammars._compiled] == ["a", "c"]


def test_a_mask_of_ones_own_is_left_alone() -> None:
    class Anything(TokenMask):
        def allowed(self, output: tuple[int, ...]) -> BoolArray | None:  # noqa: ARG002
            return None

    mask = Anything()
    GRAMMARS.check(mask)
    assert GRAMMARS.mask(mask) is mask
    GRAMMARS.check(None)
    assert GRAMMARS.mask(None) is None


REFUSED = {
    "schema": (
        Constraint.json_schema({"uniqueItems": True}),
        'Unimplemented keys: ["uniqueItems"]',
    ),
    "format": (Constraint.json_schema({"type": "string", "format": "x"}), "Unknown format: x"),
    "empty set": (Constraint.json_schema({"enum": []}), "json_schema cannot be used"),
    "regex": (Constraint.regex("(a"), "unclosed group"),
    "lookahead": (Constraint.regex("(?=a)b"), "look-around"),
    "rule": (Constraint.grammar("start: foo"), 'unknown name: "foo"'),
    "limit": (Constraint.grammar('start: x "c"\nx[max_tokens=3]: /[ab]*/'), "rollback"),
    "temperature": (
        Constraint.grammar('start: x\nx[capture, temperature=0.5]: "[temperature=1]" /a[\\]/]/'),
        r"\[capture, temperature=0.5\]",
    ),
    "unspeakable": (Constraint.regex("(xyz)+"), "no token of the model spells"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_enforced_is_refused_with_its_reason(name: str) -> None:
    constraint, reason = REFUSED[name]
    pattern = reason if name in ("temperature", "unspeakable") else None
    with pytest.raises(ParameterError, match=pattern) as raised:
        GRAMMARS.check(constraint)
    if pattern is None:
        assert reason in str(raised.value)
    assert "\n" not in str(raised.value)
    assert "<state>" not in str(raised.value)


def test_brackets_in_texts_are_no_options() -> None:
    source = 'start: "[temperature=1]" | /[temperature=]/ // [temperature=1]\n# [temperature=1]\n'
    GRAMMARS.check(Constraint.grammar(source.replace("start: ", 'start: "a" | ')))


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llguidance", None)
    with pytest.raises(UnsupportedError, match=r"pip install 'oneglance\[grammar\]'"):
        Grammars(TABLE).check(Constraint.regex("a"))


def test_a_model_without_an_end_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="regex cannot be used: the model has no end"):
        Grammars(LongestMatch(WORDS)).check(Constraint.regex("a"))


def test_text_that_no_token_spells_is_an_error_where_it_must_come() -> None:
    mask = mask_of(Constraint.regex("[ab]{2}xyz|[ab]{3}"))
    assert allowed(mask, A) == {A, B, AB}
    mask = mask_of(Constraint.regex("(a|c)xyz|b"))
    for _ in range(2):  # also when it is asked again
        with pytest.raises(ParameterError, match="cannot be followed at position 1"):
            allowed(mask, A)
        assert allowed(mask, B) == {END}, "other positions can still be asked for"


def test_the_reason_is_the_first_part_of_a_message() -> None:
    assert first_line("no;\n  good.\n<state>\nmuch\n</state>") == "no; good"
    assert first_line("<state>") == "the library does not say why"
    assert len(first_line("x" * 1000)) == 300


class Spaced(LongestMatch):
    """Puts a space in front of every text, as SentencePiece does."""

    def encode(self, text: str, parse_special: bool = False, add_bos: bool = False) -> list[int]:
        return super().encode(" " + text, parse_special, add_bos)


@pytest.mark.parametrize("kind", [LongestMatch, Spaced])
def test_certain_bytes_are_divided_as_the_tokenizer_does(kind: type[LongestMatch]) -> None:
    words: list[bytes | str] = [b" ", b"\n", b"a", b"b", b" a", b"aa", b"aab", "<end>"]
    tokens = GrammarTokens(kind(words, ends=["<end>"]))
    assert tokens(b"aab") == [6]
    assert tokens("baa") == [3, 5]
    assert tokens(" a") == [4]
    assert tokens("") == []


def test_bytes_that_are_no_text_are_divided_into_the_longest_tokens() -> None:
    words: list[bytes | str] = [b"\xc3", b"\xa4\xc3", b"\xa4", b"a", "<end>", b"\xc3"]
    tokens = GrammarTokens(LongestMatch(words, ends=["<end>"]))
    assert tokens(b"\xc3\xa4\xc3") == [0, 1]
    assert tokens(b"axa") == [3], "as far as there are tokens"
    assert GrammarTokens(LongestMatch(["<end>"], ends=["<end>"]))(b"a") == []
