"""The whole way: collect answers, choose the vocabulary, train, write the drafter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from oneglance.checkpoints.base import Checkpoint
from oneglance.config import EngineConfig
from oneglance.drafting import read_model
from oneglance.errors import ParameterError
from oneglance.llm import load
from oneglance.train.answers import MANIFEST, locked, read_manifest
from oneglance.train.collect import CollectionPlan, CollectionReport, collect, fingerprint
from oneglance.train.collection import Collection, frequent_tokens
from oneglance.train.plan import TrainingPlan
from oneglance.train.prompts import check_prompts
from oneglance.train.provenance import provenance
from oneglance.train.task import TaskSettings
from oneglance.train.trainer import Trainer
from oneglance.types import ProgressCallback

TRAINING_DIR = "training"


@dataclass(frozen=True)
class TrainingJob:
    """What `oneglance train` was asked for.

    Attributes:
        model: name or path of the target.
        settings: the drafter.
        training: how it is trained.
        answers: folder of the target's answers.
        more_answers: further ones, that are only learned from.
        out: folder for the drafter, and in it the state of the training.
        collection: what to collect first; None: the answers that are there are enough.
        engine: what collects them; its number of threads is that of training too.
        command: as it was run, for the provenance.
        machine: facts for the provenance.
    """

    model: str
    settings: TaskSettings
    training: TrainingPlan
    answers: Path
    out: Path
    more_answers: tuple[Path, ...]
    collection: CollectionPlan | None
    engine: EngineConfig
    command: str
    machine: Mapping[str, object]


def collect_answers(
    job: TrainingJob, progress: ProgressCallback | None = None
) -> CollectionReport | None:
    """Collects what is still lacking; None if nothing was asked for.

    Raises:
        OneglanceError: see `collect`.
    """
    if job.collection is None:
        return None
    check_prompts(job.collection.prompts)
    with load(job.model, "none", engine_config=job.engine, progress=progress) as llm:
        layers = _layers_to_keep(job, llm.engine.config.num_layers)
        return collect(llm, job.collection, layers, job.answers, progress)


def train(job: TrainingJob, progress: ProgressCallback | None = None) -> dict[str, Any]:
    """Trains on the answers that are there, or goes on with it, and writes the drafter.

    Returns:
        The provenance of what was written.

    Raises:
        OneglanceError: the answers are another target's or too few, or settings do not fit.
    """
    if job.engine.num_threads is not None:
        torch.set_num_threads(job.engine.num_threads)
    target = read_model(job.model, progress)
    collection = Collection(job.answers, *job.more_answers)
    _check_answers(job, target, collection)
    with locked(job.out):
        trainer = make_trainer(job, target, collection)
        trainer.run(progress)
        facts = provenance(
            job.command,
            job.machine,
            target.name,
            job.settings,
            job.training,
            collection,
            trainer,
        )
        trainer.task.export(job.out, facts)
    return facts


def make_trainer(job: TrainingJob, target: Checkpoint, collection: Collection) -> Trainer:
    """A trainer at its beginning, or where it was stopped.

    Raises:
        OneglanceError: as `train`.
    """
    items, _ = collection.split(job.training.held_out)
    counts = collection.token_counts(items, target.tokenizer.vocab_size)
    task = job.settings.make_task(
        target,
        frequent_tokens(counts, job.settings.vocab),
        collection.hidden_layers,
        job.training.seed,
    )
    identity = {
        "kind": job.settings.kind,
        **asdict(job.settings),
        "collection": collection.manifest,
    }
    return Trainer(task, collection, job.training, job.out / TRAINING_DIR, identity)


def _layers_to_keep(job: TrainingJob, num_layers: int) -> tuple[int, ...]:
    """The final state and what the drafter reads; all that is kept already, if that has these."""
    needed = {*job.settings.layers_read(num_layers), num_layers}
    for folder in (job.answers, *job.more_answers):
        if (folder / MANIFEST).exists():
            kept = tuple(read_manifest(folder)["hidden_layers"])
            return kept if needed <= set(kept) else tuple(sorted(needed))
    return tuple(sorted(needed))


def _check_answers(job: TrainingJob, target: Checkpoint, collection: Collection) -> None:
    if collection.manifest["target"] != fingerprint(target):
        raise ParameterError(
            f"The answers in {str(job.answers)!r} are of another model than {job.model!r}; name "
            "their model, or collect others."
        )
    lacking = set(job.settings.layers_read(target.config.num_layers)) - set(
        collection.hidden_layers
    )
    if lacking:
        raise ParameterError(
            f"The answers in {str(job.answers)!r} lack the states of layer {min(lacking)}; collect "
            "them into another folder, or read other layers."
        )
