"""The still picture: every token in its style, nothing beyond the edge, readable aloud."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from rich.cells import cell_len

from oneglance.show.picture import COLUMNS, WIDTH, Piece, make_picture, pass_pieces, wrap
from oneglance.show.style import DARK, LIGHT
from oneglance.show.trace import Pass
from tests.show.letters import chain, node_of, trace_of

SVG = "{http://www.w3.org/2000/svg}"


def kinds(item: Pass) -> list[tuple[str, str]]:
    return [(piece.kind.removeprefix("mono").strip(), piece.text) for piece in pass_pieces(item)]


def test_the_own_token_stands_beside_the_first_wrong_one() -> None:
    assert kinds(chain("ab", "cx", "D")) == [
        *[("", "a"), ("", "b"), ("wrong", "c")],
        *[("own", "D"), ("behind", "x")],
    ]


def test_a_bonus_is_underlined_and_a_plain_token_is_not() -> None:
    assert kinds(chain("ab"))[-1] == ("own bonus", "!")
    assert kinds(chain("")) == [("own", "!")]
    assert "text.bonus { text-decoration: underline; }" in make_picture(trace_of([chain("a")]))


def test_drafts_past_the_end_are_not_struck_out() -> None:
    assert kinds(chain("a", own=None, unused="b")) == [("", "a"), ("unused", "b")]


def test_branches_stand_apart() -> None:
    nodes = (node_of("a", "kept"), node_of("b", "behind"))
    item = replace(chain(""), nodes=nodes, accepted=(0,))
    assert kinds(item) == [("", "a"), ("own", "!"), ("rule", " │ "), ("behind", "b")]


@pytest.mark.parametrize("text", ["word " * 60, "x" * 300, "日本語" * 80, "a"])
def test_no_line_is_wider_than_the_picture(text: str) -> None:
    lines = wrap([Piece("mono", "start "), Piece("mono wrong", text), Piece("mono", "end")])
    assert all(sum(cell_len(piece.text) for piece in line) <= COLUMNS for line in lines)
    assert "".join(piece.text for line in lines for piece in line) == f"start {text}end"


def test_it_is_a_file_of_its_own_for_light_and_dark_pages_and_paper() -> None:
    picture = make_picture(trace_of([chain("ab", "c", "D"), chain("<&>")], "why & how?"))
    svg = ElementTree.fromstring(picture)
    assert svg.tag == f"{SVG}svg"
    assert f"{LIGHT['ink']}; --faint" in picture.partition("@media")[0]
    assert re.search(rf"@media \(prefers-color-scheme: dark\).*{DARK['ink']}", picture)
    assert re.search(rf"@media print.*{LIGHT['ink']}", picture)
    assert "http" not in picture.replace("http://www.w3.org/2000/svg", "")
    names = {element.get("id"): element.text for element in svg.iter() if element.get("id")}
    assert svg.attrib["role"] == "img"
    assert svg.attrib["aria-labelledby"].split() == list(names)
    assert names["title"] == "An answer in 2 passes"
    assert names["description"] == (
        "Pass 1: kept “ab”, struck out “c”, wrote “D”. Pass 2: kept “<&>”, wrote “!”."
    )


def test_all_of_it_lies_within_the_frame() -> None:
    picture = make_picture(trace_of([chain("abc" * 50, "x")] * 12))
    svg = ElementTree.fromstring(picture)
    _, _, width, height = map(float, svg.attrib["viewBox"].split())
    assert width == WIDTH
    for text in svg.iter(f"{SVG}text"):
        right = float(text.attrib["x"]) + float(text.get("textLength", 0))
        assert right <= width
        assert 0 < float(text.attrib["y"]) < height
