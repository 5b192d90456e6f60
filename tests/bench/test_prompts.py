"""The prompts of a benchmark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from oneglance.bench.prompts import BUILT_IN, BenchPrompt, first_of_each_category, read_prompts
from oneglance.errors import ParameterError


def written(path: Path, *lines: object) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def test_prompts_of_all_shapes_are_read(tmp_path: Path) -> None:
    path = written(
        tmp_path / "p.jsonl",
        {"question_id": 81, "category": "writing", "turns": ["First.", "Second."]},
        {"task_id": "HumanEval/0", "prompt": "\ndef f():\n    pass\n"},
        {"id": "x", "category": "qa", "prompt": "Why?"},
        {"id": "y", "category": "qa", "prompt": "How?", "prediction": "So."},
        {"id": "e", "language": "c", "file": "int x;\n", "instruction": "Make it 64 bits."},
    )
    file = read_prompts(path)
    assert file.name == "p.jsonl"
    assert len(file.sha256) == 64
    block = "```c\nint x;\n```"
    assert file.prompts == (
        BenchPrompt("81", "writing", "First."),
        BenchPrompt(
            "HumanEval/0",
            "HumanEval",
            "Complete this function.\n\n```python\ndef f():\n    pass\n```",
        ),
        BenchPrompt("x", "qa", "Why?"),
        BenchPrompt("y", "qa", "How?", prediction="So."),
        BenchPrompt(
            "e",
            "other languages",
            f"Make it 64 bits.\n\n{block}\n\nAnswer with the whole edited file, in one code block.",
            prediction=block,
        ),
    )


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        ([], "hold 0 lines"),
        ([{"id": "x", "category": "a", "prompt": "1"}] * 2, "2 lines with 1 ids"),
        ([{"text": "1"}], "Line 1 of the prompts 'p.jsonl' is of no known shape"),
        ([{"question_id": 1, "category": "a", "turns": []}], "no known shape"),
        ([3], "no known shape"),
    ],
)
def test_prompts_that_cannot_be_asked(tmp_path: Path, lines: list[object], complaint: str) -> None:
    with pytest.raises(ParameterError, match=complaint):
        read_prompts(written(tmp_path / "p.jsonl", *lines))


def test_prompts_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"'no\.jsonl' cannot be read"):
        read_prompts(tmp_path / "no.jsonl")


def test_a_limit_counts_within_each_category() -> None:
    prompts = [BenchPrompt(str(index), "ab"[index % 2], "?") for index in range(6)]
    assert [each.id for each in first_of_each_category(prompts, 2)] == ["0", "1", "2", "3"]
    assert first_of_each_category(prompts, None) == tuple(prompts)


def test_seeds_are_those_of_every_machine() -> None:
    assert BenchPrompt("81", "writing", "?").seed == 1394002460
    assert BenchPrompt("82", "writing", "?").seed != BenchPrompt("81", "writing", "?").seed


def test_the_package_has_prompts_of_its_own() -> None:
    prompts = read_prompts(BUILT_IN).prompts
    assert len(prompts) == len({each.category for each in prompts}) == 8
