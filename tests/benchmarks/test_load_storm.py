"""Every kind of client notices what is wrong with a server, and nothing where nothing is."""

from __future__ import annotations

import random

import pytest

from benchmarks.load.bodies import MAKERS, fuzz_bodies
from benchmarks.load.fuzz import fuzz
from benchmarks.load.parts import count_outcomes
from benchmarks.load.storm import KINDS, Outcome, Storm
from tests.benchmarks.broken_server import EXPECTED, QUESTION, broken_server


def storm(port: int) -> Storm:
    return Storm(port, [QUESTION], {QUESTION.id: EXPECTED}, ({}, {"off": True}), seed=1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_right_server_is_right_for_every_client(kind: str) -> None:
    with broken_server("none") as port:
        outcome = storm(port).act(kind, random.Random(3))
    assert (outcome.kind, outcome.problems) == (kind, ())


@pytest.mark.parametrize(
    ("fault", "kind", "complaint"),
    [
        ("drops a token", "stream", "the text differs at character 8"),
        ("repeats a token", "stream", "the text differs at character 3"),
        ("changes a text", "stream", "the text differs at character 0"),
        ("changes a text", "whole answer", "the text differs at character 0"),
        ("changes a text", "cancel", "the text differs at character 0"),
        ("changes a text", "disconnect", "the beginning differs at character 0"),
        ("breaks off", "stream", "the stream breaks off"),
        ("fails on nonsense", "malformed body", "the status is 500"),
    ],
)
def test_a_fault_is_found(fault: str, kind: str, complaint: str) -> None:
    with broken_server(fault) as port:
        outcome = storm(port).act(kind, random.Random(3))
    assert any(f"{kind}, q: {complaint}" in problem for problem in outcome.problems)


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"killed client"}))
def test_a_server_that_is_gone_is_found(kind: str) -> None:
    with broken_server("none") as port:
        pass
    (problem,) = storm(port).act(kind, random.Random(3)).problems
    assert "the connection failed" in problem


def test_a_client_that_cannot_begin_is_found() -> None:
    with broken_server("none") as port:
        pass
    (problem,) = storm(port).act("killed client", random.Random(3)).problems
    assert "the client could not begin its streams" in problem


def test_many_clients_ask_until_the_time_is_over() -> None:
    with broken_server("changes a text") as port:
        outcomes = storm(port).run(streams=4, seconds=0.3)
    counts = count_outcomes(outcomes)
    assert sum(each["count"] for each in counts.values()) == len(outcomes) >= 4
    assert counts["stream"]["wrong"] == counts["stream"]["count"] > 0
    assert count_outcomes([Outcome("x"), Outcome("x", 0, ("bad",))]) == {
        "x": {"count": 2, "wrong": 1}
    }


def test_a_fuzz_finds_a_server_that_fails_on_nonsense() -> None:
    with broken_server("fails on nonsense") as port:
        report = fuzz(port, 28, seed=1)
    assert report.num_bodies == 28
    assert report.statuses["broken text 500"] > 0
    assert sum("the status is 500; the body is b'" in each for each in report.problems) == 28
    assert sum("it is refused" in each for each in report.problems) == 4  # those that are valid


def test_bodies_are_of_all_kinds_and_the_same_for_a_seed() -> None:
    bodies = list(fuzz_bodies(70, seed=5))
    assert {body.kind for body in bodies} == set(MAKERS)
    assert bodies == list(fuzz_bodies(70, seed=5))
    assert bodies != list(fuzz_bodies(70, seed=6))
    contents = {body.content for body in bodies if body.kind != "valid"}
    assert len(contents) > 50
