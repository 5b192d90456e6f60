from __future__ import annotations

import dataclasses

import pytest
import typer
from rich.console import Console

from oneglance.cli import demo
from oneglance.cli.demo import Comparison, Run, compare, comparison_table
from oneglance.cli.options import Options
from oneglance.completion import Completion
from oneglance.types import SpeculationStats, Token
from tests.cli.processes import run


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
    )
    return Run(completion, decode_seconds)


def test_a_gain_is_stated_as_a_factor() -> None:
    verdict = Comparison(run_of([1, 2], 2.0), run_of([1, 2], 1.0)).verdict()
    assert verdict == "The texts are identical, bit for bit. Drafting made it 2.00 times as fast."


def test_a_loss_is_called_a_loss() -> None:
    verdict = Comparison(run_of([1, 2], 1.0), run_of([1, 2], 2.0)).verdict()
    assert "slower here: 0.50 times the plain speed" in verdict


def test_a_difference_is_shouted() -> None:
    comparison = Comparison(run_of([1, 2], 1.0), run_of([1, 3], 1.0))
    assert not comparison.is_identical
    assert "THE TEXTS DIFFER" in comparison.verdict()


def test_the_table_has_the_figures_of_both_runs() -> None:
    console = Console(width=100)
    with console.capture() as capture:
        table = comparison_table(Comparison(run_of([1] * 10, 2.0, 10), run_of([1] * 10, 1.0)))
        console.print(table)
    text = " ".join(capture.get().split())
    assert "passes of the model 10 4 " in text
    assert "mean accepted length 1.00 2.50 " in text
    assert "tokens per second 5.0 10.0" in text
    assert "75% (6/8)" in text


def test_compare_runs_the_same_request_without_and_with_drafting(tiny_model: str) -> None:
    from oneglance.llm import load

    with load(tiny_model, k=4) as llm:
        comparison = compare(llm, "the the the the", 24)
    assert comparison.is_identical
    assert comparison.plain.completion.drafter == "none"
    assert comparison.speculative.completion.drafter == "ngram"
    assert comparison.plain.completion.stats.drafted == 0


def test_a_difference_fails_the_command(
    tiny_model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def compare_wrongly(*arguments: object) -> Comparison:
        comparison = compare(*arguments)  # type: ignore[arg-type]
        completion = dataclasses.replace(comparison.plain.completion, text="another")
        return dataclasses.replace(comparison, plain=Run(completion, 1.0))

    monkeypatch.setattr(demo, "Options", lambda: Options(model=tiny_model))
    monkeypatch.setattr(demo, "PROMPTS", (("the the", 4),))
    demo.demo()
    assert "identical, bit for bit" in capsys.readouterr().out
    monkeypatch.setattr(demo, "compare", compare_wrongly)
    with pytest.raises(typer.Exit) as exit_info:
        demo.demo()
    assert exit_info.value.exit_code == 1


@pytest.mark.slow
def test_the_demo_runs() -> None:
    done = run("demo", timeout=600.0)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("The texts are identical, bit for bit.") == len(demo.PROMPTS)
