"""Constraints as users write them, and values that have no meaning."""

from __future__ import annotations

import math
from typing import Any

import pytest

from oneglance.config import SamplingParams
from oneglance.constraints import Constraint, named_constraint
from oneglance.errors import ParameterError
from oneglance.params import sampling_params


def test_a_schema_is_a_text_or_an_object_and_keeps_its_order() -> None:
    text = '{"properties": {"b": {}, "a": {}}}'
    schema: dict[str, Any] = {"properties": {"b": {}, "a": {}}}
    assert Constraint.json_schema(text) == Constraint.json_schema(schema)
    assert Constraint.json_schema(schema).text == text
    assert Constraint.json_schema("true").text == "{}"
    assert Constraint.json_object().name == "json_object"


def test_choices_are_quoted() -> None:
    constraint = Constraint.choices(['say "a"', "b\\", "b\\"])
    assert constraint.text == r'start: "say \"a\"" | "b\\"'


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"json_schema": "nonsense"}, "json_schema is not JSON"),
        ({"json_schema": "[1]"}, r"json_schema is \[1\] of type list; a JSON schema is an object"),
        ({"json_schema": False}, "json_schema is false, which allows nothing"),
        ({"json_schema": "null"}, "json_schema is null"),
        ({"json_schema": {"const": math.nan}}, "cannot be written as JSON"),
        ({"json_schema": {"const": object()}}, "cannot be written as JSON"),
        ({"regex": 3}, "regex = 3 cannot be used"),
        ({"regex": "\ud800"}, "lone surrogate at character 0"),
        ({"grammar": ["start"]}, "grammar = "),
        ({"choices": "ab"}, "choices = 'ab' cannot be used"),
        ({"choices": []}, r"choices = \[\] cannot be used"),
        ({"choices": [1]}, r"choices = \[1\] cannot be used"),
        ({"choices": ["a", ""]}, "choices has an empty text"),
        ({"regex": "a", "choices": ["a"]}, "regex and choices both constrain"),
        ({"regex": "a", "constraint": Constraint.json_object()}, "regex and constraint both"),
        ({"constraint": "a"}, "constraint = 'a' cannot be used"),
        ({"regex": "a", "min_tokens": 1}, "min_tokens = 1 cannot be used"),
        ({"regex": "a", "ignore_eos": True}, "ignore_eos = True cannot be used"),
        ({"pattern": "a"}, "Unknown parameter 'pattern'"),
    ],
)
def test_what_has_no_meaning_is_refused(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(ParameterError, match=reason):
        sampling_params(None, given)


def test_a_constraint_is_given_by_one_name() -> None:
    regex = Constraint.regex("a+")
    assert named_constraint({"regex": "a+", "grammar": None}) == regex
    assert named_constraint({"regex": None}) is None
    base = SamplingParams(temperature=0.5)
    assert sampling_params(base, {"regex": "a+"}) == SamplingParams(
        temperature=0.5, constraint=regex
    )
    assert sampling_params(base, {}) is base
    with pytest.raises(ParameterError, match="choices and constraint"):
        sampling_params(SamplingParams(constraint=regex), {"choices": ["a"]})


def test_a_constraint_acts_on_logits_without_moving_them() -> None:
    params = SamplingParams(constraint=Constraint.regex("a"))
    assert not params.keeps_logits
    assert not params.moves_logits
    assert SamplingParams(frequency_penalty=0.1).moves_logits
