"""A trace as JSON: what `oneglance show --json` writes and the page reads.

An object with `schema`, `version` and the fields of `trace.Trace`, to which `figures` adds what
follows from them (`figures.Figures`), for those who only draw. Other versions are refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from oneglance.errors import ParameterError
from oneglance.show.figures import figures
from oneglance.show.trace import (
    Answer,
    Considered,
    DraftNode,
    OwnToken,
    Pass,
    Race,
    Request,
    Run,
    Seconds,
    Trace,
)

SCHEMA = "oneglance-trace"
VERSION = 1


def to_dict(trace: Trace) -> dict[str, Any]:
    """The object that JSON has."""
    return {
        "schema": SCHEMA,
        "version": VERSION,
        **asdict(trace),
        "figures": figures(trace).to_dict(),
    }


def to_json(trace: Trace) -> str:
    """One JSON object, on one line."""
    return json.dumps(to_dict(trace), ensure_ascii=False)


def from_dict(data: Mapping[str, Any]) -> Trace:
    """Reads what `to_dict` gave.

    Raises:
        ParameterError: it is something else, or of another version.
    """
    found = (data.get("schema"), data.get("version")) if isinstance(data, Mapping) else None
    if found != (SCHEMA, VERSION):
        raise ParameterError(
            f"This is no trace of version {VERSION} but {found!r}; write one with "
            "`oneglance show PROMPT --json FILE`."
        )
    try:
        return Trace(
            request=Request(**data["request"]),
            engine=dict(data["engine"]),
            answer=Answer(**data["answer"]),
            passes=tuple(_pass(each) for each in data["passes"]),
            race=None if data["race"] is None else _race(data["race"]),
            origin=dict(data["origin"]),
        )
    except (KeyError, TypeError) as error:
        raise ParameterError(
            f"The trace is damaged ({error}); write it anew with "
            "`oneglance show PROMPT --json FILE`."
        ) from None


def _pass(data: Mapping[str, Any]) -> Pass:
    return Pass(
        **{
            **data,
            "nodes": tuple(
                DraftNode(**{**each, "considered": _considered(each["considered"])})
                for each in data["nodes"]
            ),
            "considered": _considered(data["considered"]),
            "accepted": tuple(data["accepted"]),
            "own": None if data["own"] is None else OwnToken(**data["own"]),
            "seconds": Seconds(**data["seconds"]),
        }
    )


def _considered(items: list[Mapping[str, Any]]) -> tuple[Considered, ...]:
    return tuple(Considered(**each) for each in items)


def _race(data: Mapping[str, Any]) -> Race:
    sides = {
        side: tuple(Run(**{**run, "seconds": Seconds(**run["seconds"])}) for run in data[side])
        for side in ("plain", "speculative")
    }
    return Race(**{**data, **sides})
