"""The coding prompts that heads learn from: as many as asked for, different, always the same."""

from __future__ import annotations

import doctest
from pathlib import Path
from random import Random

import pytest
import typer
from typer.testing import CliRunner

from oneglance.train.prompts import check_prompts, read_prompts
from recipes.code_prompts import TASKS, generate_prompts, main
from recipes.code_tasks import KINDS, Task


def test_they_are_a_function_of_the_seed_and_all_different() -> None:
    prompts = list(generate_prompts(500, seed=3))
    assert len(set(prompts)) == 500
    assert prompts == list(generate_prompts(500, seed=3))
    assert len(set(prompts) & set(generate_prompts(500, seed=4))) < 50


def test_what_is_written_is_read_as_prompts(tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(main)
    path = tmp_path / "prompts.jsonl"
    result = CliRunner().invoke(app, ["--out", str(path), "--count", "60"])
    assert result.exit_code == 0, result.output
    assert check_prompts([path]) == 60
    assert [prompt.text for prompt in read_prompts([path])] == list(generate_prompts(60, seed=0))


def test_examples_are_what_python_says() -> None:
    """Parsed as a reader of the docstring would, they stand for calls and literal results."""
    parser, count = doctest.DocTestParser(), 0
    for prompt in generate_prompts(800, seed=1):
        for example in parser.get_examples(prompt.split("```")[1] if "```" in prompt else prompt):
            compile(example.source, "example", "eval")
            count += 1
    assert count > 300


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.names[0])
def test_a_reference_answers_without_changing_its_arguments(task: Task) -> None:
    random = Random(5)
    for _ in range(20):
        arguments = [KINDS[each.kind].make(random) for each in task.parameters]
        constants = {name: random.choice(values) for name, values in task.choices.items()}
        before = repr(arguments)
        first = task.reference(*arguments, **constants)
        assert repr(arguments) == before
        assert repr(task.reference(*arguments, **constants)) == repr(first)
