"""`oneglance serve` as a process: settings, the log, and an end in good order."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.cli.processes import COMMAND, TIMEOUT_SECONDS, run_here
from tests.server.running import wait_until
from tests.tiny_models import TinyShape, write_tiny_gguf


class Process:
    """A server that runs as a process of its own.

    Attributes:
        url: of its API.
        lines: of its log so far.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.lines: list[dict[str, Any]] = []
        self.url = str(self.expect("serving")["url"])

    def expect(self, event: str) -> dict[str, Any]:
        """Reads the log until an event comes."""
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if line.startswith("{"):
                self.lines.append(json.loads(line))
                if self.lines[-1]["event"] == event:
                    return self.lines[-1]
        raise AssertionError(f"{event!r} did not come; the log has {self.lines}")

    def send(self, number: signal.Signals) -> None:
        """Sends a signal."""
        self._process.send_signal(number)

    def wait(self) -> int:
        """Waits for the end; returns the exit code."""
        return self._process.wait(TIMEOUT_SECONDS)

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None


@contextmanager
def process(*arguments: str, variables: Mapping[str, str]) -> Iterator[Process]:
    started = subprocess.Popen(
        [*COMMAND, "serve", "--port", "0", *arguments],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **variables},
    )
    with started:
        try:
            yield Process(started)
        finally:
            if started.poll() is None:
                started.kill()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    shape = TinyShape(num_layers=24, context_length=8192)
    path = tmp_path_factory.mktemp("slow") / "slow.gguf"
    return str(write_tiny_gguf(path, shape=shape))


def test_a_server_is_set_up_asked_and_told_to_end(model: str, tmp_path: Path) -> None:
    config = tmp_path / "serve.toml"
    config.write_text(f'model = "{model}"\nserved_names = ["tiny"]\nmax_output_tokens = 500\n')
    variables = {"ONEGLANCE_SERVE_DRAFTER": "ngram", "ONEGLANCE_API_KEYS": "ann sk-ann"}
    body = {"model": "tiny", "prompt": "secret", "stream": True, "ignore_eos": True}
    body |= {"max_tokens": 500, "temperature": 0}
    headers = {"Authorization": "Bearer sk-ann"}
    with process("--config", str(config), variables=variables) as server:
        serving = server.lines[-1]
        assert (serving["models"], serving["drafter"], serving["keys"]) == (["tiny"], "ngram", 1)

        def ask() -> httpx2.Response:
            url = f"{server.url}/completions"
            return httpx2.post(url, json=body, headers=headers, timeout=TIMEOUT_SECONDS)

        with ThreadPoolExecutor() as pool:
            under_way = pool.submit(ask)
            wait_until(lambda: 'phase="decoding"} 1.0' in metrics(server, headers))
            server.send(signal.SIGTERM)
            assert server.expect("draining")["reason"] == "SIGTERM"
            late = ask()
            assert late.status_code == 503
            assert int(late.headers["retry-after"]) >= 1
            assert under_way.result().text.endswith("data: [DONE]\n\n")
        assert server.wait() == 0
        server.expect("ended")
        told = [line for line in server.lines if line["event"] == "request"]
        assert {line["client"] for line in told} == {"ann"}
        assert "secret" not in json.dumps(server.lines)


def metrics(server: Process, headers: dict[str, str]) -> str:
    page = httpx2.get(server.url.removesuffix("/v1") + "/metrics", headers=headers)
    return str(page.text)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--port", "70000"], "--port = 70000 cannot be used"),
        (["--config", "absent.toml"], "'absent.toml' cannot be read"),
        (["--keys-file", "absent"], "'absent' cannot be read"),
        (["-k", "none"], "--k = 'none' cannot be used"),
        (["--host", "192.0.2.1"], "192.0.2.1:8000 cannot be listened at"),
    ],
)
def test_what_cannot_be_used_is_told_in_one_line(
    model: str, arguments: list[str], message: str
) -> None:
    done = run_here("serve", "--model", model, *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
