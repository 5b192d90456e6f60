"""The page opens from disk alone, and its figures are those of the report."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from oneglance.bench.figures import results
from oneglance.bench.page import make_page
from oneglance.bench.plots import Axis
from oneglance.bench.run import Run
from oneglance.bench.tables import bench_grids
from tests.bench.runs import pair, run

NAME = '<b>&"d"</script>'
"""A name that would be markup."""
PHASES: dict[str, Any] = {"verify_seconds": 3.0, "first_token_seconds": 0.5, "is_identical": True}


def group(prompt: str, plain: float, drafted: float, temperature: float = 0.0) -> dict[str, Run]:
    counts: dict[str, Any] = {"passes": 10, "drafted": 30, "accepted": 10}
    counts["depths"] = ((10, 7), (10, 3))
    return {
        "plain": run(prompt, "plain", plain, temperature=temperature, **PHASES),
        NAME: run(prompt, NAME, drafted, temperature=temperature, **counts, **PHASES),
    }


GROUPS = [group("a1", 10, 5), group("b1", 10, 4), group("a1", 10, 8, 0.8)]
REPORT: dict[str, Any] = {
    "command": "oneglance bench",
    "date": "2026-11-30",
    "oneglance": "0.1.0",
    "git_revision": None,
    "git_is_modified": None,
    "python": "3.11.7",
    "numpy": "2.4.6",
    "system": "Linux x86_64",
    "cpu": "CPU",
    "cores": 2,
    "load_average_before": [0.1],
    "load_average_after": [0.1, 0.1, 0.1],
    "model": "m",
    "quantization": "Q4_1 (2)",
    "engine": {"kind": "native", "isa": "avx2", "threads": 2},
    "prompts": {"file": "prompts.jsonl", "sha256": "0" * 64},
    "max_tokens": 20,
    "is_seeded": True,
    "is_complete": True,
    "groups": {"done": 3, "planned": 3},
    "read_bandwidth": 2.3e10,
    "memory": {"peak": 5e8, "taken_by": {"plain": 0, NAME: 2_000_000}},
    "rounds": 1,
    "results": results(GROUPS),
}


class Page(HTMLParser):
    """Collects what a page consists of."""

    VOID = ("meta", "!doctype")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.texts: dict[str, list[str]] = {}
        self.attributes: list[tuple[str, str, str]] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == [], "every element is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in self.VOID:
            self._open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, f"{tag} ends what is not open"

    def handle_data(self, data: str) -> None:
        if self._open:
            self.texts[self._open[-1]][-1] += data


@pytest.fixture(scope="module")
def text() -> str:
    return make_page(REPORT)


@pytest.fixture(scope="module")
def page(text: str) -> Page:
    return Page(text)


def test_nothing_is_fetched_from_anywhere(text: str, page: Page) -> None:
    assert not {"link", "img", "iframe", "object"} & {tag for tag, _, _ in page.attributes}
    named = {(tag, name) for tag, name, _ in page.attributes}
    assert not [pair for pair in named if pair[1] in ("src", "href", "xlink:href", "srcset")]
    assert not re.search(r"url\(|@import|https?:", text)


def test_its_tables_are_those_of_the_report(page: Page) -> None:
    grids = bench_grids(REPORT)
    assert page.texts["caption"] == [grid.title for grid in grids]
    assert page.texts["th"] == [heading for grid in grids for heading in grid.headings]
    assert page.texts["td"] == [cell for grid in grids for row in grid.rows for cell in row]


def test_it_holds_the_report(page: Page) -> None:
    assert json.loads(page.texts["script"][0]) == json.loads(json.dumps(REPORT))


def test_its_drawings_have_the_figures(page: Page) -> None:
    titles = page.texts["title"][1:]
    for temperature, category in (("0", "a"), ("0", "b"), ("0", "all")):
        middle, low, high = REPORT["results"][f"{temperature} {category}"][NAME]["speedup"]
        assert f"{category}, {NAME}: {middle:.2f} ({low:.2f}–{high:.2f})" in titles
    assert f"{NAME}, depth 2: 0.30 (20)" in titles
    shares = REPORT["results"]["0 all"]["plain"]["shares"]
    assert f"plain, passes of the target: {shares['verify']:.1%}" in titles
    assert len([title for title in titles if title.startswith("plain, ")]) == 2 * 5


def test_bars_are_as_long_as_what_they_show(page: Page) -> None:
    widths = [
        float(value) for tag, name, value in page.attributes if (tag, name) == ("rect", "width")
    ]
    # Times as fast in a, in b and in all: 2, 2.5 and 2.25, on an axis that ends at 2.5.
    assert widths[:3] == pytest.approx([0.8 * widths[1], widths[1], 0.9 * widths[1]], abs=0.1)


def test_a_name_is_text(text: str) -> None:
    assert NAME not in text
    assert text.count("</script>") == 1


def test_every_circumstance_is_told(text: str) -> None:
    assert "no measure of the engine" not in text
    assert "23.0 GB/s" in text
    assert "500 MB at most" in text
    assert "native engine (avx2), 2 threads" in text
    busy = make_page({**REPORT, "load_average_before": [1.5], "is_complete": False})
    assert "no measure of the engine" in busy
    assert "The measurement was interrupted" in busy


def test_servers_alone_have_a_page() -> None:
    untold: dict[str, Any] = {"prefill_seconds": None, "passes": None}
    groups = [{name: run("a1", name, 3, **untold) for name in ("one", "two")}]
    servers = {"model": None, "engine": None, "memory": None, "read_bandwidth": None}
    page = Page(make_page({**REPORT, **servers, "results": results(groups)}))
    assert "a, two: 1.00 (1.00–1.00)" in page.texts["title"]
    assert not any("depth" in title for title in page.texts["title"])


def test_plain_decoding_alone_has_a_page() -> None:
    alone = {"plain": pair("a1", 10, 5)["plain"]}
    assert "Where the time went" in make_page({**REPORT, "results": results([alone])})


@pytest.mark.parametrize(
    ("highest", "step", "top"),
    [(0.4, 0.2, 1.0), (1.0, 0.2, 1.0), (1.17, 0.2, 1.2), (2.3, 0.5, 2.5), (7.0, 2.0, 8.0)],
)
def test_axes_end_at_round_numbers(highest: float, step: float, top: float) -> None:
    axis = Axis.to(highest)
    assert axis.step == pytest.approx(step)
    assert axis.top == pytest.approx(top)
