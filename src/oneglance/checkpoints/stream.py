"""Detokenising as tokens come, without ever showing half a character."""

from __future__ import annotations

import codecs

from oneglance.checkpoints.base import Tokenizer


class StreamDecoder:
    """Turns the tokens of one answer into text, piece by piece.

    All pieces together, the one of `flush` included, are the bytes of all tokens decoded with
    U+FFFD for what is not UTF-8. Nothing that was returned is ever taken back.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Starts at the beginning of an answer."""
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, token_id: int) -> str:
        """The text that is certain once this token has come; may be empty."""
        return self._decoder.decode(self._tokenizer.token_bytes(token_id))

    def flush(self) -> str:
        """The rest: U+FFFD if the answer ended inside a character. The decoder can start anew."""
        rest = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return rest
