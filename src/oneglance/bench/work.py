"""Runs of a benchmark, kept in a file as their groups are finished.

A group that was interrupted is run again from its beginning.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from oneglance.bench.plan import Group
from oneglance.bench.run import Run
from oneglance.errors import ParameterError


@dataclass
class LineFile(ABC):
    """What is finished, a line for each part, behind a line that says how it was measured.

    Attributes:
        path: where it is kept; None: in memory.
        settings: how it is measured; parts of other settings are not mixed with it.
        load_averages: of the machine, each time the benchmark was begun or taken up again.
    """

    path: Path | None
    settings: Mapping[str, Any]
    load_averages: list[float] = field(default_factory=list)

    def open(self, load_average: float) -> None:
        """Reads what an earlier process did, or begins the file.

        Args:
            load_average: of the machine now.

        Raises:
            ParameterError: it was begun with other settings.
        """
        lines = [] if self.path is None else _whole_lines(self.path)
        for line in lines:
            self._read(line)
        if not lines:
            self._write({"settings": self.settings})
        self.load_averages.append(load_average)
        self._write({"load_average": load_average})

    @abstractmethod
    def _take(self, line: Mapping[str, Any]) -> None:
        """Takes a part as an earlier process wrote it."""

    def _read(self, line: Mapping[str, Any]) -> None:
        if "settings" in line:
            self._compare(line["settings"])
        elif "load_average" in line:
            self.load_averages.append(line["load_average"])
        else:
            self._take(line)

    def _compare(self, begun: Mapping[str, Any]) -> None:
        assert self.path is not None, "only a file has been begun by another process"
        for name, value in json.loads(json.dumps(self.settings)).items():
            if begun.get(name) != value:
                raise ParameterError(
                    f"{self.path.name} was begun with {name} = {begun.get(name)!r}, not "
                    f"{value!r}; remove it, or write to another --json."
                )

    def _write(self, line: Mapping[str, Any]) -> None:
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


@dataclass
class WorkFile(LineFile):
    """Finished groups, a line for each.

    Attributes:
        groups: the runs of each group, by subject; several if it was run with other subjects too.
    """

    groups: dict[tuple[str, float, int], list[dict[str, Run]]] = field(default_factory=dict)

    def find(self, group: Group, labels: Iterable[str]) -> dict[str, Run] | None:
        """The runs of these subjects if they were measured together, else None."""
        for runs in self.groups.get(group.key, []):
            if set(labels) <= set(runs):
                return {label: runs[label] for label in labels}
        return None

    def add(self, runs: Sequence[Run]) -> None:
        """Keeps a group that is finished."""
        self._keep(runs)
        self._write({"runs": [asdict(run) for run in runs]})

    def remove_if_empty(self) -> None:
        """Removes the file if there is nothing in it to go on with."""
        if self.path is not None and not self.groups:
            self.path.unlink(missing_ok=True)

    def _take(self, line: Mapping[str, Any]) -> None:
        self._keep([Run.read(run) for run in line["runs"]])

    def _keep(self, runs: Sequence[Run]) -> None:
        first = runs[0]
        key = first.prompt, first.temperature, first.round
        self.groups.setdefault(key, []).append({run.subject: run for run in runs})


def holds_runs(path: Path) -> bool:
    """Whether a file has groups that are finished."""
    return any("runs" in line for line in _whole_lines(path))


def _whole_lines(path: Path) -> list[dict[str, Any]]:
    """The file's objects; a last line that a kill cut short is removed from it."""
    content = path.read_bytes() if path.exists() else b""
    whole = content[: content.rfind(b"\n") + 1]
    if len(whole) < len(content):
        path.write_bytes(whole)
    return [json.loads(line) for line in whole.decode("utf-8").splitlines()]
