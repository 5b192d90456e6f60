"""What passes and drafts cost on this machine, kept from one run to the next."""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from oneglance.control.cost import PassCosts
from oneglance.control.draft_cost import DraftPrice

_FORMAT = 1


@dataclass(frozen=True)
class Calibration:
    """Measured costs of one model on one engine of one machine.

    Attributes:
        rows: numbers of rows in ascending order, the first of them 1.
        seconds: of a pass of so many rows behind no context.
        attention_share: what a row costs for each token of context before it, in passes of one row.
        drafts: prices of drafters by name, in passes of one row.
    """

    rows: tuple[int, ...]
    seconds: tuple[float, ...]
    attention_share: float
    drafts: Mapping[str, DraftPrice] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuses what cannot be a measurement.

        Raises:
            ValueError: it says what is wrong.
        """
        prices = [price for each in self.drafts.values() for price in asdict(each).values()]
        if not self.rows or self.rows[0] != 1 or list(self.rows) != sorted(set(self.rows)):
            raise ValueError("the numbers of rows do not ascend from 1")
        if len(self.rows) != len(self.seconds):
            raise ValueError("there are not as many times as numbers of rows")
        if not all(math.isfinite(each) and each > 0 for each in self.seconds):
            raise ValueError("a time is not positive")
        if not all(math.isfinite(each) and each >= 0 for each in (self.attention_share, *prices)):
            raise ValueError("a price is negative")

    def apply(self, costs: PassCosts) -> None:
        """Makes costs begin from these."""
        costs.begin_from(self.rows, self.seconds, self.attention_share)

    def to_dict(self) -> dict[str, Any]:
        """As written to the file."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Calibration:
        """Reads what `to_dict` gave.

        Raises:
            KeyError, TypeError, ValueError: it is something else.
        """
        drafts = {name: DraftPrice(**price) for name, price in data["drafts"].items()}
        return cls(
            rows=tuple(int(each) for each in data["rows"]),
            seconds=tuple(float(each) for each in data["seconds"]),
            attention_share=float(data["attention_share"]),
            drafts=drafts,
        )


@dataclass(frozen=True)
class CalibrationFile:
    """The file for one model, engine and machine.

    Attributes:
        folder: of all such files.
        key: everything that costs depend on; a file with another key is not used.
    """

    folder: Path
    key: Mapping[str, str | int]

    @property
    def path(self) -> Path:
        """Named by the key, so that every machine and model has its own."""
        digest = hashlib.sha256(json.dumps(dict(self.key), sort_keys=True).encode()).hexdigest()
        return self.folder / f"{digest[:24]}.json"

    def write(self, calibration: Calibration) -> None:
        """Puts a calibration in the place of an older one.

        Raises:
            OSError: the file cannot be written.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        content = {"format": _FORMAT, "key": dict(self.key), **calibration.to_dict()}
        # Another process may read it at this moment: it finds the old file or the new one.
        temporary = self.path.with_suffix(".tmp")
        temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        temporary.replace(self.path)

    def read(self) -> Calibration | None:
        """What was measured; None where nothing was.

        A file that cannot be used is ignored with a `RuntimeWarning`: costs are then learned from
        the passes themselves, as without one.
        """
        try:
            content = json.loads(self.path.read_text(encoding="utf-8"))
            if content["format"] != _FORMAT or content["key"] != dict(self.key):
                raise ValueError("it belongs to another model, engine or machine")
            return Calibration.from_dict(content)
        except FileNotFoundError:
            return None
        except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
            warnings.warn(
                f"The calibration {str(self.path)!r} cannot be used ({error}) and is ignored; "
                "run `oneglance calibrate` to make it anew.",
                RuntimeWarning,
                stacklevel=2,
            )
            return None
