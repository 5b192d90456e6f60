"""On real models: the same tokens and the same bits with every drafter, greedy and with a seed.

Each answer is compared with plain decoding token for token, and the target's logprob of each
token bit for bit. Prompts are kept in the cache between the runs, which must not matter either.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pytest

from oneglance.checkpoints import Checkpoint, load_checkpoint
from oneglance.checkpoints.catalog import resolve
from oneglance.config import EngineConfig, SamplingParams
from oneglance.decode.loop import Decoder
from oneglance.decode.sequence import DecodingSequence, Vocabulary
from oneglance.drafters.base import Drafter
from oneglance.drafters.draft_model import DraftModelDrafter
from oneglance.drafters.ngram import NgramDrafter
from oneglance.drafters.none import NoDrafter
from oneglance.engine.base import Engine
from oneglance.engine.factory import make_engine
from oneglance.engine.prefix import PrefixStore

PROMPTS = [
    json.loads(line)["prompt"]
    for line in (Path(__file__).parents[1] / "data" / "prompts.jsonl").read_text().splitlines()
]
REQUESTS = {
    "greedy": SamplingParams(max_tokens=12),
    "seeded": SamplingParams(max_tokens=12, temperature=0.8, top_p=0.95, seed=7),
}

Answers = list[list[tuple[int, float]]]
EngineKind = Literal["reference", "native"]


@dataclass
class Stage:
    """A target with its prompts, the drafters to try, and the plain answers to compare with."""

    target: Engine
    vocabulary: Vocabulary
    prompts: list[list[int]]
    drafters: dict[str, Drafter[Any]]
    prefixes: PrefixStore
    plain: dict[str, Answers]

    def run(
        self, drafter: Drafter[Any], request: SamplingParams, k: int = 4
    ) -> list[DecodingSequence]:
        decoder = Decoder(self.target, self.vocabulary, drafter, k, prefixes=self.prefixes)
        requests = [request] * len(self.prompts)
        finished: dict[int, DecodingSequence] = {}
        for index, sequence, delivery in decoder.run(self.prompts, requests):
            if delivery.ending is not None:
                finished[index] = sequence
        return [finished[index] for index in range(len(self.prompts))]


def answers(sequences: list[DecodingSequence]) -> Answers:
    return [[(t.token_id, t.logprob) for t in sequence.tokens] for sequence in sequences]


def make_stage(target: Checkpoint, draft: Checkpoint, kind: EngineKind) -> Stage:
    engine_config = EngineConfig(kind=kind, kept_prefixes=len(PROMPTS))
    tokenizer = target.tokenizer
    assert target.chat_template is not None
    engine = make_engine(target.config, target.weights, engine_config)
    stage = Stage(
        target=engine,
        vocabulary=Vocabulary(tokenizer.vocab_size, tokenizer.eos_ids, tokenizer.token_bytes),
        prompts=[
            target.chat_template.encode(tokenizer, [{"role": "user", "content": prompt}])
            for prompt in PROMPTS
        ],
        drafters={
            "ngram": NgramDrafter(min_ngram=1),
            "draft model": DraftModelDrafter(
                make_engine(draft.config, draft.weights, engine_config),
                tokenizer.vocab_size,
                engine_config=engine_config,
            ),
        },
        prefixes=PrefixStore(engine, len(PROMPTS)),
        plain={},
    )
    for name, request in REQUESTS.items():
        stage.plain[name] = answers(stage.run(NoDrafter(), request))
    return stage


def without_layers(checkpoint: Checkpoint, dropped: set[int]) -> Checkpoint:
    """A draft model of the same vocabulary: the target with some layers left out."""
    layers = tuple(
        layer for index, layer in enumerate(checkpoint.weights.layers) if index not in dropped
    )
    return replace(
        checkpoint,
        config=replace(checkpoint.config, num_layers=len(layers)),
        weights=replace(checkpoint.weights, layers=layers),
    )


@pytest.fixture(scope="module", params=["reference", "native"])
def default_stage(request: pytest.FixtureRequest) -> Stage:
    target = load_checkpoint(resolve("smollm2-135m"))
    return make_stage(target, without_layers(target, {6, 10, 14, 18, 22}), request.param)


@pytest.fixture(scope="module", params=["reference", "native"])
def real_pair(request: pytest.FixtureRequest) -> Stage:
    target = load_checkpoint(resolve("qwen2.5-coder-1.5b"))
    draft = load_checkpoint(resolve("qwen2.5-coder-0.5b"))
    assert draft.tokenizer.fingerprint() == target.tokenizer.fingerprint()
    return make_stage(target, draft, request.param)


def check(stage: Stage, request: str, drafter: str) -> None:
    sequences = stage.run(stage.drafters[drafter], REQUESTS[request])
    assert answers(sequences) == stage.plain[request]
    accepted = sum(sequence.stats.accepted for sequence in sequences)
    drafted = sum(sequence.stats.drafted for sequence in sequences)
    assert 0 < accepted < drafted, "both outcomes must occur for the comparison to mean something"


@pytest.mark.parametrize("request_name", REQUESTS)
@pytest.mark.parametrize("drafter", ["ngram", "draft model"])
def test_default_model(default_stage: Stage, request_name: str, drafter: str) -> None:
    assert len(PROMPTS) == 20
    check(default_stage, request_name, drafter)


def test_a_batch_is_as_alone_and_kept_prefixes_as_fresh_ones(default_stage: Stage) -> None:
    stage = replace(
        default_stage,
        prompts=default_stage.prompts[-1:],
        prefixes=PrefixStore(default_stage.target, 0),
    )
    request = replace(REQUESTS["greedy"], max_tokens=4)
    alone = answers(stage.run(NoDrafter(), request))
    assert alone == [default_stage.plain["greedy"][-1][:4]]


@pytest.mark.slow
@pytest.mark.parametrize("request_name", REQUESTS)
@pytest.mark.parametrize("drafter", ["ngram", "draft model"])
def test_real_pair(real_pair: Stage, request_name: str, drafter: str) -> None:
    check(real_pair, request_name, drafter)
