"""Options of rules that a grammar can have, and that are no matter of which texts are allowed."""

from __future__ import annotations

import re

from oneglance.constraints import Constraint
from oneglance.errors import ParameterError

# What may hide brackets comes first: texts, expressions, comments.
_PART = re.compile(
    r'"(?:\\.|[^"\\])*"|/(?:\\.|\[(?:\\.|[^\]\\])*\]|[^/\\\n])+/|//[^\n]*|#[^\n]*'
    r"|\[(?P<options>[^\]\n]*)\]"
)
_TEMPERATURE = re.compile(r"\btemperature\s*=")


def check_lark_options(constraint: Constraint) -> None:
    """Refuses a rule with a temperature of its own, which the library would leave unused.

    Raises:
        ParameterError: there is one.
    """
    for part in _PART.finditer(constraint.text):
        if _TEMPERATURE.search(part["options"] or ""):
            raise ParameterError(
                f"{constraint.name} has a rule with a temperature of its own "
                f"([{part['options']}]), which is not applied; set the request's temperature."
            )
