"""The code edits of the drafters' benchmark, and the predictions made of answers."""

from __future__ import annotations

import json

import pytest

from benchmarks.drafters_prediction import nearly_right
from benchmarks.drafters_stages import CODE_EDITS
from oneglance.bench.prompts import read_prompts

EDITS = [json.loads(line) for line in CODE_EDITS.read_text(encoding="utf-8").splitlines()]


def test_the_code_edits_are_prompts_with_predictions() -> None:
    prompts = read_prompts(CODE_EDITS).prompts
    assert [each.id for each in prompts] == [edit["id"] for edit in EDITS]
    assert all(each.prediction for each in prompts)


def test_the_code_edits_are_programs_and_changed_ones() -> None:
    assert len({edit["id"] for edit in EDITS}) == len(EDITS) == 20
    assert len({edit["language"] for edit in EDITS}) == 8
    for edit in EDITS:
        assert set(edit) == {"id", "language", "file", "instruction", "expected"}
        assert edit["expected"] != edit["file"]
        for text in (edit["file"], edit["expected"]):
            assert 60 <= len(text.splitlines()) <= 150
            assert text.endswith("\n")
            assert "```" not in text


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit["id"])
def test_python_before_and_after_an_edit_compiles(edit: dict[str, str]) -> None:
    if edit["language"] == "python":
        for text in (edit["file"], edit["expected"]):
            compile(text, edit["id"], "exec")


def test_a_prediction_is_wrong_in_one_token_of_twenty() -> None:
    answer = [100 + index for index in range(80)]
    changed = nearly_right(answer, seed=7)
    assert changed == nearly_right(answer, seed=7)
    assert changed != nearly_right(answer, seed=8)
    differing = [index for index in range(80) if changed[index] != answer[index]]
    assert len(differing) == 4
    assert set(changed) <= set(answer)
    assert nearly_right([5, 6, 5], seed=0).count(5) in (1, 3)  # one of three tokens at least
    assert nearly_right([5, 5], seed=0) == [5, 5]
    assert nearly_right([], seed=0) == []
