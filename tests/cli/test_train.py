"""`oneglance train`: from prompts to a drafter that loads, and what is refused before any work."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from oneglance.cli import main
from tests.tiny_models import TinyShape, write_tiny_gguf
from tests.train.conftest import write_prompts

QUICK = ["--max-tokens", "12", "--epochs", "1", "--vocab", "40", "--batch-tokens", "600"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("train")
    write_tiny_gguf(folder / "tiny.gguf", seed=3, shape=TinyShape(num_layers=4))
    write_prompts(folder / "prompts.jsonl", 20)
    return folder


@pytest.fixture(autouse=True)
def in_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(folder)
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def train(kind: str, *arguments: str) -> int:
    torch.set_num_threads(2)
    common = ["-m", "tiny.gguf", "--held-out", "0.3", "--threads", "1", *QUICK]
    return main(["train", kind, *common, *arguments])


def test_from_prompts_to_drafters(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = ["--data", "prompts.jsonl"]
    assert train("eagle", *data, "--out", "head", "--features", "0,1,2", "--ffn", "32") == 0
    assert torch.get_num_threads() == 1
    out = capsys.readouterr().out
    assert "20 answers of 240 tokens collected" in out
    assert "eagle in head: first-token acceptance 0." in out
    facts = json.loads((folder / "head" / "provenance.json").read_text())
    assert facts["command"].split()[0] == "oneglance"
    assert facts["kind"] == "eagle"
    assert facts["settings"]["features"] == [0, 1, 2]
    assert facts["collection"]["num_answers"] == 20
    assert len(facts["collection"]["prompts"][0]) == 64
    assert [point["step"] for point in facts["curve"]] == [0, facts["num_steps"]]
    assert facts["curve"][-1]["acceptance"] == facts["held_out"]["acceptance"] or (
        facts["curve"][0]["acceptance"] == facts["held_out"]["acceptance"]
    )
    # Run again there is nothing left to do, and the same drafter comes out.
    before = (folder / "head" / "model.safetensors").read_bytes()
    assert train("eagle", *data, "--out", "head", "--features", "0,1,2", "--ffn", "32") == 0
    assert "collected" not in capsys.readouterr().out
    assert (folder / "head" / "model.safetensors").read_bytes() == before
    # Another goes on from it, and says so without the names of folders.
    answers = ["--answers", "head/answers"]
    more = ["--init", str(folder / "head"), "--features", "0,1,2", "--ffn", "32"]
    assert train("eagle", *answers, *more, "--out", "next") == 0
    later = json.loads((folder / "next" / "provenance.json").read_text())
    assert later["settings"]["init"] == "head"
    assert later["begun_from"] == facts
    assert str(folder) not in json.dumps(later)
    # Others are trained on the same answers.
    assert train("medusa", *answers, "--out", "heads") == 0
    assert train("draft", *answers, "--out", "small", "--layers", "2") == 0
    assert (
        main(["generate", "Hi", "-m", "tiny.gguf", "-d", "draft:small/draft.gguf", "-n", "5"]) == 0
    )
    # Of answers that were collected before, more are learned from.
    more = ["--data", "prompts.jsonl", "--seed", "5", "--num-answers", "8", "--more-answers"]
    assert train("medusa", *more, "head/answers", "--out", "both") == 0
    facts = json.loads((folder / "both" / "provenance.json").read_text())["collection"]
    assert facts["num_answers"] == 28
    assert [facts["seed"], *(each["seed"] for each in facts["more_answers"])] == [5, 0]
    assert train("eagle", *answers, "--out", "other", "--features", "3") == 2
    assert "lack the states of layer 3" in capsys.readouterr().err
    write_tiny_gguf(folder / "another.gguf", seed=4, shape=TinyShape(num_layers=4))
    assert train("medusa", *answers, "--out", "no", "-m", "another.gguf") == 2
    assert "are of another model than 'another.gguf'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["eagle", "--features", "1,x"], "--features '1,x' cannot be read"),
        (["eagle", "--loss", "mse"], "loss = 'mse' is not known"),
        (["eagle", "--steps", "1", "--parallel"], "steps of at least 2"),
        (["medusa", "--heads", "0"], "heads = 0"),
        (["draft", "--layers", "0"], "layers = 0"),
        (["draft", "--epochs", "0"], "epochs = 0"),
        (["draft", "--num-answers", "5"], "--num-answers 5 needs prompts"),
        (["draft", "-m", "none.gguf", "--data", "none.jsonl"], "'none.jsonl' cannot be read"),
        (["draft", "--data", "prompts.jsonl", "--temperatures", "-1"], "temperatures"),
        (["draft", "--data", "prompts.jsonl", "--layers", "4"], "the target has 4"),
        (["draft"], "no sound collection.json"),
    ],
)
def test_refusals(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    kind, *rest = arguments
    assert train(kind, "--out", "refused", *rest) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not Path("refused/config.json").exists()


def test_without_pytorch_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("oneglance.cli.train.find_spec", lambda _: None)
    assert train("draft", "--out", "refused") == 2
    assert "pip install 'oneglance[train]'" in capsys.readouterr().err
