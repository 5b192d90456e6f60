"""Ctrl-C that waits for a good moment."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def deferred_interrupt() -> Iterator[Callable[[], bool]]:
    """Keeps Ctrl-C from interrupting; gives a function that tells whether it was pressed.

    The second Ctrl-C interrupts at once. In threads other than the main one, which get no
    signals, the function is always False.
    """
    presses: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        del frame
        presses.append(number)
        if len(presses) > 1:
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(presses)
    finally:
        signal.signal(signal.SIGINT, before)
