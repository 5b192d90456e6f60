"""Activations in two planes of 8 bits: the specified bits, close to float64, where they are due."""

from __future__ import annotations

import numpy as np
import pytest

from oneglance import _native
from oneglance.checkpoints.base import ModelWeights, Tensor
from oneglance.config import ModelConfig, WeightsForm
from oneglance.engine.native.weights import pack_model, precise_planes
from tests.native import packed_oracle as oracle
from tests.native.attention_oracle import chain, make_pass, make_workspace
from tests.native.models import native_model
from tests.native.test_matmul import assert_same_bits, random_rows

ISAS = _native.available_isas()


@pytest.fixture(params=ISAS)
def runtime(request: pytest.FixtureRequest) -> _native.Runtime:
    return _native.Runtime(request.param, 2)


def packed_q8(raw: oracle.Raw, inputs: int, planes: int = 2) -> _native.PackedMatrix:
    packed = _native.pack(raw, "Q8_0", len(raw), inputs, 1, activation_planes=planes)
    assert packed.activation_planes == planes
    return packed


@pytest.mark.parametrize("rows", [*range(1, 18), 23, 24, 25, 33, 49, 97])
def test_product_has_the_specified_bits(rows: int, runtime: _native.Runtime) -> None:
    raw = oracle.random_blocks("Q8_0", 75, 288, seed=rows)
    x = random_rows(rows, 288, seed=rows)
    expected = oracle.matmul(oracle.take_apart("Q8_0", raw), x, planes=2)
    assert_same_bits(_native.matmul(runtime, packed_q8(raw, 288), x), expected)


@pytest.mark.parametrize("kind", oracle.FLOAT_TYPES)
def test_float_weights(kind: str, runtime: _native.Runtime) -> None:
    weights = np.random.default_rng(1).normal(size=(40, 160)).astype(np.float32)
    raw, meant = oracle.store_floats(kind, weights)
    x = random_rows(3, 160, seed=8)
    packed = _native.pack(raw, kind, 40, 160, 1, activation_planes=2)
    expected = oracle.matmul(oracle.quantize_weights(meant), x, planes=2)
    assert_same_bits(_native.matmul(runtime, packed, x), expected)


@pytest.mark.parametrize("num_threads", [1, 2, 3, 5])
def test_threads_and_batches_do_not_change_bits(num_threads: int) -> None:
    raw = oracle.random_blocks("Q8_0", 200, 512, seed=6)
    packed = packed_q8(raw, 512)
    x = random_rows(31, 512, seed=6)
    expected = oracle.matmul(oracle.take_apart("Q8_0", raw), x, planes=2)
    for isa in ISAS:
        threaded = _native.Runtime(isa, num_threads)
        assert_same_bits(_native.matmul(threaded, packed, x), expected)
        for r in range(0, 31, 5):
            assert_same_bits(_native.matmul(threaded, packed, x[r : r + 1]), expected[r : r + 1])


@pytest.mark.parametrize("magnitude", [1e-45, 1e-40, 4e-37, 5e-35, 1.0, 1e30, 3.4e38])
def test_quantised_activations(magnitude: float, runtime: _native.Runtime) -> None:
    x = (random_rows(5, 256, seed=3) / np.float32(700) * np.float32(magnitude)).astype(np.float32)
    x[1, :32] = np.linspace(-1, 1, 32, dtype=np.float32) * np.float32(magnitude)
    quantized = _native.quantize_rows(runtime, x, planes=2)
    assert quantized.planes == 2
    for plane, (values, scales, sums) in enumerate(oracle.quantize_planes(x)):
        np.testing.assert_array_equal(quantized.values[plane::2], values)
        np.testing.assert_array_equal(quantized.scales[plane::2], scales)
        np.testing.assert_array_equal(quantized.sums[plane::2], sums)


def test_two_planes_leave_a_hundredth_of_the_error(runtime: _native.Runtime) -> None:
    raw = oracle.random_blocks("Q8_0", 256, 576, seed=2)
    x = random_rows(16, 576, seed=2)
    truth = x.astype(np.float64) @ oracle.dequantize("Q8_0", raw).astype(np.float64).T
    one, two = (
        float(np.linalg.norm(_native.matmul(runtime, packed_q8(raw, 576, planes), x) - truth))
        for planes in (1, 2)
    )
    assert 0.002 < one / np.linalg.norm(truth) < 0.02
    assert two < one / 100


def test_one_plane_of_two(runtime: _native.Runtime) -> None:
    """A matrix that takes one plane finds it in rows that have two for another matrix."""
    x = random_rows(7, 256, seed=9)
    for kind in ("Q4_1", "Q6_K", "Q8_0"):
        raw = oracle.random_blocks(kind, 40, 256, seed=9)
        packed = _native.pack(raw, kind, 40, 256, 1)
        y = np.empty((7, 40), dtype=np.float32)
        quantized = _native.quantize_rows(runtime, x, planes=2)
        _native.matmul_tiles(runtime, packed, quantized, y, 0, 2)
        assert_same_bits(y, _native.matmul(runtime, packed, x))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_broken_activations_are_seen_in_every_output(bad: float, runtime: _native.Runtime) -> None:
    x = random_rows(2, 512, seed=5)
    x[1, 77] = bad
    packed = packed_q8(oracle.random_blocks("Q8_0", 40, 512, seed=5), 512)
    result = _native.matmul(runtime, packed, x)
    assert np.isfinite(result[0]).all()
    assert np.isnan(result[1]).all()


def test_what_does_not_fit_is_refused(runtime: _native.Runtime) -> None:
    for kind in oracle.GGML_TYPES:
        if kind != "Q8_0":
            raw = oracle.random_blocks(kind, 40, 256, seed=5)
            with pytest.raises(ValueError, match="only 8-bit weights with one scale"):
                _native.pack(raw, kind, 40, 256, 1, activation_planes=2)
    floats = np.zeros((40, 256), dtype=np.float32)
    for form in ("bf16", "f32"):
        assert _native.pack(floats.view(np.uint8), "F32", 40, 256, 1, form).activation_planes == 0
        with pytest.raises(ValueError, match="only 8-bit weights with one scale"):
            _native.pack(floats.view(np.uint8), "F32", 40, 256, 1, form, 2)
    raw = oracle.random_blocks("Q8_0", 40, 256, seed=5)
    for planes in (-1, 0, 3):
        with pytest.raises(ValueError, match=f"planes must be 1 or 2, not {planes}"):
            packed_q8(raw, 256, planes)
        with pytest.raises(ValueError, match=f"planes must be 1 or 2, not {planes}"):
            _native.quantize_rows(runtime, floats, planes)
    packed, single = packed_q8(raw, 256), _native.quantize_rows(runtime, floats)
    with pytest.raises(ValueError, match="in 2 planes, of which the rows have 1"):
        _native.matmul_tiles(runtime, packed, single, np.zeros((40, 40), dtype=np.float32), 0, 1)
    with pytest.raises(ValueError, match="in 2 planes, of which the rows have 1"):
        _native.time_sweep(runtime, [packed], single)


def pack(tensor: Tensor, is_precise: bool, form: WeightsForm = "auto") -> _native.PackedMatrix:
    """As a model's matrix of that role is to be packed."""
    outputs, inputs = tensor.shape
    is_float = tensor.quantization in oracle.FLOAT_TYPES
    planes = 2 if is_precise and is_float and form == "auto" else 1
    data = np.ascontiguousarray(tensor.data).view(np.uint8).reshape(-1)
    return _native.pack(data, tensor.quantization, outputs, inputs, 1, form, planes)


def layer_by_hand(
    config: ModelConfig, weights: ModelWeights, form: WeightsForm = "auto"
) -> _native.Layer:
    layer = weights.layers[0]
    return _native.Layer(
        index=0,
        head_dim=config.head_dim,
        eps=config.rms_norm_eps,
        input_norm=layer.input_norm.dequantize(),
        q_proj=pack(layer.q_proj, True, form),
        k_proj=pack(layer.k_proj, True, form),
        v_proj=pack(layer.v_proj, True, form),
        o_proj=pack(layer.o_proj, False, form),
        post_attention_norm=layer.post_attention_norm.dequantize(),
        gate_proj=pack(layer.gate_proj, True, form),
        up_proj=pack(layer.up_proj, True, form),
        down_proj=pack(layer.down_proj, False, form),
    )


@pytest.mark.parametrize(
    ("model", "form"),
    [("mistral", "auto"), ("linear_rope", "auto"), ("mixed", "auto"), ("mistral", "bf16")],
)
def test_roles(model: str, form: WeightsForm) -> None:
    """What follows a norm takes two planes where floats became 8-bit groups."""
    config, weights = native_model(model)
    packed = pack_model(config, weights, 1, form)
    runtime = _native.Runtime(ISAS[0], 1)
    workspace = make_workspace(runtime, config.head_dim, 64)
    stream = random_rows(6, config.hidden_size, seed=1)
    results = []
    for layer in (packed.layers[0], layer_by_hand(config, weights, form)):
        cache = _native.KvCache(1, config.num_kv_heads, config.head_dim, 16, True)
        cache.grow(1)
        result = stream.copy()
        described = make_pass(16, [chain(0, 6, [0])])
        _native.attention_block(layer, described, cache, workspace, result)
        _native.mlp_block(layer, workspace, result)
        results.append(result)
    assert_same_bits(results[0], results[1])
    logits = [np.empty((6, config.vocab_size), dtype=np.float32) for _ in range(2)]
    rows = np.arange(6, dtype=np.int32)
    by_hand = _native.Head(
        norm=packed.final_norm, matrix=pack(weights.head, True, form), eps=config.rms_norm_eps
    )
    for head, target in zip((packed.head, by_hand), logits, strict=True):
        _native.head(head, workspace, stream, rows, target)
    assert_same_bits(logits[0], logits[1])


def test_only_float_types_made_8_bit_groups_take_two() -> None:
    assert [precise_planes(kind, "auto") for kind in oracle.FLOAT_TYPES] == [2, 2, 2]
    assert {precise_planes(kind, "auto") for kind in oracle.GGML_TYPES} == {1}
    assert {precise_planes("F32", form) for form in ("bf16", "f32")} == {1}


def test_a_tied_embedding_is_the_head() -> None:
    tied, untied = native_model("qwen3_tied"), native_model("mistral")
    assert tied[1].head is tied[1].embedding
    assert pack_model(*tied, 1).embedding.activation_planes == 2
    assert pack_model(*untied, 1).embedding.activation_planes == 1
    assert pack_model(*tied, 1, "f32").embedding.activation_planes == 0
    assert pack_model(*native_model("llama_tied"), 1).embedding.activation_planes == 1
