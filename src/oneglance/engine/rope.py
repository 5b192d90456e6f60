"""Rotary position embedding (RoFormer, arXiv:2104.09864) with the scalings that models use."""

from __future__ import annotations

import numpy as np

from oneglance.config import ModelConfig, RopeScaling
from oneglance.errors import CheckpointError
from oneglance.types import Float32Array, Float64Array, IntArray


def rope_frequencies(config: ModelConfig) -> Float64Array:
    """[head_dim / 2] radians per position of each rotated pair, after scaling.

    Raises:
        CheckpointError: the file's divisors do not match the head size.
    """
    exponents = np.arange(0, config.head_dim, 2, dtype=np.float64) / config.head_dim
    frequencies: Float64Array = config.rope_theta**-exponents
    scaling = config.rope_scaling
    if scaling is None:
        return frequencies
    if scaling.frequency_divisors is not None:
        if len(scaling.frequency_divisors) != len(frequencies):
            raise CheckpointError(
                f"The file has {len(scaling.frequency_divisors)} rotary divisors, but heads of "
                f"size {config.head_dim} need {len(frequencies)}; the checkpoint is damaged."
            )
        return frequencies / np.asarray(scaling.frequency_divisors, dtype=np.float64)
    if scaling.kind == "linear":
        return frequencies / scaling.factor
    return _scale_llama3(frequencies, scaling)


def _scale_llama3(frequencies: Float64Array, scaling: RopeScaling) -> Float64Array:
    """Divides low frequencies, keeps high ones, interpolates between (Llama 3.1 model card)."""
    # How often a pair turns within the context that the model was first trained on.
    turns = scaling.original_context_length * frequencies / (2 * np.pi)
    span = scaling.high_freq_factor - scaling.low_freq_factor
    kept_share = np.clip((turns - scaling.low_freq_factor) / span, 0.0, 1.0)
    scaled: Float64Array = frequencies * (kept_share + (1 - kept_share) / scaling.factor)
    return scaled


class RopeTable:
    """Cosines and sines of every position, computed once so that no pass can change their bits.

    Attributes:
        cos, sin: [context_length, head_dim / 2].
    """

    def __init__(self, config: ModelConfig) -> None:
        """Computes angles in float64 and keeps float32, [context_length, head_dim / 2] each."""
        positions = np.arange(config.context_length, dtype=np.float64)
        angles = positions[:, None] * rope_frequencies(config)
        self.cos = np.cos(angles).astype(np.float32)
        self.sin = np.sin(angles).astype(np.float32)

    def rotate(self, heads: Float32Array, positions: IntArray) -> Float32Array:
        """Rotates element i with element i + head_dim / 2.

        Args:
            heads: [rows, heads, head_dim] queries or keys.
            positions: [rows] absolute position of each row.

        Returns:
            A new array of the same shape.
        """
        cos, sin = self.cos[positions][:, None], self.sin[positions][:, None]
        half = heads.shape[-1] // 2
        first, second = heads[..., :half], heads[..., half:]
        rotated = np.empty(heads.shape, dtype=np.float32)
        rotated[..., :half] = first * cos - second * sin
        rotated[..., half:] = second * cos + first * sin
        return rotated
