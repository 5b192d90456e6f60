"""Speculative decoding whose output is exactly the target model's, and can be checked.

import oneglance as og
llm = og.load("smollm2-135m", drafter="ngram")
print(llm.generate("Name the capital of France.", max_tokens=64).text)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oneglance.completion import Completion, Piece
    from oneglance.config import EngineConfig, SamplingParams
    from oneglance.constraints import Constraint
    from oneglance.errors import (
        CapacityError,
        CheckpointError,
        DownloadError,
        OneglanceError,
        ParameterError,
        UnsupportedError,
    )
    from oneglance.llm import LLM, load
    from oneglance.types import PassTrace, SpeculationStats, Token

__version__ = "0.1.0"

# Loaded at first use, so that `oneglance --help` need not wait for numpy.
_HOMES = {
    "EngineConfig": "config",
    "SamplingParams": "config",
    "Constraint": "constraints",
    "CapacityError": "errors",
    "CheckpointError": "errors",
    "DownloadError": "errors",
    "OneglanceError": "errors",
    "ParameterError": "errors",
    "UnsupportedError": "errors",
    "LLM": "llm",
    "Completion": "completion",
    "Piece": "completion",
    "load": "llm",
    "PassTrace": "types",
    "SpeculationStats": "types",
    "Token": "types",
}

__all__ = [
    "LLM",
    "CapacityError",
    "CheckpointError",
    "Completion",
    "Constraint",
    "DownloadError",
    "EngineConfig",
    "OneglanceError",
    "ParameterError",
    "PassTrace",
    "Piece",
    "SamplingParams",
    "SpeculationStats",
    "Token",
    "UnsupportedError",
    "__version__",
    "load",
]


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(f"oneglance.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'oneglance' has no attribute {name!r}")
