"""Parameters and sizes are refused by name, with the value and what is allowed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from oneglance.config import EngineConfig, SamplingParams
from oneglance.errors import ParameterError


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("max_tokens", 0, "at least 1"),
        ("max_tokens", 2.5, "a whole number"),
        ("max_tokens", "5", "a whole number"),
        ("max_tokens", True, "a whole number"),
        ("min_tokens", -1, "at least 0"),
        ("min_tokens", 300, "max_tokens = 256 at most"),
        ("temperature", -0.1, "0 or more"),
        ("temperature", float("nan"), "0 or more"),
        ("temperature", float("inf"), "0 or more"),
        ("temperature", "hot", "a number"),
        ("top_k", -1, "0 (off) or more"),
        ("top_k", 1.5, "a whole number"),
        ("top_p", 0.0, "above 0 and at most 1"),
        ("top_p", 1.1, "above 0 and at most 1"),
        ("min_p", 1.1, "between 0 and 1"),
        ("repetition_penalty", 0.0, "above 0; 1 is off"),
        ("presence_penalty", float("inf"), "a finite number"),
        ("frequency_penalty", None, "a number"),
        ("stop", ("a", ""), "free of empty strings"),
        ("stop", "END", 'a list of strings, such as ["."]'),
        ("stop", (1,), "a list of strings"),
        ("seed", -1, "between 0 and 2^64 - 1"),
        ("seed", 2**64, "between 0 and 2^64 - 1"),
        ("seed", 1.5, "a whole number"),
        ("choice", 2**32, "between 0 and 2^32 - 1"),
        ("top_logprobs", -1, "at least 0"),
    ],
)
def test_sampling_parameters_out_of_range(name: str, value: Any, allowed: str) -> None:
    with pytest.raises(ParameterError) as caught:
        SamplingParams(**{name: value})
    assert str(caught.value).startswith(f"{name} = {value!r} cannot be used; it must be ")
    assert allowed in str(caught.value)


@pytest.mark.parametrize(
    "arguments",
    [
        {"logit_bias": {3: float("nan")}},
        {"logit_bias": {"3": 1.0}},
        {"logit_bias": {3: "much"}},
        {"banned_tokens": (1.5,)},
    ],
)
def test_token_parameters_of_the_wrong_kind(arguments: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match="cannot be used"):
        SamplingParams(**arguments)


def test_numbers_of_numpy_are_numbers() -> None:
    params = SamplingParams(
        temperature=np.float32(0.5),  # type: ignore[arg-type]
        seed=np.int64(3),  # type: ignore[arg-type]
        stop=["."],  # type: ignore[arg-type]
    )
    assert not params.is_greedy


def test_token_ids_beyond_the_vocabulary() -> None:
    SamplingParams(banned_tokens=(9,), logit_bias={0: 1.0}).check_vocabulary(10)
    for params in (SamplingParams(banned_tokens=(10,)), SamplingParams(logit_bias={-1: 1.0})):
        with pytest.raises(ParameterError, match="a token id below 10, the vocabulary size"):
            params.check_vocabulary(10)


@pytest.mark.parametrize("name", ["page_size", "num_pages", "prefill_chunk"])
def test_engine_sizes_below_one(name: str) -> None:
    sizes: dict[str, Any] = {name: 0}
    with pytest.raises(ParameterError, match=f"{name} = 0 cannot be used"):
        EngineConfig(**sizes)
    with pytest.raises(ParameterError, match="kept_prefixes = -1"):
        EngineConfig(kept_prefixes=-1)


def test_a_limited_cache_keeps_no_prefixes() -> None:
    assert EngineConfig().num_kept_prefixes == 4
    assert EngineConfig(num_pages=8).num_kept_prefixes == 0
