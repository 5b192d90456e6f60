"""The page in six pictures shows what was measured, in light, in dark, on paper and aloud."""

from __future__ import annotations

import copy
import math
import re
from xml.etree import ElementTree

import numpy as np
import pytest

from benchmarks.pictures import frequencies, keep_if_it_agrees
from oneglance.verify.select import accept
from tests.docs.charts import ticks
from tests.docs.documents import ROOT, between, read
from tests.docs.performance import load_report
from tests.docs.picture_figures import (
    captions,
    distance,
    first_losing_batch,
    idle_share,
    speedup_curves,
    throughputs,
)
from tests.docs.pictures import DOCUMENT, FOLDER, MEASUREMENT, NAMES, blocks, pictures

REPORT = load_report(MEASUREMENT)
PICTURES = pictures(REPORT)
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("name", PICTURES)
def test_the_pictures_are_what_was_measured(name: str) -> None:
    assert read(FOLDER / name) == PICTURES[name], "run `make pictures`"


@pytest.mark.parametrize("name", blocks(REPORT))
def test_the_figures_are_what_was_measured(name: str) -> None:
    assert between(read(DOCUMENT), name) == blocks(REPORT)[name], "run `make pictures`"


def test_there_are_six_each_with_words_for_those_who_listen() -> None:
    shown = re.findall(r"!\[(.+?)\]\(pictures/(.+?)\)", read(DOCUMENT), flags=re.DOTALL)
    assert [file for _, file in shown] == list(PICTURES)
    assert sorted(path.name for path in FOLDER.iterdir()) == sorted(PICTURES)
    assert all(len(words) > 80 for words, _ in shown)
    assert len(NAMES) == 6


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_can_be_read_everywhere(name: str) -> None:
    svg = ElementTree.fromstring(PICTURES[name])
    style = svg.findtext(f"{SVG}style") or ""
    assert "@media (prefers-color-scheme: dark)" in style
    assert "@media print" in style
    assert svg.attrib["role"] == "img"
    assert svg.findtext(f"{SVG}title")
    assert len(svg.findtext(f"{SVG}desc") or "") > 80
    _, _, width, height = map(float, svg.attrib["viewBox"].split())
    for element in svg.iter():
        for key, most in (("x", width), ("y", height), ("x2", width), ("y2", height)):
            assert 0 <= float(element.get(key, 0)) <= most, f"{element.tag} lies outside"
        if element.get("text-anchor") == "start" and not element.get("textLength"):
            right = float(element.attrib["x"]) + 6.6 * len(element.text or "")
            assert right <= width, f"“{element.text}” is cut off"


def test_the_accept_rule_is_within_chance_and_the_other_is_not() -> None:
    """Of the frequencies that are shown; the bound is four times what chance does on average."""
    found = REPORT["laws"]
    spread = sum(math.sqrt(p * (1 - p) / found["trials"]) for p in found["target"]) / 2
    assert distance(found, "rule") < 4 * spread
    assert distance(found, "naive") > 4 * spread


def test_the_two_rules_do_what_the_page_says() -> None:
    target, draft = np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.8, 0.1])
    agree = float(target @ draft)
    right = frequencies(accept, target, draft, trials=5_000, seed=1)
    naive = frequencies(keep_if_it_agrees, target, draft, trials=5_000, seed=2)
    assert right == pytest.approx(target, abs=0.03)
    assert naive == pytest.approx(target * (draft + 1 - agree), abs=0.03)


def test_the_words_follow_the_figures() -> None:
    report = copy.deepcopy(dict(REPORT))
    regime = report["plan"]["regime"]
    regime["gains"] = [1.5] * len(regime["gains"])
    assert first_losing_batch(report) is None
    assert "paid at every number" in captions(report)["batch"]
    regime["gains"][1] = 0.9
    second = regime["times"][1]["batch"]
    assert f"From {second} answers on drafting lost" in captions(report)["batch"]
    regime["gains"][0] = 0.9
    assert "did not pay even for one" in captions(report)["batch"]
    plain, drafted = throughputs(report)
    assert drafted[0][1] == pytest.approx(0.9 * plain[0][1])


def test_the_arithmetic_is_idle_for_a_part_of_the_time() -> None:
    assert 0 < idle_share(REPORT) < 1


def test_speed_without_a_draft_is_plain_speed() -> None:
    assert all(curve[0] == (0.0, 1.0) for curve in speedup_curves(REPORT).values())


@pytest.mark.parametrize(
    ("high", "found"), [(1.0, [0, 0.2, 0.4, 0.6, 0.8, 1.0]), (47, [0, 10, 20, 30, 40])]
)
def test_ticks_are_round_numbers(high: float, found: list[float]) -> None:
    assert ticks(high) == found


def test_the_commands_are_tasks_of_the_makefile() -> None:
    makefile = read(ROOT / "Makefile")
    for task in ("pictures", "measure-pictures"):
        assert f"\n{task}: " in makefile
        assert f"make {task}" in read(DOCUMENT)
