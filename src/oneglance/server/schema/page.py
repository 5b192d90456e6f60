"""Bodies of the routes that the page asks: those of a chat, of one answer each."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from oneglance.server.schema.chat import ChatRequest

MAX_ROUNDS = 9


class TraceRequest(ChatRequest):
    """Answers a conversation, and tells of every pass."""

    LEFT_OUT: ClassVar[tuple[str, ...]] = (
        "n",
        "stream",
        "stream_options",
        "logprobs",
        "top_logprobs",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "service_tier",
    )
    """Fields of a chat that have no meaning where the answer is one stream of passes."""

    @property
    def is_streamed(self) -> bool:
        """It always comes in pieces."""
        return True


class RaceRequest(TraceRequest):
    """Answers a conversation with nothing drafted and with drafts, by turns."""

    rounds: Annotated[int, Field(ge=1, le=MAX_ROUNDS)] = 1
    """How often both are run."""
