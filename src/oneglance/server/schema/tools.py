"""Tools, and what form an answer is to have."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from oneglance.server.schema.common import Body

Name = Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]


class Function(Body):
    """What can be called."""

    name: Name
    description: str | None = None
    parameters: dict[str, Any] | None = None
    """JSON schema of the arguments; without one there are none."""
    strict: bool | None = None
    """Arguments always obey the schema here, strict or not."""


class Tool(Body):
    """A function; OpenAI's custom tools are not served."""

    type: Literal["function"]
    function: Function


class FunctionName(Body):
    """Names a function."""

    name: Name


class NamedTool(Body):
    """The one tool that must be called."""

    type: Literal["function"]
    function: FunctionName


ToolChoice = Literal["none", "auto", "required"] | NamedTool


class PlainFormat(Body):
    """Text of any kind."""

    type: Literal["text"]


class ObjectFormat(Body):
    """Any JSON object."""

    type: Literal["json_object"]


class NamedSchema(Body):
    """A JSON schema and what OpenAI wants with it."""

    name: Name
    description: str | None = None
    schema_: Annotated[dict[str, Any] | None, Field(alias="schema")] = None
    strict: bool | None = None
    """The answer always obeys the schema here, strict or not."""


class SchemaFormat(Body):
    """JSON of a schema."""

    type: Literal["json_schema"]
    json_schema: NamedSchema


ResponseFormat = Annotated[PlainFormat | ObjectFormat | SchemaFormat, Field(discriminator="type")]
