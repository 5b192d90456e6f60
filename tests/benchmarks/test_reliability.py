"""The reliability run passes on our server, and says so when it does not."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from threading import Semaphore
from typing import Any

import pytest

from benchmarks.load.leaks import MemoryWatch
from benchmarks.load.openapi import read_report, run_schemathesis, with_model
from benchmarks.load.own_server import SERVED_NAME, OwnServer
from benchmarks.load.parts import FUZZ_SETTINGS, PARTS, Size, send_bodies
from benchmarks.load.process import ServerFailedError, ServerProcess, free_port
from benchmarks.load.questions import CHAT, COMPLETION, make_questions
from benchmarks.load.restart import RestartReport, read_stream, send_too_late
from benchmarks.reliability import parse_arguments
from oneglance.bench.prompts import BUILT_IN, read_prompts
from oneglance.llm import load
from oneglance.server.settings import ServerSettings
from tests.benchmarks.broken_server import EXPECTED, QUESTION, broken_server
from tests.benchmarks.test_scripts import run_script
from tests.server.running import Running, serving, wait_until


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    """A server of small limits in this process."""
    settings = ServerSettings.model_validate({"served_names": SERVED_NAME, **FUZZ_SETTINGS})
    with load("smollm2-135m", "ngram") as llm, serving(llm, settings) as running:
        yield running


@pytest.mark.slow
def test_the_whole_run_in_little(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    done = run_script(
        *("reliability", "--minutes", 0.03, "--streams", 4, "--questions", 4, "--max-tokens", 8),
        *("--parts", "storm", "restart", "--json", out),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(out.read_text())
    assert set(report["num_problems"]) == {"storm", "pages", "memory", "restart"}
    assert not any(report["num_problems"].values())
    assert sum(each["count"] for each in report["storm"]["outcomes"].values()) >= 4
    assert report["pages"]["before"] == report["pages"]["after"]
    assert report["pages"]["before"]["pages"] > 0
    assert not report["memory"]["is_judged"]
    assert report["memory"]["samples"]
    assert report["restart"]["finished"] == report["restart"]["streams"] == 4
    assert report["restart"]["refused"] > 0
    assert report["server"]["cached_tokens"] > 0


def test_bodies_of_all_kinds_are_answered(running: Running) -> None:
    size = Size(seconds=1, streams=1, questions=1, max_tokens=1, bodies=210, examples=1, seed=2)
    found = send_bodies(OwnServer("x", running.address[1]), size)
    assert found.problems == {"fuzz": []}
    figures = found.figures["fuzz"]
    assert figures["bodies"] == 210
    assert figures["pages"]["before"] == figures["pages"]["after"]
    assert figures["pages"]["after"]["pages"] > 0
    assert {name for name in figures["statuses"] if name.startswith("valid")} == {"valid 200"}


def test_schemathesis_finds_nothing(running: Running) -> None:
    report = run_schemathesis(running.url, 5, seed=1, phases=("fuzzing",))
    assert report.problems == []
    assert report.operations >= 7
    assert report.cases > 10


def test_what_schemathesis_finds_is_told() -> None:
    written: dict[str, Any] = {
        "schemathesis_version": "4",
        "operations": {"tested": 2},
        "test_cases": {"generated": 30},
        "failures": [{"title": "Server error", "operations": ["POST /v1/completions"]}],
        "errors": [],
        "complete": True,
        "stop_reason": "completed",
    }
    report = read_report(written)
    assert (report.version, report.operations, report.cases) == ("4", 2, 30)
    (problem,) = report.problems
    assert "Server error" in problem
    cut_short = read_report(written | {"complete": False, "stop_reason": "interrupted"})
    assert "it did not come to its end: interrupted" in cut_short.problems


def test_the_schema_is_given_the_name_of_the_model() -> None:
    properties: dict[str, Any] = {"model": {"type": "string"}}
    content = {"application/json": {"schema": {"properties": properties}}}
    body = {"requestBody": {"content": content}}
    with_model({"paths": {"/x": {"post": body}, "/y": {"get": {}}}})
    assert properties["model"]["enum"] == [SERVED_NAME]


def test_questions_differ_and_are_the_same_for_a_seed() -> None:
    prompts = read_prompts(BUILT_IN).prompts
    questions = make_questions(prompts, 40, 16, seed=1)
    assert questions == make_questions(prompts, 40, 16, seed=1)
    assert {question.path for question in questions} == {CHAT, COMPLETION}
    assert len({question.id for question in questions}) == 40
    fields = set().union(*(question.sampling for question in questions))
    wanted = [question for question in questions if question.schema is not None]
    assert len(wanted) == 10
    assert all("response_format" in each.body() for each in wanted)
    assert all(each.params().constraint is not None for each in wanted)
    assert fields >= {"seed", "stop", "ignore_eos", "presence_penalty"}
    assert all(1 <= question.sampling["max_tokens"] <= 16 for question in questions)
    sampled = [each.sampling for each in questions if each.sampling["temperature"] > 0]
    assert 10 < len(sampled) < 30
    assert all("seed" in sampling for sampling in sampled)


@pytest.mark.parametrize(
    ("fault", "complaint"),
    [
        ("none", None),
        ("drops a token", "the text differs"),
        ("breaks off", "the stream breaks off"),
    ],
)
def test_a_stream_that_is_cut_by_a_restart_is_found(fault: str, complaint: str | None) -> None:
    begun = Semaphore(0)
    with broken_server(fault) as port:
        problems = read_stream(port, QUESTION, EXPECTED, begun)
    assert begun.acquire(blocking=False)
    assert bool(problems) is (complaint is not None)
    assert complaint is None or complaint in problems[0]


def test_a_server_that_still_takes_requests_while_it_ends_is_found() -> None:
    report = RestartReport(1)
    with broken_server("none") as port:
        send_too_late(port, QUESTION, report)
    assert report.problems == ["a new request got the status 200 after SIGTERM"]
    send_too_late(port, QUESTION, report)  # nobody is there any more
    assert (len(report.problems), report.refused) == (1, 0)


def test_memory_is_looked_at_until_the_end() -> None:
    with MemoryWatch(os.getpid(), 0.005) as watch:
        wait_until(lambda: len(watch.samples) >= 3)
    assert all(sample > 1 << 20 for sample in watch.samples)


def test_a_program_that_is_not_there() -> None:
    with pytest.raises(FileNotFoundError):
        ServerProcess(["/no/such/program"], "http://127.0.0.1:1", "/").start()


def test_a_server_that_does_not_start_says_why() -> None:
    with (
        pytest.raises(ServerFailedError, match=r"it ended with code 2; it said: .*no-such-model"),
        OwnServer("no-such-model", free_port()),
    ):
        raise AssertionError("it has not started")


def test_a_run_takes_some_time(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_arguments("x", ["--minutes", "0"])
    assert "'0' is no number above 0" in capsys.readouterr().err
    assert parse_arguments("x", []).parts == list(PARTS)
