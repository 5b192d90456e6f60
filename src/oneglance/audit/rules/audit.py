"""`oneglance audit rules`: every accept rule enumerated on random tables, and its mutants too."""

from __future__ import annotations

from collections.abc import Iterator

from oneglance.audit.rules.deterministic import count_changed
from oneglance.audit.rules.subjects import (
    DraftKind,
    FixedSubject,
    Mutant,
    Subject,
    fixed_subjects,
    subjects,
)
from oneglance.audit.rules.tables import Exactness, Rule, measure, table_pairs
from oneglance.audit.verdict import Verdict
from oneglance.types import ProgressCallback

TOLERANCE = 1e-12
"""Total variation that rounding of sums of float64 can explain."""

CLEAR_BIAS = 1e-3
"""A mutant has to be this far off on some table to count as caught."""

VOCAB_SIZE = 3


def audit_rules(
    num_tables: int = 3, seed: int = 0, progress: ProgressCallback | None = None
) -> list[Verdict]:
    """Measures every rule and every mutant; nothing is sampled, so there are no p-values.

    Args:
        num_tables: random pairs of target and draft for each kind of table; kinds include zeros
            in either law, one-hot laws, and equal and partly equal laws.
        seed: which tables.
        progress: told after each rule.
    """
    every: list[Subject | FixedSubject] = [*subjects(), *fixed_subjects()]
    verdicts: list[Verdict] = []
    for index, subject in enumerate(every):
        if isinstance(subject, Subject):
            verdicts += _audit_drawing(subject, num_tables, seed)
        else:
            verdicts += _audit_fixed(subject, num_tables, seed)
        if progress is not None:
            progress("enumerate rules", index + 1, len(every))
    return verdicts


def _audit_drawing(subject: Subject, num_tables: int, seed: int) -> Iterator[Verdict]:
    found = list(_measurements(subject.rule, subject.drafts, num_tables, seed))
    distance = max(exactness.total_variation for exactness in found)
    yield Verdict(
        check="law",
        subject=subject.name,
        status="pass" if distance < TOLERANCE else "fault",
        detail=f"The joint law differs from the target's by {distance:.1e} in total variation.",
        sample_size=len(found),
        unit="joint laws",
    )
    for mutant in subject.mutants:
        yield _audit_mutant(subject, mutant, num_tables, seed)


def _audit_mutant(subject: Subject, mutant: Mutant, num_tables: int, seed: int) -> Verdict:
    """A mutant that is not caught is a fault of the audit: then it could not see this bias."""
    found = list(_measurements(mutant.rule, mutant.drafts, num_tables, seed))
    if mutant.shortens:
        right = _measurements(subject.rule, mutant.drafts, num_tables, seed)
        pairs = zip(found, right, strict=True)
        distance = max(whole.mean_accepted - short.mean_accepted for short, whole in pairs)
        what = f"It keeps {distance:.2g} tokens fewer per pass"
    else:
        distance = max(exactness.total_variation for exactness in found)
        what = f"Its law is off by {distance:.2g}"
    is_caught = distance > CLEAR_BIAS
    return Verdict(
        check=f"mutant: {mutant.name}",
        subject=subject.name,
        status="pass" if is_caught else "fault",
        detail=f"{what}: {'caught' if is_caught else 'NOT caught'}.",
        sample_size=len(found),
        unit="joint laws",
    )


def _measurements(
    rule: Rule, drafts: tuple[DraftKind, ...], num_tables: int, seed: int
) -> Iterator[Exactness]:
    for index in range(num_tables):
        for target, draft in table_pairs(VOCAB_SIZE, seed + 100 * index).values():
            for kind in drafts:
                yield measure(rule, kind.draft(draft), target, kind.length)


def _audit_fixed(subject: FixedSubject, num_tables: int, seed: int) -> Iterator[Verdict]:
    size = 20 * num_tables
    num_tokens, num_changed = count_changed(subject.decide, subject.is_seeded, size, seed)
    yield Verdict(
        check="tokens of plain decoding",
        subject=subject.name,
        status="fault" if num_changed else "pass",
        detail=f"{num_changed} of {size} answers differ from plain decoding.",
        sample_size=num_tokens,
        unit="tokens",
    )
    for name, decide in subject.mutants:
        num_tokens, num_changed = count_changed(decide, subject.is_seeded, size, seed)
        yield Verdict(
            check=f"mutant: {name}",
            subject=subject.name,
            status="pass" if num_changed else "fault",
            detail=f"{num_changed} of {size} answers differ: "
            f"{'caught' if num_changed else 'NOT caught'}.",
            sample_size=num_tokens,
            unit="tokens",
        )
