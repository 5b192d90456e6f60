"""What the trainer asks of a drafter that is trained, whichever kind it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from oneglance.checkpoints.base import Checkpoint
from oneglance.errors import ParameterError
from oneglance.train.batch import Batch
from oneglance.train.losses import LOSSES, overlap
from oneglance.types import IntArray


@dataclass(frozen=True)
class Teacher:
    """The target's law over the draft vocabulary, computed again from its final states.

    Attributes:
        head: [V_d, D] rows of the target's output matrix.
        target_ids: [V_d] the target's id of each draft token.
        draft_ids: [V] the draft's id of each of the target's; −1: none.
    """

    head: Tensor
    target_ids: Tensor
    draft_ids: Tensor

    @classmethod
    def of(cls, head: Tensor, target_ids: IntArray) -> Teacher:
        """From the whole matrix [V, D] and the tokens that can be drafted."""
        ids = torch.from_numpy(target_ids)
        draft_ids = torch.full((len(head),), -1, dtype=torch.int64)
        draft_ids[ids] = torch.arange(len(ids))
        return cls(head[ids].contiguous(), ids, draft_ids)

    def to(self, device: torch.device) -> Teacher:
        """The same on another device."""
        return Teacher(**{name: value.to(device) for name, value in vars(self).items()})

    def probs(self, states: Tensor, normalizers: Tensor) -> Tensor:
        """[M, V_d] of final states [M, D]; `normalizers` [M] are those of the whole vocabulary."""
        return ((states @ self.head.T).float() - normalizers[:, None]).exp()


@dataclass(frozen=True)
class Acceptance:
    """Counts over answers, to be added up. Depth 0 is the first drafted token.

    Attributes:
        num_columns: [K] places where the target's greedy path goes on that far.
        num_accepted: [K] those of them at which that token and all before it are the target's.
        overlap: sum of Σ min(p, q) of first tokens.
        num_overlaps: how many are summed.
    """

    num_columns: Tensor
    num_accepted: Tensor
    overlap: float
    num_overlaps: int

    def __add__(self, other: Acceptance) -> Acceptance:
        return Acceptance(
            self.num_columns + other.num_columns,
            self.num_accepted + other.num_accepted,
            self.overlap + other.overlap,
            self.num_overlaps + other.num_overlaps,
        )

    @property
    def rates(self) -> list[float]:
        """[K] accepted ÷ columns: how often a greedy draft is right up to each depth."""
        rates: list[float] = (self.num_accepted / self.num_columns.clamp(min=1)).tolist()
        return rates

    @property
    def mean_accepted_length(self) -> float:
        """Tokens a pass would deliver with chains of K, the target's own included."""
        return 1 + sum(self.rates)

    def to_dict(self) -> dict[str, Any]:
        """The rates, the mean overlap of first tokens (acceptance at temperature 1), the length."""
        return {
            "acceptance": [round(rate, 4) for rate in self.rates],
            "overlap": round(self.overlap / max(1, self.num_overlaps), 4),
            "mean_accepted_length": round(self.mean_accepted_length, 4),
        }


@dataclass(frozen=True, kw_only=True)
class TaskSettings(ABC):
    """What drafter is trained; each kind adds its own fields.

    Attributes:
        vocab: draft tokens, the most frequent of the answers; of a distilled model those whose
            logits it is trained on.
        loss: "ce", "kl" or "lk", see `losses.py`.
    """

    vocab: int = 8192
    loss: str = "kl"

    kind: ClassVar[str]

    def __post_init__(self) -> None:
        """Refuses values that have no meaning.

        Raises:
            ParameterError: names the value and what is allowed.
        """
        if self.vocab < 1:
            raise ParameterError(f"vocab = {self.vocab} cannot be used; it must be at least 1.")
        check_choice("loss", self.loss, tuple(LOSSES))

    @abstractmethod
    def layers_read(self, num_layers: int) -> tuple[int, ...]:
        """The target's states that the drafter reads (see `Batch.hidden_layers`), of L layers.

        Raises:
            ParameterError: the target has not such layers.
        """

    @abstractmethod
    def make_task(
        self, target: Checkpoint, target_ids: IntArray, hidden_layers: tuple[int, ...], seed: int
    ) -> Task:
        """The drafter with its first weights.

        Args:
            target: the model that it drafts for.
            target_ids: [V_d] tokens that it can draft, ascending.
            hidden_layers: whose states a batch has, the final one last.
            seed: of random first weights.

        Raises:
            ParameterError: settings and target do not fit together.
        """


class Task(ABC):
    """A drafter in training.

    Attributes:
        module: its parameters.
        num_depths: tokens that it drafts at each column, and whose acceptance is measured.
        num_trained: how many of them, from the first on, it learns from.
        first: column t drafts token t + first at depth 0, t + first + 1 at depth 1 and so on.
    """

    module: nn.Module
    num_depths: int
    num_trained: int
    first: int

    def __init__(self, teacher: Teacher, loss: str, decay: float) -> None:
        """Takes what all kinds need.

        Args:
            teacher: the target's law.
            loss: a key of `LOSSES`.
            decay: weight of each depth ÷ that of the one before.
        """
        self.teacher = teacher
        self._loss = LOSSES[loss]
        self._decay = decay

    @abstractmethod
    def outputs(self, batch: Batch) -> list[Tensor]:
        """For each depth what `logits` reads, [B, columns, ...], from column 0 on."""

    def trained(self, batch: Batch) -> list[tuple[Tensor, Tensor]]:
        """What it learns from: for each depth outputs [B, C, ...] and their columns [C], rising.

        All columns, if a kind does not say otherwise.
        """
        return [
            (output, torch.arange(output.shape[1], device=output.device))
            for output in self.outputs(batch)[: self.num_trained]
        ]

    @abstractmethod
    def logits(self, depth: int, rows: Tensor) -> Tensor:
        """[M, V_d] of rows [M, ...] of a depth's outputs."""

    @abstractmethod
    def export(self, folder: Path, provenance: Mapping[str, object]) -> None:
        """Writes what `--drafter` loads, with provenance.json beside it."""

    def to(self, device: torch.device) -> None:
        """Moves everything to a device."""
        self.module.to(device)
        self.teacher = self.teacher.to(device)

    def loss(self, batch: Batch) -> Tensor:
        """Mean over answer tokens, weighted over depths."""
        total, weights = torch.zeros((), device=batch.tokens.device), 0.0
        laws = _Laws(self.teacher, batch)
        for depth, (output, places) in enumerate(self.trained(batch)):
            columns, ahead = self._columns(batch, depth)
            places = places[places < columns.shape[1]]
            chosen = torch.zeros_like(columns)
            chosen[:, places] = columns[:, places]
            if not bool(chosen.any()):
                break
            logits = self.logits(depth, output[:, : len(places)][columns[:, places]]).float()
            losses = self._loss(logits, laws.probs(ahead, chosen), laws.true_ids(ahead, chosen))
            total = total + self._decay**depth * losses.mean()
            weights += self._decay**depth
        return total / max(weights, 1.0)

    @torch.no_grad()
    def acceptance(self, batch: Batch) -> Acceptance:
        """How far the batch's columns agree with the target, see `Acceptance`."""
        laws = _Laws(self.teacher, batch)
        num_columns, num_accepted = torch.zeros(2, self.num_depths, dtype=torch.int64)
        total, count = 0.0, 0
        alive = torch.ones_like(batch.is_answer)
        on_path = torch.ones_like(batch.is_answer)
        for depth, output in enumerate(self.outputs(batch)):
            columns, ahead = self._columns(batch, depth)
            width = columns.shape[1]
            # All tokens between must be the target's best, else its greedy path leads elsewhere.
            columns = columns & on_path[:, :width]
            logits = self.logits(depth, output[:, :width][columns])
            drafted = self.teacher.target_ids[logits.argmax(dim=-1)]
            hits = torch.zeros_like(columns)
            hits[columns] = drafted == batch.best[:, ahead:][columns]
            alive = alive[:, :width] & hits
            num_columns[depth] = int(columns.sum())
            num_accepted[depth] = int(alive.sum())
            if depth == 0:
                shares = overlap(logits, laws.probs(ahead, columns))
                total, count = float(shares.sum()), len(shares)
            on_path = columns & (batch.tokens == batch.best)[:, ahead:]
        return Acceptance(num_columns, num_accepted, total, count)

    def _columns(self, batch: Batch, depth: int) -> tuple[Tensor, int]:
        """[B, N − ahead] which columns have a token to predict, and how far ahead it lies."""
        ahead = self.first + depth
        return batch.is_answer[:, ahead:], ahead


class _Laws:
    """The target's laws of a batch's answer tokens, computed once and used at every depth."""

    def __init__(self, teacher: Teacher, batch: Batch) -> None:
        # The law of token u is that after token u − 1; token 0 has none.
        chosen = batch.is_answer[:, 1:]
        states = batch.hidden[:, :, -1][chosen]
        with torch.no_grad():
            self._probs = teacher.probs(states, batch.normalizers[:, 1:][chosen])
        self._rows = torch.full_like(batch.tokens, -1)
        self._rows[:, 1:][chosen] = torch.arange(len(states), device=states.device)
        self._true_ids = teacher.draft_ids[batch.tokens]

    def probs(self, ahead: int, columns: Tensor) -> Tensor:
        """[M, V_d] for the tokens `ahead` of the chosen columns."""
        return self._probs[self._rows[:, ahead:][columns]]

    def true_ids(self, ahead: int, columns: Tensor) -> Tensor:
        """[M] draft ids of those tokens."""
        return self._true_ids[:, ahead:][columns]


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Refuses a name that is not among the choices.

    Raises:
        ParameterError: it is not.
    """
    if value not in choices:
        raise ParameterError(
            f"{name} = {value!r} is not known; choose one of: {', '.join(choices)}."
        )


def check_decay(decay: float) -> None:
    """Refuses a weight that would make later depths count more, or nothing.

    Raises:
        ParameterError: it is not above 0 and at most 1.
    """
    if not 0 < decay <= 1:
        raise ParameterError(f"decay = {decay} cannot be used; it must be above 0 and at most 1.")
