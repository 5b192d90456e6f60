from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from oneglance import LLM, load
from tests.server.asking import COUNTING, MODEL, RIVERS, SEEDED, Client
from tests.server.running import Running, serving
from tests.tiny_models import TinyShape, write_tiny_gguf


@pytest.fixture(scope="session")
def alone() -> dict[str, Any]:
    """Answers of the library to single prompts, and the model that gave them."""
    llm = load(MODEL, "ngram")
    rivers: Any = RIVERS
    return {
        "llm": llm,
        "rivers": llm.generate(rivers, max_tokens=20, top_logprobs=3),
        "seeded": llm.generate(rivers, params=SEEDED),
        "counting": llm.generate(COUNTING, raw=True, max_tokens=20, top_logprobs=2),
        "biased": llm.generate(COUNTING, raw=True, max_tokens=4, logit_bias={22: 100.0}),
        "penalised": llm.generate(
            COUNTING, raw=True, max_tokens=12, presence_penalty=1.5, frequency_penalty=0.5
        ),
    }


@pytest.fixture(scope="session")
def running(alone: dict[str, Any]) -> Iterator[Running]:
    """The default model, served."""
    with serving(alone["llm"]) as running:
        yield running


@pytest.fixture(scope="session")
def client(running: Running) -> Iterator[Client]:
    """OpenAI's client, connected to it."""
    with Client(base_url=f"{running.url}/v1", api_key="unused", max_retries=0) as client:
        yield client


@pytest.fixture(scope="session")
def slow_llm(tmp_path_factory: pytest.TempPathFactory) -> LLM:
    """A tiny random model whose answers last long enough to be interrupted."""
    shape = TinyShape(num_layers=24, context_length=8192)
    path = write_tiny_gguf(tmp_path_factory.mktemp("slow") / "slow.gguf", shape=shape)
    return load(str(path), "ngram")
