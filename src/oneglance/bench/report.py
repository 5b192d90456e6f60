"""What a benchmark writes: where its figures come from, the figures, and every run."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from oneglance.bench.figures import Groups, results
from oneglance.bench.plan import Plan
from oneglance.bench.work import WorkFile


def make_report(
    origin: Mapping[str, object],
    plan: Plan,
    subjects: Mapping[str, Mapping[str, object]],
    groups: Groups,
    work: WorkFile,
) -> dict[str, Any]:
    """Where the figures come from, how they were measured, and the figures.

    Args:
        origin: command, versions and machine.
        plan: what was asked.
        subjects: what each was, by label.
        groups: the runs of each group, by subject.
        work: has the settings, and how busy the machine was.
    """
    return {
        **origin,
        "load_average_before": work.load_averages,
        "load_average_after": os.getloadavg(),
        **work.settings,
        "rounds": plan.rounds,
        "subjects": subjects,
        "results": results(groups),
    }


def raw_runs(groups: Groups) -> list[dict[str, Any]]:
    """Every run with its raw counts and seconds, in the order of the plan."""
    return [asdict(run) for group in groups for run in group.values()]


def write_report(path: Path, report: Mapping[str, Any]) -> None:
    """Writes JSON with a line for each value of the two uppermost levels."""
    fields = []
    for key, value in report.items():
        if isinstance(value, Mapping):
            items = [f"\n  {json.dumps(name)}: {json.dumps(item)}" for name, item in value.items()]
            fields.append(f"{json.dumps(key)}: {{{','.join(items)}\n }}")
        elif _is_list_of_objects(value):
            items = [f"\n  {json.dumps(item)}" for item in value]
            fields.append(f"{json.dumps(key)}: [{','.join(items)}\n ]")
        else:
            fields.append(f"{json.dumps(key)}: {json.dumps(value)}")
    lines = ",\n ".join(fields)
    path.write_text(f"{{\n {lines}\n}}\n", encoding="utf-8")


def _is_list_of_objects(value: object) -> bool:
    return isinstance(value, Sequence) and any(isinstance(item, Mapping) for item in value)
