"""A vocabulary in the form in which llguidance asks for it."""

from __future__ import annotations

from functools import cached_property
from typing import Protocol

from oneglance.errors import ParameterError

_SENTINEL = "\n"
"""Put in front of a text that is no beginning; no tokenizer joins it with what follows here."""


class TokenTable(Protocol):
    """What a grammar must know of a vocabulary; a checkpoint's tokenizer is one.

    Attributes:
        vocab_size: V.
        eos_ids: tokens that end an answer.
        special_ids: tokens without text.
    """

    vocab_size: int
    eos_ids: frozenset[int]
    special_ids: frozenset[int]

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes that a token adds to the text."""
        ...

    def token_label(self, token_id: int) -> str:
        """The spelling of a token without text."""
        ...

    def encode(self, text: str) -> list[int]:
        """Token ids of a text."""
        ...


class GrammarTokens:
    """The bytes of all tokens, and how certain bytes are divided into tokens.

    Attributes:
        tokens: [V] bytes of each; of those without text their spelling, so that a grammar can name
            them.
        special_token_ids: tokens without text.
        eos_token_id: one of those that end an answer.
        bos_token_id: not needed, as prompts are not the grammar's.
    """

    bos_token_id = None

    def __init__(self, table: TokenTable) -> None:
        """Reads a vocabulary."""
        special = table.special_ids
        self.tokens = [
            table.token_label(token).encode() if token in special else table.token_bytes(token)
            for token in range(table.vocab_size)
        ]
        self.special_token_ids = sorted(special)
        self.eos_token_id = min(table.eos_ids)
        self._table = table

    def __call__(self, text: bytes | str) -> list[int]:
        """Tokens that spell a text exactly, as the model's tokenizer divides it if it can.

        It is called from within the library, where an exception would be lost.
        """
        data = text.encode() if isinstance(text, str) else text
        return self._as_encoded(data) or self._longest_first(data)

    def _as_encoded(self, data: bytes) -> list[int] | None:
        """What the tokenizer gives, without what it puts in front of every text; None: it can't."""
        try:
            text = data.decode("utf-8")
            for candidate in (self._table.encode(text), self._table.encode(_SENTINEL + text)):
                tail = self._tail(candidate, data)
                if tail is not None:
                    return tail
        except (UnicodeDecodeError, ParameterError):
            return None
        return None

    def _tail(self, token_ids: list[int], data: bytes) -> list[int] | None:
        """The last tokens that together spell the data; None: a token begins before it."""
        size = 0
        for number, token in enumerate(reversed(token_ids), start=1):
            size += len(self.tokens[token])
            if size >= len(data):
                tail = token_ids[-number:]
                return tail if self._spell(tail) == data else None
        return None

    def _spell(self, token_ids: list[int]) -> bytes:
        return b"".join(self.tokens[token] for token in token_ids)

    def _longest_first(self, data: bytes) -> list[int]:
        """Always the longest token that fits; ends where no token does."""
        found: list[int] = []
        start = 0
        while start < len(data):
            ends = range(min(len(data), start + self._longest), start, -1)
            token = next(
                (self._ids[data[start:end]] for end in ends if data[start:end] in self._ids), None
            )
            if token is None:
                break
            found.append(token)
            start += len(self.tokens[token])
        return found

    @cached_property
    def _ids(self) -> dict[bytes, int]:
        """The first token of each spelling; control tokens spell nothing."""
        ids: dict[bytes, int] = {}
        for token, data in enumerate(self.tokens):
            if data and token not in self._table.special_ids:
                ids.setdefault(data, token)
        return ids

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self._ids), default=0)
