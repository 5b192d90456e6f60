from __future__ import annotations

import numpy as np
import pytest
from gguf import GGMLQuantizationType
from gguf.quants import dequantize as reference
from gguf.quants import quantize

from oneglance.checkpoints import Checkpoint, Tensor
from oneglance.checkpoints.dequantize import dequantize
from oneglance.types import Float32Array


def random_values(*shape: int) -> Float32Array:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("quantization", ["F32", "F16", "Q4_0", "Q5_1", "Q8_0", "TQ2_0", "MXFP4"])
@pytest.mark.parametrize("shape", [(1, 256), (2500, 512)])
def test_agrees_with_the_gguf_package(quantization: str, shape: tuple[int, int]) -> None:
    kind = GGMLQuantizationType[quantization]
    data = quantize(random_values(*shape), kind)
    values = dequantize(Tensor("x", shape, quantization, data))
    np.testing.assert_array_equal(values, reference(data, kind).reshape(shape))
    assert values.dtype == np.float32
    assert values.flags.c_contiguous
    assert values.flags.owndata or values.base is not data


def test_bf16_is_the_upper_half_of_a_float() -> None:
    values = random_values(3, 64)
    bits = (values.view(np.uint32) >> 16).astype(np.uint16)
    upper = (values.view(np.uint32) & 0xFFFF0000).view(np.float32)
    np.testing.assert_array_equal(dequantize(Tensor("x", (3, 64), "BF16", bits)), upper)


def test_vectors_keep_their_shape() -> None:
    values = random_values(7)
    np.testing.assert_array_equal(dequantize(Tensor("x", (7,), "F32", values)), values)


def test_dequantises_the_default_models_embedding(default_model: Checkpoint) -> None:
    tensor = default_model.weights.embedding
    values = tensor.dequantize()
    assert values.shape == (49152, 576)
    blocks = tensor.data[::1000].reshape(-1, 34)
    scales = np.ascontiguousarray(blocks[:, :2]).view(np.float16).astype(np.float32)
    expected = scales * np.ascontiguousarray(blocks[:, 2:]).view(np.int8)
    np.testing.assert_array_equal(values[::1000], expected.reshape(-1, 576))
