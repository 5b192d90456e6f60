"""The state of a training on disk: whole at any moment, and refused by any other training."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from oneglance.checkpoints.sources.files import sync
from oneglance.errors import CheckpointError, ParameterError
from oneglance.train.answers import UNFINISHED

STATE_FILE = "state.pt"


def write_state(folder: Path, identity: Mapping[str, object], state: Mapping[str, Any]) -> None:
    """Writes a state in place of the one before.

    Args:
        folder: made if it is missing.
        identity: what decides the result, as JSON values.
        state: tensors, numbers, lists and mappings of them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / STATE_FILE
    unfinished = path.with_name(path.name + UNFINISHED)
    torch.save({"identity": json.dumps(identity), **state}, unfinished)
    sync(unfinished)
    unfinished.replace(path)
    sync(folder)


def read_state(folder: Path, identity: Mapping[str, object]) -> dict[str, Any] | None:
    """The state of a folder; None if there is none.

    Args:
        folder: where `write_state` has written.
        identity: must be that of the state.

    Raises:
        ParameterError: the state is of a training with other settings.
        CheckpointError: it cannot be read.
    """
    path = folder / STATE_FILE
    if not path.exists():
        return None
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        found = json.loads(state.pop("identity"))
    except Exception as error:  # whatever a damaged file raises
        raise CheckpointError(
            f"{str(path)!r} is not a sound state of a training; remove it to begin again."
        ) from error
    for name, value in json.loads(json.dumps(identity)).items():
        if found.get(name) != value:
            raise ParameterError(
                f"The training in {str(folder)!r} was begun with {name} = {found.get(name)!r}, not "
                f"{value!r}; name another folder, or the same values."
            )
    return state
