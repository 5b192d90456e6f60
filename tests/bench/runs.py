"""Runs of the drafters' benchmark with seconds that are easy to divide."""

from __future__ import annotations

from typing import Any

from oneglance.bench.run import Run


def run(prompt: str, subject: str, seconds: float, number: int = 0, **more: Any) -> Run:
    """20 tokens behind a prompt that took a second."""
    fields: dict[str, Any] = {
        "prompt": prompt,
        "category": prompt[0],
        "temperature": 0.0,
        "round": number,
        "subject": subject,
        "tokens": 20,
        "seconds": 1 + seconds,
        "prefill_seconds": 1.0,
        "draft_seconds": 0.0,
        "passes": 20,
        "drafted": 0,
        "accepted": 0,
        "depths": (),
    }
    return Run(**(fields | more))


DRAFTED = {"passes": 10, "drafted": 30, "accepted": 10, "depths": ((10, 7), (10, 3))}


def pair(prompt: str, plain: float, drafted: float, number: int = 0) -> dict[str, Run]:
    return {
        "plain": run(prompt, "plain", plain, number),
        "d": run(prompt, "d", drafted, number, draft_seconds=drafted / 4, **DRAFTED),
    }
