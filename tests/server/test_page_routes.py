"""The page's files and headers, and the routes that it asks, over real connections."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from oneglance import SamplingParams
from oneglance.llm import LLM
from oneglance.server.keys import KeyRing, parse_keys
from oneglance.server.page import ASKED_PATHS, FILES, PAGE_PATHS
from oneglance.server.race import race_of, turns
from oneglance.show.trace import Run, Seconds, Trace
from oneglance.show.trace_json import from_dict
from tests.server.plain import NAME, SETTINGS, error_of, events_of, sample
from tests.server.running import Running, serving, wait_until

TRACE, RACE = "/v1/oneglance/trace", "/v1/oneglance/race"
QUESTION = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}]
ASK: dict[str, Any] = {"model": NAME, "messages": QUESTION, "temperature": 0, "max_tokens": 24}
RUN = Run(1.0, 3, 3, 0, 0, Seconds(0.0, 0.9, 0.1))
SEEDED = ASK | {"temperature": 0.9, "seed": 5, "top_p": 0.9}


@pytest.fixture(scope="module")
def running(slow_llm: LLM) -> Iterator[Running]:
    with serving(slow_llm, SETTINGS) as running:
        yield running


def post(running: Running, path: str, body: dict[str, Any]) -> httpx2.Response:
    return httpx2.post(running.url + path, json=body, timeout=60)


def told(running: Running, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    """All events but the last, which says that it is done."""
    response = post(running, path, body)
    assert response.status_code == 200, response.text
    *events, last = events_of(response.text)
    assert last == "[DONE]"
    return [json.loads(each) for each in events]


def trace_of(events: list[dict[str, Any]]) -> Trace:
    """The trace as the page puts it together."""
    request, *passes, end = events
    assert request["object"] == "oneglance.request"
    assert end["object"] == "oneglance.trace"
    assert end["trace"]["request"] == request["request"]
    assert {each["object"] for each in passes} == {"oneglance.pass"}
    text = "".join(each["text"] for each in passes)
    assert text == end["trace"]["answer"]["text"]
    return from_dict({**end["trace"], "passes": [each["pass"] for each in passes]})


def tokens_of(trace: Trace) -> list[int]:
    found: list[int] = []
    for each in trace.passes:
        found += [each.nodes[node].token for node in each.accepted]
        found += [] if each.own is None else [each.own.token]
    return found


# The files


def test_the_page_loads_only_what_is_served_with_it(running: Running) -> None:
    response = httpx2.get(running.url)
    assert response.headers["content-type"].startswith("text/html")
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    loaded = re.findall(r'(?:src|href)="([^"]*)"', response.text)
    assert set(loaded) - {"data:,"} <= set(PAGE_PATHS)
    assert set(PAGE_PATHS) - set(loaded) == {"/"}, "nothing is served that the page has no use for"
    assert "//" not in re.sub(r"<!doctype.*?>", "", response.text), "nothing of elsewhere"
    assert not re.search(r"<script[^>]*>[^<]|<style|\son[a-z]+=|\sstyle=", response.text)


@pytest.mark.parametrize("name", FILES)
def test_its_files_have_their_kind_and_the_policy(running: Running, name: str) -> None:
    response = httpx2.get(f"{running.url}/page/{name}")
    assert response.content == FILES[name].read_bytes()
    kind = "text/css" if name.endswith(".css") else "text/javascript"
    assert response.headers["content-type"].partition(";")[0] == kind
    assert response.headers["x-content-type-options"] == "nosniff"
    assert "content-security-policy" in response.headers


def test_the_page_can_be_switched_off(slow_llm: LLM) -> None:
    with serving(slow_llm, SETTINGS.model_copy(update={"page": False})) as running:
        for path in (*PAGE_PATHS, *ASKED_PATHS):
            assert httpx2.get(running.url + path).status_code == 404
            assert post(running, path, ASK).status_code == 404
        assert post(running, "/v1/chat/completions", ASK).status_code == 200


def test_with_keys_the_page_is_shown_and_nothing_else(slow_llm: LLM) -> None:
    keys = KeyRing(parse_keys("ann sk-ann", "test"))
    with serving(slow_llm, SETTINGS, keys) as running:
        for path in PAGE_PATHS:
            assert httpx2.get(running.url + path).status_code == 200
        for path in ASKED_PATHS:
            assert post(running, path, ASK).status_code == 401
        headers = {"Authorization": "Bearer sk-ann"}
        assert httpx2.get(f"{running.url}/v1/oneglance", headers=headers).status_code == 200
    with serving(slow_llm, SETTINGS.model_copy(update={"page": False}), keys) as running:
        assert httpx2.get(running.url).status_code == 401


def test_it_says_what_may_be_asked(running: Running) -> None:
    options = httpx2.get(f"{running.url}/v1/oneglance").json()
    assert options["model"] == NAME
    assert options["drafters"][0] == options["drafter"] == "ngram"
    for drafter in options["drafters"]:
        told(running, TRACE, ASK | {"max_tokens": 2, "speculation": {"drafter": drafter}})


# Watched answers


@pytest.mark.parametrize("body", [ASK, SEEDED], ids=["greedy", "seeded"])
@pytest.mark.parametrize("drafter", ["none", "ngram"])
def test_watching_changes_no_token(
    running: Running, slow_llm: LLM, body: dict[str, Any], drafter: str
) -> None:
    """Nor those of the answers that share its passes."""
    params = SamplingParams(
        max_tokens=24, temperature=body["temperature"], seed=5, top_p=body.get("top_p", 1.0)
    )
    messages: Any = QUESTION
    alone = slow_llm.generate(messages, params=params, drafter="none")
    asked = body | {"speculation": {"drafter": drafter, "k": 3} if drafter != "none" else None}
    with ThreadPoolExecutor() as pool:
        beside = pool.submit(post, running, "/v1/chat/completions", body)
        watched = pool.map(lambda _: trace_of(told(running, TRACE, asked)), range(2))
        for trace in watched:
            assert tokens_of(trace) == list(alone.token_ids)
            assert trace.answer.text == alone.text
            assert trace.answer.num_tokens == sum(each.num_delivered for each in trace.passes)
        assert beside.result().json()["choices"][0]["message"]["content"] == alone.text


def test_a_trace_says_what_was_asked(running: Running) -> None:
    speculation = {"drafter": "suffix", "k": 3, "tree": 6}
    trace = trace_of(told(running, TRACE, SEEDED | {"speculation": speculation}))
    assert trace.request.prompt == "hello"
    assert trace.request.system == "Be brief."
    assert (trace.request.drafter, trace.request.k, trace.request.tree_nodes) == ("suffix", "3", 6)
    assert (trace.request.temperature, trace.request.seed) == (0.9, 5)
    assert trace.request.sampling == {"max_tokens": 24, "top_p": 0.9}
    assert all(each.seconds.verify > 0 for each in trace.passes)
    assert all(len(each.considered) == 5 for each in trace.passes)


@pytest.mark.parametrize(
    "extra",
    [
        {"n": 2},
        {"stream": False},
        {"stream_options": {"include_usage": True}},
        {"logprobs": True},
        {"tools": []},
        {"service_tier": "auto"},
        {"speculation": {"report": "tokens"}},
        {"speculation": {"drafter": "draft:other"}},
        {"rounds": 2},
        {"max_tokens": 0},
    ],
    ids=str,
)
def test_what_a_trace_cannot_have_is_refused(running: Running, extra: dict[str, Any]) -> None:
    response = post(running, TRACE, ASK | extra)
    assert response.status_code == 400
    (name,) = extra
    assert error_of(response)["param"].startswith(name)


def test_who_leaves_is_not_answered_any_more(running: Running) -> None:
    before = running.service.scheduler.stats().ended["cancelled"]
    long = ASK | {"max_tokens": 4000, "ignore_eos": True}
    with httpx2.stream("POST", running.url + TRACE, json=long, timeout=60) as response:
        lines = response.iter_lines()
        next(lines)
        wait_until(lambda: running.num_running == 1)
    wait_until(lambda: running.num_running == 0)
    assert running.service.scheduler.stats().ended["cancelled"] == before + 1


def test_a_watched_answer_has_a_deadline(slow_llm: LLM) -> None:
    with serving(slow_llm, SETTINGS.model_copy(update={"request_seconds": 0.3})) as running:
        response = post(running, TRACE, ASK | {"max_tokens": 4000, "ignore_eos": True})
        last = json.loads(events_of(response.text)[-1])
        assert last["error"]["code"] == "deadline_exceeded"


# The race


def test_who_is_first_changes() -> None:
    assert turns(3) == ["plain", "speculative", "speculative", "plain", *turns(1)]


@pytest.mark.parametrize("body", [ASK, SEEDED], ids=["greedy", "seeded"])
def test_a_race_is_of_real_runs(running: Running, body: dict[str, Any]) -> None:
    before = running.service.scheduler.stats()
    body = body | {"speculation": {"drafter": "ngram", "k": 3}, "ignore_eos": True}
    *events, end = told(running, RACE, body | {"rounds": 2})
    assert end["object"] == "oneglance.race"
    assert [each["side"] for each in events if each["object"] == "oneglance.turn"] == turns(2)
    after = running.service.scheduler.stats()
    assert after.ended["length"] - before.ended["length"] == 4
    race, figures = end["race"], end["figures"]
    assert race["is_identical"] is figures["is_identical"] is True
    assert race["plain_text"] == end["speculative_text"]
    pieces = [each["text"] for each in events if each["object"] == "oneglance.piece"]
    assert "".join(pieces) == race["plain_text"] * 4
    for run in (*race["plain"], *race["speculative"]):
        assert run["num_tokens"] == 24
        assert run["decode_seconds"] >= sum(run["seconds"].values()) > 0
    assert all(run["passes"] == 24 and run["drafted"] == 0 for run in race["plain"])
    assert all(run["drafted"] > 0 for run in race["speculative"])


def test_a_difference_between_the_runs_is_told(slow_llm: LLM) -> None:
    right = slow_llm.generate("hello", max_tokens=3)
    wrong = slow_llm.generate("hello", max_tokens=2)
    assert race_of([(right, RUN)], [(right, RUN)]).is_identical
    for runs in ([(right, RUN), (wrong, RUN)], [(replace(right, text="another"), RUN)]):
        assert not race_of([(right, RUN)], runs).is_identical
        assert not race_of(runs, [(right, RUN)]).is_identical


def test_no_round_drafts_from_an_earlier_one(slow_llm: LLM) -> None:
    settings = SETTINGS.model_copy(update={"allowed_drafters": ("suffix:global",)})
    with serving(slow_llm, settings) as running:
        speculation = {"drafter": "suffix:global", "k": 8}  # "auto" goes by the clock
        body = ASK | {"speculation": speculation, "ignore_eos": True}
        told(running, TRACE, body)
        remembered = trace_of(told(running, TRACE, body))
        race = told(running, RACE, body | {"rounds": 2})[-1]["race"]
        first, second = race["speculative"]
        assert first["passes"] == second["passes"] > len(remembered.passes)


@pytest.mark.parametrize(
    ("extra", "param"),
    [
        ({"speculation": {"off": True}}, "speculation"),
        ({"speculation": {"drafter": "none"}}, "speculation"),
        ({"temperature": 0.5}, "seed"),
        ({"temperature": None}, "seed"),
        ({"rounds": 0}, "rounds"),
        ({"n": 2}, "n"),
    ],
    ids=str,
)
def test_a_race_that_makes_no_sense_is_refused(
    running: Running, extra: dict[str, Any], param: str
) -> None:
    response = post(running, RACE, ASK | extra)
    assert response.status_code == 400
    assert error_of(response)["param"] == param


def test_a_race_can_be_left(running: Running) -> None:
    before = running.service.scheduler.stats().num_submitted
    body = ASK | {"max_tokens": 4000, "ignore_eos": True, "rounds": 9}
    with httpx2.stream("POST", running.url + RACE, json=body, timeout=60) as response:
        lines = response.iter_lines()
        next(lines)
        wait_until(lambda: running.num_running == 1)
    wait_until(lambda: running.service.traffic.num_open == running.num_running == 0)
    assert running.service.scheduler.stats().num_submitted == before + 1, "no further round began"


# The gauge


def test_the_growth_of_passes_is_measured(running: Running) -> None:
    told(running, TRACE, ASK)
    costs, last = running.service.llm.pass_costs, running.service.scheduler.stats().last_pass
    rows = last.prompt + last.decided + last.drafted
    expected = costs.seconds_of(2 * rows) / costs.seconds_of(rows)
    assert sample(running, "oneglance_pass_growth") == pytest.approx(expected)
