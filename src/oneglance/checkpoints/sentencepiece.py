"""SentencePiece byte-pair encoding (Llama 2, Mistral): spaces are marks, rare characters bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import tokenizers

from oneglance.checkpoints.bpe import BYTE_NAMES, SPACE_MARK, UTF8_BYTES, BpeTokenizer
from oneglance.checkpoints.vocabulary import Vocabulary

SpacePrefix = Literal["never", "start", "pieces"]


class SentencePieceTokenizer(BpeTokenizer):
    """SentencePiece BPE with byte fallback: spaces are spelled "▁", rare characters as bytes.

    Such a tokenizer may put a space in front of a text (Llama 2, Mistral). `decode` takes one
    space away again if the first token is an ordinary one that begins with a space; to detokenise
    an answer, which continues a prompt, use `StreamDecoder`, which keeps it. A "▁" in the text
    itself is spelled in bytes, so that it does not come back as a space.
    """

    def __init__(
        self, vocabulary: Vocabulary, model: tokenizers.Tokenizer, space_prefix: SpacePrefix
    ) -> None:
        """Puts a tokenizer together.

        Args:
            vocabulary: the tokens.
            model: encodes text in which spaces are spelled "▁"; it falls back to bytes.
            space_prefix: which text gets a space in front: none, that at the start, or also every
                piece after a control token. What follows a literal token never does, so that
                text comes back as it was.
        """
        super().__init__(vocabulary, model)
        self._space_prefix = space_prefix
        ordinary = {vocabulary.spellings[index]: index for index in vocabulary.ordinary_ids}
        self._byte_values = {name: byte for byte, name in enumerate(BYTE_NAMES)}
        self._mark_ids = [ordinary[BYTE_NAMES[byte]] for byte in SPACE_MARK.encode()]

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of the ids of a whole text, without the space that `encode` put in front."""
        text = super().decode(token_ids)
        first = next((index for index in token_ids if index not in self.special_ids), None)
        strips = (
            self._space_prefix != "never"
            and first is not None
            and first not in self._vocabulary.literal_ids
            and self.token_bytes(first).startswith(b" ")
        )
        return text[1:] if strips else text

    def _encode_piece(self, text: str, previous: int | None) -> list[int]:
        follows_control = self._space_prefix == "pieces" and previous in self.special_ids
        if follows_control or (previous is None and self._space_prefix != "never"):
            text = " " + text
        token_ids: list[int] = []
        for index, part in enumerate(text.split(SPACE_MARK)):
            if index:
                token_ids += self._mark_ids
            if part:
                token_ids += self._merge(part.replace(" ", SPACE_MARK))
        return token_ids

    def _spelling_bytes(self, spelling: str) -> bytes:
        byte = self._byte_values.get(spelling)
        return spelling.replace(SPACE_MARK, " ").encode() if byte is None else bytes([byte])

    def _expressible_bytes(self) -> frozenset[int]:
        return UTF8_BYTES
