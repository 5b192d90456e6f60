"""Draft models made of a target."""

from __future__ import annotations

from dataclasses import replace

from oneglance.checkpoints import Checkpoint


def without_layers(checkpoint: Checkpoint, dropped: set[int]) -> Checkpoint:
    """A draft model of the same vocabulary: the target with some layers left out."""
    layers = tuple(
        layer for index, layer in enumerate(checkpoint.weights.layers) if index not in dropped
    )
    return replace(
        checkpoint,
        config=replace(checkpoint.config, num_layers=len(layers)),
        weights=replace(checkpoint.weights, layers=layers),
    )
