"""Weights in GGML blocks, and the packed product written out in numpy, one float operation a time.

The integers and scales come from the `gguf` package's own dequantiser, which is given the same
blocks with a scale of one: an independent reading of the format.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants
from numpy.typing import NDArray

GGML_TYPES = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K")
FLOAT_TYPES = ("F32", "F16", "BF16")
GROUP = 32

Raw = NDArray[np.uint8]
Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

HALF_FIELDS = {
    "Q4_0": (0,),
    "Q4_1": (0, 2),
    "Q5_0": (0,),
    "Q5_1": (0, 2),
    "Q8_0": (0,),
    "Q4_K": (0, 2),
    "Q5_K": (0, 2),
    "Q6_K": (208,),
}
"""Where in a block its half-precision numbers are: the scale, then the minimum."""
WITH_RUNS = ("Q4_K", "Q5_K", "Q6_K")


@dataclass(frozen=True)
class Parts:
    """A matrix taken apart: stored integers less their zero point, and scales as float32.

    Attributes:
        q: [N, K].
        d: [N, K / 32].
        m: [N, K / 32] minimum; None where the format has none.
        small: [N, K / 32] integer factor of d (Q4_K, Q5_K); None elsewhere.
        small_min: [N, K / 32] integer factor of m.
        small16: [N, K / 16] integer scales (Q6_K); None elsewhere.
    """

    q: Ints
    d: Floats
    m: Floats | None = None
    small: Floats | None = None
    small_min: Floats | None = None
    small16: Ints | None = None


def block_size(kind: str) -> tuple[int, int]:
    """Weights and bytes of a block."""
    values, num_bytes = GGML_QUANT_SIZES[GGMLQuantizationType[kind]]
    return int(values), int(num_bytes)


def random_blocks(kind: str, outputs: int, inputs: int, seed: int) -> Raw:
    """Random bytes [outputs, bytes per row] whose half-precision fields are ordinary numbers."""
    rng = np.random.default_rng(seed)
    values, num_bytes = block_size(kind)
    raw = rng.integers(0, 256, (outputs, inputs // values, num_bytes), dtype=np.uint8)
    for field in HALF_FIELDS[kind]:
        halves = rng.normal(0.0, 0.01, raw.shape[:2]).astype(np.float16)
        set_half(raw, field, halves)
    return raw.reshape(outputs, -1)


def set_half(blocks: Raw, field: int, halves: NDArray[np.float16] | float) -> None:
    """Writes a half-precision field of every block [..., bytes of a block]."""
    full = np.broadcast_to(np.asarray(halves, dtype=np.float16), blocks.shape[:-1])
    blocks[..., field : field + 2] = np.ascontiguousarray(full)[..., None].view(np.uint8)


def store_floats(kind: str, weights: Floats) -> tuple[Raw, Floats]:
    """The bytes of a float matrix in a file of that type, and what they mean."""
    if kind == "F32":
        return weights.view(np.uint8), weights
    if kind == "F16":
        halves = weights.astype(np.float16)
        return halves.view(np.uint8), halves.astype(np.float32)
    upper = (weights.view(np.uint32) >> 16).astype(np.uint16)
    return upper.view(np.uint8), (upper.astype(np.uint32) << 16).view(np.float32)


def quantize(kind: str, weights: Floats) -> Raw:
    """What the `gguf` package stores of float weights."""
    raw: Raw = quants.quantize(weights, GGMLQuantizationType[kind]).view(np.uint8)
    return raw


def dequantize(kind: str, raw: Raw) -> Floats:
    """What the `gguf` package makes of the bytes."""
    with np.errstate(all="ignore"):
        values: Floats = quants.dequantize(raw, GGMLQuantizationType[kind])
    return values


def take_apart(kind: str, raw: Raw) -> Parts:
    """Integers and scales of a matrix in GGML blocks."""
    outputs = raw.shape[0]
    _, num_bytes = block_size(kind)
    blocks = raw.reshape(outputs, -1, num_bytes)
    halves = [
        np.ascontiguousarray(blocks[..., at : at + 2]).view(np.float16)[..., 0].astype(np.float32)
        for at in HALF_FIELDS[kind]
    ]
    plain = blocks.copy()
    set_half(plain, HALF_FIELDS[kind][0], 1.0)
    if len(halves) == 2:
        set_half(plain, HALF_FIELDS[kind][1], 0.0)
    if kind == "Q6_K":
        plain[..., 192:208] = 1
        small16 = blocks[..., 192:208].view(np.int8).reshape(outputs, -1).astype(np.int64)
        q = dequantize(kind, plain.reshape(outputs, -1)).astype(np.int64)
        return Parts(q=q, d=np.repeat(halves[0], 8, axis=1), small16=small16)
    if kind in WITH_RUNS:
        plain[..., 4:8] = 1
        plain[..., 8:12] = 0
        plain[..., 12:16] = 1
        scales, minima = quants.Q4_K.get_scale_min(blocks[..., 4:16].reshape(-1, 12))
        return Parts(
            q=dequantize(kind, plain.reshape(outputs, -1)).astype(np.int64),
            d=np.repeat(halves[0], 8, axis=1),
            m=np.repeat(halves[1], 8, axis=1),
            small=scales.reshape(outputs, -1).astype(np.float32),
            small_min=minima.reshape(outputs, -1).astype(np.float32),
        )
    q = dequantize(kind, plain.reshape(outputs, -1)).astype(np.int64)
    return Parts(q=q, d=halves[0], m=halves[1] if len(halves) == 2 else None)


def quantize_weights(weights: Floats) -> Parts:
    """Float weights in 8 bits, as `pack` does it: the scale is rounded to half precision first."""
    groups = weights.reshape(len(weights), -1, GROUP)
    amax = np.abs(groups).max(axis=-1)
    d = (amax / np.float32(127)).astype(np.float16).astype(np.float32)
    with np.errstate(divide="ignore", invalid="ignore"):
        q = np.where(d[..., None] > 0, np.rint(groups / d[..., None]), 0)
    return Parts(q=np.clip(q, -127, 127).astype(np.int64).reshape(weights.shape), d=d)


def quantize_rows(x: Floats) -> tuple[Ints, Floats, Ints]:
    """Activations [R, K] in 8 bits: values [R, K], scales [R, K / 32], sums [R, K / 32]."""
    groups = x.reshape(len(x), -1, GROUP)
    amax = np.abs(groups).max(axis=-1)
    with np.errstate(divide="ignore", over="ignore"):
        inverse = np.float32(127) / amax
    inverse = np.where(np.isfinite(inverse), inverse, np.float32(0))
    values = np.rint(groups * inverse[..., None]).astype(np.int64)
    scales = (amax / np.float32(127)).astype(np.float32)
    return values.reshape(x.shape), scales, values.sum(axis=-1)


def quantize_planes(x: Floats) -> list[tuple[Ints, Floats, Ints]]:
    """Activations in two planes of 8 bits; the second quantises what the first leaves of x."""
    first = quantize_rows(x)
    values, scales, _ = first
    remainder = x - values.astype(np.float32) * np.repeat(scales, GROUP, axis=1)
    return [first, quantize_rows(remainder)]


def matmul(parts: Parts, x: Floats, planes: int = 1) -> Floats:
    """[R, N]: the packed product, in the order in which the kernels do it."""
    first, *others = (_product(parts, *plane) for plane in quantize_planes(x)[:planes])
    for other in others:
        first = first + other
    assert first.dtype == np.float32
    return first


def _product(parts: Parts, values: Ints, scales: Floats, sums: Ints) -> Floats:
    """[R, N]: the product with one plane."""
    acc = np.zeros((len(values), len(parts.q)), dtype=np.float32)
    for g in range(scales.shape[1]):
        scale = scales[:, g, None]
        d = parts.d[None, :, g]
        if parts.small is not None:
            d = d * parts.small[None, :, g]
        acc = acc + _dot(parts, values, g).astype(np.float32) * (d * scale)
        if parts.m is not None:
            scaled_sum = scale * sums[:, g, None].astype(np.float32)
            m = parts.m[None, :, g]
            if parts.small_min is None:
                acc = acc + m * scaled_sum
            else:
                acc = acc - (m * parts.small_min[None, :, g]) * scaled_sum
    return acc


def _dot(parts: Parts, values: Ints, g: int) -> Ints:
    if parts.small16 is None:
        part = slice(GROUP * g, GROUP * (g + 1))
        return values[:, part] @ parts.q[:, part].T
    total = np.zeros((len(values), len(parts.q)), dtype=np.int64)
    for half in (2 * g, 2 * g + 1):
        part = slice(16 * half, 16 * (half + 1))
        total += parts.small16[None, :, half] * (values[:, part] @ parts.q[:, part].T)
    return total
