"""The page in a real browser, against a real server with the default model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Route, expect

from oneglance import LLM, load
from oneglance.server.keys import KeyRing, parse_keys
from oneglance.server.settings import ServerSettings
from tests.browser import chromium, hear_complaints, take_picture
from tests.server.asking import MODEL
from tests.server.running import Running, serving, wait_until

WIDE, PHONE = (1100, 900), (360, 740)
SETTINGS = ServerSettings(drafter="ngram")
QUESTION = "List ten animals, each with a sentence."
LONG = "10000"
EVIL = "<img src=x onerror=document.title='fooled'>"
TIMEOUT_MS = 60_000
GROWTH = """() => {
  window.totals = [];
  new MutationObserver(() => {
    const total = document.querySelector(".counter").textContent.split(" / ")[1];
    if (total && !document.getElementById("stop").disabled) totals.push(Number(total));
  }).observe(document.getElementById("whiteboard"), { subtree: true, childList: true });
}"""
"""Notes how many passes are shown whenever that changes, as long as the answer can be stopped."""

Open = Callable[..., Page]


@pytest.fixture(scope="module")
def llm() -> LLM:
    return load(MODEL, "ngram")


@pytest.fixture(scope="module")
def running(llm: LLM) -> Iterator[Running]:
    with serving(llm, SETTINGS) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def open_page(browser: Browser, running: Running) -> Iterator[Open]:
    """Opens the page; whatever the browser complains of, save refused requests, fails the test."""
    complaints: list[str] = []
    contexts = []

    def open_at(size: tuple[int, int] = WIDE, url: str = running.url, **options: Any) -> Page:
        viewport = {"width": size[0], "height": size[1]}
        context = browser.new_context(viewport=viewport, **options)  # type: ignore[arg-type]
        context.set_default_timeout(TIMEOUT_MS)
        contexts.append(context)
        page = context.new_page()
        hear_complaints(page, complaints)
        page.on("request", lambda each: _only_from(url, each.url, complaints))
        page.goto(url)
        return page

    yield open_at
    for context in contexts:
        context.close()
    assert [each for each in complaints if "Failed to load resource" not in each] == []


def _only_from(server: str, url: str, complaints: list[str]) -> None:
    if not url.startswith((server + "/", "data:")):
        complaints.append(f"fetched {url}")


def _change(route: Route, word: str, other: str) -> None:
    route.fulfill(body=route.fetch().text().replace(word, other), content_type="text/event-stream")


def ask(page: Page, text: str = QUESTION, tokens: str = "32") -> None:
    expect(page.locator("#drafter option")).not_to_have_count(0)
    page.get_by_label("K, most").select_option("4")
    page.get_by_label("Most tokens").fill(tokens)
    page.get_by_label("Your message").fill(text)
    page.get_by_label("Your message").press("Enter")


def ended(page: Page) -> None:
    expect(page.locator("#stop")).to_be_disabled(timeout=TIMEOUT_MS)
    expect(page.locator("#start-race")).to_be_enabled()


def num_passes(page: Page) -> int:
    return int(page.locator(".counter").inner_text().partition(" / ")[2])


def test_an_answer_grows_and_can_be_stepped_through(open_page: Open, llm: LLM) -> None:
    page = open_page()
    expect(page.locator("#server")).to_contain_text(f"{MODEL} · native engine")
    page.evaluate(GROWTH)
    ask(page, tokens="200")  # long enough to be shown several times on a busy machine
    ended(page)
    totals = page.evaluate("totals")
    assert len(set(totals)) >= 3, "it is shown while it comes"
    assert totals == sorted(totals)
    assert num_passes(page) >= totals[-1]
    messages: Any = [{"role": "user", "content": QUESTION}]
    alone = llm.generate(messages, max_tokens=200, drafter="none")
    assert page.locator("#turns .answer p").text_content() == alone.text
    board = page.locator(".board")
    assert board.text_content() == "".join(board.locator(".token").all_text_contents())
    page.locator(".says").click()
    page.keyboard.press("Home")
    assert page.locator(".counter").inner_text() == f"1 / {num_passes(page)}"
    kept = board.locator(".kept:not(.past)")
    for _ in range(num_passes(page)):
        if kept.count():
            break
        page.keyboard.press("ArrowRight")
    kept.first.hover()
    details = page.get_by_role("region", name="About a token").inner_text()
    assert "drafter\nngram" in details
    assert "depth\n1" in details
    assert "target's probability" in details
    assert page.locator(".considered li").count() == 5
    figures = page.locator("#figures").inner_text()
    assert f"({len(alone.tokens)} tokens in {num_passes(page)} passes)" in figures
    assert "No race was run." in figures


def test_a_race_shows_two_real_runs(open_page: Open, running: Running, llm: LLM) -> None:
    page = open_page()
    page.get_by_label("Temperature").fill("0.7")
    page.get_by_label("Seed").fill("7")
    ask(page, tokens="16")
    ended(page)
    messages: Any = [{"role": "user", "content": QUESTION}]
    alone = llm.generate(messages, max_tokens=16, drafter="none", temperature=0.7, seed=7)
    assert page.locator("#turns .answer p").text_content() == alone.text
    before = running.service.scheduler.stats()
    page.get_by_role("button", name="Race the last answer").click()
    expect(page.locator("#race-note")).to_contain_text("The race is over", timeout=TIMEOUT_MS)
    assert running.service.scheduler.stats().num_submitted == before.num_submitted + 2
    answer = page.locator("#turns .answer p").text_content()
    assert page.locator("#plain").text_content() == answer
    assert page.locator("#speculative").text_content() == answer
    assert "The texts are identical, bit for bit." in page.locator("#figures").inner_text()
    page.route("**/race", lambda route: _change(route, '"plain_text":"', '"plain_text":"No, '))
    page.get_by_role("button", name="Race the last answer").click()
    wrong = page.locator("#figures .alert")
    expect(wrong).to_contain_text("The texts differ, which is a bug.", timeout=TIMEOUT_MS)
    expect(page.locator("#race-note")).to_contain_text("The texts differ")


def test_a_conversation_has_a_history(open_page: Open) -> None:
    page = open_page()
    sent: list[Any] = []
    page.on("request", lambda each: sent.append(each.post_data_json) if each.post_data else None)
    ask(page, "Say one.", "8")
    ended(page)
    first = page.locator("#turns .answer p").first.text_content()
    words = page.locator(".board .token")
    board = words.all_text_contents()
    ask(page, EVIL, "8")
    ended(page)
    assert [each["role"] for each in sent[1]["messages"]] == ["user", "assistant", "user"]
    assert sent[1]["messages"][1]["content"] == first
    assert page.locator("img").count() == 0, "text is text"
    page.get_by_role("button", name="Show its passes").first.click()
    assert page.locator(".counter").inner_text().startswith("1 / ")
    page.get_by_role("slider", name="Pass").press("End")
    assert words.all_text_contents() == board
    page.get_by_role("button", name="New conversation").click()
    ask(page, "Say two.", "8")
    ended(page)
    assert [each["content"] for each in sent[2]["messages"]] == ["Say two."]


@pytest.mark.parametrize("how", ["button", "Escape"])
def test_an_answer_can_be_stopped(open_page: Open, running: Running, how: str) -> None:
    page = open_page()
    page.get_by_label("Temperature").fill("2")  # which hardly ever comes to an end
    ask(page, "Tell a long story.", "1500")
    expect(page.locator(".counter")).to_contain_text(" / ", timeout=TIMEOUT_MS)
    if how == "button":
        page.get_by_role("button", name="Stop").click()
    else:
        page.keyboard.press("Escape")
    expect(page.locator("#note")).to_have_text("Stopped.")
    wait_until(lambda: running.num_running == 0)
    assert page.get_by_label("Your message").input_value() == "Tell a long story."
    expect(page.locator("#start-race")).to_be_disabled()
    assert page.evaluate("document.activeElement.id") == "prompt"


def test_errors_are_sentences(open_page: Open) -> None:
    page = open_page()
    ask(page, "word " * 9000)
    problem = page.get_by_role("alert")
    expect(problem).to_contain_text("shorten it.", timeout=TIMEOUT_MS)
    ask(page, " ")
    expect(problem).to_have_text("There is no message yet; write one.")
    page.route("**/trace", lambda route: route.abort())
    ask(page, "hello")
    expect(problem).to_contain_text("The server does not answer")
    page.unroute("**/trace")
    page.get_by_label("Your message").press("Enter")  # it was given back
    ended(page)
    assert problem.text_content() == ""


def test_a_server_with_keys_is_asked_with_one(open_page: Open, llm: LLM) -> None:
    keys = KeyRing(parse_keys("ann sk-ann", "test"))
    with serving(llm, SETTINGS, keys) as locked:
        page = open_page(url=locked.url)
        key = page.get_by_label("API key")
        expect(key).to_be_visible()
        expect(page.locator("#note")).to_contain_text("wants an API key")
        key.fill("wrong")
        key.press("Enter")
        expect(page.get_by_role("alert")).to_contain_text("missing or wrong")
        key.fill("sk-ann")
        key.press("Enter")
        ask(page, "Say one.", "4")
        ended(page)
        assert page.get_by_role("alert").text_content() == ""


def test_the_gauge_moves_when_load_is_put_on(open_page: Open, running: Running) -> None:
    page = open_page()
    ask(page, "Say one.", "4")
    ended(page)
    says = page.locator("#gauge-says")
    expect(says).to_contain_text("The last pass had")
    page.get_by_label("Put load on").select_option("4")
    expect(says).to_contain_text("4 decided", timeout=TIMEOUT_MS)
    value = float(page.get_by_role("meter").get_attribute("aria-valuenow") or "")
    assert 1 <= value <= 2
    page.get_by_label("Put load on").select_option("0")
    wait_until(lambda: running.num_running == 0)


@pytest.mark.parametrize(("scheme", "size"), [("light", WIDE), ("dark", PHONE)])
def test_axe_finds_no_fault_and_a_phone_need_not_scroll_sideways(
    open_page: Open, tmp_path: Path, scheme: str, size: tuple[int, int]
) -> None:
    page = open_page(size, color_scheme=scheme, reduced_motion="reduce")
    expect(page.locator("#gauge-says")).not_to_be_empty()
    ask(page, "word" * 60, "12")
    ended(page)
    page.get_by_role("button", name="Race the last answer").click()
    expect(page.locator("#race-note")).to_contain_text("The race is over", timeout=TIMEOUT_MS)
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    assert page.evaluate("document.getAnimations().length") == 0
    small = page.locator("button:visible, select:visible, input:visible").evaluate_all(
        "all => all.filter(each => each.getBoundingClientRect().height < 44).map(each => each.id)"
    )
    assert [each for each in small if each] == [], "large enough for a thumb"
    assert take_picture(page, f"page-{scheme}-{size[0]}", tmp_path).stat().st_size > 10_000


def test_the_tab_key_reaches_everything_in_order(open_page: Open) -> None:
    page = open_page()
    ask(page, "Say one.", "4")
    ended(page)
    page.get_by_role("button", name="New conversation").click()
    found = [page.evaluate("document.activeElement.id")]
    while len(found) < 40 and found[-1] != "others":
        page.keyboard.press("Tab")
        found.append(page.evaluate("document.activeElement.id"))
    named = [each for each in found if each]
    assert named == [
        "prompt", "drafter", "k", "temperature", "seed", "max-tokens", "send", "anew",
        "rounds", "start-race", "others",
    ]  # fmt: skip
    assert len(found) - len(named) >= 5, "the whiteboard's own lie between"
