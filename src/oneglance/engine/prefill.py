"""Feeding tokens whose logits nobody needs: prompts, and what a draft model missed."""

from __future__ import annotations

from collections.abc import Sequence

from oneglance.engine.base import Batch, Engine, PassLayers, SequenceId, TreeRows


def prefill(
    engine: Engine,
    sequence: SequenceId,
    tokens: Sequence[int],
    chunk: int,
    layers: PassLayers = PassLayers(),
) -> None:
    """Appends tokens to a sequence's committed prefix.

    Args:
        engine: whose cache takes them.
        sequence: an open sequence.
        tokens: ids to append; may be empty.
        chunk: most tokens per pass; it has no influence on any bit.
        layers: which layers evaluate them.

    Raises:
        CapacityError: they do not fit; the chunks before the failing one stay committed.
    """
    for start in range(0, len(tokens), chunk):
        part = tokens[start : start + chunk]
        rows = TreeRows.chain(sequence, part, wants_logits=False)
        engine.forward(Batch.through(layers, [rows]))
        engine.commit(sequence, range(len(part)))
