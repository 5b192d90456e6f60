"""Contract C2: a row's logits depend on the weights and its path only, to the last bit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits  # type: ignore[import-untyped]

from oneglance.config import EngineConfig
from oneglance.engine import reference
from oneglance.engine.arithmetic import rms_norm
from oneglance.engine.base import Batch, TreeRows
from oneglance.engine.reference import ReferenceEngine
from oneglance.types import Float32Array
from tests.engine.passes import (
    append,
    opened,
    path_to,
    random_tokens,
    random_trees,
    scratch,
    tree,
)
from tests.engine.random_models import FLAVOURS, random_model

# Large enough that matrices fill several blocks and that BLAS would like to use its threads.
WIDE: dict[str, Any] = {
    "vocab_size": 1009,
    "hidden_size": 576,
    "num_layers": 2,
    "num_heads": 9,
    "num_kv_heads": 3,
    "head_dim": 64,
    "intermediate_size": 1536,
}
MODELS: dict[str, dict[str, Any]] = {
    "llama": {},
    "qwen2": FLAVOURS["qwen2"],
    "qwen3": FLAVOURS["qwen3"],
    "llama_multi_query": FLAVOURS["llama_multi_query"],
    "wide": WIDE,
}


def make_engine(model: str, page_size: int = 4) -> ReferenceEngine:
    config, weights = random_model(11, **MODELS[model])
    return ReferenceEngine(config, weights, EngineConfig(page_size))


@pytest.fixture(scope="module", params=MODELS)
def engine(request: pytest.FixtureRequest) -> ReferenceEngine:
    return make_engine(request.param)


@pytest.fixture(scope="module")
def tiny() -> ReferenceEngine:
    return make_engine("qwen3")


@pytest.mark.parametrize("chunk", [2, 7, 64, 130])
def test_prompt_chunks(engine: ReferenceEngine, chunk: int) -> None:
    tokens = random_tokens(1, 130)
    assert np.array_equal(append(engine, engine.open(), tokens, chunk), scratch(engine, tokens))


@pytest.mark.parametrize("batch_size", [2, 3, 8, 16])
def test_batches_of_sequences(engine: ReferenceEngine, batch_size: int) -> None:
    prompts = [random_tokens(seed, 1 + 3 * seed % 17) for seed in range(batch_size)]
    sequences = [opened(engine, prompt) for prompt in prompts]
    # Widths from 1 to 4 rows, so that rows of one sequence start anywhere in the pass.
    drafts = [random_tokens(100 + seed, 1 + seed % 4) for seed in range(batch_size)]
    trees = tuple(TreeRows.chain(s, draft) for s, draft in zip(sequences, drafts, strict=True))
    for order in (trees, trees[::-1]):
        output = engine.forward(Batch(order))
        for rows, logits in zip(order, output.logits, strict=True):
            seed = sequences.index(rows.sequence)
            expected = scratch(engine, prompts[seed] + drafts[seed])[len(prompts[seed]) :]
            assert np.array_equal(logits, expected)


@settings(max_examples=30, deadline=None)
@given(prompt_length=st.integers(0, 9), forest=st.lists(random_trees(), min_size=1, max_size=3))
def test_trees_of_any_shape_equal_chains(
    tiny: ReferenceEngine, prompt_length: int, forest: list[tuple[list[int], list[int]]]
) -> None:
    prompt = random_tokens(2, prompt_length)
    sequences = [opened(tiny, prompt) for _ in forest]
    trees = tuple(tree(s, *shape) for s, shape in zip(sequences, forest, strict=True))
    output = tiny.forward(Batch(trees, hidden_layers=(3,)))
    for index, (tokens, parents) in enumerate(forest):
        for leaf in set(range(len(tokens))) - set(parents):
            path = path_to(parents, leaf)
            expected = scratch(tiny, prompt + [tokens[row] for row in path])[prompt_length:]
            assert np.array_equal(output.logits[index][path], expected)
        same_path: dict[tuple[int, ...], Any] = {}
        for row in range(len(tokens)):
            key = tuple(tokens[node] for node in path_to(parents, row))
            state = same_path.setdefault(key, output.hidden[3][index][row])
            assert np.array_equal(output.hidden[3][index][row], state)
    for sequence in sequences:
        tiny.close(sequence)


TOKENS, PARENTS = [5, 6, 7, 8, 9, 10, 11], [-1, 0, 0, 1, 2, 4, 5]


@pytest.mark.parametrize("path", [[0], [0, 1, 3], [0, 2, 4], [0, 2, 4, 5, 6], []])
def test_commit_of_a_tree_path(engine: ReferenceEngine, path: Sequence[int]) -> None:
    prompt, later = random_tokens(3, 6), random_tokens(4, 9)
    sequence = opened(engine, prompt)
    engine.forward(Batch((tree(sequence, TOKENS, PARENTS),)))
    engine.commit(sequence, path)
    assert engine.length(sequence) == 6 + len(path)
    kept = prompt + [TOKENS[row] for row in path]
    expected = scratch(engine, kept + later)[len(kept) :]
    assert np.array_equal(append(engine, sequence, later, chunk=4), expected)


@pytest.mark.parametrize("length", [0, 3, 4, 9])
def test_rollback(engine: ReferenceEngine, length: int) -> None:
    prompt, later = random_tokens(5, 10), random_tokens(6, 7)
    sequence = opened(engine, prompt)
    engine.forward(Batch((tree(sequence, TOKENS, PARENTS),)))
    engine.truncate(sequence, length)
    expected = scratch(engine, prompt[:length] + later)[length:]
    assert np.array_equal(append(engine, sequence, later), expected)


def test_rows_in_flight_leave_no_trace(engine: ReferenceEngine) -> None:
    prompt = random_tokens(7, 6)
    sequence = opened(engine, prompt)
    for tokens in ([1, 2, 3, 4, 5, 6, 7, 8], [9], [10, 11, 12]):
        logits = engine.forward(Batch((TreeRows.chain(sequence, tokens),))).logits[0]
        assert np.array_equal(logits, scratch(engine, prompt + tokens)[6:])


@pytest.mark.parametrize("length", [3, 4, 6, 8])
def test_shared_prefix(engine: ReferenceEngine, length: int) -> None:
    prompt = random_tokens(8, length)
    trunk = opened(engine, prompt)
    branches = [engine.fork(trunk) for _ in range(3)]
    drafts = [random_tokens(20 + index, 4) for index in range(4)]
    trees = tuple(
        TreeRows.chain(s, draft) for s, draft in zip([trunk, *branches], drafts, strict=True)
    )
    output = engine.forward(Batch(trees))
    for rows, logits, draft in zip(trees, output.logits, drafts, strict=True):
        engine.commit(rows.sequence, range(4))
        expected = scratch(engine, [*prompt, *draft, 1, 2])[length:]
        assert np.array_equal(logits, expected[:4])
        assert np.array_equal(append(engine, rows.sequence, [1, 2]), expected[4:])


@pytest.mark.parametrize("model", MODELS)
def test_page_sizes(model: str) -> None:
    prompt = random_tokens(9, 21)

    def logits(page_size: int) -> Any:
        engine = make_engine(model, page_size)
        sequence = opened(engine, prompt)
        engine.forward(Batch((tree(sequence, TOKENS, PARENTS),)))
        engine.commit(sequence, [0, 2, 4])
        return append(engine, sequence, prompt[:5])

    expected = logits(64)
    for page_size in (1, 5, 16, 1024):
        assert np.array_equal(logits(page_size), expected)


def test_threads_of_the_blas_library() -> None:
    engine = make_engine("wide")
    tokens = random_tokens(10, 6)
    results = []
    for num_threads in (1, 2, 5, 7):
        with threadpool_limits(limits=num_threads, user_api="blas"):
            results.append(append(engine, engine.open(), tokens))
    for result in results[1:]:
        assert np.array_equal(result, results[0])


def test_blas_has_one_thread_during_a_pass_only(
    tiny: ReferenceEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whether several threads change bits depends on BLAS, shape and machine; with one they cannot.
    def num_threads() -> set[int]:
        return {int(i["num_threads"]) for i in threadpool_info() if i["user_api"] == "blas"}

    seen: list[set[int]] = []

    def spy(rows: Float32Array, weight: Float32Array, eps: float) -> Float32Array:
        seen.append(num_threads())
        return rms_norm(rows, weight, eps)

    monkeypatch.setattr(reference, "rms_norm", spy)
    with threadpool_limits(limits=3, user_api="blas"):
        append(tiny, tiny.open(), [1, 2])
        assert num_threads() == {3}
    assert seen
    assert all(threads == {1} for threads in seen)
