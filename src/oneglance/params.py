"""Sampling parameters from the named arguments that users write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from oneglance.config import SamplingParams
from oneglance.constraints import CONSTRAINT_NAMES, named_constraint
from oneglance.errors import ParameterError


def sampling_params(base: SamplingParams | None, given: Mapping[str, Any]) -> SamplingParams:
    """Parameters with some of them replaced.

    Args:
        base: what is not given; None: the defaults.
        given: by the names of the fields, or a constraint by one of `CONSTRAINT_NAMES`.

    Raises:
        ParameterError: a name is unknown, a value cannot be used, or there are two constraints.
    """
    base = SamplingParams() if base is None else base
    known = (*SamplingParams.__dataclass_fields__, *CONSTRAINT_NAMES)
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ParameterError(f"Unknown parameter {unknown[0]!r}; known ones: {', '.join(known)}.")
    fields = {name: value for name, value in given.items() if name not in CONSTRAINT_NAMES}
    constraint = named_constraint({name: given.get(name) for name in CONSTRAINT_NAMES})
    if constraint is not None:
        if fields.get("constraint", base.constraint) is not None:
            raise ParameterError(
                f"{constraint.name} and constraint both constrain the answer; give one of them."
            )
        fields["constraint"] = constraint
    return replace(base, **fields) if fields else base
