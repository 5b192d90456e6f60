"""Questions to a server with a tiny random model, over plain HTTP."""

from __future__ import annotations

import json
from typing import Any

import httpx2

from oneglance.server.settings import ServerSettings
from tests.server.running import Running

NAME = "tiny"
SETTINGS = ServerSettings(served_names=(NAME,), drafter="ngram")
HELLO = {"model": NAME, "prompt": "hello", "max_tokens": 3, "temperature": 0}
LONG = HELLO | {"max_tokens": 8000, "ignore_eos": True}
"""Lasts longer than any test."""


def post(running: Running, body: Any = HELLO, **options: Any) -> httpx2.Response:
    return ask("POST", f"{running.url}/v1/completions", json=body, **options)


def get(url: str, **options: Any) -> httpx2.Response:
    return ask("GET", url, **options)


def ask(method: str, url: str, **options: Any) -> httpx2.Response:
    """Asks without reading certificates first, which takes longer than most answers."""
    return httpx2.request(method, url, timeout=60, verify=False, **options)


def raw_request(body: dict[str, Any]) -> bytes:
    data = json.dumps(body).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n\r\n"
    return head.encode() + data


def error_of(response: httpx2.Response) -> dict[str, Any]:
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return dict(error)


def events_of(text: str) -> list[str]:
    return [line.removeprefix("data: ") for line in text.splitlines() if line]


def sample(running: Running, name: str) -> float:
    page = get(f"{running.url}/metrics").text
    (line,) = [line for line in page.splitlines() if line.startswith(f"{name} ")]
    return float(line.split()[1])
