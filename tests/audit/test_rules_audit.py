"""Enumeration of the rules: right ones pass, mutants are caught, and a blind audit says so."""

from __future__ import annotations

from dataclasses import replace

from oneglance.audit.rules import audit
from oneglance.audit.rules.subjects import fixed_subjects, subjects
from oneglance.verify.point_mass import accept_point_mass


def test_every_rule_is_exact_and_every_mutant_caught() -> None:
    chain, *_, points = subjects()
    for subject in (chain, points):
        small = replace(subject, drafts=subject.drafts[:2])
        mutants = [replace(mutant, drafts=mutant.drafts[:2]) for mutant in subject.mutants]
        small = replace(small, mutants=tuple(mutants))
        found = list(audit._audit_drawing(small, num_tables=1, seed=0))
        assert [verdict.status for verdict in found] == ["pass"] * (1 + len(mutants))
    for fixed in fixed_subjects():
        found = list(audit._audit_fixed(fixed, num_tables=1, seed=0))
        assert [verdict.status for verdict in found] == ["pass"] * (1 + len(fixed.mutants))


def test_a_broken_rule_and_a_mutant_that_goes_unseen_are_faults() -> None:
    *_, points = subjects()
    biased, _, short = points.mutants
    small = replace(points, rule=biased.rule, drafts=points.drafts[:1], mutants=())
    assert next(audit._audit_drawing(small, 1, 0)).status == "fault"
    for mutant in (biased, short):
        harmless = replace(mutant, rule=accept_point_mass, drafts=points.drafts[:1])
        assert audit._audit_mutant(points, harmless, 1, 0).status == "fault"
    greedy, coupled = fixed_subjects()
    broken = replace(greedy, decide=greedy.mutants[0][1], mutants=(("none", greedy.decide),))
    found = list(audit._audit_fixed(broken, 1, 0))
    assert [verdict.status for verdict in found] == ["fault", "fault"]
    assert coupled.is_seeded
