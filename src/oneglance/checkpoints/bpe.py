"""Tokenizers by byte-pair encoding: what byte-level ones and those of SentencePiece share.

Merging is left to the `tokenizers` library. Everything around it is done here, because its
contract is stricter than the library's: text comes back byte for byte, and the spelling of a
control token in user text is text.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

import tokenizers
from tokenizers.models import BPE

from oneglance.checkpoints.base import Tokenizer
from oneglance.checkpoints.vocabulary import Vocabulary, fingerprint
from oneglance.errors import CheckpointError, ParameterError

SPACE_MARK = "\N{LOWER ONE EIGHTH BLOCK}"
"""What SentencePiece spells a space as."""

BYTE_NAMES = tuple(f"<0x{byte:02X}>" for byte in range(256))
"""How SentencePiece spells bytes."""

UTF8_BYTES = frozenset({*range(0x00, 0xC0), *range(0xC2, 0xF5)})
"""Bytes that occur in UTF-8."""


def build_model(
    path: Path,
    vocabulary: Vocabulary,
    merges: Sequence[tuple[str, str]],
    ignores_merges: bool = False,
    falls_back_to_bytes: bool = False,
) -> tokenizers.Tokenizer:
    """The library's model of the ordinary tokens; it knows no control and no literal token.

    Args:
        path: the file it comes from, for messages.
        vocabulary: the tokens; of several with the same spelling the first one counts.
        merges: pairs of spellings, best first. Those that take part in or lead to a token that is
            not ordinary are left out, lest text could spell it.
        ignores_merges: a word that is a token becomes that token, whatever its merges say.
        falls_back_to_bytes: characters without a token become "<0x..>" tokens.

    Raises:
        CheckpointError: a merge names a token that does not exist, or there is nothing to fall
            back to.
    """
    ids = {vocabulary.spellings[index]: index for index in reversed(vocabulary.ordinary_ids)}
    others = vocabulary.control_ids | vocabulary.literal_ids | vocabulary.unused_ids
    hidden = {vocabulary.spellings[index] for index in others} - set(ids)
    usable = []
    for left, right in merges:
        if left in ids and right in ids and left + right in ids:
            usable.append((left, right))
        elif hidden.isdisjoint((left, right, left + right)):
            raise CheckpointError(
                f"{path}: the merge of {left!r} and {right!r} names a token that is not in the "
                "vocabulary. Download or convert the model again."
            )
    if falls_back_to_bytes:
        missing = [name for name in (*BYTE_NAMES, SPACE_MARK) if name not in ids]
        if missing:
            raise CheckpointError(
                f"{path}: the vocabulary lacks the token {missing[0]!r}, so that not every text "
                "can be encoded. Use another model."
            )
    model = BPE(
        vocab=ids,
        merges=usable,
        byte_fallback=falls_back_to_bytes,
        fuse_unk=falls_back_to_bytes,
        ignore_merges=ignores_merges,
    )
    return tokenizers.Tokenizer(model)


class BpeTokenizer(Tokenizer):
    """What both kinds share: control tokens, checks, decoding.

    Text that is not in Unicode normal form C is encoded as it is, even where a model's reference
    tokenizer would normalise it first (Qwen2): its ids say exactly what the text says. For text in
    normal form C, which is nearly all text, the ids are those of the reference.
    """

    def __init__(self, vocabulary: Vocabulary, model: tokenizers.Tokenizer) -> None:
        """Puts a tokenizer together.

        Args:
            vocabulary: the tokens.
            model: encodes text without control or literal tokens; knows none of them.
        """
        self.vocab_size = len(vocabulary.spellings)
        self.bos_id = vocabulary.bos_id
        self.eos_ids = vocabulary.eos_ids
        self.special_ids = vocabulary.control_ids
        self.adds_bos = vocabulary.adds_bos
        self._vocabulary = vocabulary
        self._model = model
        self._literals = self._ids_by_spelling(vocabulary.literal_ids)
        self._specials = self._ids_by_spelling(vocabulary.literal_ids | vocabulary.control_ids)
        self._literal_pattern = _alternatives(self._literals)
        self._special_pattern = _alternatives(self._specials)

    def encode(self, text: str, parse_special: bool = False, add_bos: bool = False) -> list[int]:
        """Token ids of a text; see `Tokenizer.encode`.

        Raises:
            ParameterError: the text has a lone surrogate, or a character that the vocabulary
                cannot express (SmolLM2 has no token for U+0004, say).
        """
        self._check_text(text)
        token_ids = [self.bos_id] if add_bos and self.adds_bos and self.bos_id is not None else []
        pattern = self._special_pattern if parse_special else self._literal_pattern
        parts = [text] if pattern is None else pattern.split(text)
        # `split` with one group alternates between text and the token that follows it.
        separators = [self._specials[spelling] for spelling in parts[1::2]]
        texts = self._strip_around(parts[::2], separators)
        for index, piece in enumerate(texts):
            if piece:
                previous = separators[index - 1] if index else None
                token_ids += self._encode_piece(piece, previous)
            if index < len(separators):
                token_ids.append(separators[index])
        return token_ids

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes that a token adds to the text; see `Tokenizer.token_bytes`.

        Every token means the same bytes wherever it stands: a SentencePiece token that begins a
        word has its space, also at the start of a text.
        """
        vocabulary = self._vocabulary
        if not 0 <= token_id < self.vocab_size:
            return b""
        if token_id in vocabulary.control_ids or token_id in vocabulary.unused_ids:
            return b""
        spelling = vocabulary.spellings[token_id]
        if token_id in vocabulary.literal_ids:
            return spelling.encode()
        return self._spelling_bytes(spelling)

    def token_label(self, token_id: int) -> str:
        """A printable name; see `Tokenizer.token_label`."""
        if token_id in self.special_ids:
            return self._vocabulary.spellings[token_id]
        data = self.token_bytes(token_id)
        if not data:
            return f"[{token_id}]"
        text = data.decode("utf-8", errors="backslashreplace")
        return "".join(
            character if character.isprintable() else repr(character)[1:-1] for character in text
        )

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of token ids; see `Tokenizer.decode`."""
        data = b"".join(map(self.token_bytes, token_ids))
        return data.decode("utf-8", errors="replace")

    def fingerprint(self) -> str:
        """Hash of the vocabulary; computed at the first call."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        return fingerprint(self._vocabulary, self.token_bytes)

    @cached_property
    def _inexpressible(self) -> re.Pattern[bytes] | None:
        """Finds bytes that no token stands for; None if there are none."""
        missing = bytes(sorted(UTF8_BYTES - self._expressible_bytes()))
        return re.compile(b"[" + re.escape(missing) + b"]") if missing else None

    @abstractmethod
    def _expressible_bytes(self) -> frozenset[int]:
        """Bytes that some sequence of ordinary tokens stands for."""

    @abstractmethod
    def _spelling_bytes(self, spelling: str) -> bytes:
        """Text of an ordinary token."""

    @abstractmethod
    def _encode_piece(self, text: str, previous: int | None) -> list[int]:
        """Ids of a piece of ordinary text; `previous` is the token before it, None at the start."""

    def _merge(self, text: str) -> list[int]:
        ids: list[int] = self._model.encode(text, add_special_tokens=False).ids
        return ids

    def _ids_by_spelling(self, token_ids: Iterable[int]) -> dict[str, int]:
        spellings = self._vocabulary.spellings
        return {spellings[index]: index for index in sorted(token_ids, reverse=True)}

    def _check_text(self, text: str) -> None:
        try:
            data = text.encode()
        except UnicodeEncodeError as error:
            raise ParameterError(
                f"The text has the lone surrogate U+{ord(text[error.start]):04X} at position "
                f"{error.start}, which is not a character. Remove it."
            ) from error
        pattern = self._inexpressible
        if pattern is not None and (match := pattern.search(data)):
            position = len(data[: match.start()].decode(errors="ignore"))
            raise ParameterError(
                f"The text has the character U+{ord(text[position]):04X} at position {position}, "
                "for which the model's vocabulary has no token. Remove it."
            )

    def _strip_around(self, texts: Sequence[str], separators: Sequence[int]) -> list[str]:
        """Takes away the white space that control tokens next to a text swallow."""
        stripped = list(texts)
        for index, token_id in enumerate(separators):
            if token_id in self._vocabulary.left_stripping_ids:
                stripped[index] = stripped[index].rstrip()
            if token_id in self._vocabulary.right_stripping_ids:
                stripped[index + 1] = stripped[index + 1].lstrip()
        return stripped


def _alternatives(ids_by_spelling: dict[str, int]) -> re.Pattern[str] | None:
    """Matches any of the spellings, the longest that fits; None if there are none."""
    longest_first = sorted(filter(None, ids_by_spelling), key=len, reverse=True)
    return re.compile(f"({'|'.join(map(re.escape, longest_first))})") if longest_first else None
