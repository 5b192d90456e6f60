"""Heads that come with the package, each a folder in this one, and the models they are for.

Models are known by their shape and vocabulary, which all fine-tuned versions of one base share, in
any type of weights. Whether heads suit the one that is loaded shows when they are loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from oneglance.checkpoints.base import Checkpoint

HeadKind = Literal["eagle", "medusa"]

Identity = tuple[str, int, int, int, str]
"""Architecture, layers, hidden size, vocabulary size, and fingerprint of the vocabulary."""

FOLDER = Path(__file__).parent

_SMOLLM2: Identity = (
    "llama",
    30,
    576,
    49152,
    "dc5c46b5162a5d45cd4a5fea100f4ccffea5dd56a63b864add990bf3227f1fc0",
)

_QWEN_CODER: Identity = (
    "qwen2",
    28,
    1536,
    151936,
    "5738d2ea26a09ab9b893753aa6f415eebbd93aeb6dd33f89e180c4356a41ee33",
)

SHIPPED: Mapping[tuple[HeadKind, Identity], str] = {
    ("eagle", _SMOLLM2): "smollm2-135m-eagle",
    ("eagle", _QWEN_CODER): "qwen2.5-coder-1.5b-eagle",
}
"""Kind of heads and model to the name of their folder."""


def identity_of(target: Checkpoint) -> Identity:
    """What a model is known by."""
    config = target.config
    return (
        config.architecture,
        config.num_layers,
        config.hidden_size,
        config.vocab_size,
        target.tokenizer.fingerprint(),
    )


def shipped_heads(
    kind: HeadKind,
    target: Checkpoint,
    table: Mapping[tuple[HeadKind, Identity], str] = SHIPPED,
) -> Path | None:
    """The folder of the heads of a kind that come with the package for a model.

    Args:
        kind: of heads.
        target: the model.
        table: which there are.

    Returns:
        None where there are none.
    """
    if not table:  # the fingerprint takes longer than to know this
        return None
    name = table.get((kind, identity_of(target)))
    return None if name is None else FOLDER / name


def size_of(folder: Path) -> int:
    """Bytes of the files of some heads."""
    return sum(file.stat().st_size for file in folder.iterdir())
