"""The drafters' benchmark: its prompts, its figures, and the file that it goes on from."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.drafters_grids import drafter_grids
from benchmarks.drafters_options import check_arguments, parse_arguments, temperatures
from benchmarks.drafters_plan import Plan
from benchmarks.drafters_prediction import nearly_right
from benchmarks.drafters_prompts import (
    CODE_EDITS,
    BenchPrompt,
    first_of_each_category,
    read_prompts,
)
from benchmarks.drafters_report import results, samples
from benchmarks.drafters_subjects import count_depths, without_folders
from benchmarks.drafters_work import Run, WorkFile
from oneglance.errors import ParameterError
from oneglance.types import ROOT, PassTrace

EDITS = [json.loads(line) for line in CODE_EDITS.read_text(encoding="utf-8").splitlines()]


def written(path: Path, *lines: object) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def test_prompts_of_all_shapes_are_read(tmp_path: Path) -> None:
    path = written(
        tmp_path / "p.jsonl",
        {"question_id": 81, "category": "writing", "turns": ["First.", "Second."]},
        {"task_id": "HumanEval/0", "prompt": "\ndef f():\n    pass\n"},
        {"id": "x", "category": "qa", "prompt": "Why?"},
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


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("", "The stage default has no prompts of its own"),
        ("--prompts p --unseeded", "add a temperature above 0"),
        ("--prompts p --llama-draft x", "--llama-draft goes with --llama-server"),
        ("--prompts p --llama-setting x", "--llama-setting goes with --llama-server"),
        ("--prompts p --llama-server x", "name it with --llama-model"),
        (
            "--prompts p --llama-server x --llama-model y --temperatures 0.8",
            "asked greedily only",
        ),
    ],
)
def test_options_that_do_not_go_together(words: str, complaint: str) -> None:
    with pytest.raises(ParameterError, match=complaint):
        check_arguments(parse_arguments("", words.split()))


@pytest.mark.parametrize("text", ["0,-1", "0,0", "", "inf", "nan", "warm"])
def test_temperatures_that_are_none(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="different numbers of at least 0"):
        temperatures(text)


def test_edits_bring_their_prompts() -> None:
    options = parse_arguments("", ["--stage", "edits", "--temperatures", "0,0.8"])
    check_arguments(options)
    assert options.temperatures == [0.0, 0.8]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("draft:/models/x.gguf@k=4", "draft:x.gguf@k=4"),
        ("cascade:suffix,draft:/m/x.gguf", "cascade:suffix,draft:x.gguf"),
        ("--prompts=/data/p.jsonl --json docs/m/o.json", "--prompts=p.jsonl --json docs/m/o.json"),
        ("draft:org/model", "draft:org/model"),
    ],
)
def test_folders_of_this_machine_are_left_out(text: str, expected: str) -> None:
    assert without_folders(text) == expected


def trace(parents: tuple[int, ...], accepted: tuple[int, ...]) -> PassTrace:
    return PassTrace("d", (0,) * len(parents), parents, accepted, 1, "recovered")


def test_depths_count_passes_not_tokens() -> None:
    chain = trace((ROOT, 0, 1), (0,))
    tree = trace((ROOT, ROOT, 1), (1, 2))
    nothing = trace((), ())
    assert count_depths([chain, tree, nothing]) == ((2, 2), (2, 1), (1, 0))
    assert count_depths([]) == ()


def run(prompt: str, subject: str, seconds: float, number: int = 0, **more: Any) -> Run:
    """20 tokens behind a prompt that took a second."""
    fields: dict[str, Any] = {
        "prompt": prompt,
        "category": prompt[0],
        "temperature": 0.0,
        "round": number,
        "subject": subject,
        "tokens": 20,
        "seconds": 1 + seconds,
        "prefill_seconds": 1.0,
        "draft_seconds": 0.0,
        "passes": 20,
        "drafted": 0,
        "accepted": 0,
        "depths": (),
    }
    return Run(**(fields | more))


DRAFTED = {"passes": 10, "drafted": 30, "accepted": 10, "depths": ((10, 7), (10, 3))}


def pair(prompt: str, plain: float, drafted: float, number: int = 0) -> dict[str, Run]:
    return {
        "plain": run(prompt, "plain", plain, number),
        "d": run(prompt, "d", drafted, number, draft_seconds=drafted / 4, **DRAFTED),
    }


# The ratios of a1 are 2, 4 and 2 by rounds, that of a2 is 5, that of b1 is 1.
GROUPS = [
    pair("a1", 10, 5),
    pair("a1", 20, 5, 1),
    pair("a1", 8, 4, 2),
    pair("a2", 10, 2),
    pair("b1", 4, 4),
]


def test_speedups_are_medians_of_medians_of_paired_ratios() -> None:
    found = results(GROUPS)
    assert list(found) == ["0 a", "0 b", "0 all"]
    of_a = found["0 a"]["d"]
    assert of_a["prompts"] == 2
    assert of_a["speedup"] == pytest.approx([3.5, 2.75, 4.25])
    assert of_a["tokens_per_second"] == pytest.approx((20 / 5 + 20 / 2) / 2)
    assert of_a["tokens_per_second_with_prompt"] == pytest.approx((20 / 6 + 20 / 3) / 2)
    assert of_a["speedup_with_prompt"] == pytest.approx((11 / 6 + 11 / 3) / 2)
    assert of_a["pooled_speedup"] == pytest.approx((10 + 20 + 8 + 10) / (5 + 5 + 4 + 2))
    assert found["0 all"]["d"]["speedup"][0] == 2
    assert found["0 all"]["plain"]["speedup"] == [1, 1, 1]


def test_counts_are_pooled() -> None:
    summary = results(GROUPS)["0 all"]["d"]
    assert (summary["passes"], summary["drafted"], summary["accepted"]) == (50, 150, 50)
    assert summary["acceptance_rate"] == pytest.approx(1 / 3)
    assert summary["mean_accepted_length"] == 2
    assert summary["draft_share"] == 0.25
    assert summary["depths"] == [[50, 35], [50, 15]]


def test_another_program_may_not_tell_its_passes() -> None:
    peer = run("a1", "peer", 5, passes=None, drafted=12, accepted=9)
    found = results([{**pair("a1", 10, 5), "peer": peer}])["0 all"]
    assert found["peer"]["mean_accepted_length"] is None
    assert found["peer"]["speedup"][0] == 2
    assert found["peer"]["depths"] == []


def test_temperatures_are_told_apart() -> None:
    warm = {
        label: replace(each, temperature=0.8, seconds=1 + 2 * each.decode_seconds)
        for label, each in pair("a1", 10, 5).items()
        if label == "plain"
    }
    found = results([*GROUPS, warm])
    assert list(found)[-2:] == ["0.8 a", "0.8 all"]
    assert list(found["0.8 all"]) == ["plain"]
    assert found["0.8 all"]["plain"]["tokens_per_second"] == 1


def test_samples_are_all_there() -> None:
    found = samples(GROUPS)
    assert found["0 a1"]["d"] == [[20, 5.0, 1.0], [20, 5.0, 1.0], [20, 4.0, 1.0]]


def test_tables_have_the_figures() -> None:
    speed, work, depth = drafter_grids({"is_seeded": True, "results": results(GROUPS)})
    assert speed.rows[0] == ("a", "2", "2.0", "3.50 (2.75–4.25)")
    assert [row[0] for row in speed.rows] == ["a", "b", "all"]
    assert work.rows[1][6:] == ("2.00", "33% (50/150)", "25.0%")
    assert work.rows[0][6:] == ("1.00", "–", "–")
    assert depth.headings == ("", "1", "2")
    assert depth.rows == (("d", "0.70 (50)", "0.30 (50)"),)
    only_a = drafter_grids({"is_seeded": True, "results": results(GROUPS[:4])})[0]
    assert [row[0] for row in only_a.rows] == ["a"]


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
    opened(path).add(list(GROUPS[0].values()))
    with path.open("a") as file:
        file.write('{"runs": [{"prompt": "a2", "cat')  # a kill cut it short
    again = opened(path, load_average=3.0)
    assert again.find(first, ["plain", "d"]) == GROUPS[0]
    assert again.find(first, ["plain", "other"]) is None
    assert again.find(second, ["plain", "d"]) is None
    assert again.load_averages == [0.5, 3.0]
    again.add(list(GROUPS[3].values()))
    assert opened(path).find(second, ["plain", "d"]) == GROUPS[3]


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
