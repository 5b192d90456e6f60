"""A benchmark from its subjects to its report; the command line only says what is wanted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from oneglance.bench.endpoint import Endpoint
from oneglance.bench.machine import held_memory, peak_memory, read_bandwidth
from oneglance.bench.measure import Questions, finished, measure, warm_up
from oneglance.bench.plan import Plan
from oneglance.bench.prompts import PromptFile
from oneglance.bench.report import make_report, raw_runs
from oneglance.bench.run import Run
from oneglance.bench.subject import Subject, without_folders
from oneglance.bench.variant import Variant, check_prompts
from oneglance.bench.work import WorkFile, holds_runs
from oneglance.errors import ParameterError
from oneglance.llm import LLM


@dataclass(frozen=True)
class Session:
    """What is measured, and where it is kept.

    Attributes:
        plan: what is asked.
        variants: drafters on our model, plain decoding first; none where only servers are asked.
        endpoints: servers that answer the same prompts.
        llm: our model; None without variants.
        work: the finished groups.
    """

    plan: Plan
    variants: Sequence[Variant]
    endpoints: Sequence[Endpoint]
    llm: LLM | None
    work: WorkFile

    @property
    def subjects(self) -> list[Subject]:
        """All who answer; the others are compared with the first."""
        return [*self.variants, *self.endpoints]

    @property
    def questions(self) -> Questions:
        """Makes the question of each group."""
        return Questions(self.plan, None if self.llm is None else self.llm.encode)

    def prepare(self) -> dict[str, int]:
        """Refuses prompts that cannot be answered, and has every subject give a short answer.

        Returns:
            For each of our subjects the bytes of memory that the process held more after that.

        Raises:
            OneglanceError: a drafter cannot be had, a prompt is too long, a server fails.
        """
        taken: dict[str, int] = {}
        before, last = held_memory(), None
        for label in chain(warm_up(self.plan, self.questions, self.subjects), [None]):
            now = held_memory()
            if last is not None and before is not None and now is not None:
                taken[last] = max(now - before, 0)
            before, last = now, label
        check_prompts(self.plan, self.questions, self.variants)
        names = {variant.label for variant in self.variants}
        return {label: size for label, size in taken.items() if label in names}

    def run(self, report: Callable[[int, int, dict[str, Run]], None]) -> None:
        """Measures every group that is not finished yet; see `measure`."""
        measure(self.plan, self.questions, self.subjects, self.work, report)

    def groups(self) -> list[dict[str, Run]]:
        """The finished groups."""
        return finished(self.plan, self.subjects, self.work)

    def report(self, origin: Mapping[str, object], taken_by: Mapping[str, int]) -> dict[str, Any]:
        """What is written: everything about the groups that are finished, at least one.

        Args:
            origin: command, versions and machine.
            taken_by: as `prepare` returned it.
        """
        groups, planned = self.groups(), len(self.plan.groups())
        described = {each.label: each.describe() for each in self.variants}
        described |= {each.label: each.describe() for each in self.endpoints}
        info = None if self.llm is None else self.llm.engine.info
        # Before the bandwidth is measured, which takes memory of its own.
        memory = None if info is None else {"peak": peak_memory(), "taken_by": taken_by}
        return {
            **make_report(origin, self.plan, described, groups, self.work),
            "is_complete": len(groups) == planned,
            "groups": {"done": len(groups), "planned": planned},
            "read_bandwidth": None if info is None else read_bandwidth(info),
            "memory": memory,
            "runs": raw_runs(groups),
        }


def settings_of(
    model: str | None,
    llm: LLM | None,
    file: PromptFile,
    plan: Plan,
    origin: Mapping[str, object],
) -> dict[str, Any]:
    """All that must be alike for runs to be put together.

    Args:
        model: as it was asked for.
        llm: the model; None where only servers are asked.
        file: the prompts.
        plan: how they are asked.
        origin: command, versions and machine.
    """
    return {
        "model": None if model is None else without_folders(model),
        "quantization": None if llm is None else llm.checkpoint.quantization_summary(),
        "engine": None if llm is None else llm.engine.info.to_dict(),
        "prompts": {"file": file.name, "sha256": file.sha256},
        "max_tokens": plan.max_tokens,
        "is_seeded": plan.is_seeded,
        "cpu": origin["cpu"],
        "git_revision": origin["git_revision"],
    }


def work_path(report_path: Path | None) -> Path | None:
    """Where finished groups are kept while a report is made."""
    return None if report_path is None else report_path.with_suffix(".runs.jsonl")


def check_interrupted(path: Path | None, is_resumed: bool) -> None:
    """Refuses to mix a new measurement with one that was interrupted, if that finished anything.

    Raises:
        ParameterError: there is one, and it is not to be taken up again.
    """
    if path is not None and not is_resumed and holds_runs(path):
        raise ParameterError(
            f"{path.name} holds what an interrupted run has measured; add --resume to go on with "
            "it, or remove it."
        )
    if path is not None and not is_resumed:
        path.unlink(missing_ok=True)
