"""Limits, leaving clients, draining, metrics and the log, over real connections."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from oneglance.drafters.base import DraftContext, Drafter, DraftRequest
from oneglance.llm import LLM
from oneglance.server.definitions import DEFINITIONS
from oneglance.types import Proposal
from tests.server.plain import (
    HELLO,
    LONG,
    NAME,
    SETTINGS,
    ask,
    error_of,
    events_of,
    get,
    post,
    raw_request,
    sample,
)
from tests.server.running import Running, serving, wait_until


@pytest.fixture(scope="module")
def running(slow_llm: LLM) -> Iterator[Running]:
    with serving(slow_llm, SETTINGS) as running:
        yield running


# Limits


def test_large_bodies_are_refused(slow_llm: LLM) -> None:
    settings = SETTINGS.model_copy(update={"max_body_bytes": 1000})
    with serving(slow_llm, settings) as running:
        large = HELLO | {"user": "x" * 1000}
        assert error_of(post(running, large))["code"] == "request_too_large"
        chunks = iter([b'{"model": "', b"x" * 2000, b'"}'])  # sent without a length
        response = ask("POST", f"{running.url}/v1/completions", content=chunks)
        assert response.status_code == 413
        assert post(running).status_code == 200


def test_token_limits_are_told(slow_llm: LLM) -> None:
    limits = {"max_prompt_tokens": 8, "max_output_tokens": 5, "max_choices": 2}
    with serving(slow_llm, SETTINGS.model_copy(update=limits)) as running:
        assert error_of(post(running, HELLO | {"max_tokens": 6}))["param"] == "max_tokens"
        assert error_of(post(running, HELLO | {"n": 3}))["param"] == "n"
        error = error_of(post(running, HELLO | {"prompt": "1 2 3 4 5 6 7 8 9"}))
        assert (error["param"], error["code"]) == ("prompt", "context_length_exceeded")
        chat = {"model": NAME, "messages": [{"role": "user", "content": "a"}]}
        response = ask("POST", f"{running.url}/v1/chat/completions", json=chat)
        assert error_of(response)["param"] == "messages"


def test_the_queue_is_limited(slow_llm: LLM) -> None:
    settings = SETTINGS.model_copy(update={"max_running": 1, "max_waiting": 1})
    with serving(slow_llm, settings) as running, ExitingSockets(running) as sockets:
        sockets.ask(LONG)
        wait_until(lambda: running.service.scheduler.stats().num_decoding == 1)
        sockets.ask(LONG)
        wait_until(lambda: running.service.scheduler.stats().num_waiting == 1)
        response = post(running)
        assert response.status_code == 429
        assert error_of(response)["code"] == "rate_limit_exceeded"
        assert 1 <= int(response.headers["retry-after"]) <= 60


def test_a_request_has_a_deadline(slow_llm: LLM) -> None:
    with serving(slow_llm, SETTINGS.model_copy(update={"request_seconds": 0.3})) as running:
        response = post(running, LONG)
        assert response.status_code == 504
        assert error_of(response)["code"] == "deadline_exceeded"
        streamed = post(running, LONG | {"stream": True})
        assert streamed.status_code == 200
        last = json.loads(events_of(streamed.text)[-1])
        assert last["error"]["code"] == "deadline_exceeded"
        wait_until(lambda: running.num_running == 0)


# Clients that leave


class ExitingSockets:
    """Clients that ask and then leave without reading to the end."""

    def __init__(self, running: Running) -> None:
        self._address = running.address
        self._open: list[socket.socket] = []

    def __enter__(self) -> ExitingSockets:
        return self

    def ask(self, body: dict[str, Any]) -> socket.socket:
        connection = socket.create_connection(self._address)
        self._open.append(connection)
        connection.sendall(raw_request(body))
        return connection

    def leave(self) -> None:
        while self._open:
            self._open.pop().close()

    def __exit__(self, *_: object) -> None:
        self.leave()


@pytest.mark.parametrize("is_streamed", [True, False])
def test_who_leaves_is_not_answered_any_more(running: Running, is_streamed: bool) -> None:
    before = running.service.scheduler.stats()
    num_cancelled, num_tokens = before.ended["cancelled"], before.delivered_tokens
    with ExitingSockets(running) as sockets:
        for _ in range(3):
            sockets.ask(LONG | {"stream": is_streamed})
        wait_until(lambda: running.service.scheduler.stats().num_decoding == 3)
    wait_until(lambda: running.num_running == 0)
    after = running.service.scheduler.stats()
    assert after.ended["cancelled"] == num_cancelled + 3
    assert after.delivered_tokens - num_tokens < 3 * 4000
    wait_until(lambda: running.service.traffic.num_open == 0)


def test_who_leaves_while_waiting_frees_the_place(slow_llm: LLM) -> None:
    settings = SETTINGS.model_copy(update={"max_running": 1, "max_waiting": 1})
    with serving(slow_llm, settings) as running, ExitingSockets(running) as running_sockets:
        running_sockets.ask(LONG)
        wait_until(lambda: running.service.scheduler.stats().num_decoding == 1)
        with ExitingSockets(running) as waiting:
            waiting.ask(LONG)
            wait_until(lambda: running.service.scheduler.stats().num_waiting == 1)
        wait_until(lambda: running.service.scheduler.stats().num_waiting == 0)
        assert running.service.scheduler.stats().num_decoding == 1


def test_half_a_request_harms_nobody(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    for data in (
        raw_request(HELLO)[:-5],
        b"POST /v1/completions HTTP/1.1\r\n",
        b"\x00\xff\r\n\r\n",
    ):
        with socket.create_connection(running.address) as connection:
            connection.sendall(data)
    assert post(running).status_code == 200
    wait_until(lambda: running.service.traffic.num_open == 0)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


# Draining


def test_what_is_under_way_ends_and_what_is_new_is_refused(slow_llm: LLM) -> None:
    body = HELLO | {"max_tokens": 300, "ignore_eos": True, "stream": True}
    with serving(slow_llm, SETTINGS) as running, ThreadPoolExecutor() as pool:
        stream = pool.submit(post, running, body)
        wait_until(lambda: running.service.scheduler.stats().num_decoding == 1)
        running.server.drain("test")
        response = post(running)
        assert response.status_code == 503
        assert int(response.headers["retry-after"]) >= 1
        assert get(f"{running.url}/ready").status_code == 503
        assert get(f"{running.url}/health").status_code == 200
        events = events_of(stream.result().text)
        assert events[-1] == "[DONE]"
        assert json.loads(events[-2])["choices"][0]["finish_reason"] == "length"
        wait_until(lambda: running.server.should_exit)


def test_a_drain_has_an_end(slow_llm: LLM) -> None:
    settings = SETTINGS.model_copy(update={"drain_seconds": 0.2})
    with serving(slow_llm, settings) as running, ThreadPoolExecutor() as pool:
        stream = pool.submit(post, running, LONG)
        wait_until(lambda: running.service.scheduler.stats().num_decoding == 1)
        running.server.drain("test")
        assert error_of(stream.result())["code"] == "service_unavailable"
    assert running.num_running == 0


# Faults


class BrokenDrafter(Drafter[None]):
    """Has a bug."""

    name = "broken"

    def start(self, context: DraftContext) -> None:
        """Nothing to remember."""

    def propose(self, requests: Sequence[DraftRequest[None]]) -> list[Proposal]:  # noqa: ARG002
        """Fails."""
        raise RuntimeError("a bug of the drafter")

    def observe(self, session: None, tokens: Sequence[int]) -> None:
        """Nothing to learn."""

    def close(self, session: None) -> None:
        """Nothing to free."""


def test_a_fault_is_told_without_its_details(
    slow_llm: LLM, caplog: pytest.LogCaptureFixture
) -> None:
    broken = LLM(slow_llm.checkpoint, slow_llm.engine, BrokenDrafter())
    with serving(broken, SETTINGS) as running:
        response = post(running)
        assert response.status_code == 500
        error = error_of(response)
        assert error["type"] == "server_error"
        assert "drafter" not in error["message"]
        assert response.headers["x-request-id"] in error["message"]
        assert any("a bug of the drafter" in str(record.exc_info) for record in caplog.records)
        plain = post(running, HELLO | {"speculation": {"off": True}})
        assert plain.status_code == 200


def test_unknown_paths_have_the_same_shape(running: Running) -> None:
    assert error_of(get(f"{running.url}/v2"))["type"] == "invalid_request_error"
    assert get(f"{running.url}/v1/completions").status_code == 405


# Log and metrics


def facts_of(caplog: pytest.LogCaptureFixture) -> dict[str, Any]:
    records = [record for record in caplog.records if record.getMessage() == "request"]
    return dict(records[-1].__dict__["facts"])


def test_the_log_tells_figures_and_no_text(
    running: Running, slow_llm: LLM, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "oneglance.server")
    secret = HELLO | {"prompt": "a secret", "user": "u-1"}
    response = post(running, secret)
    wait_until(lambda: running.service.traffic.num_open == 0)
    facts = facts_of(caplog)
    assert facts["request"] == response.headers["x-request-id"]
    assert (facts["status"], facts["user"], facts["completion_tokens"]) == (200, "u-1", 3)
    assert "secret" not in json.dumps(facts)
    assert post(running, secret | {"n": 0}).status_code == 400
    wait_until(lambda: running.service.traffic.num_open == 0)
    assert facts_of(caplog)["param"] == "n"
    with serving(slow_llm, SETTINGS.model_copy(update={"log_prompts": True})) as telling:
        text = post(telling, secret).json()["choices"][0]["text"]
        wait_until(lambda: telling.service.traffic.num_open == 0)
    assert facts_of(caplog)["prompt"] == {"prompt": "a secret"}
    assert facts_of(caplog)["answers"] == [text]


def test_every_figure_is_defined_and_counted(running: Running) -> None:
    before = {name: sample(running, name) for name in ("oneglance_delivered_tokens_total",)}
    assert post(running, HELLO | {"max_tokens": 40, "ignore_eos": True}).status_code == 200
    assert sample(running, "oneglance_delivered_tokens_total") == 40 + sum(before.values())
    page = get(f"{running.url}/metrics").text
    helps = dict(line.split(" ", 3)[2:] for line in page.splitlines() if line.startswith("# HELP"))
    shown = {
        name.removesuffix("_total"): text
        for name, text in helps.items()
        if not name.endswith("_created")
    }
    assert shown == {name: definition.text for name, definition in DEFINITIONS.items()}
    assert sample(running, "oneglance_time_to_first_token_seconds_count") >= 1
    assert sample(running, "oneglance_time_per_token_seconds_count") >= 1
    regimes = [line for line in page.splitlines() if line.startswith("oneglance_regime{")]
    assert sorted(line.split()[-1] for line in regimes) == ["0.0", "1.0"]
