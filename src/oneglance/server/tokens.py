"""Tokens as an answer shows them: their text or bytes, their logprobs, and where they came from."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import Any

from oneglance.checkpoints.base import Tokenizer
from oneglance.types import Token

LEAST_LOGPROB = -9999.0
"""What OpenAI writes for a token that is as good as impossible; JSON has no −∞."""


def token_text(tokenizer: Tokenizer, token_id: int) -> str:
    """A token in writing: its text, its bytes where they are no text, the name of a control token.

    Distinct tokens are written differently, as far as their bytes differ.
    """
    data = tokenizer.token_bytes(token_id)
    if not data:
        return tokenizer.token_label(token_id)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)


def chat_logprobs(tokenizer: Tokenizer, tokens: Sequence[Token]) -> dict[str, Any]:
    """The object `logprobs` of a chat's choice."""
    content = [
        {
            **_entry(tokenizer, token.token_id, token.logprob),
            "top_logprobs": [_entry(tokenizer, *pair) for pair in token.top_logprobs],
        }
        for token in tokens
    ]
    return {"content": content, "refusal": None}


class TextOffsets:
    """Where each token of an answer begins in its text, in characters.

    A token that begins within a character begins where that character does.
    """

    def __init__(self, tokenizer: Tokenizer, start: int = 0) -> None:
        """Begins with so many characters before the first token."""
        self._tokenizer = tokenizer
        self._offset = start
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token_id: int) -> int:
        """Takes the next token; returns where it begins."""
        offset = self._offset
        self._offset += len(self._decoder.decode(self._tokenizer.token_bytes(token_id)))
        return offset


def completion_logprobs(
    tokenizer: Tokenizer, tokens: Sequence[Token], num_top: int, offsets: TextOffsets
) -> dict[str, Any]:
    """The object `logprobs` of a completion's choice.

    Args:
        tokenizer: of the target.
        tokens: the next tokens of the answer.
        num_top: alternatives to show beside the token itself; with 0 there is no object for them.
        offsets: of this answer.
    """
    return {
        "tokens": [token_text(tokenizer, token.token_id) for token in tokens],
        "token_logprobs": [_finite(token.logprob) for token in tokens],
        "top_logprobs": [_top(tokenizer, token) for token in tokens] if num_top else None,
        "text_offset": [offsets.push(token.token_id) for token in tokens],
    }


def origins(tokenizer: Tokenizer, tokens: Sequence[Token]) -> list[dict[str, Any]]:
    """Which tokens there are and how each came about."""
    return [
        {
            "id": token.token_id,
            "text": token_text(tokenizer, token.token_id),
            "kind": token.kind,
            "drafter": token.drafter,
            "pass": token.pass_index,
        }
        for token in tokens
    ]


def _entry(tokenizer: Tokenizer, token_id: int, logprob: float) -> dict[str, Any]:
    return {
        "token": token_text(tokenizer, token_id),
        "logprob": _finite(logprob),
        "bytes": list(tokenizer.token_bytes(token_id)),
    }


def _top(tokenizer: Tokenizer, token: Token) -> dict[str, float]:
    found: dict[str, float] = {}
    for token_id, logprob in (*token.top_logprobs, (token.token_id, token.logprob)):
        # Of tokens that are written alike the most probable one stays.
        found.setdefault(token_text(tokenizer, token_id), _finite(logprob))
    return found


def _finite(logprob: float) -> float:
    return max(float(logprob), LEAST_LOGPROB)
