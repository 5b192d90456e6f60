"""The command: what a user sees, the files it writes, and how it ends."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from oneglance.audit.endpoint.connection import Connection
from oneglance.audit.rules.subjects import subjects
from oneglance.environment import read_environment
from tests.audit.broken_servers import LastPieceLost, refusing
from tests.audit.scripted_server import ScriptedServer, serving
from tests.audit.tied_server import TiedServer
from tests.cli.processes import run_here


def audit(url: str, *arguments: str) -> tuple[int, str, str]:
    done = run_here("audit", "endpoint", url, "--tokens", "16", "--samples", "20", *arguments)
    return done.returncode, done.stdout, done.stderr


def test_a_fault_ends_with_1_and_is_in_both_reports(tmp_path: Path) -> None:
    json_path, html_path = tmp_path / "a.json", tmp_path / "a.html"
    with serving(LastPieceLost()) as url:
        code, out, _ = audit(
            url, "--check", "streaming", "--json", str(json_path), "--html", str(html_path)
        )
    assert code == 1
    assert "fault" in out
    assert "The stream ends too early" in out
    report = json.loads(json_path.read_text())
    assert report["has_fault"]
    assert [verdict["status"] for verdict in report["verdicts"]] == ["fault", "fault"]
    assert {verdict["subject"] for verdict in report["verdicts"]} == {"completions", "chat"}
    assert report["oneglance"]
    page = html_path.read_text()
    assert "The stream ends too early" in page
    for verdict in report["verdicts"]:
        assert verdict["detail"].split("'")[0] in page
    # Addresses that the report mentions are text; nothing is fetched.
    assert not re.search(r"<script|<link|src=|href=|@import|url\(", page)


def test_what_is_refused_is_no_fault() -> None:
    names = ("frequency_penalty", "presence_penalty", "logit_bias", "seed", "response_format")
    checks = [
        word
        for name in ("penalties", "logit-bias", "seeds", "schema", "extremes")
        for word in ("--check", name)
    ]
    with serving(refusing(*names, "top_k", "min_p")) as url:
        code, out, _ = audit(url, "--api", "chat", *checks)
    assert code == 0
    assert out.count("not offered") >= 7
    assert "1 pass" in out, "top_p is offered"


def test_a_near_tie_is_told_from_a_fault() -> None:
    for size, status, code in ((0.004, "near-tie", 0), (3.0, "fault", 1)):
        with serving(TiedServer(size=size)) as url:
            found, out, _ = audit(url, "--api", "completions", "--check", "stepwise")
        assert (found, status in out) == (code, True), out


def test_markup_in_an_answer_is_only_text(tmp_path: Path) -> None:
    class Mocking(ScriptedServer):
        def answer(self, body: dict[str, object]) -> list[object]:  # type: ignore[override]
            found = super().answer(body)
            for each in found:
                each.text = "<script>[red]\x1b[2J"
            return list(found)

    path = tmp_path / "a.html"
    with serving(Mocking()) as url:
        code, out, _ = audit(url, "--api", "chat", "--check", "max-tokens", "--html", str(path))
    assert code == 1
    assert "\x1b[2J" not in out
    assert "<script>" not in path.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ftp://x"], "URL 'ftp://x' cannot be used"),
        (["http://127.0.0.1:9"], "does not answer"),
        (["http://127.0.0.1:9", "--check", "all"], "Unknown check 'all'"),
        (["http://127.0.0.1:9", "--api", "tools"], "--api 'tools' is not known"),
        (["http://127.0.0.1:9", "--alpha", "2"], "--alpha 2.0 cannot be used"),
        (["http://127.0.0.1:9", "--json", "/nowhere/a.json"], "cannot be written"),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], message: str) -> None:
    done = run_here("audit", "endpoint", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_key_is_sent_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "s3cret")
    environment = read_environment()
    assert environment.api_key == "s3cret"
    assert "s3cret" not in repr(environment)
    assert Connection("http://x", environment.api_key)._headers["Authorization"] == "Bearer s3cret"


def test_the_rules_command_writes_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The smallest rules stand for all: enumeration of every one takes longer."""
    *_, points = subjects()
    monkeypatch.setattr("oneglance.audit.rules.audit.subjects", lambda: (points,))
    path = tmp_path / "rules.json"
    done = run_here("audit", "rules", "--tables", "1", "--json", str(path))
    assert done.returncode == 0
    verdicts = json.loads(path.read_text())["verdicts"]
    assert {verdict["status"] for verdict in verdicts} == {"pass"}
    assert {verdict["subject"] for verdict in verdicts} == {"point masses", "greedy", "coupled"}
