"""The body of `/v1/completions`."""

from __future__ import annotations

from typing import Annotated, ClassVar, cast

from pydantic import Field

from oneglance.server.schema.common import Count, SharedFields

DEFAULT_MAX_TOKENS = 16
"""OpenAI's."""

TokenId = Annotated[int, Field(ge=0)]


class CompletionRequest(SharedFields):
    """Continues one text or several as they are, without a chat template."""

    NOT_OFFERED: ClassVar[frozenset[str]] = frozenset({"suffix"})

    prompt: (
        str
        | Annotated[list[str], Field(min_length=1)]
        | Annotated[list[TokenId], Field(min_length=1)]
        | Annotated[list[list[TokenId]], Field(min_length=1)]
    )
    best_of: Count | None = None
    echo: bool | None = None
    logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    """OpenAI takes 5 at most."""
    max_tokens: Count | None = None

    @property
    def prompts(self) -> list[str | list[int]]:
        """The prompts, each a text or token ids."""
        if isinstance(self.prompt, str):
            return [self.prompt]
        first = self.prompt[0]
        if isinstance(first, int):
            return [cast("list[int]", self.prompt)]
        return list(cast("list[str] | list[list[int]]", self.prompt))
