"""Draws passes and figures: pure functions from traces and counts to text.

Colour never carries meaning alone: kept tokens are underlined, rejected ones struck out and the
target's own bold. Where there is no colour, marks stand around the tokens instead.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from rich.console import Console
from rich.text import Text

from oneglance.checkpoints.base import Tokenizer
from oneglance.show.visible import INCOMPLETE, visible
from oneglance.types import ROOT, EngineInfo, PassTrace, SpeculationStats

SegmentKind = Literal["kept", "rejected", "own", "unused"]
"""What became of a token: drafted and delivered; drafted and rejected; the target's own; drafted,
but the answer had ended before it."""

STYLES: dict[SegmentKind, str] = {
    "kept": "green underline",
    "rejected": "red strike",
    "own": "bold bright_blue",
    "unused": "dim italic",
}
MARKS: dict[SegmentKind, tuple[str, str]] = {
    "kept": ("[", "]"),
    "rejected": ("~", "~"),
    "own": ("+", "+"),
    "unused": ("(", ")"),
}
MEANINGS: dict[SegmentKind, str] = {
    "kept": "draft, kept",
    "rejected": "draft, rejected",
    "own": "the target's own",
    "unused": "draft, past the end",
}
END = " ■ end"
"""Follows the pass in which the answer ended before the target's own token was needed."""


@dataclass(frozen=True)
class Segment:
    """Neighbouring tokens of one pass that share their fate and form whole characters.

    Attributes:
        kind: what became of them.
        text: what they add to the text, control characters made visible.
        num_tokens: how many tokens they are, 1 unless a character took several.
        is_branch: it begins another branch of a tree, not the continuation of the one before.
    """

    kind: SegmentKind
    text: str
    num_tokens: int = 1
    is_branch: bool = False


def pass_segments(
    trace: PassTrace, tokenizer: Tokenizer, pending: bytes = b""
) -> tuple[list[Segment], bytes]:
    """Splits a pass into segments: the kept path, what was drafted beside it, the target's token.

    Args:
        trace: the pass.
        tokenizer: of the target.
        pending: bytes of a character that the tokens before this pass began.

    Returns:
        The segments, and the bytes of a character that the delivered tokens leave unfinished.
    """
    segments, pending_after = _chain_segments(
        "kept", [trace.draft_tokens[node] for node in trace.accepted], tokenizer, pending
    )
    # Where the answer ends within the draft, the rest of the draft is neither kept nor rejected.
    leftover: SegmentKind = "unused" if trace.next_token is None else "rejected"
    kept_end = trace.accepted[-1] if trace.accepted else ROOT
    for branch in _leftover_branches(trace):
        parent = trace.parents[branch[0]]
        before = _pending_at(trace, parent, tokenizer, pending)
        tokens = [trace.draft_tokens[node] for node in branch]
        found, _ = _chain_segments(leftover, tokens, tokenizer, before)
        first = found[0]
        is_branch = parent != kept_end or bool(segments and segments[-1].kind == leftover)
        segments.append(Segment(first.kind, first.text, first.num_tokens, is_branch))
        segments += found[1:]
    if trace.next_token is not None:
        own, pending_after = _chain_segments("own", [trace.next_token], tokenizer, pending_after)
        segments += own
    return segments, pending_after


def _leftover_branches(trace: PassTrace) -> list[list[int]]:
    """Nodes that were not delivered, as chains from parent to first child."""
    taken = set(trace.accepted)
    branches: list[list[int]] = []
    for node in range(len(trace.draft_tokens)):
        if node in taken:
            continue
        branch: list[int] = []
        current: int | None = node
        while current is not None:
            branch.append(current)
            taken.add(current)
            children = (child for child, parent in enumerate(trace.parents) if parent == current)
            current = next((child for child in children if child not in taken), None)
        branches.append(branch)
    return branches


def _pending_at(trace: PassTrace, node: int, tokenizer: Tokenizer, pending: bytes) -> bytes:
    """Bytes of an unfinished character after a node of the draft."""
    path: list[int] = []
    while node != ROOT:
        path.append(trace.draft_tokens[node])
        node = trace.parents[node]
    return _chain_segments("kept", path[::-1], tokenizer, pending)[1]


def _chain_segments(
    kind: SegmentKind, tokens: Iterable[int], tokenizer: Tokenizer, pending: bytes
) -> tuple[list[Segment], bytes]:
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    decoder.setstate((pending, 0))
    segments: list[Segment] = []
    num_waiting = 0
    for token in tokens:
        added = tokenizer.token_bytes(token)
        text = decoder.decode(added)
        num_waiting += 1
        if not added:
            text = tokenizer.token_label(token)
        if text:
            segments.append(Segment(kind, visible(text), num_waiting))
            num_waiting = 0
    if num_waiting:
        segments.append(Segment(kind, INCOMPLETE, num_waiting))
    return segments, decoder.getstate()[0]


def is_coloured(console: Console) -> bool:
    """Whether colours can be seen there: a terminal that has them, and NO_COLOR is not set."""
    return console.color_system is not None and not console.no_color


def segments_text(segments: Iterable[Segment], has_colour: bool) -> Text:
    """One pass as a line: coloured, or with marks as in `[kept]~rejected~+own+`."""
    line = Text()
    for segment in segments:
        if segment.is_branch:
            line.append(" │ ", style="dim")
        if has_colour:
            line.append(segment.text, style=STYLES[segment.kind])
        else:
            before, after = MARKS[segment.kind]
            line.append(f"{before}{segment.text}{after}")
    return line


class TraceRenderer:
    """Draws the passes of one answer in order, one `Text` for each; keeps split characters."""

    def __init__(self, tokenizer: Tokenizer, has_colour: bool) -> None:
        """Begins an answer; `has_colour` chooses styles over marks."""
        self._tokenizer = tokenizer
        self._has_colour = has_colour
        self._pending = b""
        self._num_passes = 0

    def draw(self, trace: PassTrace) -> Text:
        """The next pass: its number, then its tokens."""
        segments, self._pending = pass_segments(trace, self._tokenizer, self._pending)
        self._num_passes += 1
        number = Text(f"{self._num_passes:>3} ", style="dim")
        tokens = segments_text(segments, self._has_colour)
        end = Text("" if trace.next_token is not None else END, style="dim")
        return Text.assemble(number, tokens, end)


def render_passes(
    traces: Iterable[PassTrace], tokenizer: Tokenizer, has_colour: bool
) -> Iterator[Text]:
    """Every pass of an answer, one `Text` each."""
    renderer = TraceRenderer(tokenizer, has_colour)
    return (renderer.draw(trace) for trace in traces)


def legend(has_colour: bool) -> Text:
    """One line that says what the styles, or the marks, mean."""
    parts = [
        segments_text([Segment(kind, meaning)], has_colour) for kind, meaning in MEANINGS.items()
    ]
    return Text("   ").join(parts)


def tokens_per_second(num_tokens: int, seconds: float) -> float:
    """Tokens ÷ seconds; 0 where no time passed."""
    return num_tokens / seconds if seconds > 0 else 0.0


def summary_line(stats: SpeculationStats) -> str:
    """An answer's figures in one line.

    Tokens per second are delivered tokens ÷ seconds of drafting, verifying and accepting;
    reading the prompt is not in it.
    """
    seconds = stats.draft_seconds + stats.verify_seconds + stats.accept_seconds
    parts = [
        f"{_count(stats.delivered, 'token')} in {_count(stats.passes, 'pass', 'passes')}",
        f"mean accepted length {stats.mean_accepted_length:.2f}",
        f"acceptance rate {rate_text(stats)}",
        f"{tokens_per_second(stats.delivered, seconds):.1f} tok/s",
    ]
    return " · ".join(parts)


def engine_text(engine: EngineInfo) -> str:
    """What ran the model, as in "native engine (avx2, 2 threads)"."""
    parts = [engine.isa] if engine.isa else []
    parts.append(_count(engine.num_threads, "thread"))
    if engine.weights != "auto":
        parts.append(f"{engine.weights} weights")
    return f"{engine.kind} engine ({', '.join(parts)})"


def rate_text(stats: SpeculationStats) -> str:
    """Acceptance rate and its counts, as in "75% (12/16)"; a dash if nothing was drafted."""
    if not stats.drafted:
        return "–"
    return f"{stats.acceptance_rate:.0%} ({stats.accepted}/{stats.drafted})"


def _count(number: int, singular: str, plural: str | None = None) -> str:
    return f"{number} {singular if number == 1 else plural or singular + 's'}"
