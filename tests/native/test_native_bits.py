"""Contract C2 on the native engine: a row's bits depend on the weights and its path only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from oneglance import _native
from oneglance.config import EngineConfig
from oneglance.engine.base import Batch, Engine, TreeRows
from oneglance.engine.native.engine import NativeEngine
from oneglance.types import Float32Array
from tests.engine.passes import append, opened, path_to, random_tokens, scratch, tree
from tests.engine.random_models import random_model

# The tests that the reference engine passes, here with the fixtures of this module.
from tests.engine.test_batch_invariance import (  # noqa: F401
    PARENTS,
    TOKENS,
    WIDE,
    test_batches_of_sequences,
    test_commit_of_a_tree_path,
    test_prompt_chunks,
    test_rollback,
    test_rows_in_flight_leave_no_trace,
    test_shared_prefix,
    test_trees_of_any_shape_equal_chains,
)
from tests.native.models import KEPT, MODELS, native_engine, quantized

ISAS = _native.available_isas()


def wide_engine(
    page_size: int = 64, isa: str | None = None, num_threads: int | None = None
) -> NativeEngine:
    config, weights = random_model(11, **WIDE)
    return NativeEngine(
        config,
        quantized(weights, "Q4_1"),
        EngineConfig(page_size, num_threads=num_threads),
        isa=isa,
    )


@pytest.fixture(
    scope="module",
    params=[
        "llama",
        "llama_multi_query",
        "qwen2",
        "qwen3",
        "wide",
        "kept qwen3_tied",
        "kept mixed",
    ],
)
def engine(request: pytest.FixtureRequest) -> NativeEngine:
    if request.param == "wide":
        return wide_engine(page_size=16, num_threads=3)
    return native_engine(request.param, num_threads=2)


@pytest.fixture(scope="module")
def tiny() -> NativeEngine:
    return native_engine("qwen3", page_size=5, num_threads=2)


def test_every_number_of_rows_in_a_chain(engine: NativeEngine) -> None:
    tokens = random_tokens(31, 64)
    expected = scratch(engine, tokens)
    sequence = engine.open()
    for num_rows in range(2, 65):
        rows = TreeRows.chain(sequence, tokens[:num_rows])
        assert np.array_equal(engine.forward(Batch((rows,))).logits[0], expected[:num_rows])
    engine.close(sequence)


@pytest.mark.parametrize("num_sequences", [2, 5, 32, 64])
def test_one_row_each_of_many_sequences(engine: NativeEngine, num_sequences: int) -> None:
    prompts = [random_tokens(seed, 1 + seed % 5) for seed in range(num_sequences)]
    sequences = [opened(engine, prompt[:-1]) for prompt in prompts]
    trees = [TreeRows.chain(s, p[-1:]) for s, p in zip(sequences, prompts, strict=True)]
    output = engine.forward(Batch(tuple(trees)))
    for prompt, logits in zip(prompts, output.logits, strict=True):
        assert np.array_equal(logits[0], scratch(engine, prompt)[-1])
    for sequence in sequences:
        engine.close(sequence)


def test_a_bushy_tree_of_64_rows(engine: NativeEngine) -> None:
    prompt, tokens = random_tokens(33, 37), random_tokens(34, 64)
    rng = np.random.default_rng(35)
    parents = [-1, *(int(rng.integers(max(-1, row - 9), row)) for row in range(1, 64))]
    sequence = opened(engine, prompt)
    logits = engine.forward(Batch((tree(sequence, tokens, parents),))).logits[0]
    leaves = sorted(set(range(64)) - set(parents))
    assert len(leaves) > 20
    for leaf in leaves[::4]:
        path = path_to(parents, leaf)
        expected = scratch(engine, prompt + [tokens[row] for row in path])[len(prompt) :]
        assert np.array_equal(logits[path], expected)
    engine.close(sequence)


def workload(engine: Engine, prompt_length: int = 70) -> list[Float32Array]:
    """Chunks, a tree, a commit that moves rows, a fork, a rollback: logits of all passes."""
    prompt, later = random_tokens(41, prompt_length), random_tokens(42, 20)
    sequence = engine.open()
    results = [append(engine, sequence, prompt, chunk=33)]
    results += engine.forward(Batch((tree(sequence, TOKENS, PARENTS),))).logits
    engine.commit(sequence, [0, 2, 4])
    branch = engine.fork(sequence)
    trees = (TreeRows.chain(sequence, later[:7]), TreeRows.chain(branch, later[7:11]))
    results += engine.forward(Batch(trees, hidden_layers=(1,))).logits
    engine.commit(branch, [0, 1])
    engine.truncate(sequence, 50)
    results.append(append(engine, sequence, later[11:], chunk=4))
    results.append(append(engine, branch, later[11:], chunk=1))
    return results


def assert_same_bits(first: Sequence[Float32Array], second: Sequence[Float32Array]) -> None:
    assert len(first) == len(second)
    for one, other in zip(first, second, strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("model", [*MODELS, *(f"kept {name}" for name in KEPT)])
def test_threads_instruction_sets_and_page_sizes(model: str) -> None:
    expected = workload(native_engine(model, 64, "portable", num_threads=1))
    for isa in ISAS:
        for num_threads, page_size in ((1, 7), (2, 16), (4, 1)):
            engine = native_engine(model, page_size, isa, num_threads=num_threads)
            assert_same_bits(workload(engine), expected)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("model", [*MODELS, *(f"kept {name}" for name in KEPT)])
def test_random_trees_chunks_and_shared_pages(model: str, isa: str) -> None:
    """Prompts in chunks, prefixes forked, trees of random shape: each row as if alone."""
    rng = np.random.default_rng(7)
    prompt = random_tokens(50, 67)
    alone = native_engine(model, 64, isa, num_threads=1)
    start = opened(alone, prompt, chunk=1)
    for num_threads, page_size, chunk in ((1, 64, 67), (2, 5, 7), (4, 16, 64), (2, 3, 1)):
        engine = native_engine(model, page_size, isa, num_threads=num_threads)
        trunk = opened(engine, prompt, chunk)
        sequences = [engine.fork(trunk) for _ in range(3)]
        shapes = []
        for _ in sequences:
            num_rows = int(rng.integers(2, 22))
            parents = [-1, *(int(rng.integers(-1, row)) for row in range(1, num_rows))]
            shapes.append(([int(t) for t in rng.integers(0, 97, num_rows)], parents))
        trees = [tree(s, *shape) for s, shape in zip(sequences, shapes, strict=True)]
        output = engine.forward(Batch(tuple(trees)))
        for (tokens, parents), logits in zip(shapes, output.logits, strict=True):
            leaf = int(rng.choice(sorted(set(range(len(tokens))) - set(parents))))
            path = path_to(parents, leaf)
            expected = append(alone, alone.fork(start), [tokens[row] for row in path], chunk=1)
            assert np.array_equal(logits[path], expected)


def test_a_float32_cache() -> None:
    expected = workload(native_engine("qwen3", 64, "portable", num_threads=1, kv_dtype="f32"))
    for isa in ISAS:
        engine = native_engine("qwen3", 7, isa, num_threads=2, kv_dtype="f32")
        assert_same_bits(workload(engine), expected)


def test_threads_and_instruction_sets_on_wide_matrices() -> None:
    expected = workload(wide_engine(isa="portable", num_threads=1))
    for isa in ISAS:
        for num_threads in (1, 2, 4):
            assert_same_bits(workload(wide_engine(16, isa, num_threads=num_threads)), expected)


def test_the_type_of_the_cache_has_an_effect() -> None:
    # Guards the tests above: a cache type that is ignored would pass them.
    halves, floats = (workload(native_engine("llama", kv_dtype=t)) for t in ("f16", "f32"))
    assert not np.array_equal(halves[0], floats[0])
    assert np.sqrt(np.mean((halves[0] - floats[0]) ** 2)) < 0.05 * floats[0].std()
