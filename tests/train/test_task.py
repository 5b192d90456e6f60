"""Acceptance as the trainer measures it, against a count column by column."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from oneglance.drafting import read_model
from oneglance.errors import ParameterError
from oneglance.train.batch import Batch, make_batch
from oneglance.train.collection import frequent_tokens
from oneglance.train.draft_task import DraftModule, DraftSettings
from oneglance.train.eagle_task import EagleSettings
from oneglance.train.losses import kl_loss
from oneglance.train.medusa_task import MedusaSettings
from oneglance.train.target_weights import layer_tensors
from oneglance.train.task import Task, TaskSettings, _Laws
from tests.train.conftest import LAYERS, Answered

SETTINGS = {
    "eagle": EagleSettings(features=(0, 1, 2), ffn=48, vocab=40),
    "parallel": EagleSettings(features=(2,), parallel=True, own_head=True, vocab=40),
    "last-layer": EagleSettings(features=(0, 2), init="last-layer", vocab=40, loss="lk"),
    "deep": EagleSettings(layers=2, ffn=32, init="last-layer", features=(1,), vocab=40),
    "medusa": MedusaSettings(vocab=40),
    "draft": DraftSettings(layers=2, vocab=40),
}


def make_task(answered: Answered, settings: TaskSettings) -> Task:
    target = read_model(str(answered.model), None)
    collection = answered.collection
    counts = collection.token_counts(np.arange(len(collection)), target.tokenizer.vocab_size)
    ids = frequent_tokens(counts, settings.vocab)
    return settings.make_task(target, ids, collection.hidden_layers, seed=1)


def a_batch(answered: Answered) -> Batch:
    collection = answered.collection
    return make_batch([collection.item(index) for index in range(8)], max_length=64)


def count_by_hand(task: Task, batch: Batch) -> tuple[list[int], list[int]]:
    """Columns and accepted ones by depth, each column followed on its own."""
    columns, accepted = [0] * task.num_depths, [0] * task.num_depths
    with torch.no_grad():
        outputs = task.outputs(batch)
    num_rows, width = batch.tokens.shape
    for row in range(num_rows):
        for column in range(width - task.first):
            is_alive = True
            for depth in range(task.num_depths):
                place = column + task.first + depth
                if place >= width or not batch.is_answer[row, place]:
                    break
                with torch.no_grad():
                    logits = task.logits(depth, outputs[depth][row, column][None])[0]
                drafted = int(task.teacher.target_ids[int(logits.argmax())])
                is_alive = is_alive and drafted == int(batch.best[row, place])
                columns[depth] += 1
                accepted[depth] += is_alive
                if batch.tokens[row, place] != batch.best[row, place]:
                    break  # the answer left the greedy path
    return columns, accepted


@pytest.mark.parametrize("name", SETTINGS)
def test_acceptance_is_what_a_count_finds(answered: Answered, name: str) -> None:
    task, batch = make_task(answered, SETTINGS[name]), a_batch(answered)
    with torch.no_grad():  # a drafter that is sometimes right
        for parameter in task.module.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
    found = task.acceptance(batch)
    columns, accepted = count_by_hand(task, batch)
    assert found.num_columns.tolist() == columns
    assert found.num_accepted.tolist() == accepted
    assert columns[0] > columns[-1] > 0
    assert (found + found).rates == found.rates


def test_the_teacher_is_the_target(answered: Answered) -> None:
    """Probabilities from stored states and normalisers sum to the share of the draft tokens."""
    task, batch = make_task(answered, MedusaSettings(vocab=300)), a_batch(answered)
    chosen = batch.is_answer[:, 1:]
    probs = task.teacher.probs(batch.hidden[:, :, -1][chosen], batch.normalizers[:, 1:][chosen])
    # The engine has 8-bit weights and this model's logits reach 40, so that they differ by 0.1.
    assert torch.allclose(probs.sum(dim=-1), torch.ones(len(probs)), atol=0.15)
    best = task.teacher.target_ids[probs.argmax(dim=-1)]
    assert (best == batch.best[:, 1:][chosen]).float().mean() > 0.95


@pytest.mark.parametrize("name", ["eagle", "parallel"])
def test_fewer_columns_are_some_of_all(answered: Answered, name: str) -> None:
    """Each step learns at every second column of the one before, from the outputs it would have."""
    settings = SETTINGS[name]
    assert isinstance(settings, EagleSettings)
    settings = replace(settings, stride=2)
    task, batch = make_task(answered, settings), a_batch(answered)
    with torch.no_grad():
        every, some = task.outputs(batch), task.trained(batch)
        laws = _Laws(task.teacher, batch)
        total, weights = 0.0, 0.0
        columns = list(range(batch.tokens.shape[1] - 1))
        for depth, (output, places) in enumerate(some):
            kept = places.tolist()
            assert kept == sorted(set(columns) & set(kept)), "columns of the step before, in order"
            assert np.ceil(len(columns) / 2 ** (depth > 0)) - len(kept) in (0, 1)
            columns = kept
            assert torch.allclose(output, every[depth][:, places], atol=1e-5)
            predicted, ahead = batch.is_answer[:, 2 + depth :], 2 + depth
            here = torch.isin(torch.arange(predicted.shape[1]), places) & predicted
            logits = task.logits(depth, every[depth][:, : predicted.shape[1]][here])
            losses = kl_loss(logits, laws.probs(ahead, here), laws.true_ids(ahead, here))
            total, weights = total + 0.8**depth * float(losses.mean()), weights + 0.8**depth
        assert float(task.loss(batch)) == pytest.approx(total / weights, rel=1e-4)
    assert len(columns) < (batch.tokens.shape[1] - 1) / 3


def test_a_medusa_head_begins_as_the_target_itself(answered: Answered) -> None:
    task, batch = make_task(answered, MedusaSettings(vocab=300)), a_batch(answered)
    rows = batch.hidden[0, :5, -1]
    for depth in range(3):
        assert torch.allclose(task.logits(depth, rows), rows @ task.teacher.head.T, atol=1e-4)


@pytest.mark.parametrize("num_layers", [1, 2])
def test_from_the_last_layers_a_head_computes_what_they_do(
    answered: Answered, num_layers: int
) -> None:
    """The state that enters the first of them, put in place of all features, gives the target's."""
    settings = EagleSettings(features=(0, 2), layers=num_layers, init="last-layer", vocab=300)
    task = make_task(answered, settings)
    target = read_model(str(answered.model), None)
    whole = DraftSettings(layers=1, vocab=300).make_task(
        target, task.teacher.target_ids.numpy(), LAYERS, seed=0
    )
    assert isinstance(whole.module, DraftModule)
    layer = whole.module.layers[0]
    batch = a_batch(answered)
    states = batch.hidden[:, :, 2]
    features = torch.stack([torch.zeros_like(states), states], dim=2).flatten(2)
    with torch.no_grad():
        (found,) = task.module(features, batch.tokens[:, 1:], 1)
        expected = states
        for weights in target.weights.layers[-num_layers:]:
            layer.load_state_dict(layer_tensors(weights))
            expected, _ = layer.__call__(expected, expected, torch.arange(states.shape[1]), [])
    assert torch.allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize("name", ["deep", "parallel"])
def test_it_may_begin_from_another_head(answered: Answered, tmp_path: Path, name: str) -> None:
    """With another vocabulary too: tokens of both keep their rows, others have the target's."""
    settings = SETTINGS[name]
    assert isinstance(settings, EagleSettings)
    first = make_task(answered, replace(settings, form="F32"))
    with torch.no_grad():
        for parameter in first.module.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    first.export(tmp_path / "head", {})
    second = make_task(answered, replace(settings, init=str(tmp_path / "head"), vocab=60))
    found, wanted = second.module.state_dict(), first.module.state_dict()
    assert found.keys() == wanted.keys()
    for key in found.keys() - {"lm_head.weight"}:
        assert torch.equal(found[key], wanted[key]), key
    if "lm_head.weight" in found:
        ids = [int(each) for each in first.teacher.target_ids]
        for row, target_id in enumerate(second.teacher.target_ids.tolist()):
            known = target_id in ids
            rows = wanted["lm_head.weight"] if known else second.teacher.head
            assert torch.equal(
                found["lm_head.weight"][row], rows[ids.index(target_id) if known else row]
            )
    with pytest.raises(ParameterError, match=r"has intermediate_size = \d+, not 16"):
        make_task(answered, replace(settings, init=str(tmp_path / "head"), ffn=16))
    config = tmp_path / "head" / "config.json"
    text = config.read_text(encoding="utf-8")
    config.write_text(re.sub(r'("rope_theta": )[0-9.]+', r"\g<1>77.0", text), encoding="utf-8")
    with pytest.raises(ParameterError, match=r"has rope_theta = 77.0, not"):
        make_task(answered, replace(settings, init=str(tmp_path / "head")))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: EagleSettings(loss="mse"), "loss = 'mse' is not known; choose one of: ce, kl, lk"),
        (lambda: EagleSettings(vocab=0), "vocab = 0"),
        (lambda: EagleSettings(steps=0), "steps = 0"),
        (lambda: EagleSettings(steps=1, parallel=True), "steps of at least 2"),
        (lambda: EagleSettings(init="zero"), "init = 'zero' cannot be used; choose random, last"),
        (lambda: EagleSettings(ffn=0), "ffn = 0"),
        (lambda: EagleSettings(layers=0), "layers = 0"),
        (lambda: EagleSettings(decay=0.0), "decay = 0"),
        (lambda: EagleSettings(form="Q2_K"), "form = 'Q2_K'"),  # type: ignore[arg-type]
        (lambda: EagleSettings(features=(1, 9)).layers_read(4), "no layer 9"),
        (lambda: EagleSettings(features=(1, 1)).layers_read(4), "a layer twice"),
        (lambda: EagleSettings().layers_read(2), "no layer -1"),
        (lambda: MedusaSettings(heads=0), "heads = 0"),
        (lambda: DraftSettings(layers=0), "layers = 0"),
        (lambda: DraftSettings(layers=4).layers_read(4), "the target has 4"),
    ],
)
def test_settings_that_mean_nothing_are_refused(make, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ParameterError, match=message):
        make()
