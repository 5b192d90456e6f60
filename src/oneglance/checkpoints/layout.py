"""From named tensors to `ModelWeights`: which weights a configuration implies, and their shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from oneglance.checkpoints.base import LayerWeights, ModelWeights, Tensor
from oneglance.config import ModelConfig
from oneglance.errors import CheckpointError

LAYER_PLACEHOLDER = "{layer}"


@dataclass(frozen=True)
class WeightNames:
    """What a format calls the weights.

    Attributes:
        embedding, final_norm, head: full names.
        layer: field of `LayerWeights` to a name in which "{layer}" stands for the layer's index.
        ignored: tells which other tensors carry nothing that the model needs.
    """

    embedding: str
    final_norm: str
    head: str
    layer: Mapping[str, str]
    ignored: Callable[[str], bool]


def layer_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Field of `LayerWeights` to the shape that the configuration implies."""
    query = config.num_heads * config.head_dim
    key = config.num_kv_heads * config.head_dim
    hidden, inner = config.hidden_size, config.intermediate_size
    shapes: dict[str, tuple[int, ...]] = {
        "input_norm": (hidden,),
        "q_proj": (query, hidden),
        "k_proj": (key, hidden),
        "v_proj": (key, hidden),
        "o_proj": (hidden, query),
        "post_attention_norm": (hidden,),
        "gate_proj": (inner, hidden),
        "up_proj": (inner, hidden),
        "down_proj": (hidden, inner),
    }
    if config.has_qkv_bias:
        shapes.update(q_bias=(query,), k_bias=(key,), v_bias=(key,))
    if config.has_qk_norm:
        shapes.update(q_norm=(config.head_dim,), k_norm=(config.head_dim,))
    return shapes


def assemble_weights(
    path: Path, config: ModelConfig, names: WeightNames, tensors: Mapping[str, Tensor]
) -> ModelWeights:
    """Picks the weights of a model out of a file's tensors.

    Args:
        path: of the file, for messages.
        config: shape of the model.
        names: what the format calls them.
        tensors: all tensors of the file.

    Raises:
        CheckpointError: a tensor is missing, has another shape than the configuration implies,
            or is there and would be left out although it changes the result.
    """
    used: set[str] = set()

    def take(name: str, shape: tuple[int, ...]) -> Tensor:
        used.add(name)
        return checked(path, tensors, name, shape)

    table = (config.vocab_size, config.hidden_size)
    shapes = layer_shapes(config)
    embedding = take(names.embedding, table)
    layers = tuple(
        LayerWeights(
            **{
                field: take(names.layer[field].replace(LAYER_PLACEHOLDER, str(index)), shape)
                for field, shape in shapes.items()
            }
        )
        for index in range(config.num_layers)
    )
    final_norm = take(names.final_norm, (config.hidden_size,))
    head = embedding if config.has_tied_head else take(names.head, table)
    refuse_leftovers(path, names, set(tensors) - used)
    return ModelWeights(embedding=embedding, layers=layers, final_norm=final_norm, head=head)


def checked(path: Path, tensors: Mapping[str, Tensor], name: str, shape: tuple[int, ...]) -> Tensor:
    """The tensor of that name, if it is there and has that shape.

    Raises:
        CheckpointError: it is missing or has another shape.
    """
    tensor = tensors.get(name)
    if tensor is None:
        raise CheckpointError(
            f"{path} lacks the tensor {name!r}. The file is incomplete: download it again."
        )
    if tensor.shape != shape:
        raise CheckpointError(
            f"{path}: tensor {name!r} has the shape {list(tensor.shape)}, but the model's "
            f"configuration implies {list(shape)}. Convert or download the model again."
        )
    return tensor


def refuse_leftovers(path: Path, names: WeightNames, leftovers: set[str]) -> None:
    """Refuses a file with weights that this package would silently leave out.

    Raises:
        CheckpointError: there is a tensor that is neither used nor known to be without effect.
    """
    unknown = sorted(name for name in leftovers if not names.ignored(name))
    if unknown:
        raise CheckpointError(
            f"{path} has the tensor {unknown[0]!r} ({len(unknown)} such in all), which models of "
            "this architecture do not use here. The variant is not supported: use another model."
        )


def rotary_halves(tensor: Tensor, num_heads: int) -> Tensor:
    """Brings rows that pair up neighbours for rotation into the order of rotary halves.

    llama.cpp stores rows 2i and 2i + 1 of each head where Hugging Face has rows i and
    i + head_dim / 2. Whole rows move, so quantised blocks stay as they are.

    Args:
        tensor: [num_heads * head_dim, inputs] or, for a bias, [num_heads * head_dim].
        num_heads: of queries or of keys.
    """
    rows = tensor.data
    pairs = rows.reshape(num_heads, rows.shape[0] // num_heads // 2, 2, *rows.shape[1:])
    return replace(tensor, data=np.ascontiguousarray(pairs.swapaxes(1, 2).reshape(rows.shape)))
