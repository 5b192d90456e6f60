"""What training writes is what the package loads, and it drafts as well as training says."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import oneglance as og
from oneglance.config import EngineConfig, SamplingParams
from oneglance.drafters.base import DraftContext, DraftRequest
from oneglance.drafters.eagle import EagleDrafter
from oneglance.drafting import read_model
from oneglance.engine.base import Batch, TreeRows
from oneglance.engine.factory import make_engine
from oneglance.engine.native.eagle import EagleEngine
from oneglance.engine.native.eagle_parallel import ParallelEagleEngine
from oneglance.heads.eagle_files import read_eagle
from oneglance.heads.medusa_files import read_medusa
from oneglance.sampling.noise import SequentialNoise
from oneglance.train.collection import Collection, Item
from oneglance.train.draft_task import DraftModule, DraftSettings
from oneglance.train.eagle_task import EagleSettings
from oneglance.train.medusa_task import MedusaSettings
from oneglance.train.plan import TrainingPlan
from oneglance.train.target_weights import layer_tensors
from oneglance.train.trainer import Trainer
from tests.tiny_models import TinyShape, write_tiny_gguf, write_tiny_hf
from tests.train.conftest import LAYERS, Answered
from tests.train.test_task import make_task

PLAN = TrainingPlan(
    learning_rate=3e-3, epochs=4, batch_tokens=500, warmup_steps=2, held_out=0.3, evaluate_every=9
)


def counts_of_drafter(drafter: EagleDrafter, item: Item, depth: int) -> tuple[Any, Any]:
    """Drafts at every place of an answer; columns and accepted ones by depth."""
    tokens, first = item.tokens.tolist(), item.prompt_length
    columns, accepted = np.zeros(depth, int), np.zeros(depth, int)
    states = {layer: item.hidden[:, index].astype(np.float32) for index, layer in enumerate(LAYERS)}
    context = DraftContext(tuple(tokens[:first]), SamplingParams(), SequentialNoise(0))
    session = drafter.start(context)
    seen = 0
    for place in range(first, len(tokens)):
        new = {layer: rows[seen : place - 1] for layer, rows in states.items()}
        drafter.see_hidden(session, seen, {layer: new[layer] for layer in drafter.hidden_layers})
        seen = place - 1
        if place > first:
            drafter.observe(session, tokens[place - 1 : place])
        (proposal,) = drafter.propose([DraftRequest(session, depth)])
        ahead = min(depth, len(tokens) - place)
        hits = proposal.tokens[:ahead] == tokens[place : place + ahead]
        columns[:ahead] += 1
        accepted[: len(hits)] += np.cumprod(hits)
    drafter.close(session)
    return columns, accepted


@pytest.mark.parametrize("is_parallel", [False, True], ids=["one-by-one", "parallel"])
def test_held_out_acceptance_is_what_the_drafter_reaches(
    answered: Answered, tmp_path: Path, is_parallel: bool
) -> None:
    """The head has 8-bit activations on the engine, float32 ones in training: near ties differ."""
    settings = EagleSettings(features=(0, 1, 2), ffn=64, vocab=40, parallel=is_parallel)
    collection = answered.collection
    trainer = Trainer(make_task(answered, settings), collection, PLAN, tmp_path / "state", {})
    trainer.run()
    trainer.task.export(tmp_path / "head", {"kind": "eagle"})
    llm = answered.llm
    head = read_eagle(tmp_path / "head", llm.checkpoint.config)
    kind = ParallelEagleEngine if is_parallel else EagleEngine
    vocab_size = llm.tokenizer.vocab_size
    engine = kind(head, llm.engine, llm.checkpoint.weights.head, vocab_size)  # type: ignore[arg-type]
    drafter = EagleDrafter(engine, vocab_size, min_confidence=0.0)
    held_out = trainer._held_out
    measured = [counts_of_drafter(drafter, collection.item(int(i)), 3) for i in held_out]
    columns, accepted = (sum(part) for part in zip(*measured, strict=True))
    promised = trainer.measure()
    assert promised.num_columns.tolist() == columns.tolist()
    assert promised.rates == pytest.approx((accepted / columns).tolist(), abs=0.03)
    assert promised.rates[0] > 0.3


def test_the_eagle_head_is_written_as_it_is(answered: Answered, tmp_path: Path) -> None:
    settings = EagleSettings(features=(0, 2), vocab=30, own_head=True, form="F32")
    task = make_task(answered, settings)
    task.export(tmp_path, {"kind": "eagle"})
    head = read_eagle(tmp_path, answered.llm.checkpoint.config)
    assert head.config.feature_layers == (0, 2)
    assert head.target_ids is not None
    assert head.target_ids.tolist() == task.teacher.target_ids.tolist()
    weights = task.module.state_dict()
    assert head.tensors.keys() == weights.keys()
    for name, value in weights.items():
        assert np.array_equal(head.tensors[name].dequantize(), value.numpy())


def test_the_medusa_heads_are_written_as_they_are(answered: Answered, tmp_path: Path) -> None:
    task = make_task(answered, MedusaSettings(vocab=30, heads=2, form="F32"))
    with torch.no_grad():
        for parameter in task.module.parameters():
            parameter.add_(torch.randn_like(parameter))
    task.export(tmp_path, {"kind": "medusa"})
    found = read_medusa(tmp_path, answered.llm.checkpoint.config)
    assert found.config.num_heads == 2
    assert found.config.draft_vocab_size == 30
    assert json.loads((tmp_path / "provenance.json").read_text()) == {"kind": "medusa"}


@pytest.mark.parametrize("source", ["llama.gguf", "qwen2.gguf", "qwen3.gguf", "llama", "qwen3"])
def test_a_distilled_model_computes_what_was_trained(tmp_path: Path, source: str) -> None:
    """Loaded from its file it has the module's states, and the target's vocabulary and head."""
    architecture = source.removesuffix(".gguf")
    shape = TinyShape(num_layers=4, has_tied_head=architecture != "qwen3", vocab_padding=2)
    write = write_tiny_gguf if source.endswith(".gguf") else write_tiny_hf
    target = read_model(str(write(tmp_path / source, architecture, seed=3, shape=shape)), None)
    task = DraftSettings(layers=2).make_task(target, np.arange(40), (4,), seed=0)
    assert isinstance(task.module, DraftModule)
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in task.module.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    task.export(tmp_path / "draft", {"kind": "draft"})
    path = tmp_path / "draft" / ("draft.gguf" if source.endswith(".gguf") else "")
    found = read_model(str(path), None)
    assert found.tokenizer.fingerprint() == target.tokenizer.fingerprint()
    assert found.config == replace(target.config, num_layers=2)
    one, other = (each.weights.head.dequantize() for each in (found, target))
    assert np.allclose(one, other, rtol=1e-3, atol=1e-6)
    engine = make_engine(found.config, found.weights, EngineConfig(kind="reference"))
    tokens = list(range(5, 35))
    rows = TreeRows.chain(engine.open(), tokens)
    states = engine.forward(Batch((rows,), hidden_layers=(2,))).hidden[2][0]
    with torch.no_grad():
        expected = task.module(torch.tensor([tokens]))[0].numpy()
    # The file's matrices have 8 bits a weight, or are float16.
    error = np.linalg.norm(states - expected) / np.linalg.norm(expected)
    assert error < (0.03 if source.endswith(".gguf") else 0.003)


def test_an_untrained_distilled_model_is_the_first_layers(answered: Answered) -> None:
    task = make_task(answered, DraftSettings(layers=3, vocab=40))
    module = task.module
    assert isinstance(module, DraftModule)
    for layer, stored in zip(module.layers, answered.llm.checkpoint.weights.layers, strict=False):
        for name, value in layer_tensors(stored).items():
            assert torch.equal(layer.state_dict()[name], value)


def test_a_distilled_model_drafts(answered: Answered, tmp_path: Path) -> None:
    make_task(answered, DraftSettings(layers=3, vocab=40)).export(tmp_path, {})
    plain = answered.llm.generate("Say it again.", max_tokens=30)
    drafter = f"draft:{tmp_path / 'draft.gguf'}"
    with og.load(str(answered.model), drafter, k=3) as llm:
        completion = llm.generate("Say it again.", max_tokens=30)
    assert completion.token_ids == plain.token_ids
    assert completion.stats.accepted > 0


def test_a_collection_is_read_from_its_folder_alone(answered: Answered) -> None:
    assert Collection(answered.folder).hidden_layers == LAYERS
