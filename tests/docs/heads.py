"""The tables of docs/trained-heads.md: what training found.

`python -m tests.docs.heads` writes them; a test compares. `python -m recipes.gather` wrote
docs/measurements/head-training.json from the provenance of each training; the curves of the heads
that are shipped come from the provenance that is shipped with them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from oneglance.bench.grid import Grid
from oneglance.heads.folder import PROVENANCE_FILE
from oneglance.heads.shipped import FOLDER, SHIPPED
from tests.docs.documents import ROOT, write_blocks
from tests.docs.performance import load_report

DOCUMENT = ROOT / "docs" / "trained-heads.md"
MEASUREMENT = ROOT / "docs" / "measurements" / "head-training.json"


def blocks() -> dict[str, str]:
    """Every generated block of the document: its name, and what belongs there."""
    shipped = {name: json.loads(_provenance(name)) for name in SHIPPED.values()}
    return {
        "shipped": shipped_grid(shipped).to_markdown(),
        "ablations": ablation_grid(load_report(MEASUREMENT)["runs"]).to_markdown(),
        "curves": "\n\n".join(
            curve_grid(title, run).to_markdown()
            for name, head in shipped.items()
            for title, run in _trainings(name, head)
        ),
    }


def shipped_grid(heads: dict[str, dict[str, Any]]) -> Grid:
    """A row for each head that comes with the package."""
    return Grid(
        "Heads of the package, on held-out answers",
        ("head", "target", "megabytes", "trained on", "rows seen", *_found_columns(3)),
        tuple(
            (
                f"`{name}`",
                run["target"],
                f"{sum(file.stat().st_size for file in (FOLDER / name).iterdir()) / 1e6:.1f}",
                f"{_thousands(run['collection']['num_tokens_with_prompts'])} rows of "
                f"{run['collection']['num_answers']} answers",
                _thousands(
                    sum(_rows_seen(each, each["num_steps"]) for _, each in _trainings(name, run))
                ),
                *_found(run["held_out"], 3),
            )
            for name, run in heads.items()
        ),
    )


def ablation_grid(runs: dict[str, dict[str, Any]]) -> Grid:
    """A row for each training, in the order of the file."""
    rows = []
    for run in runs.values():
        settings, training = run["settings"], run["training"]
        rows.append(
            (
                str(settings["layers"]),
                str(settings["ffn"]),
                ", ".join(map(str, settings["features"] or (2, 15, 27))),
                settings["init"],
                "parallel" if settings["parallel"] else "one by one",
                str(training["batch_tokens"]),
                f"{training['learning_rate']:g}",
                str(run["num_steps"]),
                *_found(run["held_out"], 3),
            )
        )
    return Grid(
        "Trainings on the same answers",
        (
            "layers",
            "ffn",
            "features",
            "begins from",
            "drafts",
            "rows a step",
            "rate",
            "steps",
            *_found_columns(3),
        ),
        tuple(rows),
    )


def curve_grid(title: str, run: dict[str, Any]) -> Grid:
    """The evaluations of one training, in order."""
    return Grid(
        title,
        ("steps", "rows seen", "loss", *_found_columns(3)),
        tuple(
            (
                str(point["step"]),
                _thousands(_rows_seen(run, point["step"])),
                "–" if point["loss"] is None else f"{point['loss']:.2f}",
                *_found(point, 3),
            )
            for point in run["curve"]
        ),
    )


def _trainings(name: str, run: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The trainings of a head, each begun from the one before, with titles."""
    before = run.get("begun_from")
    if before is None:
        return [(f"`{name}` while it was trained", run)]
    return [
        *_trainings(name, before),
        (f"`{name}` going on from there, on other held-out answers", run),
    ]


def _found_columns(depths: int) -> tuple[str, ...]:
    ordinals = ("first", "second", "third")[:depths]
    return (*(f"{ordinal} token" for ordinal in ordinals), "at T = 1", "length")


def _found(point: dict[str, Any], depths: int) -> tuple[str, ...]:
    rates = [f"{rate:.3f}" for rate in point["acceptance"][:depths]]
    return (*rates, f"{point['overlap']:.3f}", f"{point['mean_accepted_length']:.2f}")


def _rows_seen(run: dict[str, Any], steps: int) -> int:
    """At most: a step takes as many rows as fit, padding included."""
    count: int = steps * run["training"]["batch_tokens"]
    return count


def _thousands(count: int) -> str:
    return f"{count / 1e6:.2f} M" if count >= 1_000_000 else f"{count / 1e3:.0f} k"


def _provenance(name: str) -> str:
    return (Path(FOLDER) / name / PROVENANCE_FILE).read_text(encoding="utf-8")


if __name__ == "__main__":
    write_blocks(DOCUMENT, blocks())
