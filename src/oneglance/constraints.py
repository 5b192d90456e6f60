"""What an answer must look like: a JSON schema, a regular expression, a grammar, or one of a list.

A constraint says which texts are allowed. Bound to a vocabulary (`sampling/constraint.py`) it says
after every token which tokens may follow, and those that may not have probability 0.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from oneglance.errors import ParameterError
from oneglance.types import BoolArray

ConstraintKind = Literal["json_schema", "regex", "lark"]


class TokenMask(ABC):
    """A constraint as decoding sees it: which tokens may follow an output. One per request."""

    @abstractmethod
    def allowed(self, output: tuple[int, ...]) -> BoolArray | None:
        """[V] the tokens that may come after these output tokens.

        A function of the tokens alone: it does not depend on what was asked before.

        Args:
            output: tokens of the answer, drafted ones included.

        Returns:
            None where everything may come: behind a token that was forbidden itself, or behind the
            end of text, where no answer ever gets.

        Raises:
            DeadEndError: nothing may come, or what may cannot be told.
        """


@dataclass(frozen=True)
class Constraint:
    """The texts that an answer may be. Made by the class methods.

    Attributes:
        kind: what `text` is written in.
        text: JSON schema, regular expression, or grammar in Lark's notation.
        name: what users call it, for messages.
    """

    kind: ConstraintKind
    text: str
    name: str

    @classmethod
    def json_schema(cls, schema: str | bool | Mapping[str, Any]) -> Constraint:
        """JSON that a schema describes, its properties in the order of the schema.

        Args:
            schema: as JSON text, or read.

        Raises:
            ParameterError: it is not JSON, no schema, or allows nothing.
        """
        name = "json_schema"
        if isinstance(schema, str):
            try:
                schema = json.loads(schema)
            except ValueError as error:
                raise ParameterError(f"{name} is not JSON ({error}); correct it.") from None
        if not isinstance(schema, bool | Mapping):
            raise ParameterError(
                f"{name} is {_kind_of(schema)}; a JSON schema is an object, true or false."
            )
        if schema is False:
            raise ParameterError(f"{name} is false, which allows nothing; give one that does.")
        try:
            text = json.dumps({} if schema is True else dict(schema), allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ParameterError(
                f"{name} cannot be written as JSON ({error}); give what json.loads returns."
            ) from None
        return cls("json_schema", text, name)

    @classmethod
    def json_object(cls) -> Constraint:
        """Any JSON object."""
        return cls("json_schema", '{"type": "object"}', "json_object")

    @classmethod
    def regex(cls, pattern: str) -> Constraint:
        """Texts that match a regular expression from their first character to the last.

        Raises:
            ParameterError: it is no text.
        """
        return cls("regex", _text("regex", pattern), "regex")

    @classmethod
    def grammar(cls, grammar: str) -> Constraint:
        """Texts that a context-free grammar derives from its rule `start`.

        Args:
            grammar: in the dialect of Lark's notation that llguidance reads.

        Raises:
            ParameterError: it is no text.
        """
        return cls("lark", _text("grammar", grammar), "grammar")

    @classmethod
    def choices(cls, choices: Sequence[str]) -> Constraint:
        """One of some texts.

        Raises:
            ParameterError: they are no list of texts, there is none, or one is empty.
        """
        is_list = isinstance(choices, Sequence) and not isinstance(choices, str)
        if not is_list or not choices or not all(isinstance(each, str) for each in choices):
            raise ParameterError(
                f"choices = {choices!r} cannot be used; it must be a list of texts, such as "
                '["yes", "no"].'
            )
        if "" in choices:
            raise ParameterError("choices has an empty text; drop it.")
        texts = dict.fromkeys(_text("choices", each) for each in choices)
        quoted = (json.dumps(each, ensure_ascii=False) for each in texts)
        return cls("lark", f"start: {' | '.join(quoted)}", "choices")


_MAKERS = {
    "json_schema": Constraint.json_schema,
    "regex": Constraint.regex,
    "grammar": Constraint.grammar,
    "choices": Constraint.choices,
}

CONSTRAINT_NAMES = tuple(_MAKERS)
"""Names under which a constraint can be given; only one of them at a time."""


def named_constraint(given: Mapping[str, Any]) -> Constraint | None:
    """The constraint among named values, such as {"regex": "[0-9]+"}; None if there is none.

    Args:
        given: values by name, all of `CONSTRAINT_NAMES`; None is not given.

    Raises:
        ParameterError: there are several, or the one has a value that cannot be used.
    """
    named = [(name, value) for name, value in given.items() if value is not None]
    if len(named) > 1:
        raise ParameterError(
            f"{named[0][0]} and {named[1][0]} both constrain the answer; give one of them."
        )
    return _MAKERS[named[0][0]](named[0][1]) if named else None


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise ParameterError(f"{name} = {value!r} cannot be used; it must be a text.")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ParameterError(
            f"{name} has a lone surrogate at character {error.start}; give valid Unicode text."
        ) from None
    return value


def _kind_of(value: object) -> str:
    return "null" if value is None else f"{json.dumps(value)[:40]} of type {type(value).__name__}"
