"""Makes the drafters `medusa:PATH` and `medusa`: reads heads, and sees whether they match."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from oneglance.drafters.base import Drafter
from oneglance.drafters.first_token import TEXTS, check_first_tokens
from oneglance.drafters.medusa import MedusaDrafter
from oneglance.drafters.medusa_measured import measured, read_text
from oneglance.drafters.setup import DrafterSetup
from oneglance.engine.native.engine import NativeEngine
from oneglance.engine.native.medusa import NativeMedusa
from oneglance.errors import UnsupportedError
from oneglance.heads.medusa_files import read_medusa

EVIDENCE = 16.0
"""Places that the built-in texts count as: no more, so that a request is soon judged by itself."""


def make_medusa(argument: str, setup: DrafterSetup) -> Drafter[Any]:
    """Medusa heads, once they have shown that they match their target.

    Args:
        argument: their folder; "" for those that are shipped with the package.
        setup: the target.

    Raises:
        CheckpointError: the folder holds no sound heads, or heads of another shape.
        UnsupportedError: no heads are shipped for this target, it is not on the native engine, or
            the heads are for another model.
    """
    target, engine = setup.target, setup.target_engine
    folder = Path(argument) if argument else setup.shipped_heads("medusa", target)
    if folder is None:
        raise UnsupportedError(
            f"No Medusa heads are shipped for {target.name!r}; write medusa:PATH, with the folder "
            "of heads that were trained for it."
        )
    if not isinstance(engine, NativeEngine):
        raise UnsupportedError(
            f"The drafter medusa runs on the native engine, and {target.name!r} is on the "
            f"{engine.info.kind} engine; choose another drafter, such as ngram."
        )
    tokenizer, layer = target.tokenizer, target.config.num_layers
    size = tokenizer.vocab_size
    weights = read_medusa(folder, target.config)
    heads = NativeMedusa(weights, engine, target.weights.head, size)
    texts = [tokenizer.encode(text, add_bos=tokenizer.adds_bos) for text in TEXTS]
    known = measured(heads, [read_text(engine, text, layer, size) for text in texts])
    name = f"medusa:{folder.name}" if argument else "medusa"
    drafter = MedusaDrafter(heads, layer, name, known.counted_as(EVIDENCE))
    check_first_tokens(engine, drafter, texts, size)
    return drafter
