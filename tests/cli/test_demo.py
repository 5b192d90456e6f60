from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.console import Console

from oneglance.cli import demo
from oneglance.cli.demo import Comparison, Run, compare, comparison_table
from oneglance.cli.options import Options
from oneglance.completion import Completion
from oneglance.decode import loop
from oneglance.engine.base import Engine
from oneglance.engine.prefill import prefill
from oneglance.errors import ParameterError
from oneglance.types import EngineInfo, SpeculationStats, Token
from tests.cli.processes import run, run_here


def run_of(token_ids: list[int], decode_seconds: float, num_passes: int = 4) -> Run:
    count = len(token_ids)
    completion = Completion(
        text=str(token_ids),
        tokens=tuple(Token(item, "plain", None, -0.1, 0) for item in token_ids),
        finish_reason="length",
        stop_reason=None,
        prompt_tokens=3,
        drafter="ngram",
        stats=SpeculationStats(passes=num_passes, drafted=8, accepted=6, delivered=count),
        trace=(),
        seed=None,
        engine=EngineInfo("scripted"),
    )
    return Run(completion, decode_seconds)


def comparison_of(plain: Run, speculative: Run) -> Comparison:
    return Comparison((plain,), (speculative,))


@pytest.fixture
def tiny_demo(tiny_model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo, on a model that answers in milliseconds."""
    monkeypatch.setattr(demo, "Options", functools.partial(Options, model=tiny_model))
    monkeypatch.setattr(demo, "PROMPTS", (("the the the the", 24), ("a b", 4)))


def test_a_gain_is_stated_as_a_factor() -> None:
    verdict = comparison_of(run_of([1, 2], 2.0), run_of([1, 2], 1.0)).verdict()
    assert verdict == "The texts are identical, bit for bit. Drafting made it 2.00 times as fast."


def test_a_loss_is_called_a_loss() -> None:
    verdict = comparison_of(run_of([1, 2], 1.0), run_of([1, 2], 2.0)).verdict()
    assert "slower here: 0.50 times the plain speed" in verdict


def test_a_difference_in_any_round_is_shouted() -> None:
    same = run_of([1, 2], 1.0)
    comparison = Comparison((same, same), (same, run_of([1, 3], 1.0)))
    assert not comparison.is_identical
    assert "THE TEXTS DIFFER" in comparison.verdict()


def test_speeds_are_medians_of_the_rounds() -> None:
    plain = tuple(run_of([1, 2], seconds) for seconds in (4.0, 2.0, 90.0))
    speculative = tuple(run_of([1, 2], seconds) for seconds in (1.0, 50.0, 2.0))
    assert Comparison(plain, speculative).speedup == 2.0


def test_the_table_has_the_figures_of_both_ways() -> None:
    console = Console(width=100)
    with console.capture() as capture:
        table = comparison_table(comparison_of(run_of([1] * 10, 2.0, 10), run_of([1] * 10, 1.0)))
        console.print(table)
    text = " ".join(capture.get().split())
    assert "passes of the model 10 4 " in text
    assert "mean accepted length 1.00 2.50 " in text
    assert "tokens per second, prompt excluded 5.0 10.0" in text
    assert "75% (6/8)" in text


def test_both_ways_take_turns_in_going_first(
    tiny_model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from oneglance.llm import LLM, load

    order: list[str] = []
    generate = LLM.generate

    def recording(self: LLM, prompt: str, drafter: str | None, max_tokens: int) -> Completion:
        completion = generate(self, prompt, drafter=drafter, max_tokens=max_tokens)
        order.append(completion.drafter)
        return completion

    monkeypatch.setattr(LLM, "generate", recording)
    with load(tiny_model, k=4) as llm:
        comparison = compare(llm, "the the the the", 24, rounds=3)
    assert order == ["none", "suffix", "suffix", "none", "none", "suffix"]
    assert comparison.is_identical
    assert all(item.completion.drafter == "none" for item in comparison.plain)
    assert all(item.completion.stats.drafted == 0 for item in comparison.plain)
    assert all(item.completion.drafter == "suffix" for item in comparison.speculative)


@pytest.mark.usefixtures("tiny_demo")
def test_a_difference_fails_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def compare_wrongly(*arguments: object) -> Comparison:
        comparison = compare(*arguments)  # type: ignore[arg-type]
        completion = dataclasses.replace(comparison.plain[0].completion, text="another")
        return dataclasses.replace(comparison, plain=(Run(completion, 1.0),))

    demo.demo()
    assert "identical, bit for bit" in capsys.readouterr().out
    monkeypatch.setattr(demo, "compare", compare_wrongly)
    with pytest.raises(typer.Exit) as exit_info:
        demo.demo()
    assert exit_info.value.exit_code == 1


@pytest.mark.usefixtures("tiny_demo")
def test_json_has_every_run_and_its_provenance(tmp_path: Path) -> None:
    path = tmp_path / "demo.json"
    pytest.importorskip("oneglance._native")
    demo.demo(rounds=2, json_path=path, engine="native")
    report = json.loads(path.read_text(encoding="utf-8"))
    assert report["command"] == f"oneglance demo --rounds 2 --json {path} --engine native"
    assert report["engine"]["kind"] == "native"
    assert {"date", "oneglance", "git_revision", "python", "numpy", "cpu", "cores"} <= set(report)
    assert [answer["prompt"] for answer in report["answers"]] == ["the the the the", "a b"]
    for answer in report["answers"]:
        assert answer["is_identical"]
        assert len(answer["plain"]) == len(answer["speculative"]) == 2
        for measured in (*answer["plain"], *answer["speculative"]):
            decode = measured["seconds"]["decode"]
            assert measured["delivered"] == answer["max_tokens"]
            assert measured["tokens_per_second"] == measured["delivered"] / decode
            assert decode >= sum(measured["seconds"][part] for part in ("verify", "accept"))


@pytest.mark.usefixtures("tiny_demo")
def test_no_run_finds_an_earlier_prompt_in_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    fed: list[int] = []

    def recording(
        engine: Engine, sequence: int, tokens: Sequence[int], chunk: int, **others: Any
    ) -> None:
        fed.append(len(tokens))
        prefill(engine, sequence, tokens, chunk, **others)

    monkeypatch.setattr(loop, "prefill", recording)
    demo.demo(rounds=2)
    warm_up, first, second = fed[:1], fed[1:5], fed[5:]
    assert warm_up[0] > 0
    assert len(set(first)) == len(set(second)) == 1, "every run feeds its whole prompt"
    assert first[0] > second[0] > 0


def test_a_file_that_cannot_be_written_is_named_before_anything_is_loaded(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing" / "demo.json"):
        with pytest.raises(ParameterError, match=r"--json '.*' cannot be written"):
            demo.demo(json_path=path)


def test_no_rounds_are_refused() -> None:
    done = run_here("demo", "--rounds", "0")
    assert done.returncode == 2
    assert "--rounds" in done.stderr


@pytest.mark.slow
def test_the_demo_runs() -> None:
    done = run("demo", timeout=600.0)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("The texts are identical, bit for bit.") == len(demo.PROMPTS)
