"""Training an EAGLE-3 head, autoregressive (training-time test) or parallel.

Li et al., arXiv:2503.01840; the parallel form: P-EAGLE, arXiv:2602.01469.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, get_args

import torch
from torch import Tensor

from oneglance.checkpoints.base import Checkpoint
from oneglance.errors import ParameterError
from oneglance.heads.eagle_config import EagleConfig, default_feature_layers
from oneglance.heads.eagle_files import write_eagle
from oneglance.heads.folder import HeadForm
from oneglance.train.batch import Batch
from oneglance.train.eagle_init import check_init, set_first_weights
from oneglance.train.eagle_module import EagleModule
from oneglance.train.target_weights import embedding_and_head
from oneglance.train.task import Task, TaskSettings, Teacher, check_choice, check_decay
from oneglance.types import IntArray


@dataclass(frozen=True, kw_only=True)
class EagleSettings(TaskSettings):
    """What head is trained, and how.

    Attributes:
        features: states of the target that it reads, see `Batch.hidden_layers`; None: those that
            published heads read.
        layers: decoder layers.
        ffn: size of their feed-forward parts; None: the target's.
        steps: tokens that each column drafts in training.
        parallel: the steps are slots of one pass.
        stride: each step learns at every n-th of the columns of the one before; 1: at all.
        own_head: it has an output matrix of its own; otherwise it uses rows of the target's.
        init: "random"; "last-layer": begin from the target's last layers, as many as it has; or the
            folder of a head of the same shape to begin from.
        decay: weight of each step ÷ that of the one before.
        form: what becomes of matrices when the head is written.
    """

    features: tuple[int, ...] | None = None
    layers: int = 1
    ffn: int | None = None
    steps: int = 3
    parallel: bool = False
    stride: int = 1
    own_head: bool = False
    init: str = "random"
    decay: float = 0.8
    form: HeadForm = "F16"

    kind: ClassVar[str] = "eagle"

    def __post_init__(self) -> None:
        """Refuses values that have no meaning.

        Raises:
            ParameterError: names the value and what is allowed.
        """
        super().__post_init__()
        check_init(self.init)
        check_choice("form", self.form, get_args(HeadForm))
        check_decay(self.decay)
        if self.steps < 1:
            raise ParameterError(f"steps = {self.steps} cannot be used; it must be at least 1.")
        if self.parallel and self.steps < 2:
            raise ParameterError("A parallel head drafts several tokens; give steps of at least 2.")
        if self.stride < 1:
            raise ParameterError(f"stride = {self.stride} cannot be used; it must be at least 1.")
        if self.layers < 1:
            raise ParameterError(f"layers = {self.layers} cannot be used; it must be at least 1.")
        if self.ffn is not None and self.ffn < 1:
            raise ParameterError(f"ffn = {self.ffn} cannot be used; it must be at least 1.")

    def layers_read(self, num_layers: int) -> tuple[int, ...]:
        """The layers of `features`, or 2, L // 2 and L − 3."""
        layers = self.features or default_feature_layers("eagle3", num_layers)
        outside = [layer for layer in layers if not 0 <= layer <= num_layers]
        if outside:
            raise ParameterError(
                f"The target has no layer {outside[0]} to read; give features from 0 to "
                f"{num_layers}."
            )
        if len(set(layers)) < len(layers):
            raise ParameterError(f"The features {list(layers)} name a layer twice; name each once.")
        return layers

    def make_task(
        self, target: Checkpoint, target_ids: IntArray, hidden_layers: tuple[int, ...], seed: int
    ) -> Task:
        """A head with its first weights."""
        return EagleTask(target, self, target_ids, hidden_layers, seed)


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
            hidden_layers: whose states a batch has, the final one last, all that are read among
                them.
            seed: of random first weights.

        Raises:
            ParameterError: the target has not the layers that the head is to read or begin from,
                or the head that it is to begin from has another shape.
            OneglanceError: that head cannot be read.
        """
        layers = settings.layers_read(target.config.num_layers)
        config = _config_of(target, settings, layers, len(target_ids))
        embedding, head = embedding_and_head(target.weights)
        super().__init__(Teacher.of(head, target_ids), settings.loss, settings.decay)
        torch.manual_seed(seed)
        shared = None if settings.own_head else self.teacher.head
        self.module: EagleModule = EagleModule(config, embedding, shared)
        self.num_depths = self.num_trained = settings.steps
        self._settings = settings
        self._target_ids = target_ids
        self._target_name = target.name
        self._features = [hidden_layers.index(layer) for layer in layers]
        with torch.no_grad():
            set_first_weights(self.module, target, settings.init, self.teacher)

    def outputs(self, batch: Batch) -> list[Tensor]:
        """The outputs of each step, see `EagleModule.forward`."""
        features = batch.hidden[:, :, self._features].flatten(2)
        return self.module(features, batch.tokens[:, 1:], self.num_depths)  # type: ignore[no-any-return]

    def trained(self, batch: Batch) -> list[tuple[Tensor, Tensor]]:
        """Outputs of columns that become fewer from step to step.

        Which ones is a function of the batch, as nothing in training is left to chance: where the
        same answers meet others in another epoch, other columns are learned from.
        """
        stride, tokens = self._settings.stride, batch.tokens[:, 1:]
        digits = [int(tokens.sum()) // stride**step % stride for step in range(self.num_depths)]
        choices = [slice(None), *(slice(digit, None, stride) for digit in digits[1:])]
        columns = [torch.arange(tokens.shape[1], device=tokens.device)]
        for chosen in choices[1:]:
            columns.append(columns[-1][chosen])
        features = batch.hidden[:, :, self._features].flatten(2)
        return list(zip(self.module.unroll(features, tokens, choices), columns, strict=True))

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
    target: Checkpoint, settings: EagleSettings, layers: tuple[int, ...], draft_vocab_size: int
) -> EagleConfig:
    model = target.config
    return EagleConfig(
        kind="eagle3",
        hidden_size=model.hidden_size,
        target_hidden_size=model.hidden_size,
        feature_layers=layers,
        intermediate_size=settings.ffn or model.intermediate_size,
        num_heads=model.num_heads,
        num_kv_heads=model.num_kv_heads,
        head_dim=model.head_dim,
        rms_norm_eps=model.rms_norm_eps,
        rope_theta=model.rope_theta,
        rope_scaling=model.rope_scaling,
        vocab_size=model.vocab_size,
        draft_vocab_size=draft_vocab_size,
        num_layers=settings.layers,
        has_qkv_bias=model.has_qkv_bias,
        has_qk_norm=model.has_qk_norm,
        num_slots=settings.steps if settings.parallel else 1,
        # Any token will do, best one that no answer contains.
        mask_token_id=min(target.tokenizer.special_ids, default=0) if settings.parallel else None,
    )
