"""What `oneglance plan` found, in lines for a person and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from oneglance.cli.regime_plot import plot
from oneglance.control.calibration import Calibration
from oneglance.control.cost import PassCosts
from oneglance.control.other_engines import settings_for
from oneglance.control.plan import (
    BATCHES,
    Draft,
    best_length,
    bigger_draft,
    break_even_acceptance,
    expected_tokens,
    last_paying_batch,
    speedup,
)
from oneglance.control.regime import (
    BatchTimes,
    Roofline,
    measure_batches,
    roofline,
    sentence,
    speedups,
)

if TYPE_CHECKING:
    from oneglance.llm import LLM

_BATCHES = (1, 2, 4, 8, 16)
_READ_BYTES = 256 << 20


class Report:
    """Drafters compared on one target.

    `measured` pairs each drafter with the tokens per pass that it reached.
    """

    def __init__(self, costs: Calibration, measured: Sequence[tuple[Draft, float]]) -> None:
        """Takes what was measured; at least one drafter."""
        self._passes = PassCosts()
        costs.apply(self._passes)
        self.one_row = costs.seconds[0]
        self._measured = list(measured)

    def verify(self, num_rows: int) -> float:
        """Cost of a pass in passes of one row."""
        return self._passes.seconds_of(num_rows) / self.one_row

    @property
    def best(self) -> tuple[Draft, int]:
        """The drafter and length of greatest speedup for one sequence."""
        drafts = [(draft, best_length(draft, self.verify)) for draft, _ in self._measured]
        return max(drafts, key=lambda each: speedup(each[0], each[1], self.verify))

    def settings(self, engine: str) -> str:
        """The advice as options of another engine."""
        draft, length = self.best
        return settings_for(engine, draft.name, length)

    def to_dict(self) -> dict[str, Any]:
        """All figures, for scripts."""
        rows = [self._row(draft, tokens) for draft, tokens in self._measured]
        draft, length = self.best
        return {"drafters": rows, "best": {"drafter": draft.name, "k": length}}

    def lines(self) -> list[str]:
        """A table and the advice."""
        heads = ("acceptance", "measured", "best K", "expected", "speedup", "batch", "bigger")
        lines = [
            "drafter".ljust(25) + "".join(head.rjust(11) for head in heads),
        ]
        for draft, tokens in self._measured:
            row = self._row(draft, tokens)
            batch = "none" if row["last_paying_batch"] is None else str(row["last_paying_batch"])
            cells = (
                f"{draft.acceptance:.2f}",
                f"{tokens:.2f}",
                f"{row['best_k']}",
                f"{row['expected_tokens']:.2f}",
                f"{row['speedup']:.2f}",
                batch,
                f"{row['bigger_speedup']:.2f}",
            )
            lines.append(draft.name.ljust(25) + "".join(cell.rjust(11) for cell in cells))
        lines += [
            "measured, expected: tokens of a pass, with 4 drafted and with the best K; batch: the",
            "most sequences for which it pays; bigger: speedup of a draft model 4 times as dear",
            "that is rejected a third as often (70 % accepted become 90 %).",
        ]
        draft, length = self.best
        if length == 0:
            lines.append("Speculation does not pay with these drafters here: use the drafter none.")
            return lines
        gain = speedup(draft, length, self.verify)
        least = break_even_acceptance(draft, self.verify)
        assert least is not None, "it pays with the acceptance that it has"
        lines.append(
            f"Use {draft.name} with K = {length}: {gain:.2f} "
            f"times plain decoding; it pays from an acceptance of {least:.2f} on."
        )
        return lines

    def _row(self, draft: Draft, tokens_per_pass: float) -> dict[str, Any]:
        length, bigger = best_length(draft, self.verify), bigger_draft(draft)
        expected = expected_tokens(draft.acceptance, length) - 1.0
        return {
            **asdict(draft),
            "tokens_per_pass": tokens_per_pass,
            "best_k": length,
            "expected_tokens": 1.0 + draft.coverage * expected,
            "speedup": speedup(draft, length, self.verify),
            "last_paying_batch": last_paying_batch(draft, self.verify, BATCHES),
            "bigger_speedup": speedup(bigger, best_length(bigger, self.verify), self.verify),
        }


@dataclass(frozen=True)
class RegimeReport:
    """What `--regime` measured.

    Attributes:
        title: of the plot.
        times: passes by batch size.
        num_draft_tokens: K.
        gains: speedup at each batch size.
        limits: of the machine.
    """

    title: str
    times: list[BatchTimes]
    num_draft_tokens: int
    gains: list[float]
    limits: Roofline

    @classmethod
    def measure(cls, llm: LLM, report: Report, budget_seconds: float = 10.0) -> RegimeReport:
        """Measures passes at several batch sizes, with the drafts of the best drafter."""
        draft, length = report.best
        length = max(length, 1)
        tokens = llm.tokenizer.encode("The quick brown fox jumps over the lazy dog.")
        times = measure_batches(llm.engine, tokens, _BATCHES, length, budget_seconds)
        gains = speedups(times, draft, length, report.one_row)
        limits = roofline(times, length, _read_seconds(llm))
        title = f"{llm.checkpoint.name}: passes by rows, {draft.name}, K = {length}"
        return cls(title, times, length, gains, limits)

    def lines(self) -> list[str]:
        """A table and a sentence."""
        lines = [f"batch  plain ms  K = {self.num_draft_tokens} ms  speedup"]
        lines += [
            f"{each.batch:5} {1000 * each.plain:9.1f} {1000 * each.verifying:9.1f} {gain:8.2f}"
            for each, gain in zip(self.times, self.gains, strict=True)
        ]
        return [*lines, sentence(self.times, self.gains, self.limits)]

    def to_dict(self) -> dict[str, Any]:
        """All figures, for scripts."""
        return {**asdict(self), "ridge_rows": self.limits.ridge}

    def plot(self) -> str:
        """As SVG."""
        return plot(self.title, self.times, self.num_draft_tokens, self.limits)


def _read_seconds(llm: LLM) -> float | None:
    """How long the memory takes to give all weights once; None where that is not known."""
    info, path = llm.engine.info, llm.checkpoint.path
    if info.kind != "native" or not path.is_file():
        return None
    import numpy as np

    from oneglance import _native

    runtime = _native.Runtime(info.isa or "", info.num_threads)
    data = np.ones(_READ_BYTES, dtype=np.uint8)
    seconds = min(_native.time_read(runtime, data) for _ in range(3))
    return seconds * path.stat().st_size / _READ_BYTES
