"""Time within the compiled kernels, by name; what is left of a pass is Python."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from oneglance import _native


@contextmanager
def timed_kernels() -> Iterator[dict[str, float]]:
    """While it is open, every call of a function of `oneglance._native` is timed.

    Yields:
        Seconds by name of the function, filled as they are called.
    """
    seconds: dict[str, float] = {}
    functions = {
        name: value
        for name, value in vars(_native).items()
        if callable(value) and not isinstance(value, type) and not name.startswith("_")
    }
    for name, function in functions.items():
        setattr(_native, name, _timed(name, function, seconds))
    try:
        yield seconds
    finally:
        for name, function in functions.items():
            setattr(_native, name, function)


def _timed(
    name: str, function: Callable[..., Any], seconds: dict[str, float]
) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        start = time.perf_counter()
        result = function(*arguments, **named)
        seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - start
        return result

    return call
