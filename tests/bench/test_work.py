"""What a benchmark asks, and the file that it goes on from."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from oneglance.bench.plan import Plan
from oneglance.bench.prompts import BenchPrompt
from oneglance.bench.work import WorkFile
from oneglance.errors import ParameterError
from tests.bench.runs import pair, run

FIRST, SECOND = pair("a1", 10, 5), pair("a2", 10, 2)
PLAN = Plan((BenchPrompt("a1", "a", "?"), BenchPrompt("a2", "a", "?")), (0.0,), 2, 20)


def test_the_order_turns_from_prompt_to_prompt_and_from_round_to_round() -> None:
    groups = PLAN.groups()
    assert [group.key for group in groups] == [
        ("a1", 0.0, 0),
        ("a2", 0.0, 0),
        ("a1", 0.0, 1),
        ("a2", 0.0, 1),
    ]
    assert [group.is_reversed for group in groups] == [False, True, True, False]


def test_only_sampled_requests_have_a_seed() -> None:
    prompt = PLAN.prompts[0]
    assert PLAN.params(prompt, 0.0).seed is None
    assert PLAN.params(prompt, 0.8).seed == prompt.seed
    unseeded = replace(PLAN, is_seeded=False)
    assert unseeded.params(prompt, 0.8).seed is None
    assert [unseeded.must_agree(number) for number in (0.0, 0.8)] == [True, False]


def opened(path: Path, load_average: float = 0.5, **settings: Any) -> WorkFile:
    work = WorkFile(path, {"stage": "default", "max_tokens": 20, **settings})
    work.open(load_average)
    return work


def test_finished_groups_are_found_again(tmp_path: Path) -> None:
    path = tmp_path / "w.runs.jsonl"
    first, second, *_ = PLAN.groups()
    opened(path).add(list(FIRST.values()))
    with path.open("a") as file:
        file.write('{"runs": [{"prompt": "a2", "cat')  # a kill cut it short
    again = opened(path, load_average=3.0)
    assert again.find(first, ["plain", "d"]) == FIRST
    assert again.find(first, ["plain", "other"]) is None
    assert again.find(second, ["plain", "d"]) is None
    assert again.load_averages == [0.5, 3.0]
    again.add(list(SECOND.values()))
    assert opened(path).find(second, ["plain", "d"]) == SECOND


def test_runs_of_two_groups_are_not_paired(tmp_path: Path) -> None:
    path = tmp_path / "w.runs.jsonl"
    group = PLAN.groups()[0]
    opened(path).add([run("a1", "plain", 10), run("a1", "x", 5)])
    opened(path).add([run("a1", "plain", 20), run("a1", "y", 5)])
    work = opened(path)
    assert work.find(group, ["plain", "x", "y"]) is None
    found = work.find(group, ["plain", "y"])
    assert found is not None
    assert found["plain"].decode_seconds == 20


def test_runs_of_other_settings_are_not_mixed(tmp_path: Path) -> None:
    path = tmp_path / "w.runs.jsonl"
    opened(path)
    with pytest.raises(ParameterError, match=r"begun with max_tokens = 20, not 30; remove it"):
        opened(path, max_tokens=30)


def test_an_empty_work_file_is_begun(tmp_path: Path) -> None:
    path = tmp_path / "w.runs.jsonl"
    path.write_text('{"settings": {"sta')
    opened(path)
    assert json.loads(path.read_text().splitlines()[0])["settings"]["stage"] == "default"
