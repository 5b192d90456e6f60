"""Training an EAGLE-3 head, autoregressive (training-time test) or parallel.

Li et al., arXiv:2503.01840; the parallel form: P-EAGLE, arXiv:2602.01469.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import torch
from torch import Tensor

from oneglance.checkpoints.base import Checkpoint
from oneglance.errors import ParameterError
from oneglance.heads.eagle_config import EagleConfig
from oneglance.heads.eagle_files import HeadForm, write_eagle
from oneglance.train.batch import Batch
from oneglance.train.eagle_module import EagleModule
from oneglance.train.target_weights import (
    dequantized,
    embedding_and_head,
    layer_tensors,
    narrowed_mlp,
)
from oneglance.train.task import Task, Teacher
from oneglance.types import IntArray

Initialisation = Literal["random", "last-layer"]


@dataclass(frozen=True)
class EagleSettings:
    """What head is trained, and how.

    Attributes:
        feature_layers: states of the target that it reads, see `Batch.hidden_layers`.
        intermediate_size: of its feed-forward part; None: the target's.
        num_steps: tokens that each column drafts in training.
        is_parallel: the steps are slots of one pass.
        shares_head: the target's output matrix is used as it is.
        init: "last-layer": begin from the target's last layer.
        loss: "ce", "kl" or "lk", see `losses.py`.
        decay: weight of each step ÷ that of the one before.
        form: what becomes of matrices when the head is written.
    """

    feature_layers: tuple[int, ...]
    intermediate_size: int | None = None
    num_steps: int = 3
    is_parallel: bool = False
    shares_head: bool = True
    init: Initialisation = "last-layer"
    loss: str = "kl"
    decay: float = 0.8
    form: HeadForm = "F16"

    def __post_init__(self) -> None:
        """Refuses values that have no meaning.

        Raises:
            ParameterError: names the value and what is allowed.
        """
        if self.num_steps < 1:
            raise ParameterError(f"steps = {self.num_steps} cannot be used; it must be at least 1.")
        if self.is_parallel and self.num_steps < 2:
            raise ParameterError("A parallel head drafts several tokens; give steps of at least 2.")
        if self.init not in get_args(Initialisation):
            raise ParameterError(f"init = {self.init!r} is not known; choose random or last-layer.")
        if self.intermediate_size is not None and self.intermediate_size < 1:
            raise ParameterError(
                f"ffn = {self.intermediate_size} cannot be used; it must be at least 1."
            )


class EagleTask(Task):
    """An EAGLE-3 head in training."""

    first = 2

    def __init__(
        self,
        target: Checkpoint,
        settings: EagleSettings,
        target_ids: IntArray,
        hidden_layers: tuple[int, ...],
        seed: int = 0,
    ) -> None:
        """Makes the head's first weights.

        Args:
            target: the model that it drafts for.
            settings: of the head.
            target_ids: [V_d] tokens that it can draft, ascending.
            hidden_layers: whose states a batch has, the final one last.
            seed: of random first weights.

        Raises:
            ParameterError: the answers were collected without a layer that the head reads.
        """
        missing = set(settings.feature_layers) - set(hidden_layers)
        if missing:
            raise ParameterError(
                f"The answers lack the states of layer {min(missing)}; collect them into another "
                "folder, or read others."
            )
        config = _config_of(target, settings, len(target_ids))
        embedding, head = embedding_and_head(target.weights)
        super().__init__(Teacher.of(head, target_ids), settings.loss, settings.decay)
        torch.manual_seed(seed)
        shared = self.teacher.head if settings.shares_head else None
        self.module: EagleModule = EagleModule(config, embedding, shared)
        self.num_depths = self.num_trained = settings.num_steps
        self._settings = settings
        self._target_ids = target_ids
        self._target_name = target.name
        self._features = [hidden_layers.index(layer) for layer in settings.feature_layers]
        with torch.no_grad():
            _initialise(self.module, target, settings, self.teacher)

    def outputs(self, batch: Batch) -> list[Tensor]:
        """The outputs of each step, see `EagleModule.forward`."""
        features = batch.hidden[:, :, self._features].flatten(2)
        return self.module(features, batch.tokens[:, 1:], self.num_depths)  # type: ignore[no-any-return]

    def logits(self, depth: int, rows: Tensor) -> Tensor:
        """[M, V_d]; all steps have one output matrix."""
        del depth
        return self.module.logits(rows)

    def export(self, folder: Path, provenance: Mapping[str, object]) -> None:
        """Writes the head, see `heads.eagle_files.write_eagle`."""
        weights = self.module.state_dict()
        arrays = {name: value.float().cpu().numpy() for name, value in weights.items()}
        write_eagle(
            folder,
            self.module.config,
            arrays,
            self._target_ids,
            provenance,
            self._settings.form,
            self._target_name,
        )


def _config_of(
    target: Checkpoint, settings: EagleSettings, draft_vocab_size: int
) -> EagleConfig:
    model = target.config
    tokenizer = target.tokenizer
    return EagleConfig(
        kind="eagle3",
        hidden_size=model.hidden_size,
        target_hidden_size=model.hidden_size,
        feature_layers=settings.feature_layers,
        intermediate_size=settings.intermediate_size or model.intermediate_size,
        num_heads=model.num_heads,
        num_kv_heads=model.num_kv_heads,
        head_dim=model.head_dim,
        rms_norm_eps=model.rms_norm_eps,
        rope_theta=model.rope_theta,
        rope_scaling=model.rope_scaling,
        vocab_size=model.vocab_size,
        draft_vocab_size=draft_vocab_size,
        has_qkv_bias=model.has_qkv_bias,
        has_qk_norm=model.has_qk_norm,
        num_slots=settings.num_steps if settings.is_parallel else 1,
        # Any token will do, best one that no answer contains.
        mask_token_id=min(tokenizer.special_ids, default=0) if settings.is_parallel else None,
    )


def _initialise(
    module: EagleModule, target: Checkpoint, settings: EagleSettings, teacher: Teacher
) -> None:
    """The final norm always, as the output matrix expects it; the layer where that is asked for."""
    module.norm.weight.copy_(dequantized(target.weights.final_norm))
    if not settings.shares_head:
        module.lm_head.weight.copy_(teacher.head)
    if settings.init == "random":
        return
    size = target.config.hidden_size
    # The last of the features is what the layer reads, as it did in the target: the embedding
    # beside it is not looked at, until training finds use for it.
    module.fc.weight.zero_()
    module.fc.weight[:, -size:].copy_(torch.eye(size))
    stored = layer_tensors(target.weights.layers[-1])
    stored |= narrowed_mlp(stored, module.config.intermediate_size)
    stored["hidden_norm.weight"] = stored.pop("input_layernorm.weight")
    for name, parameter in module.layers[0].named_parameters():
        value = stored.get(name)
        if value is None:
            continue
        if name in (f"self_attn.{part}_proj.weight" for part in "qkv"):
            parameter[:, :size].zero_()
            parameter[:, size:].copy_(value)
        elif value.shape == parameter.shape:
            parameter.copy_(value)
        else:  # a feed-forward part wider than the target's: what is more begins at random
            parameter[: value.shape[0], : value.shape[1]].copy_(value)
