"""From the words after "medusa:" to a drafter: reads heads, and sees whether they match."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from oneglance.drafters.base import Drafter
from oneglance.drafters.built_in_text import ReadText, check_acceptance, read_text
from oneglance.drafters.choice import best_siblings
from oneglance.drafters.medusa import WIDTH, Heads, MedusaDrafter
from oneglance.drafters.medusa_calibration import Calibration
from oneglance.drafters.setup import DrafterSetup
from oneglance.engine.native import why_unavailable
from oneglance.errors import UnsupportedError
from oneglance.heads.medusa_files import read_medusa
from oneglance.heads.shipped import shipped_heads

EVIDENCE = 16.0
"""Places that the built-in text counts as: no more, so that a request is soon judged by itself."""


def make_medusa(argument: str, setup: DrafterSetup) -> Drafter[Any]:
    """Medusa heads of a target.

    Args:
        argument: their folder; "" for those that are shipped with the package.
        setup: the target.

    Raises:
        CheckpointError: the folder holds no sound heads, or heads of another shape.
        UnsupportedError: there are no kernels, no heads are shipped for this target, or the heads
            do not match it.
    """
    target, engine = setup.target, setup.target_engine
    name = f"medusa:{argument}" if argument else "medusa"
    folder = Path(argument) if argument else shipped_heads("medusa", target)
    if folder is None:
        raise UnsupportedError(
            f"No Medusa heads are shipped for {target.name!r}; train some with `oneglance train "
            "medusa` and write medusa:FOLDER, or choose another drafter."
        )
    heads = _on_kernels(name, folder, setup)
    layer = target.config.num_layers
    text = read_text(engine, target.tokenizer, (layer,))
    calibration = measured(heads, text, layer)
    check_acceptance(name, target.name, calibration.hits[0, 0], calibration.counts[0])
    return MedusaDrafter(heads, layer, name, calibration.counted_as(EVIDENCE))


def measured(heads: Heads, text: ReadText, layer: int) -> Calibration:
    """How often guesses are what the target says, by depth and rank.

    A guess counts where the text goes on as the target would up to its place, as an answer does.

    Args:
        heads: the heads.
        text: as the target reads it.
        layer: whose states the heads read.
    """
    calibration = Calibration.fresh(heads.num_heads)
    every_top = heads.top(text.hidden[layer], heads.num_heads, WIDTH)
    for start, top in enumerate(every_top):
        num_places = min(heads.num_heads, text.num_agreed(start))
        for depth in range(num_places):
            choices = best_siblings(top, depth, WIDTH) or []
            guessed = [choice.token for choice in choices]
            truth = int(text.said[start + depth + 1])
            right = guessed.index(truth) if truth in guessed else None
            calibration.note(depth, [choice.confidence for choice in choices], right)
    return calibration


def _on_kernels(name: str, folder: Path, setup: DrafterSetup) -> Heads:
    reason = why_unavailable()
    if reason is not None:
        raise UnsupportedError(f"The drafter {name} cannot be used: {reason}; choose ngram.")
    from oneglance.engine.native.engine import NativeEngine
    from oneglance.engine.native.medusa import NativeMedusa

    target, engine = setup.target, setup.target_engine
    if not isinstance(engine, NativeEngine):
        raise UnsupportedError(
            f"The drafter {name} runs on the native engine, and {target.name!r} is on the "
            f"{engine.info.kind} one; use the native engine, or choose another drafter."
        )
    weights = read_medusa(folder, target.config)
    return NativeMedusa(weights, target.weights.head, target.tokenizer.vocab_size, engine.runtime)
