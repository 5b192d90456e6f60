"""Small tokenizers of given byte strings, for tests of drafters that cross vocabularies."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from oneglance.checkpoints.base import Tokenizer
from oneglance.errors import ParameterError


class LongestMatch(Tokenizer):
    """Cuts text into the longest tokens there are, from left to right.

    Tokens that are written as text are control tokens, those written as bytes ordinary ones.
    """

    adds_bos = False
    bos_id = None

    def __init__(
        self, words: Sequence[bytes | str], ends: Sequence[str] = (), bos: str | None = None
    ) -> None:
        self.words = list(words)
        self.vocab_size = len(words)
        self.special_ids = frozenset(i for i, word in enumerate(words) if isinstance(word, str))
        self.eos_ids = frozenset(self.words.index(end) for end in ends)
        if bos is not None:
            self.bos_id, self.adds_bos = self.words.index(bos), True
        self._ordinary = {word: i for i, word in enumerate(words) if isinstance(word, bytes)}

    def encode(self, text: str, parse_special: bool = False, add_bos: bool = False) -> list[int]:
        assert not parse_special
        data = self._bytes(text)
        ids = [self.bos_id] if add_bos and self.bos_id is not None else []
        while data:
            size = max((len(word) for word in self._ordinary if data.startswith(word)), default=0)
            if size == 0:
                raise ParameterError(f"{data!r} begins with what no token says")
            ids.append(self._ordinary[data[:size]])
            data = data[size:]
        return ids

    def token_bytes(self, token_id: int) -> bytes:
        word = self.words[token_id] if 0 <= token_id < self.vocab_size else b""
        return word if isinstance(word, bytes) else b""

    def token_label(self, token_id: int) -> str:
        return str(self.words[token_id])

    def decode(self, token_ids: Sequence[int]) -> str:
        return b"".join(map(self.token_bytes, token_ids)).decode(errors="replace")

    def fingerprint(self) -> str:
        return hashlib.sha256(repr(self.words).encode()).hexdigest()

    @staticmethod
    def _bytes(text: str) -> bytes:
        try:
            return text.encode()
        except UnicodeEncodeError as error:
            raise ParameterError("the text has a lone surrogate") from error
