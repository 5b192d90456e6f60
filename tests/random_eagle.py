"""A random EAGLE head for a model that is loaded, without PyTorch."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from oneglance.checkpoints.base import Checkpoint
from oneglance.heads.eagle_config import EagleConfig, default_feature_layers
from oneglance.heads.eagle_files import write_eagle
from oneglance.heads.eagle_names import SHARED, tensor_shapes
from oneglance.heads.folder import HeadForm
from oneglance.types import IntArray


def write_random_eagle(
    folder: Path,
    target: Checkpoint,
    target_ids: IntArray,
    num_slots: int = 1,
    form: HeadForm = "Q4_1",
) -> None:
    """Writes an EAGLE-3 head that shares embedding and output rows with its target."""
    config = target.config
    shape = EagleConfig(
        kind="eagle3",
        hidden_size=config.hidden_size,
        target_hidden_size=config.hidden_size,
        feature_layers=default_feature_layers("eagle3", config.num_layers),
        intermediate_size=256,
        num_heads=config.num_heads,
        num_kv_heads=config.num_kv_heads,
        head_dim=config.head_dim,
        rms_norm_eps=config.rms_norm_eps,
        rope_theta=config.rope_theta,
        vocab_size=config.vocab_size,
        draft_vocab_size=len(target_ids),
        num_slots=num_slots,
        mask_token_id=0 if num_slots > 1 else None,
    )
    rng = np.random.default_rng(4)
    arrays = {
        name: rng.standard_normal(size).astype(np.float32) / np.float32(np.sqrt(size[-1]))
        for name, size in tensor_shapes(shape).items()
        if name not in (*SHARED, "d2t")
    }
    arrays |= {name: np.ones_like(each) for name, each in arrays.items() if "norm" in name}
    write_eagle(folder, shape, arrays, target_ids, {"weights": "random"}, form, target.name)
