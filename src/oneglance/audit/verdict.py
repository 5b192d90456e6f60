"""What an audit says: one verdict for each property, and the report that holds them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from oneglance.audit.statistics import holm

Status = Literal["pass", "fault", "near-tie", "unclear", "not offered"]
"""pass: nothing was found. fault: the property does not hold. near-tie: answers differ where two
tokens are equally likely to within the server's own rounding noise; no fault of the rule, but not
bit-exact either. unclear: what came back does not suffice to tell. not offered: the server refused
or lacks what the check needs."""

STATUSES: tuple[Status, ...] = ("fault", "unclear", "near-tie", "not offered", "pass")


@dataclass(frozen=True)
class Verdict:
    """What was found of one property.

    Attributes:
        check: the property, such as "stop strings".
        subject: of what: a rule, a drafter, or an API of a server.
        status: see `Status`; of a statistical test it is settled by `settle`.
        detail: one sentence: what was done and found.
        sample_size: how much was looked at.
        unit: what `sample_size` counts.
        p_value: probability of data at least as extreme if the property holds; None where the
            check needs no statistics.
        adjusted_p: `p_value` corrected for the number of tests of the report (Holm).
        power: what the test would have found, from a simulation; None where there is no test.
        evidence: the cases behind a status other than pass, as plain data.
    """

    check: str
    subject: str
    status: Status
    detail: str
    sample_size: int = 0
    unit: str = "answers"
    p_value: float | None = None
    adjusted_p: float | None = None
    power: str | None = None
    evidence: tuple[Mapping[str, Any], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The verdict as it stands in the JSON report."""
        return {
            "check": self.check,
            "subject": self.subject,
            "status": self.status,
            "detail": self.detail,
            "sample_size": self.sample_size,
            "unit": self.unit,
            "p_value": self.p_value,
            "adjusted_p": self.adjusted_p,
            "power": self.power,
            "evidence": [dict(item) for item in self.evidence],
        }


@dataclass(frozen=True)
class Report:
    """All verdicts of one audit.

    Attributes:
        title: what was audited.
        verdicts: in the order in which they were reached.
        alpha: chance of at least one false alarm among the statistical tests together.
        facts: where the report comes from, and with which settings.
    """

    title: str
    verdicts: tuple[Verdict, ...]
    alpha: float
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def has_fault(self) -> bool:
        """Whether any property does not hold."""
        return any(verdict.status == "fault" for verdict in self.verdicts)

    def count(self, status: Status) -> int:
        """How many verdicts have a status."""
        return sum(verdict.status == status for verdict in self.verdicts)

    def summary(self) -> str:
        """One line, such as "1 fault, 12 pass"."""
        parts = [f"{self.count(status)} {status}" for status in STATUSES if self.count(status)]
        return ", ".join(parts) or "nothing was checked"

    def to_dict(self) -> dict[str, Any]:
        """The JSON report."""
        return {
            "title": self.title,
            **self.facts,
            "alpha": self.alpha,
            "has_fault": self.has_fault,
            "summary": self.summary(),
            "verdicts": [verdict.to_dict() for verdict in self.verdicts],
        }


def settle(verdicts: Iterable[Verdict], alpha: float) -> tuple[Verdict, ...]:
    """Corrects the p-values for their number (Holm, 1979); those below `alpha` become faults."""
    found = list(verdicts)
    tested = [index for index, verdict in enumerate(found) if verdict.p_value is not None]
    adjusted = holm([_p_value(found[index]) for index in tested])
    for index, value in zip(tested, adjusted, strict=True):
        status: Status = "fault" if value < alpha else found[index].status
        found[index] = replace(found[index], adjusted_p=value, status=status)
    return tuple(found)


def _p_value(verdict: Verdict) -> float:
    assert verdict.p_value is not None, "only tests have a p-value"
    return verdict.p_value


def worst(statuses: Sequence[Status]) -> Status:
    """The most serious of some statuses; pass if there are none."""
    return min(statuses, key=STATUSES.index, default="pass")
