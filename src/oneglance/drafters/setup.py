"""What the makers of drafters are given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from oneglance.checkpoints.base import Checkpoint
from oneglance.config import EngineConfig
from oneglance.drafters.hybrid import MakePolicy
from oneglance.engine.base import Engine
from oneglance.heads.shipped import HeadKind, shipped_heads
from oneglance.types import ProgressCallback


@dataclass(frozen=True)
class DrafterSetup:
    """What a drafter may need when it is made.

    Attributes:
        target: the model that it drafts for.
        target_engine: what that runs on.
        load_checkpoint: reads another model by name or path.
        make_engine: puts a checkpoint on an engine.
        engine_config: how engines are sized.
        local_drafts: models on this machine that are known to draft well for one of that name.
        make_length: makes the length policy of one part of a hybrid.
        progress: told about long work.
        shipped_heads: the folder of trained heads of a kind that come with the package for a
            target; None where there are none.
    """

    target: Checkpoint
    target_engine: Engine
    load_checkpoint: Callable[[str], Checkpoint]
    make_engine: Callable[[Checkpoint], Engine]
    engine_config: EngineConfig
    local_drafts: Callable[[str], Sequence[str]]
    make_length: MakePolicy
    progress: ProgressCallback | None = None
    shipped_heads: Callable[[HeadKind, Checkpoint], Path | None] = shipped_heads
