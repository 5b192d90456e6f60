"""Small random targets and heads: the same head as a PyTorch module, a folder and an engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from oneglance.checkpoints.base import ModelWeights
from oneglance.config import EngineConfig, ModelConfig
from oneglance.engine.native.eagle import EagleEngine
from oneglance.engine.native.eagle_parallel import ParallelEagleEngine
from oneglance.engine.native.engine import NativeEngine
from oneglance.heads.eagle_config import EagleConfig
from oneglance.heads.eagle_files import EagleHead, read_eagle, write_eagle
from oneglance.heads.folder import HeadForm
from oneglance.train.eagle_module import EagleModule
from oneglance.types import Float32Array, IntArray
from tests.engine.random_models import random_model

TARGET: dict[str, Any] = {
    "vocab_size": 97,
    "hidden_size": 64,
    "head_dim": 16,
    "intermediate_size": 96,
    "num_layers": 6,
}
HEAD = EagleConfig(
    kind="eagle3",
    hidden_size=64,
    target_hidden_size=64,
    feature_layers=(2, 3, 3),
    intermediate_size=96,
    num_heads=4,
    num_kv_heads=2,
    head_dim=16,
    rms_norm_eps=1e-5,
    rope_theta=10_000.0,
    vocab_size=97,
    draft_vocab_size=40,
)

Variant = Literal["eagle1", "eagle3", "parallel", "two layers", "norm before residual"]
VARIANTS: dict[Variant, dict[str, Any]] = {
    "eagle1": {"kind": "eagle1", "feature_layers": (6,), "has_fc_bias": True},
    "eagle3": {},
    "parallel": {"num_slots": 4, "mask_token_id": 5},
    "two layers": {"num_layers": 2, "has_qkv_bias": True, "has_qk_norm": True},
    "norm before residual": {"norm_before_residual": True},
}


@dataclass(frozen=True)
class Pair:
    """A target and a head.

    Attributes:
        config, weights: of the target.
        target: its engine.
        module: the head in PyTorch.
        head: the same as read from its folder.
        engine: the same on the kernels.
    """

    config: ModelConfig
    weights: ModelWeights
    target: NativeEngine
    module: EagleModule
    head: EagleHead
    engine: EagleEngine


def make_pair(
    folder: Path,
    variant: Variant = "eagle3",
    form: HeadForm = "F32",
    weights: Literal["auto", "f32"] = "f32",
    target: Mapping[str, Any] = {},
    head_pages: int | None = None,
    **overrides: Any,
) -> Pair:
    """A random target and a random head for it.

    Args:
        folder: where the head is written.
        variant: of the head.
        form: in which it is stored.
        weights: what the engines make of floats.
        target: overrides of `TARGET`.
        head_pages: most pages of the head's cache.
        **overrides: fields of the head's configuration.
    """
    config, model = random_model(3, **{**TARGET, **target})
    engine_config = EngineConfig(page_size=4, num_threads=1, weights=weights, kv_dtype="f32")
    target_engine = NativeEngine(config, model, engine_config)
    shape = replace(HEAD, **{"vocab_size": config.vocab_size, **VARIANTS[variant], **overrides})
    if shape.kind == "eagle1":
        shape = replace(shape, draft_vocab_size=config.vocab_size)
    target_ids = ids_of(shape)
    module = random_module(shape, model, target_ids)
    write_eagle(folder, shape, arrays_of(module), target_ids, {"seed": 1}, form, "a target")
    head = read_eagle(folder, config)
    kind = EagleEngine if shape.num_slots == 1 else ParallelEagleEngine
    # The head's cache takes its limit from the target's settings; the target's own has none.
    target_engine.engine_config = replace(engine_config, num_pages=head_pages)
    engine = kind(head, target_engine, model.head, config.vocab_size)
    return Pair(config, model, target_engine, module, head, engine)


def ids_of(config: EagleConfig) -> IntArray | None:
    """Tokens of the target that a head drafts; None where it drafts all."""
    if config.draft_vocab_size == config.vocab_size:
        return None
    permuted = np.random.default_rng(2).permutation(config.vocab_size)
    return np.sort(permuted[: config.draft_vocab_size]).astype(np.int64)


def random_module(
    config: EagleConfig, target: ModelWeights, target_ids: IntArray | None
) -> EagleModule:
    """A head with random weights that shares its output rows with the target."""
    torch.manual_seed(1)
    embedding, rows = target.embedding.dequantize(), target.head.dequantize()
    rows = rows if target_ids is None else rows[target_ids]
    module = EagleModule(config, torch.from_numpy(embedding), torch.from_numpy(rows))
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if "norm" in name:
                parameter.uniform_(0.5, 1.5)
    return module


def arrays_of(module: EagleModule) -> dict[str, Float32Array]:
    """Its parameters by name."""
    return {name: value.detach().numpy() for name, value in module.state_dict().items()}
