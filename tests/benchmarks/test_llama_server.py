"""llama.cpp's server is started, asked and stopped as it documents; here a small one in Python."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.llama_server import LlamaProgram, LlamaServer, parse_settings
from oneglance.bench.subject import Answer, Question
from oneglance.config import SamplingParams
from oneglance.errors import ParameterError
from tests.benchmarks.test_scripts import run_script

PROGRAM = """\
#!{python}
import json, os, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

if "--help" in sys.argv:
    print({help!r})
    sys.exit()
if "--version" in sys.argv:
    print("version: 77 (abc1234)", file=sys.stderr)
    sys.exit()
if "--refuse" in sys.argv:
    print("first line\\nno such model", file=sys.stderr)
    sys.exit(3)
options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
assert options["--host"] == "127.0.0.1" and options["-np"] == "1"
with open({log!r}, "a") as log:
    print(json.dumps([os.getpid(), sys.argv[1:]]), file=log)
health = [503, 503]


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.reply(health.pop() if health else 200, {{"status": "ok"}})

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.path == "/completion" and asked["temperature"] == 0
        assert asked["cache_prompt"] is False
        prompt, predicted = len(asked["prompt"]), asked["n_predict"]
        timings = dict(prompt_n=prompt, prompt_ms=100.0 * prompt)
        timings |= dict(predicted_n=predicted, predicted_ms=50.0 * predicted)
        if "--spec-type" in options:
            timings |= dict(draft_n=8, draft_n_accepted=6)
        body = dict(content="text", timings=timings)
        if "--broken" in sys.argv:
            body = dict(content="text")
        self.reply(200, body)

    def reply(self, status, body):
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *arguments):
        pass


HTTPServer((options["--host"], int(options["--port"])), Handler).serve_forever()
"""
OLD_HELP = """\
-m, --model FNAME   model path to load
--draft-max, --draft N    number of tokens to draft for speculative decoding (default: 16)
--spec-type [none|ngram-cache|ngram-simple|ngram-mod]
                    type of speculative decoding to use when no draft model is provided"""
NEW_HELP = """\
--spec-draft-n-max N      number of tokens to draft for speculative decoding (default: 3)
--spec-type none,draft-simple,draft-eagle3,ngram-simple,ngram-map-k
                          comma-separated list of types of speculative decoding to use
--draft, --draft-n, --draft-max N         the argument has been removed"""
QUESTION = Question("?", (5, 6, 7), SamplingParams(max_tokens=10), None, "")

Make = Callable[[str], LlamaProgram]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def program(help_text: str) -> LlamaProgram:
        path = tmp_path / "llama-server"
        log = str(tmp_path / "log")
        path.write_text(PROGRAM.format(python=sys.executable, help=help_text, log=log))
        path.chmod(0o755)
        return LlamaProgram(path, Path("t.gguf"), Path("d.gguf"), num_threads=2, context=99)

    return program


def started(tmp_path: Path) -> list[tuple[int, list[str]]]:
    lines = (tmp_path / "log").read_text().splitlines()
    return [(pid, words) for pid, words in map(json.loads, lines)]


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_options_have_the_names_of_the_version(make: Make) -> None:
    old = make(OLD_HELP).settings()
    assert list(old) == ["plain", "draft 4", "draft 16", "ngram-simple", "ngram-mod", "ngram-cache"]
    assert old["plain"] == ()
    assert old["draft 16"] == ("-md", "d.gguf", "--draft-max", "16")
    assert old["ngram-mod"] == ("--spec-type", "ngram-mod")
    new = make(NEW_HELP).settings()
    assert list(new) == ["plain", "draft 4", "draft 16", "ngram-simple", "ngram-map-k"]
    assert new["draft 4"] == (
        *("-md", "d.gguf", "--spec-type", "draft-simple", "--spec-draft-n-max", "4"),
    )


def test_a_version_without_speculation_is_plain(make: Make) -> None:
    program = make("-m, --model FNAME   model path to load")
    assert list(LlamaProgram(program.path, program.model, None, 2, 99).settings()) == ["plain"]


def test_settings_are_chosen_and_described(make: Make) -> None:
    program = make(OLD_HELP)
    assert parse_settings(None, program) == program.settings()
    chosen = parse_settings(["plain", "mine=--spec-type ngram-mod --draft-max 64"], program)
    assert chosen == {"plain": (), "mine": ("--spec-type", "ngram-mod", "--draft-max", "64")}
    with pytest.raises(ParameterError, match="no setting 'other', only plain, draft 4"):
        parse_settings(["other"], program)


def test_it_says_its_version(make: Make) -> None:
    assert make(OLD_HELP).version() == "77 (abc1234)"


def test_answers_are_read_from_its_timings(make: Make, tmp_path: Path) -> None:
    program = make(OLD_HELP)
    settings = program.settings()
    with (
        LlamaServer(program, "plain", settings["plain"]) as plain,
        LlamaServer(program, "ngram-mod", settings["ngram-mod"]) as drafting,
    ):
        assert plain.label == "llama-server plain"
        assert plain.is_greedy_only
        answer = Answer(None, 10, seconds=0.8, prefill_seconds=0.3)
        assert plain.answer(QUESTION) == answer
        assert drafting.answer(QUESTION).drafted == 8
        assert drafting.answer(QUESTION).accepted == 6
        (first, words), (second, others) = started(tmp_path)
        assert is_running(first)
        assert is_running(second)
    assert words[words.index("-c") + 1] == "99"
    assert words[words.index("-t") + 1] == "2"
    assert others[-2:] == ["--spec-type", "ngram-mod"]
    assert not is_running(first)
    assert not is_running(second)


def test_a_server_that_does_not_start_is_named(make: Make) -> None:
    program = make(OLD_HELP)
    complaint = r"setting odd: it ended with code 3; it said: no such model"
    with (
        pytest.raises(ParameterError, match=complaint),
        LlamaServer(program, "odd", ("--refuse", "x")),
    ):
        raise AssertionError("it has not started")


def test_a_server_that_answers_something_else(make: Make, tmp_path: Path) -> None:
    with LlamaServer(make(OLD_HELP), "odd", ("--broken", "x")) as server:
        with pytest.raises(ParameterError, match="setting odd: its answer has no timings"):
            server.answer(QUESTION)
        ((pid, _),) = started(tmp_path)
    assert not is_running(pid)


def test_the_benchmark_asks_it_in_the_same_groups(make: Make, tmp_path: Path) -> None:
    make(OLD_HELP)
    prompt = {"id": "x", "category": "qa", "prompt": "Name a colour."}
    (tmp_path / "p.jsonl").write_text(json.dumps(prompt) + "\n")
    done = run_script(
        "drafters",
        *("--prompts", tmp_path / "p.jsonl", "--max-tokens", 4, "--json", tmp_path / "out.json"),
        *("--drafters", "ngram", "--llama-server", tmp_path / "llama-server"),
        *("--llama-model", tmp_path / "t.gguf", "--llama-setting", "plain"),
        *("--llama-setting", "own=--spec-type ngram-mod"),
    )
    assert done.returncode == 0, done.stderr
    assert "best setting of llama-server" in done.stdout
    text = (tmp_path / "out.json").read_text()
    report = json.loads(text)
    assert report["llama_server"] == "77 (abc1234)"
    assert list(report["llama_commands"]) == ["llama-server plain", "llama-server own"]
    assert str(tmp_path) not in text
    found = report["results"]["0 all"]
    assert list(found) == ["plain", "ngram", "llama-server plain", "llama-server own"]
    assert found["llama-server own"]["acceptance_rate"] == 0.75
    assert found["llama-server own"]["tokens_per_second"] == pytest.approx(20)
    assert not any(is_running(pid) for pid, _ in started(tmp_path))


@pytest.mark.parametrize("path", [Path("/no/such/program"), Path("/bin/false")])
def test_what_is_no_such_program(path: Path) -> None:
    program = LlamaProgram(path, Path("t.gguf"), None, 2, 99)
    with pytest.raises(ParameterError, match=f"--llama-server '{path.name}' cannot be measured"):
        program.settings()
