"""From the words after `--drafter` to a drafter. A new family is one file and one line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from oneglance.checkpoints.base import Checkpoint
from oneglance.config import EngineConfig
from oneglance.drafters.base import Drafter
from oneglance.drafters.draft_model import DraftModelDrafter
from oneglance.drafters.ngram import NgramDrafter
from oneglance.drafters.none import NoDrafter
from oneglance.drafters.other_vocabulary import OtherVocabularyDrafter
from oneglance.drafters.other_vocabulary_pair import VocabularyPair
from oneglance.drafters.spec import split_spec
from oneglance.engine.base import Engine
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
        progress: told about long work.
    """

    target: Checkpoint
    target_engine: Engine
    load_checkpoint: Callable[[str], Checkpoint]
    make_engine: Callable[[Checkpoint], Engine]
    engine_config: EngineConfig
    progress: ProgressCallback | None = None


DrafterFactory = Callable[[str, DrafterSetup], Drafter[Any]]
"""Makes a drafter from the text after the colon ("" if there is none) and the setup."""

DRAFTERS: Registry[DrafterFactory] = Registry("drafter")


def make_drafter(spec: str, setup: DrafterSetup) -> Drafter[Any]:
    """Makes the drafter that `spec` names, for example "ngram" or "draft:MODEL".

    Raises:
        ParameterError: no such drafter, or an argument that it does not take or lacks.
        UnsupportedError: the drafter cannot work with this target.
    """
    parts = split_spec(spec)
    if len(parts) > 1:
        raise ParameterError(f"The drafter {spec!r} is a list; only single drafters are known.")
    return DRAFTERS.get(parts[0].name)(parts[0].argument, setup)


def _without_argument(name: str, make: Callable[[], Drafter[Any]]) -> None:
    def factory(argument: str, _setup: DrafterSetup) -> Drafter[Any]:
        if argument:
            raise ParameterError(f"The drafter {name} takes no argument; leave out {argument!r}.")
        return make()

    DRAFTERS.register(name, factory)


def _draft_model(argument: str, setup: DrafterSetup) -> Drafter[Any]:
    if not argument:
        raise ParameterError("The drafter draft needs a model; write draft:MODEL.")
    draft = setup.load_checkpoint(argument)
    target = setup.target
    if draft.tokenizer.fingerprint() != target.tokenizer.fingerprint():
        return _other_vocabulary(draft, setup)
    return DraftModelDrafter(
        setup.make_engine(draft),
        vocab_size=target.tokenizer.vocab_size,
        name=f"draft:{draft.name}",
        engine_config=setup.engine_config,
    )


def _other_vocabulary(draft: Checkpoint, setup: DrafterSetup) -> Drafter[Any]:
    pair = VocabularyPair(setup.target.tokenizer, draft.tokenizer)
    if reason := pair.refusal():
        raise UnsupportedError(
            f"{draft.name!r} cannot draft for {setup.target.name!r}: {reason}, so text cannot pass "
            "between them; choose another draft model."
        )
    return OtherVocabularyDrafter(
        setup.make_engine(draft),
        pair,
        name=f"draft:{draft.name}",
        engine_config=setup.engine_config,
    )


_without_argument("none", NoDrafter)
_without_argument("ngram", NgramDrafter)
DRAFTERS.register("draft", _draft_model)
