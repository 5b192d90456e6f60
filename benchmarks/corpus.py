"""English text that every machine with Python has: the language reference, as `help()` shows it.

It is prose with some code and some grammar, and it comes with the standard library, so that
nothing has to be fetched or committed. It differs a little between versions of Python.
"""

from __future__ import annotations

import hashlib
import platform
from dataclasses import dataclass
from pydoc_data.topics import topics

from oneglance.checkpoints.base import Tokenizer
from oneglance.errors import ParameterError

CHARACTERS_PER_TOKEN = 8
"""More than there are on average, in any vocabulary."""
SPARE_TOKENS = 16


@dataclass(frozen=True)
class Corpus:
    """A text and what identifies it.

    Attributes:
        text: all of it.
        name: where it comes from.
        sha256: of its UTF-8 bytes.
    """

    text: str
    name: str
    sha256: str


def language_reference() -> Corpus:
    """The topics of `pydoc_data.topics` in alphabetical order, with an empty line between two."""
    text = "\n\n".join(topics[name].strip() for name in sorted(topics))
    return Corpus(
        text=text,
        name=f"pydoc_data.topics of Python {platform.python_version()}",
        sha256=hashlib.sha256(text.encode()).hexdigest(),
    )


def cut_windows(
    text: str, tokenizer: Tokenizer, length: int, count: int
) -> tuple[tuple[int, ...], ...]:
    """The first `count` windows of `length` tokens each, one after the other.

    Args:
        text: to be cut.
        tokenizer: whose tokens; where its model expects a beginning-of-text token, every window
            begins with one.
        length: tokens of a window, at least 2.
        count: how many windows.

    Raises:
        ParameterError: the text is too short for that.
    """
    first = [tokenizer.bos_id] if tokenizer.adds_bos and tokenizer.bos_id is not None else []
    step = length - len(first)
    tokens = _encode_beginning(text, tokenizer, count * step)
    if length < 2 or count * step > len(tokens):
        raise ParameterError(
            f"{count} windows of {length} tokens cannot be cut from a text of {len(tokens)}; use "
            f"windows of at least 2 tokens, and at most {len(tokens) // max(step, 1)} of them."
        )
    return tuple((*first, *tokens[start : start + step]) for start in range(0, count * step, step))


def _encode_beginning(text: str, tokenizer: Tokenizer, count: int) -> list[int]:
    """At least `count` tokens, if the text has so many; all of it is rarely needed, and slow."""
    # Where the text is cut, a token may differ from that of the whole text: hence some too many.
    tokens = tokenizer.encode(text[: CHARACTERS_PER_TOKEN * count])
    if len(tokens) > count + SPARE_TOKENS:
        return tokens
    return tokenizer.encode(text)
