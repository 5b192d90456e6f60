"""Options outrank the environment, the environment outranks the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from oneglance.environment import read_environment
from oneglance.errors import ParameterError
from oneglance.server.settings import ServerSettings, read_settings


def write(folder: Path, text: str) -> Path:
    file = folder / "serve.toml"
    file.write_text(text)
    return file


def test_the_order_of_rank(tmp_path: Path) -> None:
    file = write(tmp_path, 'port = 1\nhost = "a"\nmodel = "m"\ncors_origins = ["x", "y"]\n')
    environment = read_environment(
        {"ONEGLANCE_SERVE_PORT": "2", "ONEGLANCE_SERVE_HOST": "b", "ONEGLANCE_SERVE_MODEL": ""}
    )
    settings = read_settings({"port": 3}, environment.serve, file)
    assert (settings.port, settings.host, settings.model) == (3, "b", "m")
    assert settings.cors_origins == ("x", "y")


def test_variables_are_words(tmp_path: Path) -> None:
    variables = {"served_names": "a, b", "log_prompts": "true", "request_seconds": "1.5"}
    settings = read_settings({}, variables, write(tmp_path, ""))
    assert settings.served_names == ("a", "b")
    assert settings.log_prompts
    assert settings.request_seconds == 1.5


def test_only_this_machine_is_let_in_by_default() -> None:
    settings = ServerSettings()
    assert settings.host == "127.0.0.1"
    assert settings.cors_origins == ()
    assert not settings.log_prompts


@pytest.mark.parametrize(
    ("options", "variables", "text", "message"),
    [
        ({"port": 70000}, {}, "", "--port = 70000"),
        ({"max_running": 0}, {}, "", "--max-running = 0"),
        ({}, {"port": "no"}, "", "ONEGLANCE_SERVE_PORT = 'no'"),
        ({}, {"colour": "red"}, "", "ONEGLANCE_SERVE_COLOUR is no setting"),
        ({}, {}, "colour = 1", "colour in .* is no setting"),
        ({}, {}, "drain_seconds = inf", "drain_seconds in .* = inf"),
        ({}, {}, "port =", "cannot be read"),
    ],
)
def test_what_cannot_be_used_is_named_with_its_source(
    tmp_path: Path, options: dict[str, object], variables: dict[str, str], text: str, message: str
) -> None:
    with pytest.raises(ParameterError, match=message):
        read_settings(options, variables, write(tmp_path, text))


@pytest.mark.parametrize(
    ("spec", "meant"),
    [
        ("ngram", "ngram"),
        ("suffix+ngram", "ngram+suffix"),
        ("ngram+suffix+ngram", "ngram+suffix"),
        ("draft:smollm", "draft:smollm"),
        ("draft:/etc/passwd", None),
        ("predicted:/etc/passwd", None),
        ("suffix:/tmp/file", None),
        ("ngram+draft:other", None),
        ("self:lowbit", None),
        ("nonsense", None),
        ("", None),
    ],
)
def test_requests_cannot_name_files_and_models(spec: str, meant: str | None) -> None:
    assert ServerSettings(drafter="draft:smollm").allowed_drafter(spec) == meant
