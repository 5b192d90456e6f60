"""A round under load as it is kept, made by hand."""

from __future__ import annotations

from benchmarks.load.level import LoadRun


def load_run(subject: str, seconds: float, number: int = 0, identical: int = 4) -> LoadRun:
    """Four answers of five tokens each."""
    return LoadRun(
        level=4,
        round=number,
        subject=subject,
        requests=4,
        tokens=20,
        seconds=seconds,
        first_token_seconds=(0.1, 0.2, 0.3, 0.4),
        seconds_per_token=(0.01, 0.02, 0.03),
        client_seconds=0.1,
        server_seconds=0.4,
        identical=identical,
        counts={"passes": 10.0, "drafted": 8.0, "accepted": 6.0},
    )


def load_round(number: int) -> dict[str, LoadRun]:
    """Twice as fast with speculation as without, and four times as fast as another program."""
    seconds = {"auto": 0.5, "off": 1.0, "llama-server plain": 2.0, "llama-server slow": 4.0}
    return {label: load_run(label, taken, number) for label, taken in seconds.items()}
