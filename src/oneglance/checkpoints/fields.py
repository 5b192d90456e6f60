"""Typed access to the settings of a model file, with errors that name file and key."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oneglance.config import ModelConfig
from oneglance.errors import CheckpointError


@dataclass(frozen=True)
class Fields:
    """Settings of a model: GGUF metadata, or the object in a JSON file.

    Attributes:
        path: the file they come from, for messages.
        values: key to value.
    """

    path: Path
    values: Mapping[str, Any]

    def get(self, key: str) -> Any:
        """The value as it is; None if it is missing."""
        return self.values.get(key)

    def positive_int(self, key: str, default: int | None = None) -> int:
        """A whole number above 0.

        Raises:
            CheckpointError: it is missing and has no default, or it is something else.
        """
        value = self._present(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise self.wrong(key, "a whole number above 0")
        return value

    def positive_float(self, key: str, default: float | None = None) -> float:
        """A finite number above 0.

        Raises:
            CheckpointError: it is missing and has no default, or it is something else.
        """
        value = self._present(key, default)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value) or value <= 0:
            raise self.wrong(key, "a finite number above 0")
        return float(value)

    def boolean(self, key: str, default: bool) -> bool:
        """True or false.

        Raises:
            CheckpointError: it is something else.
        """
        value = self._present(key, default)
        if not isinstance(value, bool):
            raise self.wrong(key, "true or false")
        return value

    def string(self, key: str) -> str:
        """A text that is not empty.

        Raises:
            CheckpointError: it is missing or something else.
        """
        value = self._present(key, None)
        if not isinstance(value, str) or not value:
            raise self.wrong(key, "a text")
        return value

    def wrong(self, key: str, expected: str) -> CheckpointError:
        """The error for a value that is not what it should be."""
        shown = repr(self.values.get(key))
        shown = shown if len(shown) <= 60 else shown[:57] + "..."
        return CheckpointError(
            f"{self.path}: {key!r} is {shown}, where {expected} is expected. "
            "Download or convert the model again."
        )

    def unsupported(self, reason: str) -> CheckpointError:
        """The error for a model that cannot be run exactly."""
        return CheckpointError(f"{self.path}: {reason}. Use another model.")

    def _present(self, key: str, default: Any) -> Any:
        value = self.values.get(key)
        if value is not None:
            return value
        if default is None:
            raise CheckpointError(
                f"{self.path} lacks the setting {key!r}. Download or convert the model again."
            )
        return default


def check_config(fields: Fields, config: ModelConfig) -> ModelConfig:
    """Returns the configuration if its numbers go together.

    Raises:
        CheckpointError: heads cannot be grouped, or a head cannot be rotated in halves.
    """
    if config.num_heads % config.num_kv_heads:
        raise CheckpointError(
            f"{fields.path}: {config.num_heads} query heads cannot share {config.num_kv_heads} "
            "key heads evenly. Download or convert the model again."
        )
    if config.head_dim % 2:
        raise CheckpointError(
            f"{fields.path}: a head of {config.head_dim} values has no halves to rotate. "
            "Download or convert the model again."
        )
    return config
