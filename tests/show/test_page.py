"""The page in a real browser: opened from disk, stepped through, hovered, on a phone, by ear."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from oneglance.config import SamplingParams
from oneglance.show.page import make_page
from oneglance.show.trace import Race, Run, Seconds, Trace
from oneglance.testing import ScriptedDrafter
from tests.browser import chromium, hear_complaints
from tests.show.letters import chain, flat_law, recorded, trace_of

WIDE, PHONE = (1100, 900), (360, 740)
RACE = Race(
    (Run(2.0, 8, 8, 0, 0, Seconds(0.0, 1.8, 0.1)),),
    (Run(1.0, 8, 4, 8, 5, Seconds(0.1, 0.7, 0.1)),),
    "abdefa",
    True,
)
CHAIN = trace_of(
    (chain("ab", "cx", "D"), chain("", own="d\n"), chain("ef"), chain("a", own=None, unused="bc")),
    race=RACE,
    origin={"command": "oneglance show", "git_revision": None},
)
EVIL = "</script><img src=x onerror=document.title='fooled'>"

Open = Callable[..., Page]


def tree_trace() -> Trace:
    drafter = ScriptedDrafter(flat_law, branches=(2, 1), kind="sampled")
    params = SamplingParams(max_tokens=12, temperature=1.0, seed=2)
    return trace_of(recorded(drafter, params, k=4)[1])


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def open_page(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Opens a trace's page from disk; whatever the page complains of fails the test."""
    complaints: list[str] = []
    contexts = []

    def open_trace(trace: Trace, size: tuple[int, int] = WIDE, **options: Any) -> Page:
        path = tmp_path / "answer.html"
        path.write_text(make_page(trace), encoding="utf-8")
        viewport = {"width": size[0], "height": size[1]}
        context = browser.new_context(viewport=viewport, **options)  # type: ignore[arg-type]
        contexts.append(context)
        page = context.new_page()
        hear_complaints(page, complaints)
        page.on("request", lambda request: _only_from(path, request.url, complaints))
        page.goto(path.as_uri())
        return page

    yield open_trace
    for context in contexts:
        context.close()
    assert complaints == []


def _only_from(path: Path, url: str, complaints: list[str]) -> None:
    if url != path.as_uri() and not url.startswith("data:"):
        complaints.append(f"fetched {url}")


def counter(page: Page) -> str:
    return page.locator(".counter").inner_text()


def status(page: Page) -> str:
    return page.get_by_role("status").inner_text()


def test_it_opens_from_disk_and_shows_the_first_pass(open_page: Open) -> None:
    page = open_page(CHAIN)
    assert page.title() == "oneglance: say it"
    assert counter(page) == "1 / 4"
    assert status(page) == (
        "Pass 1 of 4: draft drafted 4 tokens, 2 kept; “c” was struck out and “D” written instead."
    )
    assert page.locator(".board").inner_text() == "abcDx"
    kinds = [each.get_attribute("class") for each in page.locator(".board [role=button]").all()]
    assert [str(kind).replace(" chosen", "") for kind in kinds] == [
        "token kept",
        "token kept",
        "token wrong",
        "token own recovered",
        "token behind",
    ]


def test_the_keys_step_through_all_passes(open_page: Open) -> None:
    page = open_page(CHAIN)
    seen = [status(page)]
    for _ in range(5):
        page.keyboard.press("ArrowRight")
        seen.append(status(page))
    assert seen[1:] == [
        "Pass 2 of 4: nothing was drafted, the target wrote “d\n”.".replace("\n", " "),
        "Pass 3 of 4: draft drafted 2 tokens, 2 kept; “!” came on top as a bonus.",
        *["Pass 4 of 4: draft drafted 3 tokens, 1 kept; the answer ended within the draft."] * 3,
    ]
    page.keyboard.press("Home")
    assert counter(page) == "1 / 4"
    page.keyboard.press("ArrowLeft")
    assert counter(page) == "1 / 4"
    page.keyboard.press("End")
    assert page.locator(".board .past").all_inner_texts() == ["a", "b", "D", "d⏎\n", "e", "f", "!"]


def test_the_slider_steps(open_page: Open) -> None:
    page = open_page(CHAIN)
    slider = page.get_by_role("slider", name="Pass")
    slider.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert counter(page) == "3 / 4", "one step for each press, not one more from the page's keys"
    assert slider.get_attribute("aria-valuetext") == status(page)
    slider.fill("2")
    assert counter(page) == "2 / 4"
    page.get_by_role("button", name="Next pass").click()
    assert counter(page) == "3 / 4"
    page.get_by_role("button", name="Previous pass").click()
    assert counter(page) == "2 / 4"


def test_playing_goes_to_the_end_and_stops(open_page: Open) -> None:
    page = open_page(CHAIN)
    page.clock.install()
    page.get_by_role("button", name="Play all passes").click()
    page.clock.run_for(20_000)
    assert counter(page) == "4 / 4"
    page.get_by_role("button", name="Play all passes").click()
    page.clock.run_for(1500)
    assert counter(page) == "2 / 4"
    page.get_by_role("button", name="Pause").click()
    page.clock.run_for(20_000)
    assert counter(page) == "2 / 4"


def test_hover_and_focus_tell_of_a_token(open_page: Open) -> None:
    trace = tree_trace()
    page = open_page(trace)
    first = trace.passes[0]
    details = page.get_by_role("region", name="About a token")
    for place, node in enumerate(first.nodes):
        token = page.locator(f'[data-pass="0"][data-place="{place}"]')
        token.hover() if place % 2 else token.focus()
        text = details.inner_text()
        assert f"depth\n{node.depth}" in text
        assert f"drafter\n{node.drafter}" in text
        considered = first.considered_at(node.parent)
        shown = details.locator(".considered code").all_inner_texts()
        assert shown == [each.shown for each in considered]
        assert token.evaluate("each => each.classList.contains('chosen')")
    page.locator('[data-place="own"]').first.focus()
    assert "the target's own" in details.inner_text()
    page.locator('[data-place="0"]').first.press("Enter")
    assert f"depth\n{first.nodes[0].depth}" in details.inner_text()


def test_branches_of_a_tree_are_shown(open_page: Open) -> None:
    page = open_page(tree_trace())
    others = page.locator(".others")
    assert "Other branches of the draft" in others.inner_text()
    assert others.get_by_role("button").count() == len(tree_trace().passes[0].nodes) - 2


def test_colour_is_never_alone(open_page: Open) -> None:
    page = open_page(CHAIN)
    style = "each => getComputedStyle(each).textDecorationLine"
    assert page.locator(".board .wrong").evaluate(style) == "line-through"
    assert page.locator(".board .behind").evaluate(style) == "line-through"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.locator(".board .bonus").evaluate(style) == "underline"
    assert page.locator(".board [role=button]").last.get_attribute("aria-label") == (
        "!, bonus: the target's own, after a draft without a mistake"
    )


def test_the_figures_and_the_race_are_those_of_the_trace(open_page: Open) -> None:
    page = open_page(CHAIN)
    text = page.locator("#figures").inner_text()
    assert "2.00 (8 tokens in 4 passes)" in text
    assert "56 % (5 of 9 drafted tokens)" in text
    assert "The texts are identical, bit for bit. Drafting made it 2.00 times as fast." in text
    rows = page.locator("#figures table").last.locator("tbody tr").all_inner_texts()
    assert [row.split() for row in rows] == [["0", "1"], ["1", "1"], ["2", "2"]]
    assert page.locator(".texts .text").all_inner_texts() == ["abdefa", CHAIN.answer.text]


@pytest.mark.parametrize("trace", [CHAIN, tree_trace()], ids=["chain", "tree"])
def test_a_phone_need_not_scroll_sideways(open_page: Open, trace: Trace) -> None:
    long = trace_of((*trace.passes, chain("abc" * 40, own="x" * 90)), "word" * 90, race=RACE)
    page = open_page(long, PHONE)
    page.keyboard.press("End")
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= PHONE[0]
    box = page.get_by_role("button", name="Next pass").bounding_box()
    assert box is not None
    assert min(box["width"], box["height"]) >= 44, "large enough for a thumb"


@pytest.mark.parametrize(("scheme", "size"), [("light", WIDE), ("dark", PHONE)])
def test_axe_finds_no_fault(open_page: Open, scheme: str, size: tuple[int, int]) -> None:
    race = replace(RACE, plain_text="a long answer " * 150)
    trace = replace(CHAIN, race=race, request=replace(CHAIN.request, prompt="why " * 400))
    page = open_page(trace, size, color_scheme=scheme, reduced_motion="reduce")
    for key in ("Home", "End"):
        page.keyboard.press(key)
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()


def test_the_tab_key_reaches_everything_in_order(open_page: Open) -> None:
    page = open_page(CHAIN)
    labels = []
    for _ in range(10):
        page.keyboard.press("Tab")
        labels.append(page.evaluate("document.activeElement.getAttribute('aria-label')"))
    assert labels == [
        "The prompt",
        "Previous pass",
        "Pass",
        "Next pass",
        "Play all passes",
        "a, drafted by draft, kept",
        "b, drafted by draft, kept",
        "c, drafted by draft, rejected",
        "D, the target's own, in place of the rejected one",
        "x, drafted by draft, left with the branch it hangs off",
    ]


@pytest.mark.parametrize(("motion", "moves"), [("reduce", False), ("no-preference", True)])
def test_nothing_moves_for_those_who_ask(open_page: Open, motion: str, moves: bool) -> None:
    page = open_page(CHAIN, reduced_motion=motion)
    page.keyboard.press("ArrowRight")
    assert (page.evaluate("document.getAnimations().length") > 0) == moves


def test_text_of_a_model_is_text(open_page: Open) -> None:
    page = open_page(trace_of((chain("a", own=EVIL),), EVIL, origin={"command": EVIL}))
    assert page.locator("img").count() == 0
    assert page.title() != "fooled"
    assert EVIL in page.locator(".board").inner_text()
    assert page.locator(".prompt").inner_text() == EVIL


def test_of_several_boards_the_one_touched_last_has_the_keys(open_page: Open) -> None:
    page = open_page(CHAIN)
    page.evaluate(
        """() => {
          const trace = JSON.parse(document.getElementById("trace").textContent);
          const root = document.createElement("section");
          document.querySelector("main").prepend(root);
          oneglance.whiteboard(root, trace);
        }"""
    )
    counters = page.locator(".counter")
    page.keyboard.press("ArrowRight")
    assert counters.all_inner_texts() == ["2 / 4", "1 / 4"]
    page.locator("#whiteboard .says").click()
    page.keyboard.press("End")
    assert counters.all_inner_texts() == ["2 / 4", "4 / 4"]


def test_a_growing_answer_is_followed(open_page: Open) -> None:
    """As a page needs it that shows an answer while it comes."""
    page = open_page(CHAIN)
    page.evaluate(
        """() => {
          const trace = JSON.parse(document.getElementById("trace").textContent);
          const part = (count) => ({...trace, passes: trace.passes.slice(0, count)});
          const root = document.getElementById("whiteboard");
          window.part = part;
          window.board = oneglance.whiteboard(root, part(0));
        }"""
    )
    page.evaluate("board.update(part(1))")
    assert counter(page) == "1 / 1"
    page.evaluate("board.update(part(3))")
    assert counter(page) == "3 / 3"
    page.evaluate("board.show(0)")
    page.locator(".board [role=button]").first.focus()
    page.evaluate("board.update(part(4))")
    assert counter(page) == "1 / 4", "who looks back is left where they look"
    assert page.evaluate("document.activeElement.dataset.place") == "0", "with the focus they had"


def test_who_has_the_focus_on_a_token_is_left_there(open_page: Open) -> None:
    page = open_page(CHAIN)
    page.evaluate(
        """() => {
          const trace = JSON.parse(document.getElementById("trace").textContent);
          window.part = (count) => ({...trace, passes: trace.passes.slice(0, count)});
          window.board = oneglance.whiteboard(document.getElementById("whiteboard"), part(1));
        }"""
    )
    page.locator(".board [role=button]").first.focus()
    page.evaluate("board.update(part(3))")
    assert counter(page) == "1 / 3"
    assert page.evaluate("document.activeElement.dataset.place") == "0"
    page.keyboard.press("End")
    page.evaluate("board.update(part(4))")
    assert counter(page) == "4 / 4"
