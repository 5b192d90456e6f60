"""Collects what a check sees, case by case, and says it in one verdict."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from oneglance.audit.verdict import Status, Verdict

MAX_EVIDENCE = 8
"""Cases that a report shows of one verdict; the sentence says how many there were."""


@dataclass
class Tally:
    """Cases of one check.

    Attributes:
        check: the property.
        subject: of what.
        unit: what is counted.
        size: how many were looked at.
    """

    check: str
    subject: str
    unit: str = "answers"
    size: int = 0
    _cases: list[tuple[Status, str, dict[str, Any]]] = field(default_factory=list)

    def note(self, status: Status, what: str, **evidence: Any) -> None:
        """Records a case that is not as it should be: what is wrong, and the data."""
        self._cases.append((status, what, evidence))

    def fault(self, what: str, **evidence: Any) -> None:
        """Records a case in which the property does not hold."""
        self.note("fault", what, **evidence)

    def verdict(self, right: str) -> Verdict:
        """Sums up: the most serious status, its first case and how many there were.

        Args:
            right: the sentence if there is nothing to object to.
        """
        for status in ("fault", "near-tie", "unclear", "not offered"):
            cases = [case for case in self._cases if case[0] == status]
            if cases:
                more = f" (and {len(cases) - 1} more)" if len(cases) > 1 else ""
                evidence = tuple({"case": what, **data} for _, what, data in cases[:MAX_EVIDENCE])
                return self._verdict(status, f"{cases[0][1]}{more}", evidence)
        if not self.size:
            return self._verdict("unclear", "There was nothing to look at.", ())
        return self._verdict("pass", right, ())

    def _verdict(self, status: Any, detail: str, evidence: tuple[dict[str, Any], ...]) -> Verdict:
        return Verdict(
            check=self.check,
            subject=self.subject,
            status=status,
            detail=detail,
            sample_size=self.size,
            unit=self.unit,
            evidence=evidence,
        )
