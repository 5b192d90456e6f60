"""From the words after "self:" to a drafter that is made of the target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from oneglance.checkpoints.base import Checkpoint
from oneglance.checkpoints.low_bit import layer_share
from oneglance.config import EngineConfig
from oneglance.drafters.base import Drafter
from oneglance.drafters.draft_model import DraftModelDrafter
from oneglance.drafters.layer_search import LayerSearch, evenly_spaced
from oneglance.drafters.self_lowbit import MIN_CONFIDENCE, low_bit_copy
from oneglance.drafters.self_part import PartDrafter
from oneglance.drafters.self_skip import SearchingDrafter
from oneglance.drafters.skipped_layers import known_layers
from oneglance.engine.base import Engine, PassLayers
from oneglance.errors import ParameterError, UnsupportedError
from oneglance.types import ProgressCallback


@dataclass(frozen=True)
class Itself:
    """A target that drafts for itself.

    Attributes:
        checkpoint: the model.
        engine: what it runs on.
        make_engine: puts another checkpoint on an engine.
        engine_config: how engines are sized.
        progress: told about long work.
    """

    checkpoint: Checkpoint
    engine: Engine
    make_engine: Callable[[Checkpoint], Engine]
    engine_config: EngineConfig
    progress: ProgressCallback | None = None

    @property
    def vocab_size(self) -> int:
        """Width of the target's law."""
        return self.checkpoint.tokenizer.vocab_size


def make_self_drafter(argument: str, target: Itself) -> Drafter[Any]:
    """Makes a drafter of the family self.

    Args:
        argument: "lowbit", "skip", "skip:LAYER,LAYER,..." or "exit:LAYERS".
        target: what it drafts for.

    Raises:
        ParameterError: no such way, or layers that the model does not have.
        UnsupportedError: it cannot pay for this target, or the target is too small for it.
    """
    way, _, detail = argument.partition(":")
    if way == "lowbit":
        return _low_bit(detail, target)
    if way == "skip":
        return _skip(detail, target)
    if way == "exit":
        return _exit(detail, target)
    raise ParameterError(
        f"The drafter self:{argument} does not exist; write self:lowbit, self:skip, "
        "self:skip:LAYER,LAYER or self:exit:LAYERS."
    )


def _low_bit(detail: str, target: Itself) -> Drafter[Any]:
    if detail:
        raise ParameterError(f"The drafter self:lowbit takes no argument; leave out {detail!r}.")
    form = target.engine_config.weights
    copy = low_bit_copy(target.checkpoint, form, target.progress)
    engine = target.make_engine(copy)
    return DraftModelDrafter(
        engine,
        target.vocab_size,
        "self:lowbit",
        target.engine_config,
        min_confidence=MIN_CONFIDENCE,
    )


def _skip(detail: str, target: Itself) -> Drafter[Any]:
    config = target.checkpoint.config
    if detail:
        layers: tuple[int, ...] | None = _parse_layers(detail, config.num_layers)
    else:
        layers = known_layers(config)
    if layers is not None:
        return _part(f"self:skip:{_listed(layers)}", PassLayers(skipped_layers=layers), target)
    if config.num_layers < 3:
        raise UnsupportedError(
            f"self:skip keeps the first and the last layer, and {target.checkpoint.name!r} has "
            f"only {config.num_layers}; choose another drafter."
        )
    start = evenly_spaced(config.num_layers)
    cost = layer_share(target.checkpoint.weights, target.engine_config.weights)
    search = LayerSearch(start, config.num_layers, cost)
    return SearchingDrafter(
        target.engine, target.vocab_size, search, engine_config=target.engine_config
    )


def _exit(detail: str, target: Itself) -> Drafter[Any]:
    num_layers = target.checkpoint.config.num_layers
    if not detail:
        # Published LayerSkip checkpoints are ordinary ones: nothing in them says so, nor where.
        raise ParameterError(
            "The drafter self:exit needs the number of layers after which the draft leaves the "
            "model, since no checkpoint says what it was trained for; write self:exit:LAYERS, "
            f"with 1 to {num_layers - 1} for this model."
        )
    if not detail.isdecimal() or not 1 <= int(detail) < num_layers:
        raise ParameterError(
            f"self:exit:{detail} cannot be used; write a number of layers from 1 to "
            f"{num_layers - 1}, fewer than the {num_layers} that the model has."
        )
    return _part(f"self:exit:{int(detail)}", PassLayers(num_layers=int(detail)), target)


def _part(name: str, layers: PassLayers, target: Itself) -> Drafter[Any]:
    return PartDrafter(target.engine, target.vocab_size, layers, name, target.engine_config)


def _parse_layers(text: str, num_layers: int) -> tuple[int, ...]:
    parts = text.split(",")
    layers = sorted({int(part) for part in parts if part.isdecimal()})
    are_numbers = len(layers) == len(parts)
    if not are_numbers or layers[-1] >= num_layers or len(layers) == num_layers:
        raise ParameterError(
            f"self:skip:{text} cannot be used; write different layers from 0 to {num_layers - 1}, "
            "such as self:skip:3,5, and not all of them."
        )
    return tuple(layers)


def _listed(layers: tuple[int, ...]) -> str:
    return ",".join(str(layer) for layer in layers)
