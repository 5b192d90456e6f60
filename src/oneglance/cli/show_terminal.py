"""Draws a trace on a terminal: pencil, ink, red, and what it was worth.

Colour never carries meaning alone: the draft is dim on a line of its own, a wrong token is struck
out, the target's own is bold, a bonus token underlined. Where there is no colour, marks stand
around the tokens instead.
"""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from oneglance.cli.render import engine_text, is_coloured
from oneglance.show.branches import branches
from oneglance.show.figures import PHASES, Figures, figures, race_sentence
from oneglance.show.trace import DraftNode, OwnToken, Pass, Request, Trace
from oneglance.show.visible import harmless
from oneglance.types import EngineInfo

STYLES = {
    "pencil": "dim",
    "ink": "default",
    "wrong": "red strike",
    "recovered": "bold bright_blue",
    "bonus": "bold bright_blue underline",
    "plain": "bold bright_blue",
}
MARKS = {
    "pencil": ("", ""),
    "ink": ("[", "]"),
    "wrong": ("~", "~"),
    "recovered": ("+", "+"),
    "bonus": ("_", "_"),
    "plain": ("+", "+"),
}
LEGEND = (
    ("pencil", "the junior's draft"),
    ("ink", "kept"),
    ("wrong", "first wrong token"),
    ("recovered", "the expert's own"),
    ("bonus", "its bonus after a whole draft"),
)
NARROW = 60
"""Columns below which bars get shorter."""


class Screen:
    """A terminal or a pipe on which one answer is drawn as it comes."""

    def __init__(self, console: Console) -> None:
        """Takes where to draw; what it can show is asked of it."""
        self._console = console
        self._has_colour = is_coloured(console)
        self._num_passes = 0

    def begin(self, request: Request, drafter: str, engine: EngineInfo) -> None:
        """What is answered, by whom, and what the drawing means."""
        seed = "" if request.seed is None else f", seed {request.seed}"
        words = f"{request.model}, drafter {drafter}, -k {request.k}, {request.law}{seed}, "
        self._print(Text(f"{words}{engine_text(engine)}", style="dim"))
        self._print(Text(f"> {harmless(request.prompt)}"))
        self._print(Text("   ").join(self._token(kind, text) for kind, text in LEGEND))
        self._print(Text())

    def add(self, item: Pass) -> None:
        """The next pass: the draft in pencil, then what became of it."""
        self._num_passes += 1
        number = f"{self._num_passes:>3} "
        if item.nodes:
            self._line(Text(f"{number}✎ ", style="dim"), self._pencil(item))
            number = "    "
        self._line(Text(f"{number}✓ ", style="dim"), self._ink(item))

    def end(self, trace: Trace) -> None:
        """The answer, and the figures."""
        self._print(Text(f"\n{harmless(trace.answer.text)}\n"))
        for line in self._summary(figures(trace)):
            self._print(line)

    def _pencil(self, item: Pass) -> Text:
        """All branches of the draft; in a chain there is one."""
        parts = [self._token("pencil", _shown(item, branch)) for branch in branches(item)]
        return Text(" │ ", style="dim").join(parts)

    def _ink(self, item: Pass) -> Text:
        kept = _shown(item, item.accepted)
        line = self._token("ink", kept) if kept else Text()
        wrong = item.first_wrong
        if wrong is not None:
            line.append_text(self._token("wrong", item.nodes[wrong].shown))
        if item.own is not None:
            line.append_text(self._token(item.own.kind, item.own.shown))
            line.append(_odds(item, item.own), style="dim")
        else:
            line.append(" ■ end", style="dim")
        return line

    def _token(self, kind: str, text: str) -> Text:
        if self._has_colour:
            return Text(text, style=STYLES[kind])
        before, after = MARKS[kind]
        return Text(f"{before}{text}{after}")

    def _summary(self, found: Figures) -> Iterable[Text]:
        rate = f"{found.acceptance_rate:.0%} ({found.accepted}/{found.drafted})"
        yield Text(
            f"{found.delivered} tokens in {found.passes} passes: {found.mean_accepted_length:.2f} "
            f"a pass; acceptance rate {rate if found.drafted else '–'}."
        )
        if found.drafted:
            yield Text("Passes by draft tokens accepted:")
            yield from self._histogram(found)
        yield Text(f"Time of the recorded passes: {_shares(found.shares)}.")
        if found.race is None:
            return
        race = found.race
        rounds = f"median of {race.rounds} rounds" if race.rounds > 1 else "1 round"
        yield Text(
            f"Race, {rounds} by turns: {race.plain_speed:.1f} tokens/s plain, "
            f"{race.speculative_speed:.1f} with drafts ({_shares(race.shares)}). "
            f"{race_sentence(race)}"
        )

    def _histogram(self, found: Figures) -> Iterable[Text]:
        """A bar for each number of tokens, the longest as wide as there is room."""
        room = 16 if self._console.width < NARROW else 32
        most = max(found.accepted_lengths)
        block = "█" if self._console.encoding.startswith("utf") else "#"
        for length, count in enumerate(found.accepted_lengths):
            bar = block * max(round(room * count / most), 1 if count else 0)
            yield Text(f"{length:>4} {bar} {count}")

    def _line(self, head: Text, body: Text) -> None:
        """A line whose continuation, on a terminal, stands below its beginning."""
        if not self._console.is_terminal:
            self._print(Text.assemble(head, body))
            return
        grid = Table.grid()
        grid.add_column(width=head.cell_len)
        grid.add_column(overflow="fold")
        grid.add_row(head, body)
        self._console.print(Padding(Group(grid), 0))

    def _print(self, text: Text) -> None:
        self._console.print(text, soft_wrap=not self._console.is_terminal)


def _shown(item: Pass, path: Iterable[int]) -> str:
    return "".join(item.nodes[node].shown for node in path)


def _odds(item: Pass, own: OwnToken) -> str:
    """What the target thought of the wrong token and of its own."""
    wrong = item.first_wrong
    if wrong is None:
        return ""
    node: DraftNode = item.nodes[wrong]
    return f"  {node.target_prob:.0%} against {own.target_prob:.0%}"


def _shares(shares: dict[str, float]) -> str:
    parts = [(phase, shares[phase]) for phase in PHASES if shares[phase] >= 0.0005]
    return ", ".join(f"{phase} {share:.0%}" for phase, share in parts) or "–"
