"""The command line of the drafters' benchmark."""

from __future__ import annotations

import argparse

import pytest

from benchmarks.drafters_options import check_arguments, parse_arguments, temperatures
from oneglance.errors import ParameterError


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("", "The stage default has no prompts of its own"),
        ("--prompts p --unseeded", "add a temperature above 0"),
        ("--prompts p --llama-draft x", "--llama-draft goes with --llama-server"),
        ("--prompts p --llama-setting x", "--llama-setting goes with --llama-server"),
        ("--prompts p --llama-server x", "name it with --llama-model"),
        (
            "--prompts p --llama-server x --llama-model y --temperatures 0.8",
            "asked greedily only",
        ),
    ],
)
def test_options_that_do_not_go_together(words: str, complaint: str) -> None:
    with pytest.raises(ParameterError, match=complaint):
        check_arguments(parse_arguments("", words.split()))


@pytest.mark.parametrize("text", ["0,-1", "0,0", "", "inf", "nan", "warm"])
def test_temperatures_that_are_none(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="different numbers of at least 0"):
        temperatures(text)


def test_edits_bring_their_prompts() -> None:
    options = parse_arguments("", ["--stage", "edits", "--temperatures", "0,0.8"])
    check_arguments(options)
    assert options.temperatures == [0.0, 0.8]
