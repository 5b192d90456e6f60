"""Makes the drafters `eagle:PATH` and `eagle`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from oneglance.drafters.base import Drafter
from oneglance.drafters.eagle import EagleDrafter
from oneglance.drafters.first_token import TEXTS, check_first_tokens
from oneglance.drafters.setup import DrafterSetup
from oneglance.engine.native.eagle import EagleEngine
from oneglance.engine.native.eagle_parallel import ParallelEagleEngine
from oneglance.engine.native.engine import NativeEngine
from oneglance.errors import ParameterError, UnsupportedError
from oneglance.heads.eagle_files import EagleHead, read_eagle


def make_eagle(argument: str, setup: DrafterSetup) -> Drafter[Any]:
    """A head from a folder, once it has shown that it matches its target.

    Args:
        argument: the folder; "" for the head that is shipped with the package.
        setup: the target.

    Raises:
        CheckpointError: the folder holds no sound head.
        ParameterError: no folder is named, and no head is shipped for the target.
        UnsupportedError: the target is not on the native engine, or the head is for another model.
    """
    folder = Path(argument) if argument else setup.shipped_heads("eagle", setup.target)
    if folder is None:
        raise ParameterError(
            f"No EAGLE head is shipped for {setup.target.name!r}; write eagle:PATH, with the "
            "folder of one that was trained for it."
        )
    engine = setup.target_engine
    if not isinstance(engine, NativeEngine):
        raise UnsupportedError(
            f"The drafter eagle runs on the native engine, and {setup.target.name!r} is on the "
            f"{engine.info.kind} engine; choose another drafter, such as ngram."
        )
    tokenizer = setup.target.tokenizer
    head = read_eagle(folder, setup.target.config)
    drafter = EagleDrafter(
        engine_of(head, engine, setup),
        tokenizer.vocab_size,
        f"eagle:{folder.name}" if argument else "eagle",
        setup.engine_config,
    )
    texts = [tokenizer.encode(text, add_bos=tokenizer.adds_bos) for text in TEXTS]
    check_first_tokens(engine, drafter, texts, tokenizer.vocab_size)
    return drafter


def engine_of(head: EagleHead, engine: NativeEngine, setup: DrafterSetup) -> EagleEngine:
    """The head on its target's kernels and threads."""
    kind = EagleEngine if head.config.num_slots == 1 else ParallelEagleEngine
    size = setup.target.tokenizer.vocab_size
    return kind(head, engine, setup.target.weights.head, size)
