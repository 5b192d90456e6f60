"""Text of one vocabulary in the tokens of another, byte for byte, with what stands before it.

A token's bytes may be part of a character, and how a tokenizer cuts a word depends on the text
around it. So text is handed over as bytes, together with a few tokens of what stands before it,
and only whole characters are encoded; what is left of one waits for the rest.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence

from oneglance.checkpoints.base import Tokenizer
from oneglance.errors import ParameterError

TokenBytes = Callable[[int], bytes]
"""The bytes that a token adds to the text; none for control tokens."""


def encode_aligned(
    tokenizer: Tokenizer, data: bytes, token_bytes: TokenBytes
) -> tuple[list[int], list[int]]:
    """Encodes whatever of `data` the vocabulary can express, up to its last whole character.

    Args:
        tokenizer: of the vocabulary.
        data: text, perhaps cut within a character at the end, perhaps not UTF-8 in places.
        token_bytes: the vocabulary's.

    Returns:
        Token ids, and for each the offset in `data` where its bytes end. Bytes that no token can
        express are skipped. The first token may begin with a space that is not in `data`, where
        the tokenizer puts one in front of every text.
    """
    decoder = codecs.getincrementaldecoder("utf-8")(errors="surrogateescape")
    ids: list[int] = []
    ends: list[int] = []
    offset = 0
    for run, run_ids in _expressible_runs(tokenizer, decoder.decode(data)):
        end = offset + len(run.encode("utf-8", errors="surrogateescape"))
        ids += run_ids
        ends += _ends(run_ids, end, token_bytes)
        offset = end
    return ids, ends


def continue_tokens(
    tokenizer: Tokenizer,
    before: Sequence[int],
    data: bytes,
    token_bytes: TokenBytes,
    stays_apart: bool = False,
) -> list[int] | None:
    """The tokens that `data` becomes where it continues the tokens `before`.

    Both are encoded together, so that words are cut as in the whole text.

    Args:
        tokenizer: of the vocabulary.
        before: the last few tokens of the text, none of them a control token; may be empty.
        data: what follows; may begin and end within a character.
        token_bytes: the vocabulary's.
        stays_apart: where the vocabulary would join the end of `before` and the beginning of
            `data` into one token, encode `data` alone.

    Returns:
        Token ids whose bytes are the beginning of `data`: as much of it as is whole characters
        of valid UTF-8. None where the two would be joined and `stays_apart` is off, or where the
        vocabulary cannot express the text.
    """
    context, text = _decodable(b"".join(map(token_bytes, before)), data)
    if len(text) <= len(context):
        return []
    try:
        ids = _tail(tokenizer.encode(text.decode()), len(text) - len(context), token_bytes)
        if ids is None and stays_apart:
            alone = _decodable(b"", data)[1]
            ids = _tail(tokenizer.encode(alone.decode()), len(alone), token_bytes)
    except ParameterError:
        return None
    return ids


def _expressible_runs(tokenizer: Tokenizer, text: str) -> list[tuple[str, list[int]]]:
    """Cuts text where the vocabulary has no token for a character, and encodes the rest."""
    try:
        return [(text, tokenizer.encode(text))]
    except ParameterError:
        if len(text) == 1:
            return [(text, [])]
        half = len(text) // 2
        first, second = text[:half], text[half:]
        return _expressible_runs(tokenizer, first) + _expressible_runs(tokenizer, second)


def _ends(ids: Sequence[int], end: int, token_bytes: TokenBytes) -> list[int]:
    ends: list[int] = []
    for token in reversed(ids):
        ends.append(end)
        end -= len(token_bytes(token))
    return ends[::-1]


def _tail(ids: Sequence[int], size: int, token_bytes: TokenBytes) -> list[int] | None:
    """The last tokens, `size` bytes together; None if no token begins there."""
    start = len(ids)
    while size > 0 and start > 0:
        start -= 1
        size -= len(token_bytes(ids[start]))
    return list(ids[start:]) if size == 0 else None


def _decodable(before: bytes, data: bytes) -> tuple[bytes, bytes]:
    """What of `before` is UTF-8 up to its end, and that with what of `data` is so after it.

    A character that is cut by the end of `data` is left out, one that is cut by the end of
    `before` is not; where `before` holds bytes that are no UTF-8, it begins after them.
    """
    while True:
        decoder = codecs.getincrementaldecoder("utf-8")(errors="strict")
        try:
            return before, decoder.decode(before + data).encode()
        except UnicodeDecodeError as error:
            if error.start < len(before):
                before = before[error.start + 1 :]
            else:
                data = data[: error.start - len(before)]
