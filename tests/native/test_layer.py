"""The fused operations of a layer are their parts put together, bit for bit, in any batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from oneglance import _native
from tests.native.attention_oracle import (
    Floats,
    Ints,
    Tree,
    assert_same_bits,
    chain,
    ints,
    make_pass,
    make_workspace,
)

ISAS = _native.available_isas()
EPS = 1e-5
CONTEXT = 256


@dataclass(frozen=True)
class Sizes:
    """Of a layer."""

    hidden: int = 64
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 32
    inner: int = 96
    has_bias: bool = False
    has_qk_norm: bool = False
    # Of the matrices, in turn; "auto 2" takes activations in two planes.
    forms: tuple[str, ...] = ("auto",)
    # Width of what q, k and v read where that is given; 0: they read the normalised stream.
    given: int = 0

    @property
    def q_size(self) -> int:
        return self.heads * self.head_dim

    @property
    def kv_size(self) -> int:
        return self.kv_heads * self.head_dim


FLAVOURS = {
    "llama": Sizes(),
    "smollm2": Sizes(hidden=576, heads=9, kv_heads=3, head_dim=64, inner=1536),
    "qwen2": Sizes(has_bias=True, heads=7, kv_heads=1, hidden=224),
    "qwen3": Sizes(has_qk_norm=True, kv_heads=4),
    "heads of half groups": Sizes(head_dim=16, heads=6, kv_heads=1, has_bias=True),
    "heads of 80": Sizes(head_dim=80, heads=2, kv_heads=1, hidden=160),
    "bf16": Sizes(forms=("bf16",), has_bias=True),
    "f32 in heads of half groups": Sizes(forms=("f32",), head_dim=16, heads=6, kv_heads=1),
    "integers, f32 and bf16 by turns": Sizes(forms=("auto", "f32", "bf16"), head_dim=16, heads=4),
    "f32, integers and bf16 by turns": Sizes(forms=("f32", "auto", "bf16")),
    "two planes": Sizes(forms=("auto 2",)),
    "two planes, one and f32 by turns": Sizes(forms=("auto 2", "auto", "f32"), head_dim=16),
    "one plane and two by turns": Sizes(forms=("auto", "auto 2"), has_bias=True),
    "given inputs": Sizes(given=160, has_bias=True),
    "given inputs as floats": Sizes(given=64, forms=("f32", "auto")),
}


class Model:
    """One random layer with its parts, on one instruction set and number of threads."""

    def __init__(
        self,
        sizes: Sizes,
        isa: str = ISAS[0],
        num_threads: int = 2,
        page_size: int = 16,
        is_half: bool = True,
    ) -> None:
        self.sizes, self.page_size = sizes, page_size
        self.runtime = _native.Runtime(isa, num_threads)
        self.workspace = make_workspace(self.runtime, sizes.head_dim, CONTEXT)
        self.cache = _native.KvCache(2, sizes.kv_heads, sizes.head_dim, page_size, is_half)
        self.rng = np.random.default_rng(7)
        self.matrices = [
            self._matrix(*shape, sizes.forms[index % len(sizes.forms)])
            for index, shape in enumerate(self._shapes())
        ]
        self.norms = [1 + 0.2 * self._random(sizes.hidden) for _ in range(2)]
        self.bias = self._random(sizes.q_size + 2 * sizes.kv_size) if sizes.has_bias else None
        self.q_norm = 1 + self._random(sizes.head_dim) if sizes.has_qk_norm else None
        self.k_norm = 1 + self._random(sizes.head_dim) if sizes.has_qk_norm else None
        self.layer = _native.Layer(**self.arguments())

    def arguments(self) -> dict[str, Any]:
        names = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
        return {
            **dict(zip(names, self.matrices, strict=True)),
            "index": 1,
            "head_dim": self.sizes.head_dim,
            "eps": EPS,
            "input_norm": None if self.sizes.given else self.norms[0],
            "post_attention_norm": self.norms[1],
            "qkv_bias": self.bias,
            "q_norm": self.q_norm,
            "k_norm": self.k_norm,
        }

    def _shapes(self) -> list[tuple[int, int]]:
        s = self.sizes
        width = s.given or s.hidden
        into, out_of = (s.kv_size, width), (s.inner, s.hidden)
        return [(s.q_size, width), into, into, (s.hidden, s.q_size), out_of, out_of,
                (s.hidden, s.inner)]  # fmt: skip

    def _random(self, *shape: int) -> Floats:
        return self.rng.standard_normal(shape, dtype=np.float32)

    def _matrix(self, outputs: int, inputs: int, form: str = "auto") -> _native.PackedMatrix:
        values = self._random(outputs, inputs) / np.float32(np.sqrt(inputs))
        data = values.view(np.uint8).reshape(outputs, -1)
        form, _, planes = form.partition(" ")
        return _native.pack(data, "F32", outputs, inputs, 1, form, int(planes or 1))

    def attention(self, stream: Floats, trees: list[Tree]) -> Floats:
        result = stream.copy()
        described = make_pass(self.page_size, trees)
        inputs = self.given(stream)
        _native.attention_block(self.layer, described, self.cache, self.workspace, result, inputs)
        return result

    def given(self, stream: Floats) -> Floats | None:
        """Inputs that are another function of each row."""
        size = self.sizes.given
        every = np.concatenate([stream, -2 * stream, stream], axis=1)
        return every[:, :size].copy() if size else None

    def mlp(self, stream: Floats) -> Floats:
        result = stream.copy()
        _native.mlp_block(self.layer, self.workspace, result)
        return result

    def product(self, index: int, x: Floats) -> Floats:
        return _native.matmul(self.runtime, self.matrices[index], np.ascontiguousarray(x))

    def attention_in_parts(self, stream: Floats, trees: list[Tree]) -> Floats:
        """The same from the parts, each of which has tests of its own."""
        s, rows = self.sizes, len(stream)
        given = self.given(stream)
        normed = _native.rms_norm(self.runtime, stream, self.norms[0], EPS)
        normed = normed if given is None else given
        qkv = np.concatenate([self.product(i, normed) for i in range(3)], axis=1)
        if self.bias is not None:
            qkv = qkv + self.bias
        q, k, v = np.split(qkv, [s.q_size, s.q_size + s.kv_size], axis=1)
        positions = ints([p for tree in trees for p in tree.positions])
        queries = self._rotated(q.reshape(rows, s.heads, -1), self.q_norm, positions)
        keys = self._rotated(k.reshape(rows, s.kv_heads, -1), self.k_norm, positions)
        described = make_pass(self.page_size, trees)
        values = v.reshape(keys.shape).copy()
        _native.store_kv(self.runtime, described, self.cache, 1, keys, values)
        mixed = _native.attend(described, self.cache, 1, self.workspace, queries)
        return stream + self.product(3, mixed.reshape(rows, -1))

    def _rotated(self, heads: Floats, norm: Floats | None, positions: Ints) -> Floats:
        if norm is not None:
            flat = np.ascontiguousarray(heads).reshape(-1, heads.shape[2])
            heads = _native.rms_norm(self.runtime, flat, norm, EPS).reshape(heads.shape)
        half = self.sizes.head_dim // 2
        angles = np.arange(CONTEXT)[:, None] * 10_000.0 ** (-np.arange(half) / half)
        cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
        return _native.rope(self.runtime, np.ascontiguousarray(heads), positions, cos, sin)

    def mlp_in_parts(self, stream: Floats) -> Floats:
        normed = _native.rms_norm(self.runtime, stream, self.norms[1], EPS)
        gate, up = self.product(4, normed), self.product(5, normed)
        return stream + self.product(6, _native.swiglu(self.runtime, gate, up))


@pytest.fixture(params=list(FLAVOURS.values()), ids=list(FLAVOURS))
def sizes(request: pytest.FixtureRequest) -> Sizes:
    assert isinstance(request.param, Sizes)
    return request.param


def random_stream(rows: int, hidden: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).standard_normal((rows, hidden), dtype=np.float32)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("num_threads", [1, 2, 3, 8])
def test_blocks_are_their_parts(sizes: Sizes, isa: str, num_threads: int) -> None:
    """Two sequences with trees behind prefixes of different length."""
    model = Model(sizes, isa, num_threads)
    model.cache.grow(6)
    prefix = random_stream(37, sizes.hidden, seed=1)
    first, second = [3, 0, 5], [1, 2]
    model.attention(prefix, [chain(0, 37, first)])
    model.attention(prefix[:9].copy(), [chain(0, 9, second)])
    trees = [Tree(37, [-1, 0, 0, 2, -1], first), Tree(9, [-1, 0, 1, 1], second)]
    stream = random_stream(9, sizes.hidden)
    assert_same_bits(model.attention(stream, trees), model.attention_in_parts(stream, trees))
    assert_same_bits(model.mlp(stream), model.mlp_in_parts(stream))


@pytest.mark.parametrize("is_half", [True, False])
def test_chunks_threads_and_pages_leave_no_trace(sizes: Sizes, is_half: bool) -> None:
    stream = random_stream(70, sizes.hidden)
    expected = None
    settings = [(1, 1, 16), (7, 2, 16), (64, 3, 5), (70, 2, 64), (70, 1, 128)]
    for index, (chunk, num_threads, page_size) in enumerate(settings):
        model = Model(sizes, ISAS[index % len(ISAS)], num_threads, page_size, is_half)
        pages = list(range(-(-70 // page_size)))
        model.cache.grow(len(pages))
        parts = []
        for start in range(0, 70, chunk):
            rows = stream[start : start + chunk].copy()
            parts.append(model.mlp(model.attention(rows, [chain(start, len(rows), pages)])))
        actual = np.concatenate(parts)
        expected = actual if expected is None else expected
        assert_same_bits(actual, expected)


@pytest.mark.parametrize("rows", [2, 8, 33, 64])
def test_rows_of_the_mlp_do_not_depend_on_the_others(sizes: Sizes, rows: int) -> None:
    model = Model(sizes)
    stream = random_stream(rows, sizes.hidden)
    together = model.mlp(stream)
    for row in range(rows):
        assert_same_bits(model.mlp(stream[row : row + 1]), together[row : row + 1])


def test_close_to_float64(sizes: Sizes) -> None:
    """Only quantisation, of weights and activations to 8 bits, lies between."""
    model = Model(sizes)
    stream = random_stream(4, sizes.hidden)
    gate, up, down = (
        _native.unpack(model.runtime, matrix).astype(np.float64) for matrix in model.matrices[4:]
    )
    wide = stream.astype(np.float64)
    normed = wide / np.sqrt((wide**2).mean(axis=1, keepdims=True) + EPS) * model.norms[1]
    g = normed @ gate.T
    truth = (g / (1 + np.exp(-g)) * (normed @ up.T)) @ down.T
    error = model.mlp(stream) - wide - truth
    assert np.linalg.norm(error) < 0.02 * np.linalg.norm(truth)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("num_threads", [1, 2, 5])
@pytest.mark.parametrize("form", ["auto", "auto 2", "bf16"])
@pytest.mark.parametrize("has_norm", [True, False])
def test_head(isa: str, num_threads: int, form: str, has_norm: bool) -> None:
    model = Model(FLAVOURS["llama"], isa, num_threads)
    matrix, norm = model._matrix(1_003, 64, form), 1 + model._random(64)
    head = _native.Head(norm=norm if has_norm else None, matrix=matrix, eps=EPS)
    stream = random_stream(12, 64)
    normed = _native.rms_norm(model.runtime, stream, norm, EPS) if has_norm else stream
    expected = _native.matmul(model.runtime, matrix, normed)
    for wanted in ([], [0], [11, 3, 3], list(range(12))):
        logits = np.full((len(wanted), 1_003), np.nan, dtype=np.float32)
        _native.head(head, model.workspace, stream, ints(wanted), logits)
        assert_same_bits(logits, expected[wanted])


def test_a_workspace_serves_passes_of_any_size() -> None:
    """It grows, and a smaller pass afterwards finds nothing of the larger one."""
    model = Model(FLAVOURS["llama"])
    model.cache.grow(8)
    stream = random_stream(64, 64)
    small = model.attention(stream[:1].copy(), [chain(0, 1, [0])])
    model.attention(stream, [chain(0, 64, [1, 2, 3, 4])])
    assert_same_bits(model.attention(stream[:1].copy(), [chain(0, 1, [5])]), small)


def test_layers_whose_parts_do_not_fit_are_refused() -> None:
    model = Model(FLAVOURS["qwen3"])
    wrong = model._matrix(32, 160)
    short = np.ones(3, dtype=np.float32)
    for name in ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"):
        with pytest.raises(ValueError, match=r"instead of \[|multiple"):
            _native.Layer(**{**model.arguments(), name: wrong})
    for name in ("input_norm", "post_attention_norm", "qkv_bias", "q_norm", "k_norm"):
        with pytest.raises(ValueError, match=f"{name} has 3 elements instead of"):
            _native.Layer(**{**model.arguments(), name: short})
    for head_dim in (0, -16, 24, 48, 2**31 - 16):
        with pytest.raises(ValueError, match=r"head"):
            _native.Layer(**{**model.arguments(), "head_dim": head_dim})
    with pytest.raises(ValueError, match="index"):
        _native.Layer(**{**model.arguments(), "index": -1})
    with pytest.raises(ValueError, match="norm has length 3 instead of 160"):
        _native.Head(norm=short, matrix=wrong, eps=EPS)


def test_calls_that_do_not_fit_are_refused_before_anything_is_written() -> None:
    model = Model(FLAVOURS["llama"])
    model.cache.grow(1)
    described = make_pass(16, [chain(0, 2, [0])])
    stream = random_stream(2, 64)
    block = (model.layer, described, model.cache, model.workspace)
    for wrong in (stream[:1], stream[:, :32], stream[0]):
        with pytest.raises(ValueError, match=r"stream"):
            _native.attention_block(*block, wrong.copy())
    with pytest.raises(TypeError):
        _native.attention_block(*block, stream.astype(np.float64))
    other_cache = _native.KvCache(2, 4, 32, 16, True)
    other_cache.grow(1)
    with pytest.raises(ValueError, match="different heads"):
        _native.attention_block(model.layer, described, other_cache, model.workspace, stream)
    small = make_workspace(model.runtime, 32, context=1)
    with pytest.raises(IndexError, match="position 1 lies beyond"):
        _native.attention_block(model.layer, described, model.cache, small, stream)
    narrow = make_workspace(model.runtime, 16, context=9)
    with pytest.raises(ValueError, match="another head_dim"):
        _native.attention_block(model.layer, described, model.cache, narrow, stream)
    far = make_pass(16, [chain(0, 2, [1])])
    with pytest.raises(IndexError, match="page 1 does not exist"):
        _native.attention_block(model.layer, far, model.cache, model.workspace, stream)
    with pytest.raises(ValueError, match="inputs are given to a layer exactly if"):
        _native.attention_block(*block, stream, stream.copy())
    without = _native.Layer(**{**model.arguments(), "input_norm": None})
    with pytest.raises(ValueError, match="inputs are given to a layer exactly if"):
        _native.attention_block(without, *block[1:], stream)
    with pytest.raises(ValueError, match="inputs has length 32"):
        _native.attention_block(without, *block[1:], stream, stream[:, :32].copy())
    assert_same_bits(stream, random_stream(2, 64))
    assert not model.cache.read(1, 0)[0].any()


def test_head_refuses_rows_that_do_not_exist() -> None:
    model = Model(FLAVOURS["llama"])
    head = _native.Head(norm=model.norms[0], matrix=model._matrix(50, 64), eps=EPS)
    stream, logits = random_stream(3, 64), np.zeros((1, 50), dtype=np.float32)
    for row in (-1, 3):
        with pytest.raises(IndexError, match=f"row {row} does not exist"):
            _native.head(head, model.workspace, stream, ints([row]), logits)
    with pytest.raises(ValueError, match="logits has length"):
        _native.head(head, model.workspace, stream, ints([0, 1]), logits)
    with pytest.raises(ValueError, match="stream has length"):
        _native.head(head, model.workspace, stream[:, :32].copy(), ints([0]), logits)


def test_parts_outlive_their_names() -> None:
    """A layer keeps its matrices, a workspace its runtime."""
    model = Model(FLAVOURS["llama"])
    stream = random_stream(2, 64)
    expected = model.mlp(stream)
    model.matrices.clear()
    del model.runtime
    assert_same_bits(model.mlp(stream), expected)
