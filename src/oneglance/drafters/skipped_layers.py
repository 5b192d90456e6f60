"""Layers that known models can do without best, found once by `benchmarks/skipped_layers.py`.

Models are known by their shape, which all fine-tuned versions of one base share, in any type of
weights. Another model of the same shape would be drafted for less well, never wrongly.
"""

from __future__ import annotations

from oneglance.config import ModelConfig

_Shape = tuple[str, int, int, int, int]

_KNOWN: dict[_Shape, tuple[int, ...]] = {
    ("llama", 30, 576, 1536, 49152): (5,),  # SmolLM2-135M: even this layer costs 14 % agreement
}
"""Architecture, layers, hidden size, intermediate size and vocabulary size to layers."""


def known_layers(config: ModelConfig) -> tuple[int, ...] | None:
    """The layers to leave out of a model of this shape; None if it is not known."""
    return _KNOWN.get(
        (
            config.architecture,
            config.num_layers,
            config.hidden_size,
            config.intermediate_size,
            config.vocab_size,
        )
    )
