"""Many streams at once, whose clients leave, break off and send nonsense: nothing is lost."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from typing import Any

import httpx2
import pytest

from oneglance.llm import LLM
from tests.server.plain import HELLO, NAME, SETTINGS, ask, events_of, get, raw_request
from tests.server.running import Running, serving, wait_until

PROMPTS = ["hello", "the end of", "a b a b a b", "in the long run " * 20, "once"]
LAWS: list[dict[str, Any]] = [
    {"temperature": 0},
    {"temperature": 0.9, "seed": 5},
    {"temperature": 1.2, "seed": -1, "top_p": 0.9, "presence_penalty": 0.5},
]
BODIES = [
    {"model": NAME, "prompt": prompt, "max_tokens": 16, "ignore_eos": True, "logprobs": 0, **law}
    for prompt in PROMPTS
    for law in LAWS
]


class Load:
    """Clients that each do one thing after another, by chance."""

    def __init__(self, running: Running, expected: list[dict[str, Any]], seed: int) -> None:
        self._running = running
        self._expected = expected
        self._random = random.Random(seed)
        self.done: Counter[str] = Counter()

    async def run(self, num_clients: int, num_rounds: int) -> None:
        """Sends all requests."""
        limits = httpx2.Limits(max_connections=None)
        async with httpx2.AsyncClient(timeout=300, limits=limits, verify=False) as client:
            await asyncio.gather(*(self._visit(client, num_rounds) for _ in range(num_clients)))

    async def _visit(self, client: httpx2.AsyncClient, num_rounds: int) -> None:
        acts = {"whole": 3, "stream": 6, "leave": 2, "nonsense": 1, "vanish": 1}
        for _ in range(num_rounds):
            (act,) = self._random.choices(list(acts), list(acts.values()))
            number = self._random.randrange(len(BODIES))
            await getattr(self, f"_{act}")(client, number)
            self.done[act] += 1

    async def _whole(self, client: httpx2.AsyncClient, number: int) -> None:
        response = await client.post(self._url, json=BODIES[number])
        choice = response.json()["choices"][0]
        assert choice["text"] == self._expected[number]["text"]
        assert choice["logprobs"] == self._expected[number]["logprobs"]

    async def _stream(self, client: httpx2.AsyncClient, number: int) -> None:
        async with client.stream("POST", self._url, json=self._streamed(number)) as response:
            events = events_of("\n".join([line async for line in response.aiter_lines()]))
        assert events.pop() == "[DONE]"
        choices = [json.loads(event)["choices"][0] for event in events]
        text = "".join(choice["text"] for choice in choices)
        tokens = [token for choice in choices for token in choice["logprobs"]["tokens"]]
        assert text == self._expected[number]["text"]
        assert tokens == self._expected[number]["logprobs"]["tokens"]

    async def _leave(self, client: httpx2.AsyncClient, number: int) -> None:
        async with client.stream("POST", self._url, json=self._streamed(number)) as response:
            async for _ in response.aiter_lines():
                if self._random.random() < 0.3:
                    break

    async def _nonsense(self, client: httpx2.AsyncClient, number: int) -> None:
        response = await client.post(self._url, json=BODIES[number] | {"temperature": "hot"})
        assert response.status_code == 400

    async def _vanish(self, client: httpx2.AsyncClient, number: int) -> None:  # noqa: ARG002
        _, writer = await asyncio.open_connection(*self._running.address)
        data = raw_request(BODIES[number])
        writer.write(data[: self._random.randrange(1, len(data) + 1)])
        await writer.drain()
        writer.transport.abort()

    def _streamed(self, number: int) -> dict[str, Any]:
        return BODIES[number] | {"stream": True}

    @property
    def _url(self) -> str:
        return f"{self._running.url}/v1/completions"


@pytest.mark.parametrize(
    ("num_clients", "num_rounds"),
    [(8, 2), pytest.param(64, 40, marks=pytest.mark.slow, id="long")],
)
def test_every_answer_is_the_one_that_it_would_be_alone(
    slow_llm: LLM, num_clients: int, num_rounds: int
) -> None:
    with serving(slow_llm, SETTINGS) as running:
        alone = [ask("POST", f"{running.url}/v1/completions", json=body) for body in BODIES]
        expected = [response.json()["choices"][0] for response in alone]
        load = Load(running, expected, seed=num_clients)
        asyncio.run(load.run(num_clients, num_rounds))
        assert sum(load.done.values()) == num_clients * num_rounds
        wait_until(lambda: running.num_running == 0 and running.service.traffic.num_open == 0)
        assert ask("POST", f"{running.url}/v1/completions", json=HELLO).status_code == 200
        assert 'status="5' not in get(f"{running.url}/metrics").text
    use = slow_llm.engine.page_use
    assert use is not None
    assert use.num_used == 0, "pages are left when all is over"
