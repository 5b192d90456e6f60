"""The drafters of a loaded target: made when first asked for, and what is learned of them."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from oneglance.checkpoints import load_checkpoint
from oneglance.checkpoints.base import Checkpoint
from oneglance.checkpoints.catalog import local_drafts, resolve
from oneglance.config import EngineConfig
from oneglance.control.cost import PassCosts
from oneglance.control.length import Control
from oneglance.control.part import PartLength
from oneglance.drafters.base import Drafter
from oneglance.drafters.factory import make_drafter
from oneglance.drafters.setup import DrafterSetup
from oneglance.engine.base import Engine
from oneglance.engine.factory import make_engine
from oneglance.types import ProgressCallback


class DrafterSet:
    """Drafters by name. Those that use the same model share its weights."""

    def __init__(
        self,
        target: Checkpoint,
        target_engine: Engine,
        engine_config: EngineConfig,
        progress: ProgressCallback | None = None,
    ) -> None:
        """Makes nothing yet.

        Args:
            target: the model to draft for.
            target_engine: what it runs on.
            engine_config: how the engines of draft models are sized.
            progress: told about long work.
        """
        self._setup = DrafterSetup(
            target=target,
            target_engine=target_engine,
            load_checkpoint=lambda model: read_model(model, progress),
            make_engine=self._engine_of,
            engine_config=engine_config,
            local_drafts=local_drafts,
            make_length=self._part_length,
            progress=progress,
        )
        self._pass_costs = PassCosts(attention_share=target.config.attention_share)
        self._drafters: dict[str, Drafter[Any]] = {}
        self._engines: dict[str, Engine] = {}
        self._controls: dict[str, Control] = {}

    def get(self, spec: str | Drafter[Any]) -> Drafter[Any]:
        """The drafter of that name, made at its first use and then kept; or the user's own.

        Raises:
            OneglanceError: it cannot be made; the message says why.
        """
        if isinstance(spec, Drafter):
            return spec
        if spec not in self._drafters:
            self._drafters[spec] = make_drafter(spec, self._setup)
        return self._drafters[spec]

    def control(self, drafter: Drafter[Any], role: str = "") -> Control:
        """What was learned of a drafter; passes of the target cost the same with all of them.

        Args:
            drafter: one of this set, or the user's own.
            role: set apart from what was learned of it elsewhere.
        """
        key = f"{drafter.name} {role}"
        if key not in self._controls:
            share = drafter.own_weights / self._setup.target.config.num_weights()
            self._controls[key] = Control.of_drafter(self._pass_costs, share)
        return self._controls[key]

    def _part_length(self, part: Drafter[Any], num_prompt: int) -> PartLength:
        return PartLength(self.control(part, "as a part"), num_prompt)

    def close(self) -> None:
        """Ends the drafters and forgets them, with them the draft models' weights.

        Raises:
            ParameterError: one could not save what it keeps; the others are ended all the same.
        """
        with ExitStack() as endings:
            endings.callback(self._engines.clear)
            for drafter in self._drafters.values():
                endings.callback(drafter.shutdown)
            self._drafters.clear()

    def _engine_of(self, checkpoint: Checkpoint) -> Engine:
        if checkpoint.name not in self._engines:
            self._engines[checkpoint.name] = make_engine(
                checkpoint.config,
                checkpoint.weights,
                self._setup.engine_config,
                self._setup.progress,
            )
        return self._engines[checkpoint.name]


def read_model(model: str, progress: ProgressCallback | None = None) -> Checkpoint:
    """A model by name or path, fetched if need be.

    Raises:
        OneglanceError: it is unknown, cannot be fetched or cannot be read.
    """
    return load_checkpoint(resolve(model, progress), name=model, progress=progress)
