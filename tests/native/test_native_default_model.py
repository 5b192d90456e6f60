"""The default model at its real sizes: the same bits always, and the reference engine's model."""

from __future__ import annotations

import numpy as np
import pytest

from oneglance import _native
from oneglance.checkpoints.base import Checkpoint
from oneglance.checkpoints.catalog import resolve
from oneglance.checkpoints.load import load_checkpoint
from oneglance.config import EngineConfig
from oneglance.engine.base import Batch, TreeRows
from oneglance.engine.native.engine import NativeEngine
from oneglance.engine.reference import ReferenceEngine
from oneglance.types import Float32Array
from tests.engine.passes import append, opened, path_to, tree

TEXT = (
    "The lighthouse keeper wrote in his journal every evening. On the first page he had drawn the "
    "coast, with every rock and every ship that had been lost there since his grandfather's time. "
    "def fibonacci(n):\n    if n < 2:\n        return n\n    return fibonacci(n - 1) + fibonacci(n"
    " - 2)\nThe capital of France is Paris, and 12 + 30 = 42."
)
PARENTS = [-1, 0, 0, 1, 2, 4, 5, 5, 3, 8, -1, 10]


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    return load_checkpoint(resolve("smollm2-135m"))


@pytest.fixture(scope="module")
def tokens(checkpoint: Checkpoint) -> list[int]:
    ids = checkpoint.tokenizer.encode(TEXT)
    assert len(ids) > 90
    return ids


def native_engine(
    checkpoint: Checkpoint, isa: str | None = None, num_threads: int = 2
) -> NativeEngine:
    sizes = EngineConfig(num_threads=num_threads)
    return NativeEngine(checkpoint.config, checkpoint.weights, sizes, isa=isa)


@pytest.fixture(scope="module")
def engine(checkpoint: Checkpoint) -> NativeEngine:
    return native_engine(checkpoint)


@pytest.fixture(scope="module")
def single_rows(engine: NativeEngine, tokens: list[int]) -> Float32Array:
    return append(engine, engine.open(), tokens, chunk=1)


@pytest.mark.parametrize("chunk", [7, 64, 1000])
def test_prompt_chunks(
    engine: NativeEngine, tokens: list[int], single_rows: Float32Array, chunk: int
) -> None:
    assert np.array_equal(append(engine, engine.open(), tokens, chunk), single_rows)


def test_a_tree_its_commit_and_a_shared_prefix(
    engine: NativeEngine, tokens: list[int], single_rows: Float32Array
) -> None:
    trunk = opened(engine, tokens[:70])
    branch = engine.fork(trunk)
    # The text's own tokens are the path 0, 2, 4, 5, 7; the others lead elsewhere.
    path = path_to(PARENTS, 7)
    drafted = list(range(500, 500 + len(PARENTS)))
    for depth, row in enumerate(path):
        drafted[row] = tokens[70 + depth]
    output = engine.forward(
        Batch((tree(branch, tokens[70:73], [-1, 0, 1]), tree(trunk, drafted, PARENTS)))
    )
    assert np.array_equal(output.logits[0], single_rows[70:73])
    assert np.array_equal(output.logits[1][path], single_rows[70:75])
    engine.commit(trunk, path)
    engine.commit(branch, [0, 1])
    assert np.array_equal(append(engine, trunk, tokens[75:]), single_rows[75:])
    assert np.array_equal(append(engine, branch, tokens[72:], chunk=5), single_rows[72:])


@pytest.mark.parametrize("num_rows", [2, 3, 5, 8, 17, 33, 64])
def test_rows_of_a_chain_in_flight(
    engine: NativeEngine, tokens: list[int], single_rows: Float32Array, num_rows: int
) -> None:
    sequence = opened(engine, tokens[:20])
    rows = TreeRows.chain(sequence, tokens[20 : 20 + num_rows])
    logits = engine.forward(Batch((rows,))).logits[0]
    assert np.array_equal(logits, single_rows[20 : 20 + num_rows])
    engine.close(sequence)


@pytest.mark.parametrize("num_sequences", [2, 7, 64])
def test_one_row_each_of_many_sequences(
    engine: NativeEngine, tokens: list[int], single_rows: Float32Array, num_sequences: int
) -> None:
    trunk = opened(engine, tokens[:64])
    lengths = [(5 * index) % 64 for index in range(num_sequences)]
    sequences = [engine.fork(trunk) for _ in lengths]
    for sequence, length in zip(sequences, lengths, strict=True):
        engine.truncate(sequence, length)
    rows = [TreeRows.chain(s, [tokens[at]]) for s, at in zip(sequences, lengths, strict=True)]
    output = engine.forward(Batch(tuple(rows)))
    for length, logits in zip(lengths, output.logits, strict=True):
        assert np.array_equal(logits[0], single_rows[length])
    for sequence in (trunk, *sequences):
        engine.close(sequence)


@pytest.mark.parametrize("seed", range(6))
def test_trees_of_random_shape(
    engine: NativeEngine, tokens: list[int], single_rows: Float32Array, seed: int
) -> None:
    """The text's own tokens lie along a random path of a random tree; the rest leads astray."""
    rng = np.random.default_rng(seed)
    num_rows, start = int(rng.integers(8, 49)), int(rng.integers(1, 50))
    parents = [-1, *(int(rng.integers(max(-1, row - 4), row)) for row in range(1, num_rows))]
    path = max((path_to(parents, row) for row in range(num_rows)), key=len)
    drafted = [int(token) for token in rng.integers(0, 49_152, num_rows)]
    for depth, row in enumerate(path):
        drafted[row] = tokens[start + depth]
    sequence = opened(engine, tokens[:start], chunk=int(rng.integers(1, 20)))
    logits = engine.forward(Batch((tree(sequence, drafted, parents),))).logits[0]
    assert len(path) >= 4
    assert np.array_equal(logits[path], single_rows[start : start + len(path)])
    engine.close(sequence)


def test_the_best_tokens_are_those_of_the_sorted_rows(
    engine: NativeEngine, tokens: list[int], single_rows: Float32Array
) -> None:
    sequence = engine.open()
    batch = Batch((TreeRows.chain(sequence, tokens[:50]),), num_top=5, top_vocab_size=49_000)
    (top,) = engine.forward(batch).top
    order = np.argsort(-single_rows[:50, :49_000], axis=1, kind="stable")[:, :5]
    assert np.array_equal(top.ids, order)
    assert np.array_equal(top.logits, np.take_along_axis(single_rows[:50], order, axis=1))
    engine.close(sequence)


@pytest.mark.parametrize("isa", _native.available_isas())
@pytest.mark.parametrize("num_threads", [1, 4])
def test_threads_and_instruction_sets(
    checkpoint: Checkpoint,
    tokens: list[int],
    single_rows: Float32Array,
    isa: str,
    num_threads: int,
) -> None:
    engine = native_engine(checkpoint, isa, num_threads)
    assert (engine.isa, engine.num_threads) == (isa, num_threads)
    logits = append(engine, engine.open(), tokens[:40], chunk=13)
    assert np.array_equal(logits, single_rows[:40])


def test_it_is_the_reference_engines_model(
    checkpoint: Checkpoint, tokens: list[int], single_rows: Float32Array
) -> None:
    # 8-bit activations move each law a little: by some thousandths of a nat, and the argmax only
    # where two tokens are about as probable.
    reference = ReferenceEngine(checkpoint.config, checkpoint.weights)
    expected = append(reference, reference.open(), tokens)
    laws, expected_laws = _log_softmax(single_rows), _log_softmax(expected)
    divergence = np.sum(np.exp(expected_laws) * (expected_laws - laws), axis=1)
    assert divergence.mean() < 0.02
    assert np.mean(single_rows.argmax(axis=1) == expected.argmax(axis=1)) > 0.9
    nll, expected_nll = (
        -law[np.arange(len(tokens) - 1), tokens[1:]].mean() for law in (laws, expected_laws)
    )
    assert abs(nll - expected_nll) < 0.05


def test_packed_weights_take_the_files_memory(checkpoint: Checkpoint, engine: NativeEngine) -> None:
    stored = checkpoint.weights.embedding.num_bytes + sum(
        tensor.num_bytes
        for layer in checkpoint.weights.layers
        for tensor in vars(layer).values()
        if tensor is not None and len(tensor.shape) == 2
    )
    assert stored <= engine.weight_bytes < 1.03 * stored


def _log_softmax(logits: Float32Array) -> Float32Array:
    shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    laws: Float32Array = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return laws
