"""Collected answers: they are the target's own, none is lost and none is there twice."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from oneglance.engine.base import Batch, TreeRows
from oneglance.errors import CheckpointError, ParameterError
from oneglance.train.answers import finished_jobs, locked, read_shard, shard_folders
from oneglance.train.collect import collect
from oneglance.train.collection import Collection
from oneglance.train.prompts import check_prompts, make_jobs, read_prompts
from tests.train.conftest import LAYERS, Answered, write_prompts


def contents(folder: Path) -> list[tuple[object, ...]]:
    """Every answer with its states, in order of jobs."""
    collection = Collection(folder)
    items = [collection.item(index) for index in range(len(collection))]
    return [
        (item.tokens.tolist(), item.prompt_length, item.hidden.tobytes(), item.best.tolist())
        for item in items
    ]


def test_answers_are_those_of_the_library(answered: Answered) -> None:
    plan, collection = answered.plan, answered.collection
    jobs = list(make_jobs(plan.prompts, plan.temperatures, 48, plan.max_tokens, plan.seed))
    assert len(collection) == len(jobs)
    for is_raw in (False, True):
        chosen = [job for job in jobs if job.prompt.is_raw == is_raw]
        completions = answered.llm.batch(
            [job.prompt.text for job in chosen], raw=is_raw, params=[job.params for job in chosen]
        )
        for job, completion in zip(chosen, completions, strict=True):
            item = collection.item(job.number)
            assert item.tokens[item.prompt_length :].tolist() == list(completion.token_ids)
    assert collection.is_greedy.sum() == len(jobs) / 2


def test_states_and_laws_are_those_of_the_engine(answered: Answered) -> None:
    engine, collection = answered.llm.engine, answered.collection
    for index in (0, 1, 3):
        item = collection.item(index)
        handle = engine.open()
        rows = TreeRows.chain(handle, item.tokens[:-1].tolist())
        output = engine.forward(Batch((rows,), hidden_layers=LAYERS))
        engine.close(handle)
        states = np.stack([output.hidden[layer][0] for layer in LAYERS], axis=1)
        assert np.array_equal(item.hidden, states.astype(np.float16))
        logits = output.logits[0][item.prompt_length - 1 :].astype(np.float64)
        expected = np.log(np.exp(logits).sum(axis=1))
        assert np.allclose(item.normalizers, expected, atol=1e-5)
        assert np.array_equal(item.best, logits.argmax(axis=1))


def test_batch_and_shard_size_change_nothing(answered: Answered, tmp_path: Path) -> None:
    plan = replace(answered.plan, batch_size=3, shard_tokens=10**6)
    collect(answered.llm, plan, LAYERS, tmp_path)
    assert len(shard_folders(tmp_path)) == 1
    assert len(shard_folders(answered.folder)) > 3
    assert contents(tmp_path) == contents(answered.folder)


@pytest.mark.parametrize("num_kept", [0, 1, 7, 20])
def test_an_interrupted_collection_is_completed(
    answered: Answered, tmp_path: Path, num_kept: int
) -> None:
    stops = itertools.count(1)

    def interrupt(stage: str, done: int, total: int) -> None:
        assert stage == "collect answers"
        assert done <= total == 48
        if next(stops) > num_kept:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        collect(answered.llm, answered.plan, LAYERS, tmp_path, interrupt)
    assert len(finished_jobs(tmp_path)) == num_kept + 1  # what was complete has been kept
    report = collect(answered.llm, answered.plan, LAYERS, tmp_path)
    assert report.num_answers == 48 - num_kept - 1
    assert contents(tmp_path) == contents(answered.folder)
    assert answered.llm.engine.open() >= 0  # no lock, no sequence stands in the way


def test_a_killed_collection_is_completed(answered: Answered, tmp_path: Path) -> None:
    folder = tmp_path / "answers"
    program = (
        "import sys; from pathlib import Path; import oneglance as og\n"
        "from oneglance.train.collect import CollectionPlan, collect\n"
        f"plan = CollectionPlan((Path({str(answered.plan.prompts[0])!r}),), max_tokens=20,\n"
        "    batch_size=8, shard_tokens=200)\n"
        "def slow(*_):\n    import time; time.sleep(0.05)\n"
        f"collect(og.load({str(answered.model)!r}, 'none'), plan, {LAYERS}, "
        f"Path({str(folder)!r}), slow)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program])
    while len(shard_folders(folder)) < 2 and process.poll() is None:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    kept = len(finished_jobs(folder))
    assert 0 < kept < 48
    (folder / "shard-000099.unfinished").mkdir()  # what a kill within a write leaves
    report = collect(answered.llm, answered.plan, LAYERS, folder)
    assert report.num_answers == 48 - kept
    assert not list(folder.glob("*.unfinished"))
    assert contents(folder) == contents(answered.folder)
    jobs = Counter(job for each in shard_folders(folder) for job in read_shard(each).table[:, 0])
    assert set(jobs.values()) == {1}


def test_more_answers_can_be_asked_for_later(answered: Answered, tmp_path: Path) -> None:
    few = replace(answered.plan, num_answers=10)
    assert collect(answered.llm, few, LAYERS, tmp_path).num_answers == 10
    more = replace(answered.plan, num_answers=60)
    assert collect(answered.llm, more, LAYERS, tmp_path).num_answers == 50
    assert contents(tmp_path)[:48] == contents(answered.folder)


def test_a_collection_of_another_making_is_refused(answered: Answered, tmp_path: Path) -> None:
    other = replace(answered.plan, max_tokens=21)
    with pytest.raises(ParameterError, match="max_tokens = 20, not 21"):
        collect(answered.llm, other, LAYERS, answered.folder)
    with pytest.raises(ParameterError, match="hidden_layers"):
        collect(answered.llm, answered.plan, (4,), answered.folder)
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ParameterError, match="other things"):
        collect(answered.llm, answered.plan, LAYERS, tmp_path)
    with locked(answered.folder), pytest.raises(ParameterError, match="Another process"):
        collect(answered.llm, answered.plan, LAYERS, answered.folder)
    with pytest.raises(CheckpointError, match="no sound"):
        Collection(tmp_path)


def test_several_collections_are_one(answered: Answered, tmp_path: Path) -> None:
    prompts = write_prompts(tmp_path / "more.jsonl", 30)
    other = replace(answered.plan, prompts=(prompts,), num_answers=5, seed=9)
    collect(answered.llm, other, LAYERS, tmp_path / "more")
    both = Collection(answered.folder, tmp_path / "more")
    items = [both.item(index) for index in range(len(both))]
    assert [(each.tokens.tolist(), each.hidden.tobytes()) for each in items] == [
        (tokens, hidden)
        for folder in (answered.folder, tmp_path / "more")
        for tokens, _, hidden, _ in contents(folder)
    ]
    assert both.manifest["seed"] == answered.plan.seed
    assert [each["seed"] for each in both.manifest["more_answers"]] == [9]
    assert "more_answers" not in answered.collection.manifest
    collect(answered.llm, other, (4,), tmp_path / "fewer")
    with pytest.raises(ParameterError, match=r"fewer' have hidden_layers = \[4\], those in"):
        Collection(answered.folder, tmp_path / "fewer")


def test_prompts_that_are_too_long_are_left_out(answered: Answered, tmp_path: Path) -> None:
    plan = replace(answered.plan, max_prompt_tokens=60)
    report = collect(answered.llm, plan, LAYERS, tmp_path)
    assert report.num_too_long > 0
    assert report.num_answers == 48 - report.num_too_long
    assert collect(answered.llm, plan, LAYERS, tmp_path).num_answers == 0


def test_every_form_of_prompt_is_read(tmp_path: Path) -> None:
    path = write_prompts(tmp_path / "prompts.jsonl", 3)
    packed = tmp_path / "prompts.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    prompts = list(read_prompts([path, packed]))
    assert [prompt.is_raw for prompt in prompts] == [False, False, True] * 2
    assert prompts[:3] == prompts[3:]
    assert prompts[1].text == "1 is number 1 of 1 is number 1 of "


@pytest.mark.parametrize(
    "line", ["{", "[1]", '{"question": "Why?"}', '{"prompt": 3}', '{"turns": []}', '{"text": ""}']
)
def test_other_lines_are_refused_by_number(tmp_path: Path, line: str) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text(json.dumps({"prompt": "Hello"}) + "\n\n" + line + "\n")
    with pytest.raises(ParameterError, match=r"Line 3 of .* is no prompt"):
        list(read_prompts([path]))


def test_a_file_that_is_missing_or_cut_off_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="No such file"):
        list(read_prompts([tmp_path / "none.jsonl"]))
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(ParameterError, match="There is no prompt"):
        check_prompts([tmp_path / "empty.jsonl"])
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(gzip.compress(b'{"prompt": "Hello"}\n' * 1000)[:-20])
    with pytest.raises(ParameterError, match="cannot be read"):
        list(read_prompts([cut]))


def test_temperatures_take_turns(tmp_path: Path) -> None:
    path = write_prompts(tmp_path / "prompts.jsonl", 3)
    jobs = list(make_jobs([path], (0.0, 1.0), 9, 20, seed=5))
    assert [job.params.temperature for job in jobs] == [0, 1, 0, 1, 0, 1, 1, 1, 1][: len(jobs)]
    asked = Counter((job.prompt.key, job.params.temperature) for job in jobs)
    assert all(count == 1 for (_, temperature), count in asked.items() if temperature == 0)
    assert len({job.params.choice for job in jobs}) == len(jobs) == 9
    assert len(list(make_jobs([path], (0.0,), 99, 20, seed=5))) == 3
