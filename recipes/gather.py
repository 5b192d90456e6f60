"""Put what several trainings found into one file, for the table of docs/trained-heads.md.

    python -m recipes.gather FOLDER... --json docs/measurements/head-training.json

Each folder is one that `oneglance train` has written; its name becomes the run's name.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from oneglance.bench.report import write_report
from oneglance.bench.subject import without_folders
from oneglance.heads.folder import PROVENANCE_FILE


def gather(folders: list[Path]) -> dict[str, Any]:
    """The provenance of each training, by the name of its folder.

    Raises:
        OSError: a folder has none.
    """
    runs = {}
    for folder in folders:
        run = json.loads((folder / PROVENANCE_FILE).read_text(encoding="utf-8"))
        runs[folder.name] = run | {"command": without_folders(run["command"])}
    return {"runs": runs}


def main(
    folders: Annotated[list[Path], typer.Argument(help="Folders of trained heads, in order.")],
    out: Annotated[Path, typer.Option("--json", help="The file to write.")],
) -> None:
    """Gather the provenance of trained heads."""
    try:
        found = gather(folders)
    except OSError as error:
        raise typer.BadParameter(f"{error.filename} cannot be read: {error.strerror}.") from None
    write_report(out, found)


if __name__ == "__main__":
    typer.run(main)
