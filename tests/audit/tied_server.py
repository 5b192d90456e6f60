"""A server whose model has near-ties, and whose wide passes wobble."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oneglance.types import Float32Array
from tests.audit.broken_servers import OtherLogitsInWidePasses
from tests.audit.scripted_server import LIKELY, script


@dataclass
class TiedServer(OtherLogitsInWidePasses):
    """Two characters are equally likely everywhere, but for less than its wobble."""

    def __post_init__(self) -> None:
        self.script = tied

    def shaken(self, prefix: tuple[int, ...]) -> Float32Array:
        logits = tied(prefix)
        noise = np.random.default_rng([len(prefix), prefix[-1]]).standard_normal(len(logits))
        return logits + (self.size * noise).astype(np.float32)


def tied(prefix: tuple[int, ...]) -> Float32Array:
    logits = script(prefix).copy()
    logits[LIKELY[0]] = logits[LIKELY[1]] = logits[LIKELY].max() + 1
    logits[LIKELY[0]] += 1e-3
    return logits
