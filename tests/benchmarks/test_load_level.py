"""Rounds under load: which requests, in which order, what is compared, and what follows of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from benchmarks.load.figures import best_peer, level_results
from benchmarks.load.level import (
    LoadSubject,
    LoadWork,
    check_texts,
    choose_items,
    num_requests,
    run_round,
)
from benchmarks.load.own_server import Gauges
from benchmarks.load.streams import ChatWire, Item, LlamaWire, Part, Streamed, stream_answer
from benchmarks.serving import Load
from oneglance.bench.http_json import NoAnswerError
from oneglance.bench.measure import DifferentAnswerError
from oneglance.errors import ParameterError
from tests.benchmarks.broken_server import EXPECTED, broken_server
from tests.benchmarks.load_runs import load_round, load_run

ITEMS = [Item(name, f"text {name}", (1, 2)) for name in "abc"]


def test_every_stream_has_two_requests_and_a_round_enough() -> None:
    assert [num_requests(level, 16) for level in (1, 2, 8, 12, 32)] == [16, 16, 16, 24, 64]


def test_rounds_go_on_through_the_prompts_and_tell_repetitions_apart() -> None:
    first = choose_items(ITEMS, 2, 0, 4)
    assert [(each.id, each.repetition) for each in first] == [
        *(("a", 0), ("b", 0), ("c", 0), ("a", 1)),
    ]
    second = choose_items(ITEMS, 2, 1, 4)
    assert [(each.id, each.repetition) for each in second] == [
        *(("b", 0), ("c", 0), ("a", 0), ("b", 1)),
    ]


def test_no_two_requests_for_a_prompt_have_one_key() -> None:
    load = Load(ITEMS, levels=(1, 4), rounds=2, least=4, max_tokens=8)
    keys = load.all_keys()
    assert len(set(keys)) == len(keys) == 1 + 2 * 2 * (2 + 3)
    for level, count in ((1, 2), (4, 3)):
        assert len(load.keys("auto", level, 0)) == count
        highest = max(each.repetition for each in choose_items(ITEMS, level, 0, 4))
        assert highest == count - 1
    wire = ChatWire("http://x", load.keys("auto", 1, 0), {"off": True})
    item = choose_items(ITEMS, 1, 0, 4)[3]
    assert wire.headers(item) == {"Authorization": "Bearer auto-1-0-1"}
    assert wire.body(item, 9)["speculation"] == {"off": True}


@dataclass(frozen=True)
class Speaker:
    """A wire of OpenAI's protocol that notes who is asked."""

    url: str
    name: str
    order: list[str]

    def body(self, item: Item, max_tokens: int) -> dict[str, Any]:
        self.order.append(self.name)
        return ChatWire("").body(item, max_tokens)

    def headers(self, item: Item) -> dict[str, str]:
        return {"X-Item": item.id}

    def read(self, event: Mapping[str, Any]) -> Part:
        return ChatWire("").read(event)


Subjects = Callable[[list[str]], list[LoadSubject]]


@pytest.fixture
def subjects() -> Iterator[Subjects]:
    """The first two are right; the third says something else and need not agree."""
    with broken_server("none") as right, broken_server("changes a text") as other:

        def make(order: list[str]) -> list[LoadSubject]:
            ports = {"auto": right, "off": right, "llama-server plain": other}
            return [
                LoadSubject(
                    label,
                    Speaker(f"http://127.0.0.1:{port}/v1/chat/completions", label, order),
                    pid=1,
                    counts=(lambda: {"passes": 5.0}) if label == "auto" else None,
                    must_agree=label != "llama-server plain",
                )
                for label, port in ports.items()
            ]

        yield make


def test_subjects_take_turns_and_their_texts_are_compared(subjects: Subjects) -> None:
    orders = []
    for number in (0, 1):
        order: list[str] = []
        runs = run_round(subjects(order), ITEMS[:2], 2, number, 4)
        orders.append(order)
    assert orders[0] == [label for label in ("auto", "off", "llama-server plain") for _ in "xx"]
    assert orders[1] == orders[0][::-1]
    assert [run.subject for run in runs] == ["auto", "off", "llama-server plain"]
    assert [run.identical for run in runs] == [2, 2, 0]
    assert [run.counts for run in runs] == [{"passes": 0.0}, None, None]
    for run in runs:
        assert (run.tokens, run.requests, run.level, run.round) == (8, 2, 2, 1)
        assert 0 < max(run.first_token_seconds) <= run.seconds
        assert len(run.seconds_per_token) == 2
        assert run.server_seconds is not None


def test_an_answer_that_differs_ends_the_run(subjects: Subjects) -> None:
    auto, _, other = subjects([])
    strict = LoadSubject("off", other.wire, 1)
    with pytest.raises(DifferentAnswerError, match="auto and off answer prompt a differently"):
        run_round([auto, strict], ITEMS[:1], 1, 0, 4)
    one, more = Streamed("x", 3, 0.1, 0.2), Streamed("x", 4, 0.1, 0.2)
    with pytest.raises(DifferentAnswerError):
        check_texts(ITEMS[:1], "auto", [one], "off", [more])


@pytest.mark.parametrize("fault", ["breaks off", "fails on nonsense"])
def test_a_server_that_fails_is_an_error(fault: str) -> None:
    max_tokens = 4 if fault == "breaks off" else 5  # which the server takes for nonsense
    with broken_server(fault) as port, pytest.raises(NoAnswerError):
        stream_answer(ChatWire(f"http://127.0.0.1:{port}"), ITEMS[0], max_tokens)


def test_a_stream_is_timed() -> None:
    with broken_server("none") as port:
        found = stream_answer(ChatWire(f"http://127.0.0.1:{port}"), ITEMS[0], 4)
    assert (found.text, found.tokens) == (EXPECTED.text, 4)
    assert 0 < found.first_seconds < found.last_seconds
    assert found.seconds_per_token == (found.last_seconds - found.first_seconds) / 3
    assert Streamed("x", 1, 0.1, 0.1).seconds_per_token is None


def test_llama_cpp_s_events_are_read() -> None:
    wire = LlamaWire("http://x")
    assert wire.body(ITEMS[0], 7) == {
        **{"prompt": [1, 2], "n_predict": 7, "temperature": 0, "cache_prompt": False},
        "stream": True,
    }
    assert wire.read({"content": "a", "stop": False}) == Part("a")
    assert wire.read({"content": "", "stop": True, "tokens_predicted": 7}) == Part("", 7, True)


def test_finished_rounds_are_found_again(tmp_path: Path) -> None:
    path = tmp_path / "w.runs.jsonl"
    for _ in range(2):
        work = LoadWork(path, {"model": "m"})
        work.open(0.5)
    work.add(list(load_round(0).values()))
    again = LoadWork(path, {"model": "m"})
    again.open(0.7)
    assert again.rounds == {(4, 0): load_round(0)}
    assert again.load_averages == [0.5, 0.5, 0.7]
    with pytest.raises(ParameterError, match="was begun with model = 'm', not 'other'"):
        LoadWork(path, {"model": "other"}).open(0.1)


def test_figures_follow_from_the_rounds() -> None:
    slow = {"auto": load_run("auto", 4.0, 2), "off": load_run("off", 2.0, 2, identical=3)}
    rounds = [load_round(0), load_round(1), load_round(2) | slow]
    assert best_peer(rounds) == "llama-server plain"
    found = level_results(rounds)
    auto = found["auto"]
    assert (auto["requests"], auto["tokens"]) == (12, 60)
    assert auto["tokens_per_second"] == (40.0, 22.5, 40.0)
    assert auto["over_off"] == (2.0, 1.25, 2.0)
    assert auto["over_peer"] == (4.0, 2.25, 4.0)
    assert auto["first_token_ms"]["p50"] == pytest.approx(250)
    assert auto["token_ms"]["p99"] == pytest.approx(30)
    assert auto["client_share"] == pytest.approx(0.2)
    assert auto["counts"] == {"passes": 30.0, "drafted": 24.0, "accepted": 18.0}
    assert found["off"]["identical"] == 11
    alone = level_results([{key: run for key, run in load_round(0).items() if key != "x"}])
    assert alone["off"]["over_off"] == (1.0, 1.0, 1.0)


def test_without_a_peer_there_is_no_ratio_to_it() -> None:
    own = {label: run for label, run in load_round(0).items() if label in ("auto", "off")}
    assert level_results([own])["auto"]["over_peer"] is None


def test_metrics_are_read_by_name_and_labels() -> None:
    page = """\
# TYPE oneglance_kv_pages gauge
oneglance_kv_pages{state="used"} 9.0
oneglance_kv_pages{state="limit"} 24.0
# TYPE oneglance_running_requests gauge
oneglance_running_requests{phase="reading"} 1.0
oneglance_running_requests{phase="decoding"} 2.0
# TYPE oneglance_waiting_requests gauge
oneglance_waiting_requests 4.0
# TYPE oneglance_cached_tokens gauge
oneglance_cached_tokens 419.0
"""
    gauges = Gauges.of(page)
    assert (gauges.pages_used, gauges.num_in_progress, gauges.cached_tokens) == (9, 7, 419)
    assert gauges.total("oneglance_drafted_tokens_total") == 0
