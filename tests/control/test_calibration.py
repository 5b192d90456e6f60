"""What was measured is found again, on the same machine only; and nothing broken is believed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oneglance.control.calibration import Calibration, CalibrationFile
from oneglance.control.cost import PassCosts
from oneglance.control.draft_cost import DraftPrice
from oneglance.control.measure import ROWS, PassTimes, measure_passes, plausible
from oneglance.testing import ScriptedEngine, random_script

MEASURED = Calibration(
    (1, 4, 16), (0.01, 0.012, 0.03), 1e-4, {"draft:small": DraftPrice(0.1, 0.3, 0.02)}
)


def file_in(folder: Path, **changes: str | int) -> CalibrationFile:
    return CalibrationFile(folder, {"cpu": "one", "threads": 2, **changes})


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = file_in(tmp_path / "new")
    assert file.read() is None
    file.write(MEASURED)
    assert file.read() == MEASURED
    assert [path.suffix for path in file.path.parent.iterdir()] == [".json"]


def test_another_machine_or_model_has_a_file_of_its_own(tmp_path: Path) -> None:
    file_in(tmp_path).write(MEASURED)
    assert file_in(tmp_path, threads=4).read() is None


BREAK: dict[str, Callable[[dict[str, Any]], object]] = {
    "another key": lambda content: content["key"].update(cpu="other"),
    "a later format": lambda content: content.update(format=99),
    "a field is missing": lambda content: content.pop("seconds"),
    "rows do not ascend": lambda content: content.update(rows=[1, 16, 4]),
    "not from one row on": lambda content: content.update(rows=[2, 4, 16]),
    "a negative time": lambda content: content.update(seconds=[0.01, -1.0, 0.2]),
    "no number": lambda content: content.update(seconds=[0.01, "x", 0.2]),
    "too few times": lambda content: content.update(seconds=[0.01]),
    "an endless time": lambda content: content.update(attention_share=float("inf")),
    "a strange price": lambda content: content.update(drafts={"a": {"calls": 1}}),
    "a list": lambda content: content.update(drafts=[1]),
}


@pytest.mark.parametrize("name", BREAK)
def test_a_file_that_cannot_be_used_is_ignored_with_a_warning(tmp_path: Path, name: str) -> None:
    file = file_in(tmp_path)
    file.write(MEASURED)
    content = json.loads(file.path.read_text())
    BREAK[name](content)
    file.path.write_text(json.dumps(content))
    with pytest.warns(RuntimeWarning, match="is ignored; run `oneglance calibrate`"):
        assert file.read() is None


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"\xff\xfe", b"null"])
def test_a_file_that_is_no_calibration_at_all_is_ignored(tmp_path: Path, text: bytes) -> None:
    file = file_in(tmp_path)
    file.path.write_bytes(text)
    with pytest.warns(RuntimeWarning, match="cannot be used"):
        assert file.read() is None


def test_costs_begin_from_it_and_go_on_learning() -> None:
    costs = PassCosts(0.5)
    MEASURED.apply(costs)
    assert costs.is_known
    assert costs.seconds(np.array([1, 4, 10, 16])) == pytest.approx([0.01, 0.012, 0.021, 0.03])
    assert costs.seconds_of(4, 400.0) == pytest.approx(0.012 + 0.01 * 0.04)
    for _ in range(60):
        costs.note(1, 0.01)
        costs.note(4, 0.02)
    assert costs.seconds_of(4) == pytest.approx(0.02, rel=0.1)


class Clock:
    """Passes take what the cost model says; with a disturbance now and then."""

    def __init__(self, engine: ScriptedEngine) -> None:
        self.now, self.calls = 0.0, 0
        forward = engine.forward

        def timed(batch: Any) -> Any:
            (tree,) = batch.trees
            count, context = len(tree.tokens), engine.length(tree.sequence)
            self.calls += 1
            self.now += (0.01 + 0.001 * count + 2e-6 * count * context) * (1 + self.calls % 3)
            return forward(batch)

        engine.forward = timed  # type: ignore[method-assign]

    def __call__(self) -> float:
        return self.now


def test_measured_costs_are_those_of_the_machine() -> None:
    engine = ScriptedEngine(random_script(3, 0), 3, context_length=2000)
    times = measure_passes(engine, [0, 1, 2], 20.0, Clock(engine))
    measured = times.calibration(9.9)
    assert measured.rows == ROWS
    one = 0.011
    assert measured.seconds == pytest.approx([0.01 + 0.001 * n for n in ROWS], rel=0.05)
    assert measured.attention_share == pytest.approx(2e-6 / one, rel=0.1)
    assert engine.num_open == 0


def test_a_short_context_or_a_slow_machine_measures_less() -> None:
    engine = ScriptedEngine(random_script(3, 0), 3, context_length=24)
    measured = measure_passes(engine, [0], 20.0, Clock(engine)).calibration(0.5)
    assert measured.rows == tuple(n for n in ROWS if n <= 12)
    slow = ScriptedEngine(random_script(3, 0), 3, context_length=2000)
    clock = Clock(slow)
    times = measure_passes(slow, [0], 0.01, clock)
    assert all(len(each) == 1 for each in times.seconds.values())
    assert times.calibration(0.5).attention_share == 0.5


def test_costs_never_fall_with_rows() -> None:
    times = PassTimes({(32, 1): [1.0], (32, 2): [0.8], (32, 4): [1.5, 9.0]})
    assert times.calibration(0.0).seconds == pytest.approx([1.0, 1.0, 1.5])


def test_a_size_that_others_interrupted_is_no_dearer_than_smaller_passes() -> None:
    rows = (1, 2, 4, 8, 16, 32)
    quiet = np.array([1.0, 1.1, 1.2, 1.9, 3.1, 5.5])
    assert plausible(rows, quiet).tolist() == quiet.tolist()
    busy = np.array([1.0, 1.1, 1.2, 1.9, 14.8, 27.4])
    assert plausible(rows, busy) == pytest.approx([1.0, 1.1, 1.2, 1.9, 3.8, 7.6])
    assert plausible((1, 3), np.array([1.0, 9.0])) == pytest.approx([1.0, 3.0])
