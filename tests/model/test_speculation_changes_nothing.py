"""On real models: the same tokens and the same bits with every drafter, greedy and with a seed.

Each answer is compared with plain decoding token for token, and the target's logprob of each
token bit for bit. Prompts are kept in the cache between the runs, which must not matter either.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pytest
from tests.partial_models import without_layers

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


def read_prompts(file_name: str) -> list[str]:
    text = (Path(__file__).parents[1] / "data" / file_name).read_text(encoding="utf-8")
    return [json.loads(line)["prompt"] for line in text.splitlines()]


PROMPTS = read_prompts("prompts.jsonl")
SHORT_PROMPTS = read_prompts("short_prompts.jsonl")
REQUESTS = {
    "greedy": SamplingParams(max_tokens=12),
    "seeded": SamplingParams(max_tokens=12, temperature=0.8, top_p=0.95, seed=7),
}
SHORT_REQUESTS = {name: replace(request, max_tokens=16) for name, request in REQUESTS.items()}

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
    requests: dict[str, SamplingParams]
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


def make_stage(
    target: Checkpoint,
    draft: Checkpoint,
    kind: EngineKind,
    prompts: Sequence[str] = PROMPTS,
    requests: dict[str, SamplingParams] = REQUESTS,
) -> Stage:
    engine_config = EngineConfig(kind=kind, kept_prefixes=len(prompts))
    tokenizer = target.tokenizer
    assert target.chat_template is not None
    engine = make_engine(target.config, target.weights, engine_config)
    stage = Stage(
        target=engine,
        vocabulary=Vocabulary(tokenizer.vocab_size, tokenizer.eos_ids, tokenizer.token_bytes),
        prompts=[
            target.chat_template.encode(tokenizer, [{"role": "user", "content": prompt}])
            for prompt in prompts
        ],
        drafters={
            "ngram": NgramDrafter(min_ngram=1),
            "draft model": DraftModelDrafter(
                make_engine(draft.config, draft.weights, engine_config),
                tokenizer.vocab_size,
                engine_config=engine_config,
            ),
        },
        prefixes=PrefixStore(engine, len(prompts)),
        requests=requests,
        plain={},
    )
    for name, request in requests.items():
        stage.plain[name] = answers(stage.run(NoDrafter(), request))
    return stage


# The reference engine takes minutes; every change proves it on tiny models (tests/engine).
@pytest.fixture(
    scope="module", params=[pytest.param("reference", marks=pytest.mark.slow), "native"]
)
def default_stage(request: pytest.FixtureRequest) -> Stage:
    target = load_checkpoint(resolve("smollm2-135m"))
    return make_stage(target, without_layers(target, {6, 10, 14, 18, 22}), request.param)


@pytest.fixture(scope="module")
def hundred_prompts() -> Stage:
    target = load_checkpoint(resolve("smollm2-135m"))
    draft = without_layers(target, {6, 10, 14, 18, 22})
    return make_stage(target, draft, "native", SHORT_PROMPTS, SHORT_REQUESTS)


@pytest.fixture(scope="module", params=["reference", "native"])
def real_pair(request: pytest.FixtureRequest) -> Stage:
    target = load_checkpoint(resolve("qwen2.5-coder-1.5b"))
    draft = load_checkpoint(resolve("qwen2.5-coder-0.5b"))
    assert draft.tokenizer.fingerprint() == target.tokenizer.fingerprint()
    return make_stage(target, draft, request.param)


def check(stage: Stage, request: str, drafter: str, k: int = 4) -> None:
    sequences = stage.run(stage.drafters[drafter], stage.requests[request], k)
    assert answers(sequences) == stage.plain[request]
    accepted = sum(sequence.stats.accepted for sequence in sequences)
    drafted = sum(sequence.stats.drafted for sequence in sequences)
    assert 0 < accepted < drafted, "both outcomes must occur for the comparison to mean something"


@pytest.mark.parametrize("request_name", REQUESTS)
@pytest.mark.parametrize("drafter", ["ngram", "draft model"])
def test_default_model(default_stage: Stage, request_name: str, drafter: str) -> None:
    assert len(PROMPTS) == 20
    check(default_stage, request_name, drafter)


@pytest.mark.parametrize("request_name", SHORT_REQUESTS)
@pytest.mark.parametrize("drafter", ["ngram", "draft model"])
def test_a_hundred_prompts(hundred_prompts: Stage, request_name: str, drafter: str) -> None:
    assert len(SHORT_PROMPTS) == 100
    # Short drafts of the draft model, which is nearly as slow as its target.
    check(hundred_prompts, request_name, drafter, k=2 if drafter == "draft model" else 4)


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
