"""A tiny model that answers, and what it answered: shared by the tests of training."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

import oneglance as og
from oneglance.train.collect import CollectionPlan, collect
from oneglance.train.collection import Collection
from tests.tiny_models import TinyShape, write_tiny_gguf

LAYERS = (0, 1, 2, 4)


@dataclass(frozen=True)
class Answered:
    """A model and its answers."""

    model: Path
    llm: og.LLM
    plan: CollectionPlan
    folder: Path

    @property
    def collection(self) -> Collection:
        return Collection(self.folder)


def write_prompts(path: Path, count: int) -> Path:
    """Prompts of all three forms, each another one, some longer than a pass takes at a time."""
    texts = [
        f"{number} is number {number * number} of " * (1 + number % 4) for number in range(count)
    ]
    lines = []
    for number, text in enumerate(texts):
        forms = (
            {"prompt": text, "source": "made up"},
            {"turns": [text, "And then?"]},
            {"text": text},
        )
        lines.append(json.dumps(forms[number % 3]))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Nothing here is large enough for two threads, which would wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="package")
def answered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Answered]:
    folder = tmp_path_factory.mktemp("train")
    shape = TinyShape(num_layers=4)
    model = write_tiny_gguf(folder / "tiny.gguf", seed=3, shape=shape)
    prompts = write_prompts(folder / "prompts.jsonl", 48)
    plan = CollectionPlan((prompts,), max_tokens=20, batch_size=8, shard_tokens=600)
    with og.load(str(model), "none") as llm:
        collect(llm, plan, LAYERS, folder / "answers")
        yield Answered(model, llm, plan, folder / "answers")
