"""Progress of long work on stderr: a bar on a terminal, a few plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from oneglance.checkpoints.sources.files import BYTES_SUFFIX, format_bytes
from oneglance.types import ProgressCallback

SILENT_SECONDS = 2.0
"""Work that takes less is not worth a plain line."""


@contextmanager
def progress_bar(
    console: Console, silent_seconds: float = SILENT_SECONDS
) -> Iterator[ProgressCallback]:
    """Shows calls of (stage, done, total) and leaves nothing behind on a terminal.

    A stage whose name ends with " (bytes)" is shown in units of bytes. A total of 0 means that
    it is not known. Elsewhere than on a terminal, each stage prints at most one line for every
    tenth of its work, and none before it has lasted `silent_seconds`.

    Args:
        console: where to show it, `Console(stderr=True)` for a command.
        silent_seconds: how long a stage may last before plain lines are printed.
    """
    if not console.is_terminal:
        yield _PlainReporter(console, silent_seconds).report
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        _AmountColumn(),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=console, transient=True) as bars:
        yield _BarReporter(bars).report


class _BarReporter:
    """One bar, for the stage that runs at the moment."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._stage: str | None = None
        self._task: TaskID | None = None

    def report(self, stage: str, done: int, total: int) -> None:
        if stage != self._stage or self._task is None:
            if self._task is not None:
                self._bars.remove_task(self._task)
            label = stage.removesuffix(BYTES_SUFFIX)
            self._task = self._bars.add_task(label, is_bytes=stage.endswith(BYTES_SUFFIX))
            self._stage = stage
        self._bars.update(self._task, completed=done, total=total or None)


class _AmountColumn(ProgressColumn):
    """Units done, units in all, and for bytes the speed."""

    def render(self, task: Task) -> Text:
        speed = task.speed if task.fields["is_bytes"] else None
        amount = _amount(bool(task.fields["is_bytes"]), int(task.completed), int(task.total or 0))
        return Text(amount + (f", {format_bytes(speed)}/s" if speed else ""))


class _PlainReporter:
    """A line for every tenth of a stage that takes long."""

    def __init__(self, console: Console, silent_seconds: float) -> None:
        self._console = console
        self._silent_seconds = silent_seconds
        self._stage: str | None = None
        self._started = 0.0
        self._tenth = -1

    def report(self, stage: str, done: int, total: int) -> None:
        now = time.monotonic()
        if stage != self._stage:
            self._stage, self._started, self._tenth = stage, now, -1
        tenth = 10 * done // total if total else 0
        if tenth <= self._tenth or now - self._started < self._silent_seconds:
            return
        self._tenth = tenth
        line = stage.removesuffix(BYTES_SUFFIX)
        if done or total:
            percent = f" {10 * tenth} %" if total else ""
            line += f":{percent} ({_amount(stage.endswith(BYTES_SUFFIX), done, total)})"
        self._console.print(line, soft_wrap=True, markup=False, highlight=False)


def _amount(is_bytes: bool, done: int, total: int) -> str:
    parts = [format_bytes(n) if is_bytes else str(n) for n in ([done, total] if total else [done])]
    return " of ".join(parts)
