"""From the words after `--drafter` to a drafter. A new family is one file and one line here."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from oneglance.checkpoints.base import Checkpoint
from oneglance.config import EngineConfig
from oneglance.drafters.auto import auto_parts
from oneglance.drafters.base import Drafter
from oneglance.drafters.cascade import CascadeDrafter
from oneglance.drafters.draft_model import DraftModelDrafter
from oneglance.drafters.hybrid import HybridDrafter, PartPolicy
from oneglance.drafters.lookahead import LookaheadDrafter, parse_shape
from oneglance.drafters.ngram import NgramDrafter
from oneglance.drafters.none import NoDrafter
from oneglance.drafters.predicted import PredictedDrafter, read_prediction
from oneglance.drafters.self_factory import Itself, make_self_drafter
from oneglance.drafters.spec import split_spec
from oneglance.engine.base import Engine
from oneglance.engine.native import why_unavailable
from oneglance.errors import ParameterError, UnsupportedError
from oneglance.registry import Registry
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
        make_length: makes the length policy of one part of a hybrid, for one request.
        progress: told about long work.
    """

    target: Checkpoint
    target_engine: Engine
    load_checkpoint: Callable[[str], Checkpoint]
    make_engine: Callable[[Checkpoint], Engine]
    engine_config: EngineConfig
    local_drafts: Callable[[str], Sequence[str]]
    make_length: Callable[[str], PartPolicy]
    progress: ProgressCallback | None = None


DrafterFactory = Callable[[str, DrafterSetup], Drafter[Any]]
"""Makes a drafter from the text after the colon ("" if there is none) and the setup."""

DRAFTERS: Registry[DrafterFactory] = Registry("drafter")


def make_drafter(spec: str, setup: DrafterSetup) -> Drafter[Any]:
    """Makes the drafter that `spec` names, such as "ngram", "draft:MODEL" or "ngram+draft:MODEL".

    Raises:
        ParameterError: no such drafter, or an argument that it does not take or lacks.
        UnsupportedError: the drafter cannot work with this target.
    """
    drafters = [DRAFTERS.get(part.name)(part.argument, setup) for part in split_spec(spec)]
    return drafters[0] if len(drafters) == 1 else HybridDrafter(drafters, setup.make_length)


def _without_argument(name: str, make: Callable[[], Drafter[Any]]) -> None:
    def factory(argument: str, _setup: DrafterSetup) -> Drafter[Any]:
        if argument:
            raise ParameterError(f"The drafter {name} takes no argument; leave out {argument!r}.")
        return make()

    DRAFTERS.register(name, factory)


def _auto(argument: str, setup: DrafterSetup) -> Drafter[Any]:
    if argument:
        raise ParameterError(f"The drafter auto takes no argument; leave out {argument!r}.")
    target = setup.target
    lookup = "suffix" if why_unavailable() is None else "ngram"
    drafts = setup.local_drafts(target.name)
    parts = auto_parts(target, setup.engine_config.weights, drafts, lookup)
    return make_drafter("+".join(parts), setup)


def _draft_model(argument: str, setup: DrafterSetup) -> Drafter[Any]:
    if not argument:
        raise ParameterError("The drafter draft needs a model; write draft:MODEL.")
    draft = _load_draft(argument, setup)
    return DraftModelDrafter(
        setup.make_engine(draft),
        vocab_size=setup.target.tokenizer.vocab_size,
        name=f"draft:{draft.name}",
        engine_config=setup.engine_config,
    )


def _cascade(argument: str, setup: DrafterSetup) -> Drafter[Any]:
    """Each model is drafted for by what stands before it, so the last one drafts for the target."""
    inner_spec, *models = re.split(r",(?=draft:)", argument)
    names = [part.name for part in split_spec(inner_spec)]
    if not inner_spec or not models or "draft:" in models or len(names) > 1:
        raise ParameterError(
            f"The drafter cascade cannot be made of {argument!r}; write "
            "cascade:INNER,draft:MODEL, where INNER is one other drafter."
        )
    for name in ("auto", "cascade", "none", "self"):
        if name in names:
            raise ParameterError(
                f"The drafter {name} cannot draft for a draft model; choose another one as the "
                f"first of cascade:{argument}, such as ngram or draft:MODEL."
            )
    checkpoints = [_load_draft(model.removeprefix("draft:"), setup) for model in models]
    engines = [setup.make_engine(checkpoint) for checkpoint in checkpoints]
    drafter = make_drafter(
        inner_spec, replace(setup, target=checkpoints[0], target_engine=engines[0])
    )
    for checkpoint, engine in zip(checkpoints, engines, strict=True):
        drafter = CascadeDrafter(
            drafter,
            engine,
            vocab_size=setup.target.tokenizer.vocab_size,
            name=f"cascade:{drafter.name.removeprefix('cascade:')},draft:{checkpoint.name}",
            engine_config=setup.engine_config,
        )
    return drafter


def _load_draft(model: str, setup: DrafterSetup) -> Checkpoint:
    draft = setup.load_checkpoint(model)
    target = setup.target
    if draft.tokenizer.fingerprint() != target.tokenizer.fingerprint():
        raise UnsupportedError(
            f"{draft.name!r} cannot draft for {target.name!r}: their vocabularies differ "
            f"({draft.tokenizer.vocab_size} and {target.tokenizer.vocab_size} tokens), so an id "
            "means different text to each; choose a draft model of the same family."
        )
    return draft


def _suffix(argument: str, setup: DrafterSetup) -> Drafter[Any]:
    reason = why_unavailable()
    if reason is not None:
        raise UnsupportedError(f"The drafter suffix cannot be used: {reason}; use ngram.")
    from oneglance.drafters.suffix_factory import make_suffix

    return make_suffix(argument, setup.target.tokenizer)


def _self(argument: str, setup: DrafterSetup) -> Drafter[Any]:
    target = Itself(
        setup.target, setup.target_engine, setup.make_engine, setup.engine_config, setup.progress
    )
    return make_self_drafter(argument, target)


def _lookahead(argument: str, setup: DrafterSetup) -> Drafter[Any]:
    return LookaheadDrafter(setup.target.tokenizer.vocab_size, parse_shape(argument))


def _predicted(argument: str, setup: DrafterSetup) -> Drafter[Any]:
    tokenizer = setup.target.tokenizer
    return PredictedDrafter(read_prediction(argument, tokenizer) if argument else ())


DRAFTERS.register("auto", _auto)
_without_argument("none", NoDrafter)
_without_argument("ngram", NgramDrafter)
DRAFTERS.register("draft", _draft_model)
DRAFTERS.register("cascade", _cascade)
DRAFTERS.register("suffix", _suffix)
DRAFTERS.register("self", _self)
DRAFTERS.register("lookahead", _lookahead)
DRAFTERS.register("predicted", _predicted)
