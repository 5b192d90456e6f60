"""`oneglance calibrate` and `oneglance plan`, on a model of milliseconds."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from oneglance.cli import main
from oneglance.cli.regime_plot import plot
from oneglance.control.regime import BatchTimes, Roofline


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ONEGLANCE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_calibration_is_kept_and_found_by_the_next_run(
    tiny_model: str, own_cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["calibrate", "-m", tiny_model, "--json"]) == 0
    measured = json.loads(capsys.readouterr().out)
    assert measured["rows"][:3] == [1, 2, 3]
    assert len(list((own_cache / "calibrations").glob("*.json"))) == 1
    from oneglance.llm import load

    with load(tiny_model) as llm:
        assert llm.pass_costs.one_row == pytest.approx(measured["seconds"][0])
        llm.generate("Hello", max_tokens=8)


def test_a_calibration_is_told_in_lines(
    tiny_model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["calibrate", "-m", tiny_model, "-d", f"draft:{tiny_model}"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("rows")
    assert "a draft costs" in out


def test_the_plan_compares_drafters_and_speaks_to_other_engines(
    tiny_model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "regime.svg"
    words = ["-d", "suffix", "-d", f"draft:{tiny_model}", "-p", "the the the", "--for", "sglang"]
    arguments = ["plan", "-m", tiny_model, *words, "--regime", "--plot", str(path), "--json"]
    assert main(arguments) == 0
    found = json.loads(capsys.readouterr().out)
    suffix, draft = found["drafters"]
    assert suffix["name"] == "suffix"
    assert draft["acceptance"] == pytest.approx(1.0), "the model drafts for itself"
    assert draft["tokens_per_pass"] > 3
    assert found["settings"]
    assert found["regime"]["times"][0]["batch"] == 1
    ElementTree.parse(path)
    assert main(["plan", "-m", tiny_model, "-p", "the the the"]) == 0
    assert "best K" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--for", "trt"], "--for 'trt' is not known"),
        (["--plot", "x.svg"], "add --regime"),
        (["--regime", "--plot", "x.bmp"], "name an .svg file"),
    ],
)
def test_what_cannot_be_done_is_refused_at_once(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "-m", "no such model", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_the_plot_is_an_image_with_every_point() -> None:
    times = [BatchTimes(1, 0.01, 0.012), BatchTimes(8, 0.03, 0.1)]
    root = ElementTree.fromstring(plot("a < b", times, 3, Roofline(0.01, 0.003)))
    space = "{http://www.w3.org/2000/svg}"
    assert len(root.findall(f"{space}circle")) == 4
    assert len(root.findall(f"{space}polyline")) == 3
    for circle in root.findall(f"{space}circle"):
        assert 0 <= float(circle.attrib["cx"]) <= 720
        assert 0 <= float(circle.attrib["cy"]) <= 440
