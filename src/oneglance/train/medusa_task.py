"""Training Medusa heads on a frozen target (Medusa-1): Cai et al., arXiv:2401.10774."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, get_args

from torch import Tensor

from oneglance.checkpoints.base import Checkpoint
from oneglance.errors import ParameterError
from oneglance.heads.folder import HeadForm
from oneglance.heads.medusa import MedusaConfig
from oneglance.heads.medusa_files import write_medusa
from oneglance.train.batch import Batch
from oneglance.train.medusa_module import LOSS_DECAY, MedusaModule
from oneglance.train.target_weights import embedding_and_head
from oneglance.train.task import Task, TaskSettings, Teacher, check_choice, check_decay
from oneglance.types import IntArray


@dataclass(frozen=True, kw_only=True)
class MedusaSettings(TaskSettings):
    """What heads are trained.

    Attributes:
        heads: how many; head k guesses the token k + 2 places after the state's own.
        blocks: residual blocks of each.
        own_head: each has an output matrix of its own; otherwise all use rows of the target's.
        decay: weight of each head ÷ that of the one before.
        form: what becomes of matrices when the heads are written.
    """

    heads: int = 3
    blocks: int = 1
    own_head: bool = False
    decay: float = LOSS_DECAY
    form: HeadForm = "F16"

    kind: ClassVar[str] = "medusa"

    def __post_init__(self) -> None:
        """Refuses values that have no meaning.

        Raises:
            ParameterError: names the value and what is allowed.
        """
        super().__post_init__()
        check_choice("form", self.form, get_args(HeadForm))
        check_decay(self.decay)
        for name in ("heads", "blocks"):
            if getattr(self, name) < 1:
                raise ParameterError(
                    f"{name} = {getattr(self, name)} cannot be used; it must be at least 1."
                )

    def layers_read(self, num_layers: int) -> tuple[int, ...]:
        """The final state alone."""
        return (num_layers,)

    def make_task(
        self, target: Checkpoint, target_ids: IntArray, hidden_layers: tuple[int, ...], seed: int
    ) -> Task:
        """Heads that guess what the target itself says next; nothing begins at random."""
        del hidden_layers, seed
        return MedusaTask(target, self, target_ids)


class MedusaTask(Task):
    """Medusa heads in training."""

    first = 2

    def __init__(self, target: Checkpoint, settings: MedusaSettings, target_ids: IntArray) -> None:
        """Makes the heads' first weights.

        Args:
            target: the model that they draft for.
            settings: of the heads.
            target_ids: [V_d] tokens that they can draft, ascending.
        """
        _, head = embedding_and_head(target.weights)
        super().__init__(Teacher.of(head, target_ids), settings.loss, settings.decay)
        config = MedusaConfig(
            hidden_size=target.config.hidden_size,
            vocab_size=target.config.vocab_size,
            num_heads=settings.heads,
            num_layers=settings.blocks,
            draft_vocab_size=len(target_ids),
            has_own_outputs=settings.own_head,
        )
        self.module: MedusaModule = MedusaModule(config, self.teacher.head)
        self.num_depths = self.num_trained = settings.heads
        self._settings = settings
        self._target_ids = target_ids
        self._target_name = target.name

    def outputs(self, batch: Batch) -> list[Tensor]:
        """The target's final states, for each head the same."""
        return [batch.hidden[:, :, -1]] * self.num_depths

    def logits(self, depth: int, rows: Tensor) -> Tensor:
        """[M, V_d] of the head that drafts this depth."""
        return self.module.head_logits(depth, rows)

    def export(self, folder: Path, provenance: Mapping[str, object]) -> None:
        """Writes the heads, see `heads.medusa_files.write_medusa`."""
        weights = self.module.state_dict()
        write_medusa(
            folder,
            self.module.config,
            {name: value.float().cpu().numpy() for name, value in weights.items()},
            self._target_ids,
            provenance,
            self._settings.form,
            self._target_name,
        )
