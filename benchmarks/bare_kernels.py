"""The two kinds of kernel that read memory, alone: all products of a pass, and all its attention.

What a pass takes beyond these is norms, rotations, quantising, barriers and Python.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import numpy as np

from benchmarks.attention_shapes import Shape, make_attention
from benchmarks.subject import Subject
from oneglance import _native
from oneglance.checkpoints.base import Tensor
from oneglance.engine.native.fitness import matrices
from oneglance.engine.native.weights import precise_planes


def products_of(subject: Subject) -> dict[int, list[_native.PackedMatrix]]:
    """The matrices that a pass multiplies with, packed once more, by their number of inputs."""
    weights = subject.checkpoint.weights
    packed: dict[int, list[_native.PackedMatrix]] = defaultdict(list)
    for layer in weights.layers:
        others = {layer.o_proj.name, layer.down_proj.name}
        for tensor in matrices(layer):
            matrix = _pack(subject, tensor, tensor.shape[0], tensor.name not in others)
            packed[matrix.inputs].append(matrix)
    vocab_size = subject.checkpoint.config.vocab_size
    packed[weights.head.shape[1]].append(_pack(subject, weights.head, vocab_size, True))
    return packed


def products_task(
    subject: Subject, packed: dict[int, list[_native.PackedMatrix]], rows: int
) -> Callable[[], float]:
    """Seconds of all products of a pass, with a barrier after each; the inputs are random."""
    runtime = runtime_of(subject)
    rng = np.random.default_rng(0)
    quantized = {
        inputs: _native.quantize_rows(
            runtime,
            rng.standard_normal((rows, inputs), np.float32),
            planes=max(matrix.activation_planes for matrix in matrices_of_width),
        )
        for inputs, matrices_of_width in packed.items()
    }
    return lambda: sum(
        _native.time_sweep(runtime, packed[inputs], quantized[inputs]) for inputs in packed
    )


def attention_task(subject: Subject, context: int, rows: int) -> Callable[[], float]:
    """Seconds of the attention of all layers; keys and values are random."""
    config = subject.checkpoint.config
    shape = Shape(
        subject.checkpoint.name,
        config.num_heads,
        config.num_kv_heads,
        config.head_dim,
        config.num_layers,
    )
    is_half = subject.engine_config.kv_dtype == "f16"
    return make_attention(shape, context, rows, runtime_of(subject), is_half)


def runtime_of(subject: Subject) -> _native.Runtime:
    """The engine's instruction set and number of threads; its threads too, as they are shared."""
    return _native.Runtime(subject.engine.isa, subject.engine.num_threads)


def _pack(subject: Subject, tensor: Tensor, outputs: int, is_precise: bool) -> _native.PackedMatrix:
    data = np.ascontiguousarray(tensor.data[:outputs]).view(np.uint8).reshape(-1)
    inputs = tensor.shape[1]
    num_threads = subject.engine.num_threads
    planes = precise_planes(tensor.quantization, subject.engine_config.weights) if is_precise else 1
    return _native.pack(
        data, tensor.quantization, outputs, inputs, num_threads, activation_planes=planes
    )
