"""Messages and tools of a request as a chat template takes them.

A call is written in the form that Qwen 2.5, Hermes and others were trained on: a JSON object with
name and arguments between `<tool_call>` and `</tool_call>`. A template that writes calls so is
given the tools as they are; for any other model the tools, calls and results are put into
messages of text, since a template that has no place for them would leave them out in silence.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from oneglance.server.errors import invalid
from oneglance.server.schema.chat import AssistantMessage, Message, ToolCall, ToolMessage
from oneglance.server.schema.common import text_of
from oneglance.server.schema.tools import Tool

CALL_BEGIN, CALL_END = "<tool_call>\n", "\n</tool_call>"
RESULT_BEGIN, RESULT_END = "<tool_response>\n", "\n</tool_response>"

_INSTRUCTION = """\
You can call these functions, described in JSON, one a line:
{tools}
To call one, write its name and arguments in this form, and nothing behind it:
<tool_call>
{{"name": NAME, "arguments": OBJECT}}
</tool_call>"""


def knows_calls(template_source: str) -> bool:
    """Whether a chat template shows tools, and writes calls in the form above."""
    has_place = "tools" in template_source and CALL_BEGIN.strip() in template_source
    return has_place and "<function=" not in template_source


def template_messages(
    messages: Sequence[Message], tools: Sequence[Tool], is_native: bool
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What a chat template is given.

    Args:
        messages: of the request.
        tools: that the model is to be told of.
        is_native: the template has a place for tools and calls.

    Returns:
        Messages and tools; no tools where they have become part of the messages.

    Raises:
        ApiError: the arguments of an earlier call are no JSON object, a result belongs to no call,
            or an assistant's message says nothing.
    """
    _check_results(messages)
    listed = [tool.model_dump(exclude_none=True) for tool in tools]
    if is_native:
        return [_native(index, each) for index, each in enumerate(messages)], listed
    plain: list[dict[str, Any]] = []
    for index, message in enumerate(messages):
        rendered = _plain(index, message)
        is_result = isinstance(message, ToolMessage)
        if is_result and index > 0 and isinstance(messages[index - 1], ToolMessage):
            plain[-1]["content"] += "\n" + rendered["content"]
        else:
            plain.append(rendered)
    return _with_instruction(plain, listed) if listed else plain, []


def _with_instruction(
    messages: list[dict[str, Any]], tools: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    lines = "\n".join(json.dumps(tool["function"], ensure_ascii=False) for tool in tools)
    text = _INSTRUCTION.format(tools=lines)
    if messages[0]["role"] == "system":
        first = {"role": "system", "content": f"{messages[0]['content']}\n\n{text}"}
        return [first, *messages[1:]]
    return [{"role": "system", "content": text}, *messages]


def _native(index: int, message: Message) -> dict[str, Any]:
    if isinstance(message, AssistantMessage) and message.tool_calls:
        calls = [
            {
                "id": call.id,
                "type": "function",
                "function": {
                    "name": call.function.name,
                    "arguments": _arguments(index, number, call),
                },
            }
            for number, call in enumerate(message.tool_calls)
        ]
        return {"role": "assistant", "content": _content(index, message), "tool_calls": calls}
    if isinstance(message, ToolMessage):
        return {
            "role": "tool",
            "content": text_of(message.content),
            "tool_call_id": message.tool_call_id,
        }
    return {"role": _role(message), "content": _content(index, message)}


def _plain(index: int, message: Message) -> dict[str, Any]:
    if isinstance(message, ToolMessage):
        text = f"{RESULT_BEGIN}{text_of(message.content)}{RESULT_END}"
        return {"role": "user", "content": text}
    content = _content(index, message)
    if isinstance(message, AssistantMessage) and message.tool_calls:
        written = [
            CALL_BEGIN
            + json.dumps(
                {"name": call.function.name, "arguments": _arguments(index, number, call)},
                ensure_ascii=False,
            )
            + CALL_END
            for number, call in enumerate(message.tool_calls)
        ]
        content = "\n".join([*([content] if content else []), *written])
    return {"role": _role(message), "content": content}


def _role(message: Message) -> str:
    return "system" if message.role == "developer" else message.role


def _content(index: int, message: Message) -> str:
    if message.content is not None:
        return text_of(message.content)
    if isinstance(message, AssistantMessage) and message.tool_calls:
        return ""
    name = f"messages[{index}].content"
    raise invalid(
        f"'{name}' is missing; an assistant's message without tool_calls has a content.", name
    )


def _arguments(index: int, number: int, call: ToolCall) -> dict[str, Any]:
    try:
        found = json.loads(call.function.arguments)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        name = f"messages[{index}].tool_calls[{number}].function.arguments"
        raise invalid(f"'{name}' is no JSON object; send the arguments as the call had them.", name)
    return found


def _check_results(messages: Sequence[Message]) -> None:
    known: set[str] = set()
    for index, message in enumerate(messages):
        if isinstance(message, AssistantMessage):
            known |= {call.id for call in message.tool_calls or ()}
        elif isinstance(message, ToolMessage) and message.tool_call_id not in known:
            name = f"messages[{index}].tool_call_id"
            raise invalid(
                f"'{name}' = {message.tool_call_id!r} names no call of the messages before it; "
                "send the assistant's message with its tool_calls first.",
                name,
            )
