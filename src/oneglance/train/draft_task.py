"""Distilling a small model of the target's vocabulary: its first layers, its embedding and head."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor, nn

from oneglance.checkpoints.base import Checkpoint
from oneglance.config import ModelConfig
from oneglance.errors import ParameterError
from oneglance.heads.eagle_config import EagleConfig
from oneglance.train.batch import Batch
from oneglance.train.draft_export import write_draft
from oneglance.train.eagle_module import KeysValues, Layer, RmsNorm
from oneglance.train.target_weights import dequantized, embedding_and_head, layer_tensors
from oneglance.train.task import Task, TaskSettings, Teacher
from oneglance.types import IntArray


@dataclass(frozen=True, kw_only=True)
class DraftSettings(TaskSettings):
    """What small model is distilled.

    Attributes:
        layers: so many first layers of the target it begins from.
        depths: how deep its acceptance is measured.
    """

    layers: int = 4
    depths: int = 4

    kind: ClassVar[str] = "draft"

    def __post_init__(self) -> None:
        """Refuses values that have no meaning.

        Raises:
            ParameterError: names the value and what is allowed.
        """
        super().__post_init__()
        for name in ("layers", "depths"):
            if getattr(self, name) < 1:
                raise ParameterError(
                    f"{name} = {getattr(self, name)} cannot be used; it must be at least 1."
                )

    def layers_read(self, num_layers: int) -> tuple[int, ...]:
        """None: the small model reads tokens."""
        if self.layers >= num_layers:
            raise ParameterError(
                f"layers = {self.layers} cannot be used; the target has {num_layers}, give fewer."
            )
        return ()

    def make_task(
        self, target: Checkpoint, target_ids: IntArray, hidden_layers: tuple[int, ...], seed: int
    ) -> Task:
        """The small model; nothing in it begins at random."""
        del hidden_layers, seed
        return DraftTask(target, self, target_ids)


class DraftModule(nn.Module):
    """A decoder of few layers on an embedding that stays as it is."""

    def __init__(self, config: ModelConfig, num_layers: int, embedding: Tensor) -> None:
        """Makes random layers.

        Args:
            config: of the target, whose layers these are like.
            num_layers: how many.
            embedding: [V, D].
        """
        super().__init__()
        self.register_buffer("embedding", embedding, persistent=False)
        like = _layer_config(config)
        self.layers = nn.ModuleList(Layer(like, 1 + index) for index in range(num_layers))
        self.norm = RmsNorm(config.hidden_size, config.rms_norm_eps)

    def forward(self, tokens: Tensor) -> Tensor:
        """[B, N] tokens to [B, N, D], what the output matrix reads."""
        embedded = nn.functional.embedding(tokens, self.get_buffer("embedding"))
        stream = embedded
        columns = torch.arange(tokens.shape[1], device=tokens.device)
        before: list[KeysValues] = []
        for layer in self.layers:
            stream, _ = layer(stream, embedded, columns, before)
        out: Tensor = self.norm(stream)
        return out


class DraftTask(Task):
    """A small model in training.

    The output matrix stays the target's own, so that logits of the most frequent tokens are
    enough to train on: the others come from the same states.
    """

    first = 1

    def __init__(self, target: Checkpoint, settings: DraftSettings, target_ids: IntArray) -> None:
        """Begins from the target's first layers, its final norm and its vocabulary.

        Args:
            target: the model to draft for.
            settings: of the small model.
            target_ids: [V_d] tokens whose logits are trained on, ascending.

        Raises:
            ParameterError: the target has not that many layers.
        """
        settings.layers_read(target.config.num_layers)
        embedding, head = embedding_and_head(target.weights)
        super().__init__(Teacher.of(head, target_ids), settings.loss, decay=1.0)
        self.num_depths, self.num_trained = settings.depths, 1
        self.module: DraftModule = DraftModule(target.config, settings.layers, embedding)
        for layer, stored in zip(self.module.layers, target.weights.layers, strict=False):
            layer.load_state_dict(layer_tensors(stored), strict=True)
        norm = {"weight": dequantized(target.weights.final_norm)}
        self.module.norm.load_state_dict(norm)
        self._target = target

    def outputs(self, batch: Batch) -> list[Tensor]:
        """The states of every token, at each depth the same: what was accepted is the text."""
        states = self.module(batch.tokens)
        return [states[:, depth:] for depth in range(self.num_depths)]

    def logits(self, depth: int, rows: Tensor) -> Tensor:
        """[M, V_d]."""
        del depth
        return nn.functional.linear(rows, self.teacher.head)

    def export(self, folder: Path, provenance: Mapping[str, object]) -> None:
        """Writes a checkpoint of the target's own format, see `draft_export.write_draft`."""
        weights = {name: value.cpu().numpy() for name, value in self.module.state_dict().items()}
        write_draft(folder, self._target, weights, len(self.module.layers), provenance)


def _layer_config(config: ModelConfig) -> EagleConfig:
    """The shape of an ordinary layer, for the module that a head's further layers are."""
    return EagleConfig(
        kind="eagle1",
        hidden_size=config.hidden_size,
        target_hidden_size=config.hidden_size,
        feature_layers=(),
        intermediate_size=config.intermediate_size,
        num_heads=config.num_heads,
        num_kv_heads=config.num_kv_heads,
        head_dim=config.head_dim,
        rms_norm_eps=config.rms_norm_eps,
        rope_theta=config.rope_theta,
        rope_scaling=config.rope_scaling,
        vocab_size=config.vocab_size,
        draft_vocab_size=config.vocab_size,
        has_qkv_bias=config.has_qkv_bias,
        has_qk_norm=config.has_qk_norm,
    )
