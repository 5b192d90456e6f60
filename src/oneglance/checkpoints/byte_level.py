"""Byte-level byte-pair encoding (GPT-2 and after): the alphabet is the 256 bytes."""

from __future__ import annotations

from oneglance.checkpoints.bpe import BpeTokenizer


def byte_characters() -> dict[str, int]:
    """The characters that stand for bytes in byte-level vocabularies, and their bytes.

    Printable characters of Latin-1 stand for themselves, the other bytes, in order, for the
    characters from U+0100 on (GPT-2).
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = sorted(set(range(256)) - set(printable))
    table = {chr(byte): byte for byte in printable}
    table.update({chr(0x100 + index): byte for index, byte in enumerate(others)})
    return table


BYTE_OF_CHARACTER = byte_characters()


class ByteLevelTokenizer(BpeTokenizer):
    """Byte-level BPE: every byte is a character of the vocabulary's alphabet."""

    def _encode_piece(self, text: str, previous: int | None) -> list[int]:
        del previous  # Byte-level vocabularies put nothing in front of a text.
        return self._merge(text)

    def _spelling_bytes(self, spelling: str) -> bytes:
        try:
            return bytes([BYTE_OF_CHARACTER[character] for character in spelling])
        except KeyError:
            # A token that was added as text, not as bytes.
            return spelling.encode()

    def _expressible_bytes(self) -> frozenset[int]:
        characters = (self._vocabulary.spellings[index] for index in self._vocabulary.ordinary_ids)
        return frozenset(
            BYTE_OF_CHARACTER[spelling] for spelling in characters if spelling in BYTE_OF_CHARACTER
        )
