"""Packing loses nothing: unpacked weights are the dequantiser's, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from oneglance import _native
from tests.native import packed_oracle as oracle

ISAS = _native.available_isas()


@pytest.fixture(params=ISAS)
def runtime(request: pytest.FixtureRequest) -> _native.Runtime:
    return _native.Runtime(request.param, 2)


def bits(values: oracle.Floats) -> oracle.Raw:
    return np.ascontiguousarray(values).view(np.uint8)


@pytest.mark.parametrize("kind", oracle.GGML_TYPES)
@pytest.mark.parametrize("outputs", [1, 32, 45, 200])
def test_unpacked_weights_are_those_of_the_dequantiser(
    kind: str, outputs: int, runtime: _native.Runtime
) -> None:
    for inputs in (256, 1536):
        raw = oracle.random_blocks(kind, outputs, inputs, seed=outputs + inputs)
        packed = _native.pack(raw, kind, outputs, inputs, 2)
        assert (packed.outputs, packed.inputs) == (outputs, inputs)
        unpacked = _native.unpack(runtime, packed)
        np.testing.assert_array_equal(bits(unpacked), bits(oracle.dequantize(kind, raw)))


BITS_PER_WEIGHT = {
    "Q4_0": 4.5,
    "Q4_1": 5.0,
    "Q5_0": 5.5,
    "Q5_1": 6.0,
    "Q8_0": 8.5,
    "Q4_K": 4.625,
    "Q5_K": 5.625,
    "Q6_K": 6.5625,
}


@pytest.mark.parametrize("kind", oracle.GGML_TYPES)
def test_packed_weights_are_hardly_larger_than_those_of_the_file(kind: str) -> None:
    raw = oracle.random_blocks(kind, 64, 512, seed=0)
    packed = _native.pack(raw, kind, 64, 512, 1)
    assert packed.num_bytes * 8 / (64 * 512) == BITS_PER_WEIGHT[kind]
    assert packed.num_bytes <= raw.nbytes * 1.03
    assert packed.form.startswith(kind[1])


@pytest.mark.parametrize("kind", oracle.GGML_TYPES)
def test_extreme_scales_survive(kind: str, runtime: _native.Runtime) -> None:
    """Subnormal halves, the largest half, negative ones and both zeros."""
    _, num_bytes = oracle.block_size(kind)
    halves = np.array([2**-24, 6e-8, 2**-14, 65504.0, -65504.0, -(2**-24), 0.0, -0.0], np.float16)
    blocks = oracle.random_blocks(kind, 8, 256, seed=3).reshape(8, -1, num_bytes)
    for field in oracle.HALF_FIELDS[kind]:
        oracle.set_half(blocks, field, halves[:, None])
    raw = blocks.reshape(8, -1)
    unpacked = _native.unpack(runtime, _native.pack(raw, kind, 8, 256, 1))
    np.testing.assert_array_equal(bits(unpacked), bits(oracle.dequantize(kind, raw)))


def test_every_half_is_converted_exactly(runtime: _native.Runtime) -> None:
    """All 65536 bit patterns, as scales of Q8_0 blocks whose values are one."""
    halves = np.arange(65536, dtype=np.uint16)
    raw = np.ones((65536 // 32, 32, 34), dtype=np.uint8)
    raw[..., :2] = halves.view(np.uint8).reshape(-1, 32, 2)
    packed = _native.pack(raw.reshape(len(raw), -1), "Q8_0", len(raw), 1024, 2)
    unpacked = _native.unpack(runtime, packed).reshape(65536, 32)[:, 0]
    with np.errstate(invalid="ignore"):
        expected = halves.view(np.float16).astype(np.float32)
    np.testing.assert_array_equal(unpacked, expected)
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(bits(unpacked[finite]), bits(expected[finite]))


@pytest.mark.parametrize("kind", oracle.FLOAT_TYPES)
def test_float_weights_are_quantised_as_specified(kind: str, runtime: _native.Runtime) -> None:
    rng = np.random.default_rng(5)
    weights = (rng.normal(size=(70, 96)) * rng.choice([1e-6, 0.03, 100.0], (70, 1))).astype(
        np.float32
    )
    weights[3, 32:64] = 0.0
    weights[4, :32] = 1e-9  # the scale rounds to zero
    weights[5, :32] = 5e-6  # the scale is a subnormal half
    raw, meant = oracle.store_floats(kind, weights)
    parts = oracle.quantize_weights(meant)
    expected = np.repeat(parts.d, 32, axis=1) * parts.q.astype(np.float32)
    unpacked = _native.unpack(runtime, _native.pack(raw, kind, 70, 96, 2))
    np.testing.assert_array_equal(unpacked, expected)
    ordinary = np.abs(meant).max(axis=1) > 0.01
    error = np.abs(unpacked - meant)[ordinary] / np.abs(meant[ordinary]).max(axis=1, keepdims=True)
    assert error.max() < 0.51 / 127 + 2**-11


def test_half_way_weights_round_to_even(runtime: _native.Runtime) -> None:
    row = np.zeros((1, 32), dtype=np.float32)
    row[0, :7] = [127.0, 0.5, 1.5, 2.5, -0.5, -1.5, 126.5]
    unpacked = _native.unpack(runtime, _native.pack(row.view(np.uint8), "F32", 1, 32, 1))
    np.testing.assert_array_equal(unpacked[0, :7], [127, 0, 2, 2, 0, -2, 126])


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_do_not_change_the_packing(threads: int, runtime: _native.Runtime) -> None:
    raw = oracle.random_blocks("Q4_K", 301, 512, seed=9)
    unpacked = _native.unpack(runtime, _native.pack(raw, "Q4_K", 301, 512, threads))
    np.testing.assert_array_equal(unpacked, oracle.dequantize("Q4_K", raw))


def test_reads_from_a_mapped_file_without_copying(
    tmp_path_factory: pytest.TempPathFactory, runtime: _native.Runtime
) -> None:
    path = tmp_path_factory.mktemp("packed") / "weights"
    raw = oracle.random_blocks("Q4_1", 64, 64, seed=1)
    path.write_bytes(b"\0" * 7 + raw.tobytes())
    mapped = np.memmap(path, dtype=np.uint8, mode="r", offset=7, shape=raw.shape)
    unpacked = _native.unpack(runtime, _native.pack(mapped, "Q4_1", 64, 64, 1))
    np.testing.assert_array_equal(unpacked, oracle.dequantize("Q4_1", raw))


def test_embedding_rows(runtime: _native.Runtime) -> None:
    raw = oracle.random_blocks("Q6_K", 100, 512, seed=2)
    packed = _native.pack(raw, "Q6_K", 100, 512, 1)
    tokens = np.array([99, 0, 31, 32, 99], dtype=np.int32)
    rows = _native.embed(runtime, packed, tokens)
    np.testing.assert_array_equal(rows, oracle.dequantize("Q6_K", raw)[tokens])
    for outside in (-1, 100):
        with pytest.raises(ValueError, match=rf"token {outside} is outside"):
            _native.embed(runtime, packed, np.array([0, outside], dtype=np.int32))


@pytest.mark.parametrize(
    ("kind", "inputs", "reason"),
    [
        ("Q4_0", 48, "multiple of 32"),
        ("Q4_K", 96, "multiple of 256"),
        ("F32", 0, "multiple of 32"),
        ("IQ4_NL", 256, "IQ4_NL have no packed form"),
    ],
)
def test_what_cannot_be_packed_is_refused(kind: str, inputs: int, reason: str) -> None:
    assert reason in _native.why_unpackable(kind, inputs)
    with pytest.raises(ValueError, match=reason):
        _native.pack(np.zeros(64, dtype=np.uint8), kind, 1, inputs, 1)


def test_what_can_be_packed_has_no_reason_against_it() -> None:
    for kind in oracle.GGML_TYPES + oracle.FLOAT_TYPES:
        assert _native.why_unpackable(kind, 512) == ""


def test_wrong_number_of_bytes_is_refused() -> None:
    raw = oracle.random_blocks("Q8_0", 4, 64, seed=0)
    for data in (raw[:3], np.concatenate([raw, raw[:1]])):
        with pytest.raises(ValueError, match="has 272 bytes in this type, not"):
            _native.pack(data, "Q8_0", 4, 64, 1)
    with pytest.raises(ValueError, match="at least one output"):
        _native.pack(raw[:0], "Q8_0", 0, 64, 1)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e7])
def test_weights_without_a_scale_are_refused(bad: float) -> None:
    weights = np.zeros((40, 64), dtype=np.float32)
    weights[39, 63] = bad
    with pytest.raises(ValueError, match="not finite or above"):
        _native.pack(weights.view(np.uint8), "F32", 40, 64, 2)
