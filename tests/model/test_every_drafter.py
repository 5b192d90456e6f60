"""Every drafter on the real default model: the tokens and the bits of plain decoding.

Each drafter is run greedy and with a seed, in chains and in trees, alone and in a batch of five
ragged prompts; tokens are compared one by one and the target's logprobs bit by bit. The law of
sampled answers without a seed is enumerated on scripted models, in the tests of each drafter.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.heads.medusa_heads import fitted_heads
from tests.partial_models import without_layers

from benchmarks.float_copies import with_float_weights
from oneglance import LLM, Completion, Constraint, SamplingParams, load
from oneglance.checkpoints.catalog import resolve
from oneglance.config import EngineConfig
from oneglance.decode.reading import Chunk
from oneglance.decode.step import step
from oneglance.drafters.base import Drafter, DraftHints
from oneglance.drafters.cascade import CascadeDrafter
from oneglance.drafters.draft_model import DraftModelDrafter
from oneglance.drafters.medusa import MedusaDrafter
from oneglance.drafters.ngram import NgramDrafter
from oneglance.drafters.self_factory import Itself, make_self_drafter
from oneglance.engine.base import Engine
from oneglance.engine.factory import make_engine
from oneglance.engine.native.engine import NativeEngine
from oneglance.engine.native.medusa import NativeMedusa
from oneglance.types import Float64Array

PROMPTS = [
    json.loads(line)["prompt"]
    for line in (Path(__file__).parents[1] / "data" / "short_prompts.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()[:4]
] + ["Repeat this line three times: one two three four five six seven eight."]

ALONE = PROMPTS[-2:]


def alternating(tokens: tuple[int, ...], logits: Float64Array) -> Float64Array:
    """A mask that is another one at each position, as a grammar's is."""
    masked = logits.copy()
    masked[len(tokens) % 3 :: 3] = -np.inf
    return masked


REQUESTS = {
    "greedy": SamplingParams(max_tokens=20),
    "seeded": SamplingParams(max_tokens=20, temperature=0.8, top_p=0.95, seed=7),
    "warped": SamplingParams(
        max_tokens=16,
        min_tokens=4,
        temperature=0.7,
        top_k=40,
        min_p=0.02,
        repetition_penalty=1.05,
        frequency_penalty=0.2,
        logit_bias={28: -1.0},
        stop=(".",),
        seed=3,
        logits_processors=(alternating,),
    ),
    "constrained": SamplingParams(
        max_tokens=24,
        temperature=0.8,
        seed=5,
        constraint=Constraint.json_schema(
            {
                "x-guidance": {"whitespace_flexible": False},
                "type": "object",
                "properties": {
                    "first_word": {"type": "string", "maxLength": 12},
                    "number_of_words": {"type": "integer"},
                    "kind": {"enum": ["question", "order"]},
                },
                "required": ["first_word", "number_of_words", "kind"],
                "additionalProperties": False,
            }
        ),
    ),
}

SWAPPED = ("Ġthe".encode(), "Ġand".encode())
"""Two tokens of the default model, equally long in its file."""


@dataclass(frozen=True)
class Case:
    """A drafter by its name, and what its requests need.

    Attributes:
        spec: as after `--drafter`; OTHER_VOCABULARY stands for the default model with two ids
            swapped, which thus has another vocabulary and is sometimes wrong.
        arguments: of `LLM.batch`, such as a prediction.
        make: makes the drafter where no name does; `spec` is what to call it then.
    """

    spec: str
    arguments: tuple[tuple[str, Any], ...] = ()
    make: Callable[[LLM], Drafter[Any]] | None = None


def part_of(llm: LLM, *dropped: int) -> tuple[Engine, int]:
    """A draft model, the target without some of its layers, and the size of the vocabulary."""
    part = without_layers(llm.checkpoint, set(dropped))
    return make_engine(part.config, part.weights), llm.tokenizer.vocab_size


def draft_model(llm: LLM) -> Drafter[Any]:
    return DraftModelDrafter(*part_of(llm, 10, 18))


def cascade_of_ngram(llm: LLM) -> Drafter[Any]:
    return CascadeDrafter(NgramDrafter(), *part_of(llm, 10, 18))


def cascade_of_models(llm: LLM) -> Drafter[Any]:
    smallest = DraftModelDrafter(*part_of(llm, 6, 10, 14, 18))
    return CascadeDrafter(smallest, *part_of(llm, 10, 18))


@cache  # the copy takes seconds to make
def low_bit_copy(llm: LLM) -> Drafter[Any]:
    """Of the target's weights as floats: those that its file has are too small to copy."""
    floats = replace(llm.checkpoint, weights=with_float_weights(llm.checkpoint.weights))
    target = Itself(
        floats, llm.engine, lambda copy: make_engine(copy.config, copy.weights), EngineConfig()
    )
    return make_self_drafter("lowbit", target)


@cache  # for the answers that its heads know by heart
def medusa(llm: LLM) -> Drafter[Any]:
    """Heads that know the answers to some of the prompts, and guess from these at the others."""
    assert isinstance(llm.engine, NativeEngine)
    texts = []
    for params in (REQUESTS["greedy"], REQUESTS["seeded"]):
        known = [PROMPTS[0], *PROMPTS[-2:]]
        for prompt, answer in zip(
            known, llm.batch(known, params=params, drafter="none"), strict=True
        ):
            texts.append(llm.encode(prompt) + [token.token_id for token in answer.tokens])
    size = llm.tokenizer.vocab_size
    heads = NativeMedusa(
        fitted_heads(llm.engine, texts), llm.engine, llm.checkpoint.weights.head, size
    )
    return MedusaDrafter(heads, llm.checkpoint.config.num_layers)


CASES = [
    Case("ngram"),
    Case("suffix"),
    Case("suffix:global"),
    Case("suffix+ngram"),
    Case("draft", make=draft_model),
    Case("cascade:ngram,draft", make=cascade_of_ngram),
    Case("cascade:draft,draft", make=cascade_of_models),
    Case("draft:OTHER_VOCABULARY"),
    Case("eagle"),
    Case("suffix+eagle"),
    Case("self:lowbit", make=low_bit_copy),
    Case("self:skip:10,18"),
    Case("self:exit:28"),
    Case("lookahead:3,3,2"),
    Case("medusa", make=medusa),
    Case("predicted", (("prediction", "Sure! Here is the answer. One two three four five six."),)),
]

RUNS = [
    pytest.param(name, nodes, id=f"{name}-{'chain' if nodes is None else 'tree'}")
    for name in REQUESTS
    for nodes in (None, 12)
    # Trees meet constraints in tests/decode/test_constrained_law.py.
    if nodes is None or name != "constrained"
]

Answer = list[tuple[int, float]]


def answers(completions: list[Completion]) -> list[Answer]:
    return [[(token.token_id, token.logprob) for token in each.tokens] for each in completions]


@pytest.fixture(scope="module")
def llm() -> Iterator[LLM]:
    with load(drafter="none") as llm:
        yield llm
    low_bit_copy.cache_clear()
    medusa.cache_clear()


@pytest.fixture(scope="module")
def plain(llm: LLM) -> dict[str, list[Answer]]:
    return {
        name: answers(llm.batch(PROMPTS, params=params, drafter="none"))
        for name, params in REQUESTS.items()
    }


@pytest.fixture(scope="module")
def other_vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = resolve("smollm2-135m", None).read_bytes()
    one, other = (len(word).to_bytes(8, "little") + word for word in SWAPPED)
    places = sorted((data.index(word), word) for word in (one, other))
    for (place, _), word in zip(places, [places[1][1], places[0][1]], strict=True):
        data = data[:place] + word + data[place + len(word) :]
    path = tmp_path_factory.mktemp("models") / "other_vocabulary.gguf"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(("request_name", "tree_nodes"), RUNS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.spec)
def test_the_answers_are_those_of_plain_decoding(
    llm: LLM,
    plain: dict[str, list[Answer]],
    case: Case,
    request_name: str,
    tree_nodes: int | None,
    request: pytest.FixtureRequest,
) -> None:
    drafter: str | Drafter[Any] = case.spec if case.make is None else case.make(llm)
    if isinstance(drafter, str) and "OTHER_VOCABULARY" in drafter:
        path = request.getfixturevalue("other_vocabulary")
        drafter = drafter.replace("OTHER_VOCABULARY", str(path))
    arguments = dict(case.arguments) | {"drafter": drafter, "k": 4, "tree_nodes": tree_nodes}
    params = REQUESTS[request_name]
    together = llm.batch(PROMPTS, params=params, **arguments)
    assert answers(together) == plain[request_name]
    if request_name in ("warped", "constrained"):  # drafts are seldom wrong or seldom right
        return
    alone = [llm.generate(prompt, params=params, **arguments) for prompt in ALONE]
    assert answers(alone) == plain[request_name][-len(ALONE) :]
    stats = [each.stats for each in (*together, *alone)]
    accepted, drafted = sum(each.accepted for each in stats), sum(each.drafted for each in stats)
    assert 0 < accepted < drafted, "both outcomes must occur for the comparison to tell"


FORGETFUL = ["draft", "eagle", "self:skip:10,18", "suffix", "ngram"]
"""Drafters whose drafts are a function of the text alone."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.spec)
def test_an_answer_that_is_begun_again_in_between_is_that_of_plain_decoding(
    llm: LLM, plain: dict[str, list[Answer]], case: Case, request: pytest.FixtureRequest
) -> None:
    """As when a request has to give up its pages to another."""
    drafter: str | Drafter[Any] = case.spec if case.make is None else case.make(llm)
    if isinstance(drafter, str) and "OTHER_VOCABULARY" in drafter:
        path = request.getfixturevalue("other_vocabulary")
        drafter = drafter.replace("OTHER_VOCABULARY", str(path))
    prediction = dict(case.arguments).get("prediction")
    decoder = llm._decoder(drafter, 4, None, prediction is not None)
    hints = DraftHints(() if prediction is None else tuple(llm.tokenizer.encode(prediction)))
    traces = []
    for begins_again in (True, False) if case.spec in FORGETFUL else (True,):
        sequence = decoder.begin(llm.encode(PROMPTS[-1]), REQUESTS["seeded"], hints=hints)
        while decoder.step([sequence])[0].ending is None:
            if begins_again and sequence.stats.passes == 3:
                decoder.suspend(sequence)
                decoder.resume(sequence, llm.engine.open())
                while tokens := sequence.unread(llm.engine.length(sequence.handle)):
                    assert step(llm.engine, [], [Chunk(sequence, tokens[:40])])[1] == [None]
        decoder.end(sequence)
        answer = [(token.token_id, token.logprob) for token in sequence.tokens]
        assert answer == plain["seeded"][-1]
        traces.append(sequence.trace)
    assert traces == traces[:1] * len(traces), "it drafted otherwise after it was begun again"
