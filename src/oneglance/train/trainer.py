"""The training loop: stops early, resumes after a kill, and ends at the same weights either way.

Nothing in a step draws random numbers: the order of the data is a function of (seed, epoch), and
the first weights are in the state file from the start. So the state is the weights, the moments
of the optimiser, and the number of the step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from oneglance.train.batch import Batch, make_batch
from oneglance.train.collection import Collection, batches
from oneglance.train.interrupts import deferred_interrupt
from oneglance.train.plan import TrainingPlan
from oneglance.train.state import read_state, write_state
from oneglance.train.task import Acceptance, Task
from oneglance.types import IntArray, ProgressCallback

STAGE = "train"
BETAS = (0.9, 0.95)
LAST_SHARE = 0.1
"""Learning rate of the last step ÷ the highest."""


@dataclass
class _Best:
    """The evaluation with the highest mean accepted length."""

    step: int = -1
    length: float = 0.0
    weights: dict[str, Tensor] = field(default_factory=dict)


class Trainer:
    """Trains a task on a collection, in a folder that holds its state.

    Attributes:
        task: what is trained.
        step: steps done.
        curve: what each evaluation found, in order.
    """

    def __init__(
        self,
        task: Task,
        collection: Collection,
        plan: TrainingPlan,
        folder: Path,
        identity: Mapping[str, object],
    ) -> None:
        """Goes on where the folder's state says, or begins.

        Args:
            task: with its first weights.
            collection: answers to learn from and to evaluate on.
            plan: how.
            folder: for the state, made if it is missing.
            identity: what else decides the result, as JSON values.

        Raises:
            ParameterError: the folder has the state of another training, or there are too few
                answers.
            CheckpointError: the state cannot be read.
        """
        self.task = task
        self.step = 0
        self.curve: list[dict[str, Any]] = []
        self._collection = collection
        self._plan = plan
        self._folder = folder
        self._identity = {**asdict(plan), **identity, "num_answers": len(collection)}
        self._train, held_out = collection.split(plan.held_out)
        self._held_out = _to_evaluate(collection, held_out, plan.max_held_out)
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        task.to(self._device)
        self._optimizer = _make_optimizer(task, plan)
        self._best = _Best()
        self._order = _Order(collection.lengths, self._train, plan)
        self._restore()

    @property
    def num_steps(self) -> int:
        """Steps in all, unless training stops early."""
        return self._plan.epochs * self._order.num_batches

    def run(self, progress: ProgressCallback | None = None) -> None:
        """Trains to the end, and leaves the task with the best weights.

        Ctrl-C lets the step end, writes the state and then interrupts.

        Args:
            progress: told how many steps are done.
        """
        report = progress or (lambda *_: None)
        with deferred_interrupt() as is_interrupted:
            if not self.curve:
                self._evaluate(None)  # what it begins from may be good already
                self._save()
            while not self._is_over():
                loss = self._advance()
                is_last = self.step == self.num_steps
                if self.step % self._plan.evaluate_every == 0 or is_last:
                    self._evaluate(loss)
                    self._save()
                report(self._stage(), self.step, self.num_steps)
                if is_interrupted():
                    self._save()
                    raise KeyboardInterrupt
        self.task.module.load_state_dict(self._best.weights)

    def measure(self, items: IntArray | None = None) -> Acceptance:
        """How far the task agrees with the target.

        Args:
            items: answers of the collection; None: those that are held out.
        """
        every = self._held_out if items is None else items
        plan = self._plan
        groups = batches(
            self._collection.lengths, every, plan.batch_tokens, plan.max_length, [plan.seed]
        )
        counts = [self.task.acceptance(self._batch(group)) for group in groups]
        return sum(counts[1:], start=counts[0])

    def _advance(self) -> float:
        """One step; returns its loss."""
        for group in self._optimizer.param_groups:
            group["lr"] = self._rate()
        batch = self._batch(self._order.group(self.step))
        is_bf16 = self._plan.precision == "bf16"
        with torch.autocast(self._device.type, torch.bfloat16, enabled=is_bf16):
            loss = self.task.loss(batch)
        self._optimizer.zero_grad(set_to_none=True)
        if loss.requires_grad:  # a group may have no token to predict
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(self.task.module.parameters(), self._plan.clip)
            self._optimizer.step()
        self.step += 1
        return float(loss.detach())

    def _evaluate(self, loss: float | None) -> None:
        found = self.measure()
        rounded = None if loss is None else round(loss, 4)
        self.curve.append({"step": self.step, "loss": rounded, **found.to_dict()})
        if found.mean_accepted_length > self._best.length:
            weights = self.task.module.state_dict()
            copies = {name: value.detach().clone() for name, value in weights.items()}
            self._best = _Best(self.step, found.mean_accepted_length, copies)

    def _is_over(self) -> bool:
        num_worse = sum(point["step"] > self._best.step for point in self.curve)
        return self.step >= self.num_steps or num_worse >= self._plan.patience

    def _stage(self) -> str:
        if not self.curve:
            return STAGE
        return f"{STAGE}, first-token acceptance {self.curve[-1]['acceptance'][0]:.3f}"

    def _rate(self) -> float:
        plan = self._plan
        if self.step < plan.warmup_steps:
            return plan.learning_rate * (self.step + 1) / plan.warmup_steps
        share = (self.step - plan.warmup_steps) / max(1, self.num_steps - plan.warmup_steps)
        fall = (1 - LAST_SHARE) * (1 + math.cos(math.pi * share)) / 2
        return plan.learning_rate * (LAST_SHARE + fall)

    def _batch(self, group: IntArray) -> Batch:
        items = [self._collection.item(index) for index in group.tolist()]
        return make_batch(items, self._plan.max_length).to(self._device)

    def _save(self) -> None:
        state = {
            "step": self.step,
            "curve": self.curve,
            "best": vars(self._best),
            "module": self.task.module.state_dict(),
            "optimizer": self._optimizer.state_dict(),
        }
        write_state(self._folder, self._identity, state)

    def _restore(self) -> None:
        state = read_state(self._folder, self._identity)
        if state is None:
            self._save()
            return
        self.step, self.curve = state["step"], state["curve"]
        self._best = _Best(**state["best"])
        self.task.module.load_state_dict(state["module"])
        self._optimizer.load_state_dict(state["optimizer"])


class _Order:
    """Which answers a step takes; holds the order of one epoch at a time."""

    def __init__(self, lengths: IntArray, items: IntArray, plan: TrainingPlan) -> None:
        self._lengths = lengths
        self._items = items
        self._plan = plan
        self._epoch = 0
        self._groups = self._of(0)
        self.num_batches = len(self._groups)

    def group(self, step: int) -> IntArray:
        epoch, index = divmod(step, self.num_batches)
        if epoch != self._epoch:
            self._epoch, self._groups = epoch, self._of(epoch)
        # Which answers meet decides how many groups there are: a few more or less, in some epochs.
        return self._groups[index % len(self._groups)]

    def _of(self, epoch: int) -> list[IntArray]:
        plan = self._plan
        seed = (plan.seed, epoch)
        return batches(self._lengths, self._items, plan.batch_tokens, plan.max_length, seed)


def _to_evaluate(collection: Collection, held_out: IntArray, count: int) -> IntArray:
    """The first greedy answers that are held out; sampled ones where there are no greedy ones."""
    greedy = held_out[collection.is_greedy[held_out]]
    return (greedy if len(greedy) else held_out)[:count]


def _make_optimizer(task: Task, plan: TrainingPlan) -> torch.optim.AdamW:
    """AdamW; vectors (norms, biases) do not decay."""
    parameters = [each for each in task.module.parameters() if each.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": plan.weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=plan.learning_rate, betas=BETAS)
