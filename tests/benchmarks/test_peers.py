"""Other programs are asked as they expect it: a server over HTTP, llama.cpp's benchmark."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from benchmarks.grids import llama_grid
from benchmarks.llama_bench import LlamaBench
from benchmarks.server import Server
from oneglance.errors import ParameterError

PROGRAM = """\
#!{python}
import json, sys
options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
assert options["-m"] == "model.gguf" and options["-t"] == "2" and options["-o"] == "jsonl"
repeats = int(options["-r"])
for name, key in (("-p", "n_prompt"), ("-n", "n_gen")):
    for count in map(int, options[name].split(",")):
        if count > 0:
            result = dict(n_prompt=0, n_gen=0, build_number=7, build_commit="abc")
            print(json.dumps(result | {{key: count, "samples_ns": [count * 10**6] * repeats}}))
"""
"""Answers as llama-bench does: a JSON object on a line for each test, a token takes 1 ms."""


@contextmanager
def listening(answers: dict[str, Any]) -> Iterator[tuple[str, list[tuple[str, dict[str, Any]]]]]:
    """A server with these paths; yields its address and the questions that it was asked."""
    asked: list[tuple[str, dict[str, Any]]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            asked.append((self.path, json.loads(body)))
            is_known = self.path in answers
            self.send_response(200 if is_known else 404)
            self.end_headers()
            if is_known:
                self.wfile.write(json.dumps(answers[self.path]).encode())

        def log_message(self, *arguments: object) -> None:
            """Says nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/"])
def test_a_server_of_openai_s_protocol(suffix: str) -> None:
    answers = {"/v1/completions": {"usage": {"completion_tokens": 5}}}
    with listening(answers) as (url, asked):
        sample = Server(url + suffix, "name").measure("Once", 9)
    assert sample["tokens"] == 5
    assert sample["seconds"] > 0
    question = {"model": "name", "prompt": "Once", "max_tokens": 9, "temperature": 0}
    assert asked[-1] == ("/v1/completions", question)


def test_a_server_of_llama_cpp_s_own() -> None:
    with listening({"/completion": {"tokens_predicted": 3}}) as (url, asked):
        sample = Server(url, "name").measure("Once", 9)
    assert sample["tokens"] == 3
    assert asked[-1] == ("/completion", {"prompt": "Once", "n_predict": 9, "temperature": 0})


@pytest.mark.parametrize(
    ("answers", "complaint"),
    [
        ({}, "it has neither /v1/completions nor /completion"),
        ({"/v1/completions": {"choices": []}}, "does not say how many tokens"),
        ({"/v1/completions": [1]}, "is no JSON object"),
    ],
)
def test_a_server_that_is_something_else(answers: dict[str, Any], complaint: str) -> None:
    with listening(answers) as (url, _), pytest.raises(ParameterError, match=complaint):
        Server(url, "name")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "llama-bench"
    path.write_text(PROGRAM.format(python=sys.executable))
    path.chmod(0o755)
    return path


def test_llama_cpp_s_benchmark_is_read(program: Path) -> None:
    bench = LlamaBench(program, Path("model.gguf"), num_threads=2)
    sample = bench.measure(64, 512, context=10, rows=(1, 8), repeats=3)
    assert sample == {
        "plain": {"tokens": 64, "seconds": 0.064},
        "prefill": {"tokens": 512, "seconds": 0.512},
        "passes": {"1": [0.001] * 3, "8": [0.008] * 3},
        "context": 10,
        "build": "7 (abc)",
    }


def test_the_comparison_divides_round_by_round(program: Path) -> None:
    bench = LlamaBench(program, Path("model.gguf"), num_threads=2)
    sample = bench.measure(64, 512, context=10, rows=(1, 8), repeats=3)
    report = {
        "prefill_tokens": 512,
        "samples": {
            "llama-bench": [sample],
            "plain": [{"tokens": 64, "seconds": 0.05, "prefill_seconds": 0.018}],
            "prefill": [0.256],
            "pass 10 1": [[0.001] * 3],
            "pass 10 8": [[0.002] * 3],
        },
    }
    factors = [row[3].split()[0] for row in llama_grid(report).rows]
    assert factors == ["2.00", "2.00", "1.00", "4.00"]


def test_a_program_that_fails_is_named() -> None:
    bench = LlamaBench(Path(sys.executable), Path("model.gguf"), num_threads=2)
    with pytest.raises(ParameterError, match=r"--llama-bench .* cannot be run on model\.gguf"):
        bench.measure(64, 512, context=10, rows=(1,), repeats=1)
