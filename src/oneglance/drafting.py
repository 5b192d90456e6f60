"""The drafters of a loaded target: made when first asked for, and what is learned of them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from importlib.metadata import version
from time import perf_counter
from typing import Any

from oneglance.checkpoints import load_checkpoint
from oneglance.checkpoints.base import Checkpoint
from oneglance.checkpoints.catalog import local_drafts, resolve
from oneglance.config import EngineConfig, SamplingParams
from oneglance.control.calibration import Calibration, CalibrationFile
from oneglance.control.cost import PassCosts
from oneglance.control.draft_cost import DraftCosts, DraftPrice
from oneglance.control.length import Control
from oneglance.control.measure import measure_passes
from oneglance.control.part import PartLength
from oneglance.drafters.base import DraftContext, Drafter, DraftRequest
from oneglance.drafters.factory import make_drafter
from oneglance.drafters.hybrid import HybridDrafter
from oneglance.drafters.setup import DrafterSetup
from oneglance.engine.base import Engine
from oneglance.engine.factory import make_engine
from oneglance.environment import read_environment
from oneglance.errors import ParameterError
from oneglance.machine import cpu_name, num_cores
from oneglance.sampling.noise import SequentialNoise
from oneglance.types import ProgressCallback

_ROW_SHARE = 0.2
"""What a further row is expected to cost, in passes of one row, before any was timed: a little too
much for a few rows, so that long drafts are not tried before shorter ones have paid."""
_TEXT = """def count(words):
    table = {}
    for word in words:
        table[word] = table.get(word, 0) + 1
    return table
"""
"""What is read and drafted for where costs are measured; any text would do."""
_DRAFT_LENGTHS = (4, 1, 8, 2, 6, 3, 8, 1, 4)


class DrafterSet:
    """Drafters by name. Those that use the same model share its weights.

    Attributes:
        pass_costs: of the target, whoever drafts for it.
    """

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
            # A draft model holds no more than the target does, so that its cache may grow; were it
            # full, drafts would have to be dropped, for what they came to.
            engine_config=replace(engine_config, num_pages=None),
            local_drafts=local_drafts,
            make_length=self._part_length,
            progress=progress,
        )
        self._file = calibration_file(target, target_engine)
        self._measured = self._file.read()
        self.pass_costs = PassCosts(_ROW_SHARE, target.config.attention_share)
        if self._measured is not None:
            self._measured.apply(self.pass_costs)
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
            share = drafter.own_bytes / self._setup.target_engine.pass_bytes
            prices = {} if self._measured is None else self._measured.drafts
            measured = prices.get(drafter.name)
            self._controls[key] = Control.of_drafter(self.pass_costs, share, measured)
        return self._controls[key]

    def calibrate(self, spec: str | Drafter[Any], budget_seconds: float) -> Calibration:
        """Measures passes, and the models that draft, and keeps that for the next run.

        What is asked for afterwards begins from it; requests under way go on as they are.

        Args:
            spec: whose models are measured beside the target.
            budget_seconds: about how long to measure.

        Raises:
            OneglanceError: the drafter cannot be made, or the file cannot be written.
        """
        drafter = self.get(spec)
        parts = drafter.parts if isinstance(drafter, HybridDrafter) else (drafter,)
        models = [part for part in parts if part.own_bytes > 0]
        share = 0.7 if models else 1.0
        target, tokens = self._setup.target, self._setup.target.tokenizer.encode(_TEXT)
        times = measure_passes(self._setup.target_engine, tokens, share * budget_seconds)
        measured = times.calibration(target.config.attention_share)
        each = (1.0 - share) * budget_seconds / max(len(models), 1)
        one_row = measured.seconds[0]
        drafts = {
            part.name: draft_price(part, tokens, each).times(1.0 / one_row) for part in models
        }
        self._measured = replace(measured, drafts=drafts)
        try:
            self._file.write(self._measured)
        except OSError as error:
            raise ParameterError(
                f"The calibration cannot be written to {str(self._file.path)!r} ({error}); "
                "make that folder writable, or name another one with ONEGLANCE_CACHE."
            ) from None
        self._measured.apply(self.pass_costs)
        self._controls.clear()
        return self._measured

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


def calibration_file(target: Checkpoint, engine: Engine) -> CalibrationFile:
    """Where it is kept what this model costs on this engine and machine."""
    files = [target.path] if target.path.is_file() else sorted(target.path.glob("*"))
    info = engine.info
    key: dict[str, str | int] = {
        "cpu": cpu_name(),
        "cores": num_cores(),
        "oneglance": version("oneglance"),
        "engine": info.kind,
        "isa": info.isa or "",
        "threads": info.num_threads,
        "weights": info.weights,
        "model": target.name,
        "bytes": sum(file.stat().st_size for file in files if file.is_file()),
        "quantization": target.quantization_summary(),
    }
    return CalibrationFile(read_environment().calibrations_dir, key)


def draft_price(drafter: Drafter[Any], prompt: Sequence[int], budget_seconds: float) -> DraftPrice:
    """Seconds of drafting, from calls of several lengths behind a prompt.

    Args:
        drafter: one that drafts without the target's help.
        prompt: token ids of any text.
        budget_seconds: no call begins after this, but for the first three.
    """
    costs = DraftCosts()
    started = perf_counter()
    session = drafter.start(DraftContext(tuple(prompt), SamplingParams(), SequentialNoise(0)))
    try:
        num_unseen = len(prompt)
        for number, length in enumerate(_DRAFT_LENGTHS):
            before = perf_counter()
            if number >= 3 and before - started > budget_seconds:
                break
            draft = drafter.propose([DraftRequest(session, length)])[0]
            costs.note(draft.max_depth, perf_counter() - before, num_unseen)
            # As though the target had drawn a token of its own: one is to be caught up with.
            drafter.observe(session, [prompt[number % len(prompt)]])
            num_unseen = 1
    finally:
        drafter.close(session)
    return costs.price


def read_model(model: str, progress: ProgressCallback | None = None) -> Checkpoint:
    """A model by name or path, fetched if need be.

    Raises:
        OneglanceError: it is unknown, cannot be fetched or cannot be read.
    """
    return load_checkpoint(resolve(model, progress), name=model, progress=progress)
