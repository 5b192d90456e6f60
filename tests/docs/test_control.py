"""The tables of docs/bench.md that compare `auto` with fixed settings are what was measured."""

from __future__ import annotations

from pathlib import Path

from oneglance.bench.report import write_report
from tests.docs.control import DOCUMENT, blocks
from tests.docs.documents import between, read
from tests.docs.test_bench import REPORT


def test_the_tables_are_what_was_measured() -> None:
    for name, content in blocks().items():
        assert between(read(DOCUMENT), name) == content, "run `python -m tests.docs.control`"


def test_auto_is_compared_with_the_better_of_plain_and_the_best_fixed_setting(
    tmp_path: Path,
) -> None:
    speeds = {"plain": 1.0, "x@k=2": 1.25, "x@k=8": 0.5, "x": 2.0, "auto": 1.0}
    slow = {**speeds, "x@k=2": 0.8}
    path = tmp_path / "control.json"
    report = {
        **REPORT,
        "subjects": {label: {"k": 2 if "@" in label else "auto"} for label in speeds},
        "results": {
            "0 prose": _summaries(slow),
            "0 all": _summaries(speeds),
        },
    }
    write_report(path, report)
    table = blocks(tmp_path)["control"].splitlines()
    assert "| prose | 100.0 | x@k=2 | 0.80 | 1.00 | 1.00 |" in table
    assert "| all | 100.0 | x@k=2 | 1.25 | 1.00 | 0.80 |" in table


def _summaries(speeds: dict[str, float]) -> dict[str, dict[str, object]]:
    return {
        label: {"speedup": [speed, speed, speed], "tokens_per_second": 100.0 * speed}
        for label, speed in speeds.items()
    }
