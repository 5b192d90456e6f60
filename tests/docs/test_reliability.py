"""The document on the server under load shows what was measured, and how to measure it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks.load.figures import level_results
from benchmarks.load.parts import PARTS
from benchmarks.reliability import parse_arguments
from benchmarks.serving_options import parse_arguments as parse_serving
from oneglance.bench.report import write_report
from tests.benchmarks.load_runs import load_round
from tests.docs.documents import ROOT, between, code_blocks, read
from tests.docs.reliability import DOCUMENT, NOTHING, blocks

ORIGIN: dict[str, Any] = {
    "command": "python -m benchmarks.serving",
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
    "load_average_after": [0.1],
    "model": "m",
    "quantization": "Q4_1 (2)",
}
SERVING: dict[str, Any] = ORIGIN | {
    "prompts": {"file": "p.jsonl", "sha256": "0" * 64, "count": 8},
    "max_tokens": 20,
    "least_requests": 4,
    "rounds": 2,
    "llama_server": "77 (abc1234)",
    "llama_commands": {"llama-server plain": "llama-server -np 1"},
    "results": {"4": level_results([load_round(0), load_round(1)])},
}
HELD = {"pages": 9, "cached_tokens": 419, "in_progress": 0}
RELIABILITY: dict[str, Any] = ORIGIN | {
    "minutes": 10.0,
    "streams": 64,
    "questions": 48,
    "seed": 1,
    "server": {"pages": 96},
    "storm": {
        "outcomes": {"stream": {"count": 900, "wrong": 2}, "cancel": {"count": 70, "wrong": 0}},
        "tokens": 12345,
        "preemptions": 17.0,
    },
    "pages": {"before": HELD, "after": HELD},
    "memory": {"growth": 0.004, "is_judged": True, "samples": []},
    "restart": {"streams": 16, "finished": 16, "refused": 40, "seconds_to_end": 3.0},
    "fuzz": {"bodies": 7, "statuses": {"valid 200": 2, "broken text 200": 1, "broken text 400": 4}},
    "schemathesis": {"version": "4.32.5", "operations": 7, "cases": 1300},
    "num_problems": {
        **{"storm": 3, "pages": 0, "memory": 0, "restart": 0, "fuzz": 0, "schemathesis": 0},
    },
}


@pytest.mark.parametrize("name", blocks())
def test_the_tables_are_what_was_measured(name: str) -> None:
    expected = blocks()[name]
    assert between(read(DOCUMENT), name) == expected, "run `python -m tests.docs.reliability`"


def test_without_a_measurement_the_document_says_so(tmp_path: Path) -> None:
    assert set(blocks(tmp_path).values()) == {NOTHING}


def test_the_load_is_shown_with_its_conditions(tmp_path: Path) -> None:
    write_report(tmp_path / "serving-m.json", SERVING)
    shown = blocks(tmp_path)["serving"]
    speeds = "40.0 (40.0–40.0) | 20.0 (20.0–20.0) | 10.0 (10.0–10.0) | 5.0 (5.0–5.0)"
    assert f"| 4 | {speeds} | 2.00 (2.00–2.00) | 4.00 (4.00–4.00) |" in shown
    assert "| 4 | 250 / 400 |" in shown
    assert "asking took at most 20.0% of the processor time" in shown
    assert "llama.cpp 77 (abc1234), llama-server plain: `llama-server -np 1`" in shown
    assert "no measure" not in shown
    write_report(tmp_path / "serving-m.json", SERVING | {"load_average_before": [1.5]})
    assert "**The machine was busy" in blocks(tmp_path)["serving"]


def test_reliability_is_shown_with_what_was_wrong(tmp_path: Path) -> None:
    write_report(tmp_path / "reliability.json", RELIABILITY)
    shown = blocks(tmp_path)["reliability"]
    assert "64 streams at once for 10 minutes" in shown
    assert "| clients: stream | 900 | 2 |" in shown
    assert "| tokens delivered and compared | 12345 | 3 |" in shown
    assert "| pages in use, before → after | 9 → 9 | 0 |" in shown
    assert "| growth of memory after the warm-up | 0.40% | 0 |" in shown
    assert "| bodies (3 with 200, 4 with 400) | 7 | 0 |" in shown
    assert "server with pages = 96" in shown


@pytest.mark.parametrize("part", PARTS)
def test_a_run_of_some_parts_is_not_published(tmp_path: Path, part: str) -> None:
    rest = {name: value for name, value in RELIABILITY.items() if name != part}
    (tmp_path / "reliability.json").write_text(json.dumps(rest))
    with pytest.raises(AssertionError, match=f"{part} was left out"):
        blocks(tmp_path)


def test_the_commands_are_tasks_of_the_makefile_with_options_that_exist() -> None:
    commands = "".join(code_blocks(read(DOCUMENT), "sh")).splitlines()
    makefile = read(ROOT / "Makefile")
    assert len(commands) == 7
    for line in commands:
        task = line.split()[1]
        assert f"\n{task}: " in makefile
        for arguments in re.findall(r'ARGS="([^"]*)"', line):
            words = arguments.replace("reliability.json", "r").replace("parts.json", "p").split()
            parse_arguments("x", words) if task == "reliability" else parse_serving("x", words)
