"""`oneglance bench`: measured, compared, interrupted, resumed, and what it refuses."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from oneglance.bench.figures import results
from oneglance.bench.run import Run
from oneglance.bench.subject import Answer, Question
from oneglance.bench.variant import Variant
from oneglance.bench.words import findings
from oneglance.engine.native import is_available
from tests.bench.test_endpoint import GOOD, serving
from tests.cli.processes import COMMAND, TIMEOUT_SECONDS, run, run_here

Ask = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def prompts(tmp_path_factory: pytest.TempPathFactory) -> str:
    lines = [
        {"id": "p", "category": "copying", "prompt": "Say: one two one two."},
        {"task_id": "HumanEval/0", "prompt": "def add(a, b):\n"},
    ]
    path = tmp_path_factory.mktemp("prompts") / "some.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def read(path: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return report


@pytest.fixture(scope="module")
def measured(
    tmp_path_factory: pytest.TempPathFactory, prompts: str
) -> tuple[subprocess.CompletedProcess[str], Path]:
    """The default model, or a tiny one where there are no kernels, with two short prompts."""
    folder = tmp_path_factory.mktemp("measured")
    if not is_available():
        pytest.skip("takes minutes on the reference engine")
    done = run_here(
        *("bench", "--prompts", prompts, "-d", "ngram", "-d", "suffix@k=2", "-k", "3"),
        *("--temperatures", "0,0.8", "-n", "6", "--rounds", "2"),
        *("--json", str(folder / "out.json"), "--html", str(folder / "out.html")),
    )
    return done, folder


def test_both_prompts_are_measured_at_both_temperatures(
    measured: tuple[subprocess.CompletedProcess[str], Path],
) -> None:
    done, folder = measured
    assert done.returncode == 0, done.stderr
    report = read(folder / "out.json")
    labels = ["plain", "ngram@k=3", "suffix@k=2"]
    assert list(report["subjects"]) == labels
    assert list(report["results"]) == [
        *("0 copying", "0 HumanEval", "0 all", "0.8 copying", "0.8 HumanEval", "0.8 all")
    ]
    assert [run["subject"] for run in report["runs"]] == labels * 8
    assert all(run["is_identical"] for run in report["runs"])
    assert report["groups"] == {"done": 8, "planned": 8}
    assert report["is_complete"] is True
    assert not list(folder.glob("*.runs.jsonl"))


def test_its_figures_follow_from_its_runs(
    measured: tuple[subprocess.CompletedProcess[str], Path],
) -> None:
    done, folder = measured
    report = read(folder / "out.json")
    runs = [Run.read(fields) for fields in report["runs"]]
    groups = [{run.subject: run for run in runs[start : start + 3]} for start in range(0, 24, 3)]
    assert json.loads(json.dumps(results(groups))) == report["results"]
    for sentence in findings(report):
        assert sentence in done.stdout
    assert "Acceptance by depth" in done.stdout


def test_it_tells_where_its_figures_come_from(
    measured: tuple[subprocess.CompletedProcess[str], Path], prompts: str
) -> None:
    report = read(measured[1] / "out.json")
    assert report["command"] == (
        "oneglance bench --drafter ngram --drafter suffix@k=2 -k 3 --prompts some.jsonl "
        "--temperatures 0,0.8 --max-tokens 6 --rounds 2 --json out.json --html out.html"
    )
    assert str(Path(prompts).parent) not in json.dumps(report)
    assert report["model"] == "smollm2-135m"
    assert report["read_bandwidth"] > 1e8
    assert report["memory"]["peak"] > 5e7
    assert set(report["memory"]["taken_by"]) == set(report["subjects"])
    assert {"cpu", "cores", "git_revision", "load_average_before", "oneglance"} <= set(report)


def test_the_page_holds_the_same_report(
    measured: tuple[subprocess.CompletedProcess[str], Path],
) -> None:
    page = (measured[1] / "out.html").read_text(encoding="utf-8")
    text = page.partition('id="report">')[2].partition("</script>")[0]
    assert json.loads(text) == read(measured[1] / "out.json")


@pytest.fixture
def ask(tiny_model: str, prompts: str) -> Ask:
    """Runs the command here on the tiny model."""

    def ask(*arguments: object) -> subprocess.CompletedProcess[str]:
        given = ("--model", tiny_model, "--prompts", prompts, "--rounds", "1", "-n", "4")
        return run_here("bench", *given, *map(str, arguments))

    return ask


def test_a_changed_answer_ends_it(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = Variant.answer

    def dishonest(variant: Variant, question: Question) -> Answer:
        answer = honest(variant, question)
        if variant.label != "ngram":
            return answer
        assert answer.token_ids is not None
        return replace(answer, token_ids=(answer.token_ids[0] + 1, *answer.token_ids[1:]))

    monkeypatch.setattr(Variant, "answer", dishonest)
    done = ask("-d", "ngram", "--json", tmp_path / "o.json")
    assert done.returncode == 1
    assert "oneglance: The drafter ngram changed the answer to prompt p" in done.stderr
    assert not (tmp_path / "o.json").exists()


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGINT], ids=["kill", "Ctrl-C"])
def test_an_interrupted_run_is_taken_up_again(
    slow_model: str, prompts: str, tmp_path: Path, sign: signal.Signals
) -> None:
    path, runs = tmp_path / "o.json", tmp_path / "o.runs.jsonl"
    given = ("--model", slow_model, "--prompts", prompts, "-d", "ngram", "-n", "40")
    words = [*COMMAND, "bench", *given, "--rounds", "50", "--json", str(path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        wait_for(lambda: runs.exists() and runs.read_text().count('"runs"') >= 2)
        process.send_signal(sign)
        out, errors = process.communicate(timeout=TIMEOUT_SECONDS)
    assert process.returncode == (130 if sign == signal.SIGINT else -sign)
    num_done = runs.read_text().count('"runs"')
    assert 2 <= num_done < 100
    if sign == signal.SIGINT:
        partial = read(path)
        assert partial["groups"] == {"done": num_done, "planned": 100}
        assert f"these are {num_done} of 100 groups" in out.decode()
        assert "The same command with --resume goes on" in errors.decode()
    refused = run_here("bench", *given, "--rounds", "1", "--json", str(path))
    assert refused.returncode == 2
    assert "o.runs.jsonl holds what an interrupted run has measured; add --resume" in refused.stderr
    kept = json.loads(next(line for line in runs.read_text().splitlines() if '"runs"' in line))
    again = run_here("bench", *given, "--rounds", "1", "--json", str(path), "--resume")
    assert again.returncode == 0, again.stderr
    report = read(path)
    assert report["is_complete"] is True
    assert report["runs"][:2] == kept["runs"]
    assert len(report["load_average_before"]) == 2
    assert not runs.exists()


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "nothing happens"
        time.sleep(0.02)


def test_a_run_that_measured_nothing_is_no_obstacle(ask: Ask, tmp_path: Path) -> None:
    refused = ask("-d", "nothing", "--json", tmp_path / "o.json")
    assert refused.returncode == 2
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "o.runs.jsonl").write_text('{"settings": {}}\n')  # as a kill would leave it
    done = ask("-d", "ngram", "--json", tmp_path / "o.json")
    assert done.returncode == 0, done.stderr


def test_runs_of_other_settings_are_not_mixed(ask: Ask, tmp_path: Path) -> None:
    line = {"settings": {"model": "another"}}
    (tmp_path / "o.runs.jsonl").write_text(json.dumps(line) + "\n")
    done = ask("--json", tmp_path / "o.json", "--resume")
    assert done.returncode == 2
    assert "was begun with model = 'another', not" in done.stderr


def test_servers_alone_are_measured_without_a_model(prompts: str, tmp_path: Path) -> None:
    with serving(GOOD, ["m"]) as slow, serving(GOOD, ["m"]) as fast:
        done = run(
            *("bench", "--endpoint", f"off={slow.url}", "--endpoint", f"on={fast.url}/v1"),
            *("--prompts", prompts, "--rounds", "1", "-n", "5"),
            *("--json", str(tmp_path / "o.json"), "--html", str(tmp_path / "o.html")),
            environment={"OPENAI_API_KEY": "secret"},
        )
        keys = {key for _, _, key in slow.asked}
    assert done.returncode == 0, done.stderr
    assert keys == {"Bearer secret"}
    report = read(tmp_path / "o.json")
    assert report["subjects"]["off"] == {"endpoint": slow.url, "model": "m"}
    assert report["model"] is report["engine"] is report["memory"] is None
    assert report["results"]["0 all"]["on"]["identical"] == 2
    assert [run["tokens"] for run in report["runs"]] == [5] * 4
    title = "Times as fast as off, greedy, the reading of the prompt included"
    assert title in " ".join(done.stdout.split())
    assert "secret" not in (tmp_path / "o.json").read_text() + done.stdout


def test_a_server_is_measured_beside_our_model(ask: Ask, tmp_path: Path) -> None:
    with serving(GOOD, ["m"]) as server:
        done = ask("-d", "ngram", "--endpoint", f"s={server.url}", "--json", tmp_path / "o.json")
    assert done.returncode == 0, done.stderr
    report = read(tmp_path / "o.json")
    assert list(report["results"]["0 all"]) == ["plain", "ngram", "s"]
    assert report["results"]["0 all"]["s"]["identical"] == 0
    assert "2 of 4 compared answers were those of plain" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("--resume", "--resume needs the file"),
        ("--endpoint-model m", "is sent to no server"),
        ("-k 2,x", "-k 'x' is not a number"),
        ("-k 2,2", "names a length twice"),
        ("--temperatures warm", "'warm' are no list of different numbers"),
        ("--json no/such/folder/o.json", "name a file in a folder that exists"),
        ("--html .", "name a file in a folder that exists"),
        ("--prompts no.jsonl", "'no.jsonl' cannot be read"),
        ("-d ngram -d ngram", "'ngram' is named twice"),
        ("-d ngram@k=0", "write each setting once"),
        ("-d nothing", "Unknown drafter 'nothing'"),
        ("--endpoint http://127.0.0.1:9", "does not answer"),
        ("--engine fast", "--engine 'fast' is not known"),
    ],
)
def test_errors_are_one_sentence(ask: Ask, arguments: str, complaint: str) -> None:
    done = ask(*arguments.split())
    assert done.returncode == 2
    assert complaint in done.stderr
    assert done.stderr.startswith("oneglance: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("useless", [("-k", "3"), ("--threads", "1")])
def test_what_has_no_effect_on_servers_is_refused(useless: tuple[str, str]) -> None:
    done = run_here("bench", "--endpoint", "http://127.0.0.1:9", *useless)
    assert done.returncode == 2
    assert f"{useless[0]} has no effect where only servers are measured" in done.stderr


def test_the_help_names_every_option() -> None:
    text = run_here("bench", "--help").stdout
    for option in ("--drafter", "--endpoint", "--html", "--json", "--prompts", "--resume"):
        assert option in text
