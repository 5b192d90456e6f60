"""What an answer may be: text or JSON of a form, and calls of tools in one spelling."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oneglance.constraints import Constraint
from oneglance.errors import ParameterError
from oneglance.server.errors import invalid
from oneglance.server.schema.chat import ChatRequest
from oneglance.server.schema.tools import NamedTool, ObjectFormat, SchemaFormat, Tool
from oneglance.server.tools.conversation import CALL_BEGIN, CALL_END

_SPELLING = {"item_separator": ", ", "key_separator": ": ", "whitespace_flexible": False}
"""JSON beside and in calls as models have read it in training, and as Python writes it."""


@dataclass(frozen=True)
class Form:
    """What a request wants of the form of its answer.

    Attributes:
        constraint: what the answer may be; None: anything.
        tools: that the model is told of.
        param: what of the request the constraint comes from.
    """

    constraint: Constraint | None = None
    tools: tuple[Tool, ...] = ()
    param: str | None = None


def form_of(body: ChatRequest) -> Form:
    """The form that a request asks for.

    Raises:
        ApiError: it names a tool that there is not, or a schema that cannot be used.
    """
    if not body.tools:
        _refuse_choice(body)
        return Form(_format_constraint(body), (), "response_format")
    _check_names(body.tools)
    choice = "auto" if body.tool_choice is None else body.tool_choice
    if choice == "none":
        return Form(_format_constraint(body), (), "response_format")
    callable_tools = list(body.tools)
    if isinstance(choice, NamedTool):
        name = choice.function.name
        callable_tools = [tool for tool in body.tools if tool.function.name == name]
        if not callable_tools:
            raise invalid(
                f"tool_choice names {name!r}, which is none of the tools; name one of them.",
                "tool_choice",
            )
    text = _grammar(
        callable_tools,
        said=_said(body) if choice == "auto" else None,
        is_many=body.parallel_tool_calls is not False and not isinstance(choice, NamedTool),
    )
    return Form(Constraint.grammar(text), tuple(body.tools), "tools")


def _refuse_choice(body: ChatRequest) -> None:
    if body.tool_choice not in (None, "none", "auto"):
        raise invalid("tool_choice needs tools to choose from; send tools.", "tool_choice")
    if body.parallel_tool_calls is not None:
        raise invalid("parallel_tool_calls goes with tools only.", "parallel_tool_calls")


def _check_names(tools: Sequence[Tool]) -> None:
    names = [tool.function.name for tool in tools]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise invalid(
                f"Two tools are named {name!r}; give each a name of its own.",
                f"tools[{index}].function.name",
            )


def _format_constraint(body: ChatRequest) -> Constraint | None:
    schema = _format_schema(body)
    if schema is None:
        return None
    if isinstance(body.response_format, ObjectFormat):
        return Constraint.json_object()
    try:
        return Constraint.json_schema(schema)
    except ParameterError as error:
        raise invalid(str(error), "response_format.json_schema.schema") from None


def _format_schema(body: ChatRequest) -> dict[str, Any] | None:
    """The JSON schema of what is said; None: any text."""
    wanted = body.response_format
    if isinstance(wanted, SchemaFormat) and wanted.json_schema.schema_ is not None:
        return wanted.json_schema.schema_
    return {"type": "object"} if isinstance(wanted, ObjectFormat | SchemaFormat) else None


def _said(body: ChatRequest) -> str:
    """The rule of an answer without calls."""
    schema = _format_schema(body)
    return "TEXT" if schema is None else f"%json {_written(schema)}"


def _grammar(tools: Sequence[Tool], said: str | None, is_many: bool) -> str:
    """A grammar in Lark's notation.

    Text before a call is lazy: it ends where the first call begins, so that nothing which looks
    like a call can be text.

    Args:
        tools: that may be called.
        said: rule of an answer without calls; None: there must be one.
        is_many: there may be several calls.
    """
    begin, end = json.dumps(CALL_BEGIN), json.dumps("}" + CALL_END)
    bodies = [_call_rule(index, tool, end) for index, tool in enumerate(tools)]
    alternatives = " | ".join(f"call_{index}" for index in range(len(tools)))
    more = '("\\n" ' + begin + " call)*" if is_many else ""
    head = "head" if said == "TEXT" else begin
    lines = [
        "start: calls | said" if said is not None else "start: calls",
        f"calls: {head} call {more}",
        f"call: {alternatives}",
        *bodies,
    ]
    if said is not None:
        lines.append(f"said: {said}")
    if said == "TEXT":
        lines += [f"head[lazy]: TEXT {begin}", r"TEXT: /(.|\n)*/"]
    return "\n".join(lines)


def _call_rule(index: int, tool: Tool, end: str) -> str:
    schema = _parameters(index, tool)
    begin = json.dumps(f'{{"name": "{tool.function.name}", "arguments": ')
    return f"call_{index}: {begin} %json {_written(schema)} {end}"


def _parameters(index: int, tool: Tool) -> dict[str, Any]:
    schema = tool.function.parameters
    if schema is None:
        return {"type": "object", "properties": {}, "additionalProperties": False}
    if schema.get("type", "object") != "object":
        name = f"tools[{index}].function.parameters"
        raise invalid(
            f"'{name}' has the type {schema['type']!r}; arguments are an object.", f"{name}.type"
        )
    return {**schema, "type": "object"}


def _written(schema: Mapping[str, Any]) -> str:
    return json.dumps({**schema, "x-guidance": _SPELLING})
