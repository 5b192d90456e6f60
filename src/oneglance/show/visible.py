"""Text in which nothing is hidden, and that cannot steer a terminal."""

from __future__ import annotations

import codecs
import unicodedata
from dataclasses import dataclass

from oneglance.checkpoints.base import Tokenizer

INCOMPLETE = "…"
"""Stands for a token that is the beginning of a character whose end is in another token."""

_NAMED_CONTROLS = {"\n": "⏎", "\r": "␍", "\t": "⇥"}


def visible(text: str) -> str:
    """Text in which nothing is hidden, for tokens: ⏎, ⇥, ␛, and codes for invisible characters."""
    return "".join(_visible_char(char) for char in text)


def harmless(text: str) -> str:
    """Text that cannot steer a terminal: control characters but newline and tab are shown."""
    is_control = (char not in "\n\t" and unicodedata.category(char) == "Cc" for char in text)
    return "".join(
        _visible_char(char) if steers else char
        for char, steers in zip(text, is_control, strict=True)
    )


def _visible_char(char: str) -> str:
    if char in _NAMED_CONTROLS:
        return _NAMED_CONTROLS[char]
    code = ord(char)
    if code < 0x20:
        return chr(0x2400 + code)  # the block of control pictures has the order of the controls
    if code == 0x7F:
        return "␡"
    is_joiner = char in "\u200c\u200d"  # they shape emoji and whole scripts, and hide nothing
    if unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp") and not is_joiner:
        return f"\\u{code:04x}"
    return char


@dataclass(frozen=True)
class TokenText:
    """One token where it stands.

    Attributes:
        text: what it adds to the answer: whole characters, nothing where it is a control token or
            the beginning of a character.
        shown: what to draw for it; never empty.
        pending: bytes of a character that is unfinished after it.
    """

    text: str
    shown: str
    pending: bytes


def token_text(tokenizer: Tokenizer, token_id: int, pending: bytes = b"") -> TokenText:
    """Text of a token that follows others.

    Args:
        tokenizer: of the target.
        token_id: the token.
        pending: bytes of a character that those before it left unfinished.
    """
    added = tokenizer.token_bytes(token_id)
    if not added:
        return TokenText("", tokenizer.token_label(token_id), pending)
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    decoder.setstate((pending, 0))
    text = decoder.decode(added)
    return TokenText(text, visible(text) or INCOMPLETE, decoder.getstate()[0])
