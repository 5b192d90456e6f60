"""Where a trained drafter comes from: what was run, on what, and how it went."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from oneglance import __version__
from oneglance.heads.folder import PROVENANCE_FILE
from oneglance.train.collection import Collection
from oneglance.train.eagle_init import LAST_LAYER, RANDOM
from oneglance.train.plan import TrainingPlan
from oneglance.train.task import TaskSettings
from oneglance.train.trainer import Trainer


def provenance(
    command: str,
    machine: Mapping[str, object],
    target_name: str,
    settings: TaskSettings,
    plan: TrainingPlan,
    collection: Collection,
    trainer: Trainer,
) -> dict[str, Any]:
    """The facts without which a drafter cannot be made again or compared.

    Args:
        command: what was run.
        machine: program, libraries, system.
        target_name: the model that it drafts for.
        settings: of the drafter.
        plan: of the training.
        collection: the answers; its manifest has the hashes of the prompts.
        trainer: when it has ended.
    """
    lengths = collection.lengths
    facts = {
        **machine,
        "command": command,
        "date": datetime.now(UTC).date().isoformat(),
        "oneglance": __version__,
        "torch": torch.__version__,
        "kind": settings.kind,
        "target": target_name,
        "settings": asdict(settings),
        **_begun_from(settings),
        "training": asdict(plan),
        "collection": {
            **collection.manifest,
            "num_answers": len(collection),
            "num_tokens_with_prompts": int(lengths.sum()),
            "num_greedy": int(collection.is_greedy.sum()),
        },
        "num_steps": trainer.step,
        "held_out": trainer.measure().to_dict(),
        "curve": trainer.curve,
    }
    whole: dict[str, Any] = json.loads(json.dumps(facts))
    return whole


def _begun_from(settings: TaskSettings) -> dict[str, Any]:
    """Where a head was gone on with: its own provenance, and its folder's name alone."""
    init = getattr(settings, "init", None)
    if init is None or init in (RANDOM, LAST_LAYER):
        return {}
    path = Path(init) / PROVENANCE_FILE
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
    return {"settings": {**asdict(settings), "init": path.parent.name}, "begun_from": before}
