"""The earliest event wins; text and tokens are cut alike; nothing released is taken back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oneglance.config import SamplingParams
from oneglance.decode.stop import Ending, StopTracker

EOS = 99
PIECES = [b"a", b"b", b"ab", b"bc", b"c", b"aba", b"\xc3", b"\xa9", "é".encode(), b"", b" "]


def token_bytes(token_id: int) -> bytes:
    return b"" if token_id == EOS else PIECES[token_id]


@dataclass
class Result:
    text: str
    kept: list[int]
    ending: Ending | None
    pieces: list[str]
    released: list[int]


def follow(
    tokens: Sequence[int], params: SamplingParams, max_new_tokens: int = 50, every: int = 1
) -> Result:
    """Pushes tokens until the answer ends, taking what is released after every few of them."""
    tracker = StopTracker(params, {EOS}, token_bytes, max_new_tokens)
    kept: list[int] = []
    pieces: list[str] = []
    released: list[int] = []
    for index, token in enumerate(tokens):
        if tracker.push(token):
            kept.append(token)
        del kept[tracker.num_tokens :]
        if index % every == every - 1 or tracker.ending is not None:
            text, num_released = tracker.take()
            pieces.append(text)
            released.append(num_released)
        if tracker.ending is not None:
            break
    return Result("".join(pieces), kept, tracker.ending, pieces, released)


def test_end_of_text_is_the_last_token_and_adds_no_text() -> None:
    result = follow([0, 1, EOS, 2], SamplingParams())
    assert result.kept == [0, 1, EOS]
    assert result.text == "ab"
    assert result.ending == Ending("stop", EOS)


def test_end_of_text_is_an_ordinary_token_on_request() -> None:
    result = follow([0, EOS, 1], SamplingParams(ignore_eos=True), max_new_tokens=3)
    assert result.kept == [0, EOS, 1]
    assert result.ending == Ending("length")


def test_length_ends_the_answer() -> None:
    result = follow([0, 1, 0, 1], SamplingParams(), max_new_tokens=3)
    assert result.kept == [0, 1, 0]
    assert result.ending == Ending("length")


def test_stop_string_beats_length_at_the_same_token() -> None:
    result = follow([0, 1], SamplingParams(stop=("b",)), max_new_tokens=2)
    assert result.ending == Ending("stop", "b")
    assert result.text == "a"
    assert result.kept == [0]


def test_stop_string_across_tokens_reaches_back() -> None:
    # "c" + "a" + "b" + "c": the stop string "abc" begins two tokens before the one that ends it.
    result = follow([4, 0, 1, 4], SamplingParams(stop=("abc",)))
    assert result.text == "c"
    assert result.kept == [4]
    assert result.pieces == ["c", "", "", ""], "text that may begin the stop string was released"


def test_token_that_straddles_the_cut_is_kept() -> None:
    # "aba" + "c": cut before "bac", inside the first token.
    result = follow([5, 4], SamplingParams(stop=("bac",)))
    assert result.text == "a"
    assert result.kept == [5]


def test_text_held_back_is_released_when_it_was_no_stop_string() -> None:
    result = follow([0, 1, 0], SamplingParams(stop=("abc",)), max_new_tokens=3)
    assert result.pieces == ["", "", "aba"]
    assert result.released == [0, 0, 3]


def test_stop_strings_wait_for_min_tokens() -> None:
    params = SamplingParams(stop=("b",), min_tokens=3)
    result = follow([0, 1, 0, 0, 1], params)
    assert result.text == "abaa"
    assert result.kept == [0, 1, 0, 0]


def test_a_token_is_released_with_the_last_of_its_text() -> None:
    result = follow([5, 4], SamplingParams(stop=("bax",)), max_new_tokens=2)  # "aba" + "c"
    assert result.pieces == ["a", "bac"]
    assert result.released == [0, 2]


def test_a_token_without_bytes_is_not_released_before_what_follows_is_known() -> None:
    result = follow([0, 9, 1, 4], SamplingParams(stop=("bc",)))  # "a" + "" + "b" + "c"
    assert (result.text, result.kept) == ("a", [0])
    assert result.released == [1, 1, 1, 1]


@pytest.mark.parametrize(("min_tokens", "expected"), [(1, "a"), (2, "a"), (3, "aba")])
def test_a_stop_string_counts_from_the_very_token_of_min_tokens(
    min_tokens: int, expected: str
) -> None:
    params = SamplingParams(stop=("b",), min_tokens=min_tokens)
    assert follow([0, 1, 0, 1], params, max_new_tokens=9).text == expected


def test_of_stop_strings_completed_at_once_the_first_byte_then_the_shorter_wins() -> None:
    for stops in (("b", "bc", "c"), ("c", "bc", "b")):
        result = follow([0, 3], SamplingParams(stop=stops))  # "a" + "bc"
        assert (result.text, result.ending) == ("a", Ending("stop", "b"))


@pytest.mark.parametrize("ahead", [[0, 1], [0, 1, 4], [4, EOS, 0], [4, 4, 4], [4, 4, 4, 4]])
def test_looking_ahead_agrees_with_going_there_and_changes_nothing(ahead: list[int]) -> None:
    params = SamplingParams(stop=("cab",))
    tracker = StopTracker(params, {EOS}, token_bytes, max_new_tokens=5)
    tracker.push(4)
    result = follow([4, *ahead], params, max_new_tokens=5)
    assert tracker.ends_within(ahead) == (result.ending is not None)
    assert (tracker.ending, tracker.num_tokens) == (None, 1)
    assert tracker.push(0)
    assert tracker.push(4)
    tracker.push(EOS)
    assert tracker.take() == ("cac", 4)


def test_never_half_a_character() -> None:
    result = follow([0, 6, 7, 0], SamplingParams(), max_new_tokens=4)
    assert result.pieces == ["a", "", "é", "a"]


def test_bytes_that_never_become_a_character_are_replaced_at_the_end() -> None:
    result = follow([0, 6], SamplingParams(), max_new_tokens=2)
    assert result.text == "a\ufffd"


@pytest.mark.parametrize("stop", [("é",), ("aé",)])
def test_stop_string_of_several_bytes_in_halves(stop: tuple[str, ...]) -> None:
    result = follow([1, 0, 6, 7, 2], SamplingParams(stop=stop))
    assert result.text + stop[0] == "baé"
    assert result.ending == Ending("stop", stop[0])


def naive(tokens: Sequence[int], stops: Sequence[str], max_new_tokens: int) -> tuple[bytes, str]:
    """The same rules, written from the end: look at every prefix and take the first that ends."""
    data = b""
    for count, token in enumerate(tokens, start=1):
        if token == EOS:
            return data, "eos"
        data += token_bytes(token)
        positions = [data.find(stop.encode()) for stop in stops if stop.encode() in data]
        if positions:
            return data[: min(positions)], "stop"
        if count == max_new_tokens:
            return data, "length"
    return data, "none"


tokens_strategy = st.lists(st.sampled_from([*range(len(PIECES)), EOS]), max_size=25)
stops_strategy = st.lists(st.text("abcé ", min_size=1, max_size=4), max_size=3, unique=True)


@given(tokens_strategy, stops_strategy, st.integers(1, 12), st.integers(1, 5))
@settings(deadline=None, max_examples=400)
def test_agrees_with_the_naive_rules_however_tokens_arrive(
    tokens: list[int], stops: list[str], max_new_tokens: int, every: int
) -> None:
    params = SamplingParams(stop=tuple(stops))
    result = follow(tokens, params, max_new_tokens, every)
    expected, reason = naive(tokens, stops, max_new_tokens)
    names = {"eos": "stop", "stop": "stop", "length": "length"}
    assert (result.ending.finish_reason if result.ending else None) == names.get(reason)
    if result.ending is None:
        assert expected.decode(errors="replace").startswith(result.text)
        return
    assert result.text == expected.decode(errors="replace")
    # Tokens and text are cut alike: all of the text, and no token that adds nothing after the cut.
    spelled = b"".join(token_bytes(token) for token in result.kept)
    assert spelled.startswith(expected)
    if spelled != expected:
        without_last = b"".join(token_bytes(token) for token in result.kept[:-1])
        assert len(without_last) < len(expected)
    assert not any(stop.encode() in expected for stop in stops)


@given(tokens_strategy, stops_strategy, st.integers(1, 12))
@settings(deadline=None, max_examples=300)
def test_what_is_released_never_changes(
    tokens: list[int], stops: list[str], max_new_tokens: int
) -> None:
    params = SamplingParams(stop=tuple(stops))
    results = [follow(tokens, params, max_new_tokens, every) for every in (1, 2, 5)]
    finals = {(r.text, tuple(r.kept), r.ending) for r in results if r.ending is not None}
    assert len(finals) <= 1, "the answer depends on how many tokens a pass yields"
    for result in results:
        assert result.released == sorted(result.released)
        if result.released and result.ending is not None:
            assert result.released[-1] == len(result.kept)
