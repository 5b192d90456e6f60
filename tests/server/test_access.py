"""Who is let in: keys, caches of clients of their own, and browsers of other origins."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from oneglance.llm import LLM
from oneglance.server.keys import KeyRing, parse_keys
from tests.server.plain import HELLO, SETTINGS, ask, error_of, get, post
from tests.server.running import Running, serving


@pytest.fixture(scope="module")
def locked(slow_llm: LLM) -> Iterator[Running]:
    keys = KeyRing(parse_keys("ann sk-ann, bob sk-bob, eve sk-eve isolated", "test"))
    with serving(slow_llm, SETTINGS, keys) as running:
        yield running


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@pytest.mark.parametrize("path", ["/v1/models", "/metrics", "/openapi.json", "/nothing"])
def test_without_a_key_nothing_is_shown(locked: Running, path: str) -> None:
    wrong = ["sk-ann", "Bearer", "Bearer sk-wrong", "Basic sk-ann"]
    for headers in ({}, *({"Authorization": value} for value in wrong)):
        response = get(locked.url + path, headers=headers)
        assert response.status_code == 401
        assert error_of(response)["code"] == "invalid_api_key"
        assert response.headers["www-authenticate"] == "Bearer"
    if path != "/nothing":
        assert get(locked.url + path, headers=bearer("sk-ann")).status_code == 200


@pytest.mark.parametrize("path", ["/health", "/ready"])
def test_probes_need_no_key(locked: Running, path: str) -> None:
    assert get(locked.url + path).status_code == 200


def test_a_body_is_not_read_without_a_key(locked: Running) -> None:
    assert post(locked, {"nonsense": True}).status_code == 401
    assert post(locked, {"nonsense": True}, headers=bearer("sk-ann")).status_code == 400


def cached_tokens(locked: Running, key: str, prompt: str) -> int:
    response = post(locked, HELLO | {"prompt": prompt}, headers=bearer(key))
    return int(response.json()["usage"]["prompt_tokens_details"]["cached_tokens"])


def test_an_isolated_client_finds_nothing_of_others(locked: Running) -> None:
    prompt = "a long enough beginning that two prompts have in common, whoever sends it"
    assert cached_tokens(locked, "sk-ann", prompt) == 0
    assert cached_tokens(locked, "sk-bob", prompt) > 0
    assert cached_tokens(locked, "sk-eve", prompt) == 0
    assert cached_tokens(locked, "sk-eve", prompt) > 0
    own = "another beginning, which only the isolated client has sent so far"
    assert cached_tokens(locked, "sk-eve", own) == 0
    assert cached_tokens(locked, "sk-ann", own) == 0


def test_pages_of_other_sites_are_let_in_only_if_named(slow_llm: LLM) -> None:
    origin = {"Origin": "https://page.example"}
    with serving(slow_llm, SETTINGS) as closed:
        assert "access-control-allow-origin" not in post(closed, headers=origin).headers
    settings = SETTINGS.model_copy(update={"cors_origins": ("https://page.example",)})
    keys = KeyRing(parse_keys("ann sk-ann", "test"))
    with serving(slow_llm, settings, keys) as open_one:
        asked = {**origin, "Access-Control-Request-Method": "POST"}
        url = f"{open_one.url}/v1/completions"
        preflight = ask("OPTIONS", url, headers=asked)
        assert preflight.headers["access-control-allow-origin"] == origin["Origin"]
        other = ask("OPTIONS", url, headers=asked | {"Origin": "https://other.example"})
        assert "access-control-allow-origin" not in other.headers
