"""Whose time a pass took."""

from __future__ import annotations

from collections.abc import Sequence

from oneglance.decode.reading import Chunk
from oneglance.decode.sequence import DecodingSequence


def share_time(
    sequences: Sequence[DecodingSequence],
    chunks: Sequence[Chunk],
    num_rows: int,
    times: Sequence[float],
) -> None:
    """Books a pass's time so that pooled sums are true.

    Chunks get their part of the verification by their rows, the sequences the rest in equal parts.

    Args:
        sequences: answers that took part.
        chunks: of prompts that went along.
        num_rows: of the whole pass.
        times: when it began, was drafted, verified and accepted, in seconds.
    """
    start, drafted, verified, accepted = times
    a_row = (verified - drafted) / max(1, num_rows)
    for chunk in chunks:
        chunk.sequence.stats.prefill_seconds += a_row * len(chunk)
    verifying = (verified - drafted) - a_row * sum(map(len, chunks))
    spans = (drafted - start, verifying, accepted - verified)
    for s in sequences:
        draft, verify, accept = (span / len(sequences) for span in spans)
        s.stats.draft_seconds += draft
        s.stats.verify_seconds += verify
        s.stats.accept_seconds += accept
        if s.watcher is not None:
            s.watcher.note_seconds(draft, verify, accept)
