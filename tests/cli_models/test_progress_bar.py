from __future__ import annotations

import io
import re

from rich.console import Console

from oneglance.cli.progress import progress_bar


def plain_console() -> tuple[Console, io.StringIO]:
    stream = io.StringIO()
    return Console(file=stream, force_terminal=False, width=80), stream


def terminal_console() -> tuple[Console, io.StringIO]:
    stream = io.StringIO()
    return Console(file=stream, force_terminal=True, width=100, color_system=None), stream


def test_plain_lines_come_at_most_once_for_every_tenth() -> None:
    console, stream = plain_console()
    with progress_bar(console, silent_seconds=0) as progress:
        for done in range(1001):
            progress("download x (bytes)", 1000 * done, 1_000_000)
    lines = stream.getvalue().splitlines()
    assert lines[0] == "download x: 0 % (0 bytes of 1.0 MB)"
    assert lines[-1] == "download x: 100 % (1.0 MB of 1.0 MB)"
    assert len(lines) == 11


def test_short_work_prints_nothing_without_a_terminal() -> None:
    console, stream = plain_console()
    with progress_bar(console) as progress:
        for done in range(101):
            progress("read", done, 100)
    assert stream.getvalue() == ""


def test_unknown_total_prints_one_line() -> None:
    console, stream = plain_console()
    with progress_bar(console, silent_seconds=0) as progress:
        progress("wait", 0, 0)
        progress("wait", 0, 0)
        progress("pack layers", 3, 30)
    assert stream.getvalue().splitlines() == ["wait", "pack layers: 10 % (3 of 30)"]


def test_terminal_gets_a_bar_that_goes_away() -> None:
    console, stream = terminal_console()
    with progress_bar(console) as progress:
        progress("download x (bytes)", 250_000, 1_000_000)
        progress("pack layers", 3, 30)
        progress("wait", 0, 0)
    shown = stream.getvalue()
    assert "pack layers" in shown or "wait" in shown
    last_line = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.split("\r")[-1])
    assert last_line.strip() == ""


def test_terminal_shows_bytes_and_counts() -> None:
    console, stream = terminal_console()
    with progress_bar(console) as progress:
        progress("download [x] (bytes)", 250_000, 1_000_000)
    assert "download [x] " in stream.getvalue()
    assert "250.0 kB of 1.0 MB" in stream.getvalue()
    console, stream = terminal_console()
    with progress_bar(console) as progress:
        progress("pack layers", 3, 30)
    assert "3 of 30" in stream.getvalue()
