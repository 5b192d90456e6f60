"""The body of `/v1/chat/completions`."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from oneglance.server.schema.common import Body, Count, SharedFields, TextPart
from oneglance.server.schema.tools import ResponseFormat, Tool, ToolChoice

Content = str | Annotated[list[TextPart], Field(min_length=1)]


class Instruction(Body):
    """A message of whoever built the application; developer is the newer word for system."""

    role: Literal["system", "developer"]
    content: Content


class UserMessage(Body):
    """A message of the user."""

    role: Literal["user"]
    content: Content


class CalledFunction(Body):
    """A call that the assistant has made."""

    name: str
    arguments: str


class ToolCall(Body):
    """A call with the id by which its result refers to it."""

    id: str
    type: Literal["function"] = "function"
    function: CalledFunction


class AssistantMessage(Body):
    """An earlier answer, as this server gave it."""

    role: Literal["assistant"]
    content: Content | None = None
    tool_calls: list[ToolCall] | None = None
    refusal: None = None
    annotations: Annotated[list[Any], Field(max_length=0)] | None = None
    audio: None = None
    function_call: None = None


class ToolMessage(Body):
    """What a call returned."""

    role: Literal["tool"]
    content: Content
    tool_call_id: str


Message = Annotated[
    Instruction | UserMessage | AssistantMessage | ToolMessage, Field(discriminator="role")
]


class ChatRequest(SharedFields):
    """Answers a conversation."""

    NOT_OFFERED: ClassVar[frozenset[str]] = frozenset(
        {
            "audio",
            "function_call",
            "functions",
            "metadata",
            "moderation",
            "prompt_cache_options",
            "prompt_cache_retention",
            "reasoning_effort",
            "verbosity",
            "web_search_options",
        }
    )

    messages: Annotated[list[Message], Field(min_length=1)]
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    max_tokens: Count | None = None
    max_completion_tokens: Count | None = None
    tools: Annotated[list[Tool], Field(max_length=128)] | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    response_format: ResponseFormat | None = None
    modalities: list[Literal["text"]] | None = None
    service_tier: Literal["auto", "default"] | None = None
    store: Literal[False] | None = None
    safety_identifier: str | None = None
    """Shown in the log, as `user` is."""
    prompt_cache_key: str | None = None
    """Shown in the log. Prefixes are cached whether or not there is one."""

    @property
    def num_top_logprobs(self) -> int | None:
        """Alternatives to show with each token; None: not even the token's own logprob."""
        return (self.top_logprobs or 0) if self.logprobs else None
