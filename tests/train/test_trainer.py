"""Training learns, ends early, and comes to the same weights however often it is stopped."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from oneglance.errors import CheckpointError, ParameterError
from oneglance.train.collect import CollectionPlan
from oneglance.train.plan import TrainingPlan
from oneglance.train.state import STATE_FILE
from oneglance.train.trainer import Trainer
from tests.train.conftest import Answered
from tests.train.test_task import SETTINGS, a_batch, make_task

PLAN = TrainingPlan(
    learning_rate=3e-3,
    epochs=2,
    batch_tokens=500,
    max_length=64,
    warmup_steps=2,
    held_out=0.3,
    evaluate_every=4,
    patience=99,
)


def make_trainer(
    answered: Answered, folder: Path, name: str = "eagle", plan: TrainingPlan = PLAN
) -> Trainer:
    task = make_task(answered, SETTINGS[name])
    return Trainer(task, answered.collection, plan, folder, {"kind": name})


def weights(trainer: Trainer) -> dict[str, torch.Tensor]:
    return {name: each.clone() for name, each in trainer.task.module.state_dict().items()}


def assert_equal(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> None:
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert torch.equal(value, second[name]), f"{name} differs"


@pytest.mark.parametrize("name", SETTINGS)
def test_it_learns(answered: Answered, tmp_path: Path, name: str) -> None:
    trainer = make_trainer(answered, tmp_path, name)
    torch.manual_seed(5)
    with torch.no_grad():  # some kinds begin so well that there is little to learn
        for parameter in trainer.task.module.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    batch = a_batch(answered)
    before = float(trainer.task.loss(batch).detach())
    trainer.run()
    assert float(trainer.task.loss(batch).detach()) < 0.97 * before
    after = trainer.measure()
    assert trainer.step == trainer.num_steps
    assert after.mean_accepted_length >= trainer.curve[0]["mean_accepted_length"]
    best = max(point["mean_accepted_length"] for point in trainer.curve)
    assert after.to_dict()["mean_accepted_length"] == best  # the best weights, not the last


class Kill(BaseException):
    """As a kill does, it leaves no time to write anything."""


@pytest.mark.parametrize("name", ["eagle", "medusa"])
def test_killed_at_any_point_it_comes_to_the_same_weights(
    answered: Answered, tmp_path: Path, name: str
) -> None:
    whole = make_trainer(answered, tmp_path / "whole", name)
    whole.run()
    stopped = tmp_path / "stopped"
    for kill_at in (1, 3, 5, 7):

        def kill(stage: str, done: int, total: int, at: int = kill_at) -> None:
            assert stage.startswith("train")
            assert done <= total
            if done == at:
                raise Kill

        with pytest.raises(Kill):
            make_trainer(answered, stopped, name).run(kill)
    again = make_trainer(answered, stopped, name)
    assert again.step == 4  # of the last state: nothing was written at 7
    again.run()
    assert again.curve == whole.curve
    assert_equal(weights(again), weights(whole))
    assert_equal(weights(make_trainer(answered, stopped, name)), _last(stopped))


def _last(folder: Path) -> dict[str, torch.Tensor]:
    state: dict[str, Any] = torch.load(folder / STATE_FILE, weights_only=True)
    module: dict[str, torch.Tensor] = state["module"]
    return module


def test_products_of_bfloat16_lead_near_to_the_same(answered: Answered, tmp_path: Path) -> None:
    """Other bits after the first step, weights still float32, and the loss falls alike."""
    exact = make_trainer(answered, tmp_path / "f32")
    rounded = make_trainer(answered, tmp_path / "bf16", plan=replace(PLAN, precision="bf16"))
    batch = a_batch(answered)
    before = float(exact.task.loss(batch).detach())
    exact.run()
    rounded.run()
    assert all(each.dtype == torch.float32 for each in weights(rounded).values())
    falls = [before - float(each.task.loss(batch).detach()) for each in (exact, rounded)]
    assert 0 < falls[1] == pytest.approx(falls[0], rel=0.2)
    assert falls[1] != falls[0]


def test_ctrl_c_lets_the_step_end_and_loses_nothing(answered: Answered, tmp_path: Path) -> None:
    whole = make_trainer(answered, tmp_path / "whole")
    whole.run()

    def press(stage: str, done: int, total: int) -> None:
        del stage, total
        if done == 3:
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        make_trainer(answered, tmp_path / "stopped").run(press)
    assert signal.getsignal(signal.SIGINT) is before
    again = make_trainer(answered, tmp_path / "stopped")
    assert again.step == 3
    again.run()
    assert_equal(weights(again), weights(whole))


def test_it_ends_when_nothing_gets_better(answered: Answered, tmp_path: Path) -> None:
    plan = replace(PLAN, learning_rate=1e-12, evaluate_every=1, patience=2, epochs=50)
    trainer = make_trainer(answered, tmp_path, plan=plan)
    trainer.run()
    assert trainer.step == 2  # what it began from is the best, two evaluations follow
    assert [point["step"] for point in trainer.curve] == [0, 1, 2]


def test_a_state_of_another_training_is_refused(answered: Answered, tmp_path: Path) -> None:
    make_trainer(answered, tmp_path)
    with pytest.raises(ParameterError, match="epochs = 2, not 4"):
        make_trainer(answered, tmp_path, plan=replace(PLAN, epochs=4))
    with pytest.raises(ParameterError, match="kind = 'eagle', not 'medusa'"):
        make_trainer(answered, tmp_path, "medusa")
    path = tmp_path / STATE_FILE
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(CheckpointError, match="not a sound state"):
        make_trainer(answered, tmp_path)


@pytest.mark.parametrize(
    "values",
    [
        {"epochs": 0},
        {"learning_rate": 0.0},
        {"clip": float("inf")},
        {"max_length": 2},
        {"held_out": 1.0},
        {"patience": 0},
        {"precision": "f16"},
    ],
)
def test_plans_that_mean_nothing_are_refused(values: dict[str, Any]) -> None:
    (name,) = values
    with pytest.raises(ParameterError, match=f"{name} = "):
        TrainingPlan(**values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"prompts": ()}, "no prompts"),
        ({"temperatures": ()}, "temperatures"),
        ({"temperatures": (-1.0,)}, "temperatures"),
        ({"batch_size": 0}, "batch_size = 0"),
        ({"num_answers": 0}, "num_answers = 0"),
    ],
)
def test_collections_that_mean_nothing_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        CollectionPlan(**{"prompts": (Path("prompts.jsonl"),), **values})
