"""Feeding tokens whose logits nobody needs: prompts, and what a draft model missed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from oneglance.engine.base import Batch, Engine, PassLayers, SequenceId, TreeRows
from oneglance.types import Float32Array

SeeHidden = Callable[[int, Mapping[int, Float32Array]], None]
"""Takes the position of the first of some rows, and for each layer the states [rows, width]."""


def prefill(
    engine: Engine,
    sequence: SequenceId,
    tokens: Sequence[int],
    chunk: int,
    layers: PassLayers = PassLayers(),
    hidden_layers: tuple[int, ...] = (),
    see_hidden: SeeHidden | None = None,
) -> None:
    """Appends tokens to a sequence's committed prefix.

    Args:
        engine: whose cache takes them.
        sequence: an open sequence.
        tokens: ids to append; may be empty.
        chunk: most tokens per pass; it has no influence on any bit.
        layers: which layers evaluate them.
        hidden_layers: of which layers to show hidden states, as `Batch.hidden_layers`.
        see_hidden: is shown them, chunk by chunk.

    Raises:
        CapacityError: they do not fit; the chunks before the failing one stay committed.
    """
    for start in range(0, len(tokens), chunk):
        part = tokens[start : start + chunk]
        rows = TreeRows.chain(sequence, part, wants_logits=False)
        first = engine.length(sequence)
        output = engine.forward(Batch.through(layers, [rows], hidden_layers=hidden_layers))
        engine.commit(sequence, range(len(part)))
        if see_hidden is not None:
            see_hidden(first, {layer: each[0] for layer, each in output.hidden.items()})
