"""From the words after `--drafter` to a drafter. A new family is one file and one line here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oneglance.drafters.auto import auto_parts
from oneglance.drafters.base import Drafter
from oneglance.drafters.draft_factory import make_cascade, make_draft
from oneglance.drafters.hybrid import HybridDrafter
from oneglance.drafters.lookahead import LookaheadDrafter, parse_shape
from oneglance.drafters.ngram import NgramDrafter
from oneglance.drafters.none import GrammarDrafter, NoDrafter
from oneglance.drafters.predicted import PredictedDrafter, read_prediction
from oneglance.drafters.self_factory import Itself, make_self_drafter
from oneglance.drafters.setup import DrafterSetup
from oneglance.drafters.spec import split_spec
from oneglance.engine.native import why_unavailable
from oneglance.errors import ParameterError, UnsupportedError
from oneglance.heads.shipped import HeadKind, size_of
from oneglance.registry import Registry

DrafterFactory = Callable[[str, DrafterSetup], Drafter[Any]]
"""Makes a drafter from the text after the colon ("" if there is none) and the setup."""

_CHEAP_HEAD = 0.04
"""Of what a pass of the target reads, the size up to which `auto` takes a head. That for SmolLM2 is
twice as large, and gives back no more than it costs (docs/drafters.md)."""

DRAFTERS: Registry[DrafterFactory] = Registry("drafter")


def make_drafter(spec: str, setup: DrafterSetup) -> Drafter[Any]:
    """Makes the drafter that `spec` names, such as "ngram", "draft:MODEL" or "ngram+draft:MODEL".

    Raises:
        ParameterError: no such drafter, or an argument that it does not take or lacks.
        UnsupportedError: the drafter cannot work with this target.
    """
    drafters = [DRAFTERS.get(part.name)(part.argument, setup) for part in split_spec(spec)]
    return drafters[0] if len(drafters) == 1 else HybridDrafter(drafters, setup.make_length)


def _without_argument(name: str, make: Callable[[DrafterSetup], Drafter[Any]]) -> None:
    def factory(argument: str, setup: DrafterSetup) -> Drafter[Any]:
        if argument:
            raise ParameterError(f"The drafter {name} takes no argument; leave out {argument!r}.")
        return make(setup)

    DRAFTERS.register(name, factory)


def _auto(setup: DrafterSetup) -> Drafter[Any]:
    target = setup.target
    lookup = "suffix" if why_unavailable() is None else "ngram"
    drafts = setup.local_drafts(target.name)
    form, heads = setup.engine_config.weights, _shipped_kinds(setup)
    while True:
        parts = auto_parts(target, form, drafts, lookup, heads)
        try:
            return make_drafter("+".join(parts), setup)
        except UnsupportedError:  # heads of the model that this one was made of, perhaps
            if not heads:
                raise
            heads = heads[1:]


def _shipped_kinds(setup: DrafterSetup) -> list[HeadKind]:
    """Kinds of cheap heads that come with the package for the target, the better one first."""
    kinds: tuple[HeadKind, ...] = ("eagle", "medusa")
    folders = {kind: setup.shipped_heads(kind, setup.target) for kind in kinds}
    most = _CHEAP_HEAD * setup.target_engine.pass_bytes
    return [kind for kind, folder in folders.items() if folder and size_of(folder) <= most]


def _cascade(argument: str, setup: DrafterSetup) -> Drafter[Any]:
    return make_cascade(argument, setup, make_drafter)


def _eagle(argument: str, setup: DrafterSetup) -> Drafter[Any]:
    reason = why_unavailable()
    if reason is not None:
        raise UnsupportedError(f"The drafter eagle cannot be used: {reason}; use ngram.")
    from oneglance.drafters.eagle_factory import make_eagle

    return make_eagle(argument, setup)


def _lookahead(argument: str, setup: DrafterSetup) -> Drafter[Any]:
    return LookaheadDrafter(setup.target.tokenizer.vocab_size, parse_shape(argument))


def _medusa(argument: str, setup: DrafterSetup) -> Drafter[Any]:
    reason = why_unavailable()
    if reason is not None:
        raise UnsupportedError(f"The drafter medusa cannot be used: {reason}; use ngram.")
    from oneglance.drafters.medusa_factory import make_medusa

    return make_medusa(argument, setup)


def _predicted(argument: str, setup: DrafterSetup) -> Drafter[Any]:
    tokenizer = setup.target.tokenizer
    return PredictedDrafter(read_prediction(argument, tokenizer) if argument else ())


def _self(argument: str, setup: DrafterSetup) -> Drafter[Any]:
    target = Itself(
        setup.target, setup.target_engine, setup.make_engine, setup.engine_config, setup.progress
    )
    return make_self_drafter(argument, target)


def _suffix(argument: str, setup: DrafterSetup) -> Drafter[Any]:
    reason = why_unavailable()
    if reason is not None:
        raise UnsupportedError(f"The drafter suffix cannot be used: {reason}; use ngram.")
    from oneglance.drafters.suffix_factory import make_suffix

    return make_suffix(argument, setup.target.tokenizer)


_without_argument("auto", _auto)
_without_argument("grammar", lambda _: GrammarDrafter())
_without_argument("none", lambda _: NoDrafter())
_without_argument("ngram", lambda _: NgramDrafter())
DRAFTERS.register("cascade", _cascade)
DRAFTERS.register("draft", make_draft)
DRAFTERS.register("eagle", _eagle)
DRAFTERS.register("lookahead", _lookahead)
DRAFTERS.register("medusa", _medusa)
DRAFTERS.register("predicted", _predicted)
DRAFTERS.register("self", _self)
DRAFTERS.register("suffix", _suffix)
