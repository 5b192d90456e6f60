"""Makes the drafters that run another model: `draft:MODEL` and `cascade:INNER,draft:MODEL`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from oneglance.checkpoints.base import Checkpoint
from oneglance.drafters.base import Drafter
from oneglance.drafters.cascade import CascadeDrafter
from oneglance.drafters.draft_model import DraftModelDrafter
from oneglance.drafters.other_vocabulary import OtherVocabularyDrafter
from oneglance.drafters.other_vocabulary_pair import VocabularyPair
from oneglance.drafters.setup import DrafterSetup
from oneglance.drafters.spec import split_spec
from oneglance.errors import ParameterError, UnsupportedError


def make_draft(argument: str, setup: DrafterSetup) -> Drafter[Any]:
    """A draft model, of the target's vocabulary or another.

    Args:
        argument: name or path of the model.
        setup: the target and how to load another model.

    Raises:
        ParameterError: no model is named.
        UnsupportedError: text cannot pass between the two vocabularies.
    """
    if not argument:
        raise ParameterError("The drafter draft needs a model; write draft:MODEL.")
    draft = setup.load_checkpoint(argument)
    name = f"draft:{draft.name}"
    if _same_vocabulary(draft, setup.target):
        size = setup.target.tokenizer.vocab_size
        return DraftModelDrafter(setup.make_engine(draft), size, name, setup.engine_config)
    pair = VocabularyPair(setup.target.tokenizer, draft.tokenizer)
    if reason := pair.refusal():
        raise UnsupportedError(
            f"{draft.name!r} cannot draft for {setup.target.name!r}: {reason}, so text cannot pass "
            "between them; choose another draft model."
        )
    return OtherVocabularyDrafter(setup.make_engine(draft), pair, name, setup.engine_config)


def make_cascade(
    argument: str, setup: DrafterSetup, make: Callable[[str, DrafterSetup], Drafter[Any]]
) -> Drafter[Any]:
    """Models of which each is drafted for by what stands before it; the last drafts for the target.

    Args:
        argument: "INNER,draft:MODEL", or more models in order of cost.
        setup: the target and how to load other models.
        make: makes the first drafter, by its name.

    Raises:
        ParameterError: it is written otherwise, or the first drafter cannot draft for a draft
            model.
        UnsupportedError: a model has another vocabulary than the target.
    """
    inner_spec, *models = re.split(r",(?=draft:)", argument)
    names = [part.name for part in split_spec(inner_spec)]
    if not inner_spec or not models or "draft:" in models or len(names) > 1:
        raise ParameterError(
            f"The drafter cascade cannot be made of {argument!r}; write "
            "cascade:INNER,draft:MODEL, where INNER is one other drafter."
        )
    if names[0] in ("auto", "cascade", "eagle", "grammar", "medusa", "none", "self"):
        raise ParameterError(
            f"The drafter {names[0]} cannot draft for a draft model; choose another one as the "
            f"first of cascade:{argument}, such as ngram or draft:MODEL."
        )
    checkpoints = [_load_middle(model.removeprefix("draft:"), setup) for model in models]
    engines = [setup.make_engine(checkpoint) for checkpoint in checkpoints]
    drafter = make(inner_spec, replace(setup, target=checkpoints[0], target_engine=engines[0]))
    for checkpoint, engine in zip(checkpoints, engines, strict=True):
        drafter = CascadeDrafter(
            drafter,
            engine,
            vocab_size=setup.target.tokenizer.vocab_size,
            name=f"cascade:{drafter.name.removeprefix('cascade:')},draft:{checkpoint.name}",
            engine_config=setup.engine_config,
        )
    return drafter


def _load_middle(model: str, setup: DrafterSetup) -> Checkpoint:
    draft, target = setup.load_checkpoint(model), setup.target
    if not _same_vocabulary(draft, target):
        raise UnsupportedError(
            f"{draft.name!r} cannot stand in a cascade for {target.name!r}: their vocabularies "
            f"differ ({draft.tokenizer.vocab_size} and {target.tokenizer.vocab_size} tokens); "
            "choose a draft model of the same family, or use it alone."
        )
    return draft


def _same_vocabulary(draft: Checkpoint, target: Checkpoint) -> bool:
    return draft.tokenizer.fingerprint() == target.tokenizer.fingerprint()
