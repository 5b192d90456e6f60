"""The README's tables are what `make bench` measured; docs/bench.md tells of every figure."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from oneglance.bench.figures import results
from oneglance.bench.report import write_report
from tests.bench.runs import pair
from tests.cli.processes import run_here
from tests.docs.bench import block, shown, write
from tests.docs.documents import README, ROOT, code_blocks, read

REPORT: dict[str, Any] = {
    "command": "oneglance bench",
    "date": "2026-11-30",
    "oneglance": "0.1.0",
    "git_revision": None,
    "git_is_modified": None,
    "python": "3.11.7",
    "numpy": "2.4.6",
    "system": "Linux x86_64",
    "cpu": "CPU",
    "cores": 2,
    "load_average_before": [0.1],
    "model": "m",
    "quantization": "Q4_1 (2)",
    "engine": {"kind": "native", "isa": "avx2", "threads": 2},
    "prompts": {"file": "prompts.jsonl", "sha256": "0" * 64},
    "max_tokens": 20,
    "is_seeded": True,
    "rounds": 1,
    "results": results([pair("a1", 10, 5), pair("a2", 10, 2)]),
}


def test_the_tables_are_what_was_measured() -> None:
    assert shown(read(README)) == block(), "run `python -m tests.docs.bench`"


@pytest.fixture
def readme(tmp_path: Path) -> Path:
    path = tmp_path / "README.md"
    path.write_text("Before.\n\n<!-- figures: begin -->\n1\n<!-- figures: end -->\n\nAfter.\n")
    return path


def test_the_tables_are_put_behind_those_of_the_demo(readme: Path, tmp_path: Path) -> None:
    assert block(tmp_path) is None
    assert shown(read(readme)) is None
    write_report(tmp_path / "bench-m.json", REPORT)
    write(readme, tmp_path)
    first = read(readme)
    assert first.startswith("Before.\n\n<!-- figures: begin -->\n1\n<!-- figures: end -->\n\n<!--")
    assert first.endswith("<!-- bench: end -->\n\nAfter.\n")
    assert shown(first) == block(tmp_path)
    assert "| d | 7.0 | 3.50 (2.75–4.25) | 2.00 | 33% (20/60) |" in first
    assert "| plain | 2.0 | 1.00 (1.00–1.00) | 1.00 | – |" in first
    assert "no measure" not in first
    write(readme, tmp_path)
    assert read(readme) == first


def test_other_figures_are_noticed_and_replaced(readme: Path, tmp_path: Path) -> None:
    write_report(tmp_path / "bench-m.json", REPORT)
    write(readme, tmp_path)
    slower = {**REPORT, "results": results([pair("a1", 10, 8)]), "load_average_before": [2.0]}
    write_report(tmp_path / "bench-m.json", slower)
    assert shown(read(readme)) != block(tmp_path)
    write(readme, tmp_path)
    assert shown(read(readme)) == block(tmp_path)
    assert "1.25 (1.25–1.25)" in read(readme)
    assert "no measure" in read(readme)


def test_without_a_measurement_there_is_nothing_to_write(readme: Path, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="run `make bench`"):
        write(readme, tmp_path)


DOCUMENT = ROOT / "docs" / "bench.md"


def test_every_option_in_the_examples_exists() -> None:
    commands = "\n".join(code_blocks(read(DOCUMENT), "sh"))
    named = set(re.findall(r" (--?[a-z][a-z-]*)", re.sub(r" #.*", "", commands)))
    known = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", run_here("bench", "--help").stdout))
    assert len(named) > 8
    assert named <= known


def test_every_figure_is_defined() -> None:
    text = read(DOCUMENT)
    counts = {"prompts", "passes", "drafted", "accepted", "delivered"}
    for_documents = {"speedup_with_prompt", "draft_share", "best_peer", "speedup_over_peer"}
    for name in set(REPORT["results"]["0 all"]["d"]) - counts - for_documents:
        assert f"`{name}`" in text
