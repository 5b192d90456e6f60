"""What an EAGLE-3 head begins from: chance, its target's last layers, or another head."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from oneglance.checkpoints.base import Checkpoint
from oneglance.errors import ParameterError
from oneglance.heads.eagle_files import EagleHead, read_eagle
from oneglance.heads.folder import CONFIG_FILE
from oneglance.train.eagle_module import EagleModule
from oneglance.train.target_weights import dequantized, layer_tensors, narrowed_mlp
from oneglance.train.task import Teacher

RANDOM, LAST_LAYER = "random", "last-layer"

SHAPE = (
    "kind",
    "hidden_size",
    "num_layers",
    "intermediate_size",
    "num_heads",
    "num_kv_heads",
    "head_dim",
    "feature_layers",
    "num_slots",
    "norm_before_residual",
    "has_fc_bias",
    "has_qkv_bias",
    "has_qk_norm",
    "rope_theta",
    "rope_scaling",
)
"""Fields of `EagleConfig` in which a head must be like the one that begins from it: published heads
may differ in any of them."""


def check_init(init: str) -> None:
    """Refuses what is neither a word nor the folder of a head.

    Raises:
        ParameterError: it is not.
    """
    if init not in (RANDOM, LAST_LAYER) and not (Path(init) / CONFIG_FILE).is_file():
        raise ParameterError(
            f"init = {init!r} cannot be used; choose {RANDOM}, {LAST_LAYER} or the folder of a "
            "trained head."
        )


def set_first_weights(module: EagleModule, target: Checkpoint, init: str, teacher: Teacher) -> None:
    """Sets what training begins from; what `init` does not decide stays as it was drawn.

    Args:
        module: the head, with random weights.
        target: the model that it drafts for.
        init: see `EagleSettings.init`.
        teacher: has the rows of the target's output matrix.

    Raises:
        ParameterError: the target has too few layers, or the head in a folder has another shape.
        OneglanceError: that head cannot be read.
    """
    module.norm.weight.copy_(dequantized(target.weights.final_norm))  # as the matrix expects it
    if hasattr(module, "lm_head"):
        module.lm_head.weight.copy_(teacher.head)
    if init == LAST_LAYER:
        _begin_from_target(module, target)
    elif init != RANDOM:
        head = read_eagle(Path(init), target.config)
        _check_shape(module, head, init)
        _begin_from_head(module, head, teacher)


def _begin_from_target(module: EagleModule, target: Checkpoint) -> None:
    size, count = target.config.hidden_size, module.config.num_layers
    if count > target.config.num_layers:
        raise ParameterError(
            f"layers = {count} cannot begin from a target that has {target.config.num_layers}; "
            f"choose fewer, or init = {RANDOM!r}."
        )
    # The last of the features is what the first layer reads, as it did in the target: the embedding
    # beside it is not looked at, until training finds use for it.
    module.fc.weight.zero_()
    module.fc.weight[:, -size:].copy_(torch.eye(size))
    for index, weights in enumerate(target.weights.layers[-count:]):
        stored = layer_tensors(weights)
        stored |= narrowed_mlp(stored, module.config.intermediate_size)
        if index == 0:
            stored["hidden_norm.weight"] = stored.pop("input_layernorm.weight")
            for part in "qkv":
                name = f"self_attn.{part}_proj.weight"
                stored[name] = nn.functional.pad(stored[name], (size, 0))
        _copy(module.layers[index], stored)


def _check_shape(module: EagleModule, head: EagleHead, folder: str) -> None:
    for field in SHAPE:
        found, wanted = getattr(head.config, field), getattr(module.config, field)
        if found != wanted:
            raise ParameterError(
                f"The head in {folder!r} has {field} = {found}, not {wanted}; ask for the same "
                "shape, or begin from another head."
            )
    if "embed_tokens.weight" in head.tensors:
        raise ParameterError(
            f"The head in {folder!r} has embeddings of its own, which training does not change; "
            "begin from another head."
        )


def _begin_from_head(module: EagleModule, head: EagleHead, teacher: Teacher) -> None:
    stored = {name: dequantized(tensor) for name, tensor in head.tensors.items()}
    outputs = stored.pop("lm_head.weight", None)
    _copy(module, stored)
    if outputs is None or not hasattr(module, "lm_head"):
        return
    # The vocabularies may differ: tokens that the head did not have begin as the target's rows.
    ids = range(len(outputs)) if head.target_ids is None else head.target_ids.tolist()
    for row, target_id in enumerate(ids):
        draft_id = int(teacher.draft_ids[target_id])
        if draft_id >= 0:
            module.lm_head.weight[draft_id].copy_(outputs[row])


def _copy(module: nn.Module, stored: Mapping[str, Tensor]) -> None:
    for name, parameter in module.named_parameters():
        value = stored.get(name)
        if value is None:
            continue
        if value.shape == parameter.shape:
            parameter.copy_(value)
        else:  # a feed-forward part wider than the target's: what is more begins at random
            parameter[: value.shape[0], : value.shape[1]].copy_(value)
