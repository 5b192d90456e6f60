from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from oneglance.cli.options import Options, check_text, parse_draft_length, parse_logit_bias
from oneglance.config import EngineConfig, SamplingParams
from oneglance.errors import ParameterError


def test_defaults_are_those_of_the_library() -> None:
    assert Options().sampling_params() == SamplingParams()


def test_every_option_of_the_law_reaches_the_parameters() -> None:
    given: dict[str, Any] = {
        "temperature": 0.5,
        "top_k": 7,
        "top_p": 0.9,
        "min_p": 0.1,
        "repetition_penalty": 1.1,
        "presence_penalty": 0.2,
        "frequency_penalty": 0.3,
        "seed": 5,
        "max_tokens": 9,
        "min_tokens": 2,
        "ignore_eos": True,
    }
    params = Options(logit_bias=["3=-1.5", "4=2"], stop=["END", "\n"], **given).sampling_params()
    assert {name: getattr(params, name) for name in given} == given
    assert params.logit_bias == {3: -1.5, 4: 2.0}
    assert params.stop == ("END", "\n")


def test_every_shared_option_of_the_library_is_offered() -> None:
    not_for_a_shell = {"banned_tokens", "choice", "top_logprobs", "logits_processors"}
    wanted = {item.name for item in dataclasses.fields(SamplingParams)} - not_for_a_shell
    wanted |= {"json_schema", "grammar", "regex"}
    wanted.remove("constraint")  # it goes by these names
    assert wanted <= {item.name for item in dataclasses.fields(Options)}


@pytest.mark.parametrize(("text", "length"), [("auto", "auto"), ("1", 1), ("12", 12)])
def test_draft_length_is_read(text: str, length: int | str) -> None:
    assert parse_draft_length(text) == length
    assert Options(k=text).draft_length() == length


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0", "-k 0 drafts nothing.*--drafter none"),
        ("-3", "-k -3 drafts nothing"),
        ("two", "-k 'two' is not a number.*auto"),
        ("1.5", "-k '1.5' is not a number"),
    ],
)
def test_a_bad_draft_length_is_named(text: str, words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        parse_draft_length(text)


def test_options_of_the_engine_reach_its_configuration() -> None:
    assert Options().engine_config() == EngineConfig()
    assert Options().engine_arguments() == []
    options = Options(engine="native", weights="bf16", threads=3)
    wanted = EngineConfig(kind="native", weights="bf16", num_threads=3)
    assert options.engine_config() == wanted
    words = "--engine native --weights bf16 --threads 3"
    assert options.engine_arguments() == words.split()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"engine": "fast"}, "--engine 'fast' is not known; choose auto, native or reference"),
        ({"weights": "f16"}, "--weights 'f16' is not known; choose auto, bf16 or f32"),
        ({"threads": 0}, "--threads 0 cannot be had; give 1 to 256"),
        ({"threads": 257}, "--threads 257 cannot be had"),
        ({"engine": "reference", "threads": 2}, "--threads 2 cannot be had with --engine ref"),
    ],
)
def test_an_engine_that_cannot_be_had_is_named(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        Options(**given).engine_config()


@pytest.mark.parametrize("pair", ["3", "=1", "x=1", "3=", "3=y", "3:1", "1.5=2"])
def test_a_bad_bias_is_named(pair: str) -> None:
    with pytest.raises(ParameterError, match=f"--logit-bias '{pair}' cannot be read"):
        parse_logit_bias([pair])


def test_a_bias_is_given_once_for_each_token() -> None:
    with pytest.raises(ParameterError, match="token 3 twice"):
        parse_logit_bias(["3=1", "4=1", "03=2"])


def test_an_infinite_bias_is_refused() -> None:
    with pytest.raises(ParameterError, match="finite"):
        Options(logit_bias=["3=inf"]).sampling_params()


def test_bytes_that_are_not_text_are_named() -> None:
    assert check_text("PROMPT", "naïve 😀") == "naïve 😀"
    with pytest.raises(ParameterError, match="PROMPT is not UTF-8 text \\(at character 1\\)"):
        check_text("PROMPT", "a\udcff")
    with pytest.raises(ParameterError, match="--stop"):
        Options(stop=["\udcff"]).sampling_params()


def test_a_system_message_makes_a_conversation() -> None:
    assert Options().request("Hi") == "Hi"
    assert Options(system="Be brief.").request("Hi") == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
    ]
