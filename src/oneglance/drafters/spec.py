"""What the words after `--drafter` mean: NAME, NAME:ARGUMENT, or several joined by "+"."""

from __future__ import annotations

import re
from dataclasses import dataclass

FAMILIES = (
    "auto",
    "cascade",
    "draft",
    "eagle",
    "grammar",
    "lookahead",
    "medusa",
    "ngram",
    "none",
    "predicted",
    "self",
    "suffix",
)
"""Names that a drafter can begin with. A "+" is a joint only where one of them follows, so that
names of models and files may hold one too."""

_JOINT = re.compile(rf"\+(?=(?:{'|'.join(FAMILIES)})(?:[:+]|$))")


@dataclass(frozen=True)
class DrafterName:
    """One drafter of a list.

    Attributes:
        name: its family.
        argument: the text after the colon; "" if there is none.
    """

    name: str
    argument: str

    def __str__(self) -> str:
        return f"{self.name}:{self.argument}" if self.argument else self.name


def split_spec(spec: str) -> list[DrafterName]:
    """Splits "a+b:ARGUMENT" at its joints; there is at least one part."""
    parts = [part.partition(":") for part in _JOINT.split(spec)]
    return [DrafterName(name, argument) for name, _, argument in parts]


def with_prediction(spec: str) -> str:
    """The drafter for a request that comes with a prediction: that first, then the others.

    The drafter none stays alone: who wants plain decoding is told that it makes no use of it.
    """
    parts = split_spec(spec)
    if any(part.name in ("predicted", "none") for part in parts):
        return spec
    return "predicted" if spec == "grammar" else "+".join(["predicted", spec])
