"""Calls are found in an answer wherever its pieces are cut."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from oneglance.server.tools.calls import CallReader


def call(name: str, arguments: object) -> str:
    written = json.dumps(arguments, ensure_ascii=False)
    return f'<tool_call>\n{{"name": "{name}", "arguments": {written}}}\n</tool_call>'


def read(pieces: Sequence[str]) -> tuple[str, list[tuple[str, str]]]:
    """What is said and what is called in an answer that comes in these pieces."""
    reader = CallReader()
    said, found = "", dict[int, tuple[str, str]]()
    for text, parts in [*map(reader.push, pieces), reader.flush()]:
        said += text
        for part in parts:
            if part.name is not None:
                assert part.index == len(found)
                found[part.index] = (part.name, "")
            name, arguments = found[part.index]
            found[part.index] = (name, arguments + part.arguments)
    assert reader.num_calls == len(found)
    return said, [found[index] for index in sorted(found)]


def cut(text: str, places: Sequence[int]) -> list[str]:
    ends = sorted({place % (len(text) + 1) for place in places} | {0, len(text)})
    return [text[start:end] for start, end in itertools.pairwise(ends)]


JSON_OBJECTS = st.dictionaries(
    st.text(max_size=5),
    st.recursive(
        st.none() | st.integers() | st.text(alphabet='ab"\\{}[]<é🙂\n', max_size=8),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
        max_leaves=4,
    ),
    max_size=3,
)


@settings(max_examples=80, deadline=None)
@given(
    said=st.text(alphabet="ab <tol_c>\n", max_size=20).filter(
        lambda text: "<tool_call>" not in text
    ),
    calls=st.lists(st.tuples(st.sampled_from(["f", "get_weather"]), JSON_OBJECTS), max_size=3),
    places=st.lists(st.integers(0, 10_000), max_size=20),
)
def test_every_cut_reads_the_same(
    said: str, calls: list[tuple[str, object]], places: list[int]
) -> None:
    text = said + "\n".join(call(name, arguments) for name, arguments in calls)
    found_said, found_calls = read(cut(text, places))
    assert found_said == said
    assert [(name, json.loads(arguments)) for name, arguments in found_calls] == calls
    # Piece by piece, or letter by letter: nothing else comes.
    assert read(list(text)) == read([text]) == (found_said, found_calls)


def test_a_call_that_is_cut_off_stays_so() -> None:
    whole = call("f", {"a": [1, 2]})
    inside = whole.index("[1") + 2
    assert read([whole[:inside]]) == ("", [("f", '{"a": [1')])
    assert read([whole[:20]]) == ("", [])


def test_what_only_begins_like_a_call_is_text() -> None:
    assert read(["2 <tool", "_case> 1 <tool_cal"]) == ("2 <tool_case> 1 <tool_cal", [])


def test_text_is_not_held_back_longer_than_needed() -> None:
    reader = CallReader()
    assert reader.push("a < b")[0] == "a < b"
    assert reader.push(" <")[0] == " "
    assert reader.push("b")[0] == "<b"
