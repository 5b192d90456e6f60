"""Tokenizer and chat template out of GGUF metadata."""

from __future__ import annotations

from itertools import takewhile
from typing import Any

from oneglance.checkpoints.base import Tokenizer
from oneglance.checkpoints.bpe import BYTE_NAMES, build_model
from oneglance.checkpoints.byte_level import ByteLevelTokenizer
from oneglance.checkpoints.chat import JinjaChatTemplate
from oneglance.checkpoints.fields import Fields
from oneglance.checkpoints.pre_tokenizers import SPLIT_RULES, build_pre_tokenizer
from oneglance.checkpoints.sentencepiece import SentencePieceTokenizer
from oneglance.checkpoints.vocabulary import Vocabulary, end_ids, looks_like_control
from oneglance.errors import CheckpointError

PREFIX = "tokenizer.ggml."

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
"""Kinds of tokens in `tokenizer.ggml.token_type`."""

END_KEYS = ("eos_token_id", "eot_token_id", "eom_token_id")
"""Keys that name end tokens; GGUF has more ids, of no use here."""

TEMPLATE_VARIABLES = {
    "bos_token": "bos_token_id",
    "eos_token": "eos_token_id",
    "unk_token": "unknown_token_id",
    "pad_token": "padding_token_id",
}
"""Variables of chat templates and the keys of the tokens they spell."""


def read_tokenizer(fields: Fields, num_rows: int) -> Tokenizer:
    """Tokenizer of a GGUF file.

    Args:
        fields: the file's metadata.
        num_rows: rows of the embedding, at least as many as there are tokens.

    Raises:
        CheckpointError: the vocabulary is missing, inconsistent, or of a kind that is not
            supported.
    """
    kind = fields.string(PREFIX + "model")
    if kind == "gpt2":
        return _byte_level(fields, num_rows)
    if kind == "llama":
        return _sentence_piece(fields, num_rows)
    raise fields.unsupported(f"its tokenizer is of the kind {kind!r}, not 'gpt2' or 'llama'")


def read_chat_template(fields: Fields, tokenizer: Tokenizer) -> JinjaChatTemplate | None:
    """Chat template of a GGUF file; None if it has none.

    Raises:
        CheckpointError: the template has a syntax error.
    """
    if fields.get("tokenizer.chat_template") is None:
        return None
    tokens = {
        variable: fields.get(PREFIX + key)
        for variable, key in TEMPLATE_VARIABLES.items()
        if isinstance(fields.get(PREFIX + key), int)
    }
    return JinjaChatTemplate(
        fields.string("tokenizer.chat_template"),
        special_tokens={name: tokenizer.token_label(token) for name, token in tokens.items()},
        origin=str(fields.path),
    )


def _byte_level(fields: Fields, num_rows: int) -> ByteLevelTokenizer:
    name = fields.string(PREFIX + "pre")
    rule = SPLIT_RULES.get(name)
    if rule is None:
        raise CheckpointError(
            f"{fields.path}: its tokenizer cuts text by the rule {name!r}, which is not known "
            f"here; known are {', '.join(SPLIT_RULES)}. Use another model."
        )
    vocabulary = _vocabulary(fields, num_rows, adds_bos=rule.adds_bos)
    model = build_model(
        fields.path, vocabulary, _stored_merges(fields), ignores_merges=rule.ignores_merges
    )
    model.pre_tokenizer = build_pre_tokenizer(rule)
    return ByteLevelTokenizer(vocabulary, model)


def _sentence_piece(fields: Fields, num_rows: int) -> SentencePieceTokenizer:
    vocabulary = _vocabulary(fields, num_rows, adds_bos=True)
    scores = _array(fields, "scores", float, len(vocabulary.spellings))
    merges = merges_by_score(vocabulary, scores)
    model = build_model(fields.path, vocabulary, merges, falls_back_to_bytes=True)
    adds_prefix = fields.boolean(PREFIX + "add_space_prefix", True)
    # llama.cpp puts a space also in front of text after a control token.
    return SentencePieceTokenizer(vocabulary, model, "pieces" if adds_prefix else "never")


def merges_by_score(vocabulary: Vocabulary, scores: list[float]) -> list[tuple[str, str]]:
    """Merges of a SentencePiece vocabulary, best first.

    SentencePiece merges the neighbours whose joint piece has the highest score. The list has
    every way to put each piece together of two others; ways of one piece come in order of the
    parts' ids, as in Hugging Face's conversion.

    Args:
        vocabulary: its ordinary tokens are the pieces.
        scores: of each id.
    """
    spellings = vocabulary.spellings
    ids = {spellings[index]: index for index in vocabulary.ordinary_ids}
    for name in BYTE_NAMES:
        ids.pop(name, None)
    merges: list[tuple[float, int, int, tuple[str, str]]] = []
    for piece, index in ids.items():
        for cut in range(1, len(piece)):
            left, right = piece[:cut], piece[cut:]
            if left in ids and right in ids:
                merges.append((-scores[index], ids[left], ids[right], (left, right)))
    merges.sort()
    return [merge for *_, merge in merges]


def _vocabulary(fields: Fields, num_rows: int, adds_bos: bool) -> Vocabulary:
    spellings: list[str] = _array(fields, "tokens", str)
    if len(spellings) > num_rows:
        raise CheckpointError(
            f"{fields.path} names {len(spellings)} tokens, but its embedding has {num_rows} rows. "
            "Convert the model again."
        )
    kinds: list[int] = _array(fields, "token_type", int, len(spellings))
    num_padding = sum(1 for _ in takewhile(lambda kind: kind == UNUSED, reversed(kinds)))
    spellings = spellings[: len(spellings) - num_padding]
    if not spellings:
        raise fields.wrong(PREFIX + "token_type", "some token in use")

    def of_kind(*wanted: int) -> frozenset[int]:
        return frozenset(i for i, kind in enumerate(kinds[: len(spellings)]) if kind in wanted)

    end = [
        token_id for key in END_KEYS if (token_id := _token_id(fields, key, spellings)) is not None
    ]
    literal_ids = of_kind(USER_DEFINED)
    disguised = frozenset(index for index in literal_ids if looks_like_control(spellings[index]))
    control_ids = of_kind(CONTROL, UNKNOWN) | disguised | frozenset(end)
    return Vocabulary(
        spellings=tuple(spellings),
        control_ids=control_ids,
        literal_ids=literal_ids - control_ids,
        unused_ids=of_kind(UNUSED) - control_ids,
        bos_id=_token_id(fields, "bos_token_id", spellings),
        eos_ids=end_ids(tuple(spellings), control_ids, end),
        adds_bos=fields.boolean(PREFIX + "add_bos_token", adds_bos),
    )


def _token_id(fields: Fields, key: str, spellings: list[str]) -> int | None:
    value = fields.get(PREFIX + key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < len(spellings):
        raise fields.wrong(PREFIX + key, "the id of a token")
    return value


def _array(fields: Fields, key: str, kind: type, length: int | None = None) -> list[Any]:
    """A list of values of one type, of at least the given length."""
    values = fields.get(PREFIX + key)
    if not isinstance(values, list) or not values or not isinstance(values[0], kind):
        raise fields.wrong(PREFIX + key, "a list with an entry for each token")
    if length is not None and len(values) < length:
        raise fields.wrong(PREFIX + key, f"a list of {length} entries")
    return values


def _stored_merges(fields: Fields) -> list[tuple[str, str]]:
    """The merges as pairs; GGUF stores "left right", best first."""
    merges: list[tuple[str, str]] = []
    for merge in _array(fields, "merges", str):
        # A part may itself begin with a space, so the separator is sought from the second on.
        cut = merge.find(" ", 1)
        if cut < 0 or cut == len(merge) - 1:
            raise CheckpointError(
                f"{fields.path}: the merge {merge!r} is not two tokens with a space between. "
                "Convert the model again."
            )
        merges.append((merge[:cut], merge[cut + 1 :]))
    return merges
