"""The scripts run, on the default model and at the smallest settings, and write what they say."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.grids import all_grids
from oneglance import _native
from oneglance.bench.grid import busy_warning
from tests.docs.documents import ROOT

TINY = ("--rounds", "1", "--rows", "2", "--contexts", "16", "--tokens", "4")


def run_script(name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", f"benchmarks.{name}", *map(str, arguments)]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture(scope="module")
def engine_report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("engine") / "engine.json"
    done = run_script("engine", *TINY, "--json", path)
    assert done.returncode == 0, done.stderr
    assert "plain decoding" in done.stdout
    report: dict[str, Any] = json.loads(path.read_text())
    return report


def test_the_engine_report_has_a_sample_of_everything(engine_report: dict[str, Any]) -> None:
    samples = engine_report["samples"]
    names = {name.split()[0] for name in samples}
    assert names >= {"read", "pass", "kernels", "products", "attention", "plain", "prefill"}
    assert {"pass 16 1", "pass 16 2", "load", "first token"} <= set(samples)
    assert all(len(rounds) == 1 for rounds in samples.values())
    assert samples["plain"][0]["tokens"] == 4
    assert engine_report["isa"] in _native.available_isas()
    assert engine_report["pass_bytes"] == engine_report["weight_bytes"]  # its matrices are tied


def test_kernels_take_most_of_a_pass(engine_report: dict[str, Any]) -> None:
    times = dict(engine_report["samples"]["kernels 16 1"][0])
    whole = times.pop("pass")
    assert set(times) >= {"embed", "attention_block", "mlp_block", "head"}
    assert 0.5 * whole < sum(times.values()) < whole


@pytest.mark.parametrize(("load", "is_busy"), [(0.9, False), (1.1, True)])
def test_a_busy_machine_is_told(engine_report: dict[str, Any], load: float, is_busy: bool) -> None:
    report = engine_report | {"load_average_before": [load, 0.0, 0.0], "cores": 2}
    assert ("no measure" in busy_warning(report)) is is_busy


def test_every_table_can_be_written(engine_report: dict[str, Any]) -> None:
    for grid in all_grids(engine_report):
        table = grid.to_markdown().splitlines()[2:]
        assert len({line.count("|") for line in table}) == 1
        assert len(table) == len(grid.rows) + 2


def test_perplexity_goes_on_where_it_was(tmp_path: Path) -> None:
    arguments = ("--window", 6, "--states", tmp_path / "states")
    first = run_script("perplexity", *arguments, "--windows", 1)
    assert first.returncode == 0, first.stderr
    (kept,) = (tmp_path / "states").glob("*.npy")
    written = kept.stat().st_mtime_ns
    done = run_script("perplexity", *arguments, "--windows", 2, "--json", tmp_path / "p.json")
    assert done.returncode == 0, done.stderr
    assert kept.stat().st_mtime_ns == written
    assert len(list((tmp_path / "states").glob("*.npy"))) == 2
    report = json.loads((tmp_path / "p.json").read_text())
    for subject in report["subjects"].values():
        assert subject["num_tokens"] == 10
        assert len(subject["windows"]) == 2
        assert 0.9 < subject["ratio"] < 1.1
        assert 0 < subject["mean_kl"] < 0.1


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--rounds", 0), "'0' is no whole number of at least 1"),
        (("--json", "no/such/folder.json"), "is no file in a folder that exists"),
        (("--model", "no-such-model"), "Unknown model 'no-such-model'"),
        ((*TINY, "--contexts", 10**6), "give a context of at most"),
        ((*TINY, "--peer", "localhost:1"), "is no URL"),
        ((*TINY, "--peer", "http://127.0.0.1:1"), "does not complete text"),
        ((*TINY, "--llama-bench", "/no/such/program"), "cannot be run"),
    ],
)
def test_errors_are_one_sentence(arguments: tuple[object, ...], complaint: str) -> None:
    done = run_script("engine", *arguments)
    assert done.returncode != 0
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr


def test_the_suffix_tree_is_measured_on_every_text(tmp_path: Path) -> None:
    report_path = tmp_path / "suffix.json"
    done = run_script("suffix_tree", "--sizes", 1, 300, "--drafts", 20, "--json", report_path)
    assert done.returncode == 0, done.stderr
    samples = json.loads(report_path.read_text())["samples"]
    assert len(samples) == 6
    for name, figures in samples.items():
        assert set(figures) == set(samples["random ids, 1"])
        assert 0 < figures["nodes_per_token"] <= 2, name
