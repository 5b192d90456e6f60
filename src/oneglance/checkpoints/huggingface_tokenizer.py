"""Tokenizer and chat template out of a Hugging Face folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tokenizers

from oneglance.checkpoints.base import Tokenizer
from oneglance.checkpoints.bpe import SPACE_MARK, build_model
from oneglance.checkpoints.byte_level import ByteLevelTokenizer
from oneglance.checkpoints.chat import JinjaChatTemplate
from oneglance.checkpoints.fields import Fields
from oneglance.checkpoints.huggingface_vocabulary import (
    pipeline_steps,
    read_vocabulary,
    spelling_of,
)
from oneglance.checkpoints.sentencepiece import SentencePieceTokenizer, SpacePrefix
from oneglance.errors import CheckpointError

LOSSLESS_STEPS = ("ByteLevel", "Digits", "Punctuation", "Split")
"""Steps that cut text into words and lose none of it."""


def read_tokenizer(
    fields: Fields,
    tokenizer_config: Mapping[str, Any],
    id_settings: Sequence[Mapping[str, Any]],
    num_rows: int,
) -> Tokenizer:
    """Tokenizer of a folder.

    Unicode normalisation (Qwen2 asks for form C) is left out, so that text comes back as it was;
    ids of text that is in that form already are the same.

    Args:
        fields: tokenizer.json.
        tokenizer_config: tokenizer_config.json.
        id_settings: objects that may name `bos_token_id` and `eos_token_id`, the first wins for
            the former; end tokens of all of them count.
        num_rows: rows of the embedding.

    Raises:
        CheckpointError: the tokenizer is unsound or of a kind that is not supported.
    """
    model = _object(fields, "model")
    if model.get("type") != "BPE":
        raise fields.unsupported(f"its tokenizer is of the kind {model.get('type')!r}, not 'BPE'")
    for key in ("dropout", "continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(key):
            raise fields.unsupported(f"a tokenizer with {key!r} is not supported")
    vocabulary = read_vocabulary(fields, model, tokenizer_config, id_settings, num_rows)
    merges = _merges(fields, model)
    steps = pipeline_steps(fields, "pre_tokenizer", "pretokenizers")
    normalizers = pipeline_steps(fields, "normalizer", "normalizers")
    if any(step.get("type") == "ByteLevel" for step in steps):
        _check_byte_level(fields, steps, normalizers)
        ignores_merges = model.get("ignore_merges") is True
        plain = build_model(fields.path, vocabulary, merges, ignores_merges=ignores_merges)
        plain.pre_tokenizer = _build_pre_tokenizer(fields, fields.get("pre_tokenizer"))
        return ByteLevelTokenizer(vocabulary, plain)
    if model.get("byte_fallback") is not True:
        raise fields.unsupported("its tokenizer is neither byte-level nor falls back to bytes")
    prefix, splits_words = _sentence_piece_rules(fields, steps, normalizers)
    plain = build_model(fields.path, vocabulary, merges, falls_back_to_bytes=True)
    if splits_words:
        plain.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace(prepend_scheme="never")
    return SentencePieceTokenizer(vocabulary, plain, prefix)


def read_chat_template(
    folder: Path, tokenizer_config: Mapping[str, Any]
) -> JinjaChatTemplate | None:
    """Chat template of a folder: chat_template.jinja, else the one in tokenizer_config.json.

    Raises:
        CheckpointError: the template cannot be read or has a syntax error.
    """
    path = folder / "chat_template.jinja"
    source: Any = tokenizer_config.get("chat_template")
    if path.exists():
        try:
            source = path.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{path} cannot be read. Download the model again.") from error
    else:
        path = folder / "tokenizer_config.json"
    if isinstance(source, list):
        named = {entry.get("name"): entry for entry in source if isinstance(entry, dict)}
        source = named.get("default", {}).get("template")
    if source is None:
        return None
    if not isinstance(source, str):
        raise CheckpointError(f"{path} has a 'chat_template' that is no text. Download it again.")
    spellings = {
        key: spelling
        for key, value in tokenizer_config.items()
        if key.endswith("_token") and (spelling := spelling_of(value)) is not None
    }
    return JinjaChatTemplate(source, special_tokens=spellings, origin=str(path))


def _merges(fields: Fields, model: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The merges as pairs; older files have "left right" instead of lists."""
    merges: list[tuple[str, str]] = []
    for merge in model.get("merges") or []:
        pair = merge.split(" ") if isinstance(merge, str) else merge
        is_pair = isinstance(pair, list) and len(pair) == 2
        if not is_pair or not all(isinstance(part, str) and part for part in pair):
            raise fields.wrong("model", "a model whose 'merges' are pairs of tokens")
        merges.append((pair[0], pair[1]))
    return merges


def _check_byte_level(
    fields: Fields, steps: Sequence[Mapping[str, Any]], normalizers: Sequence[Mapping[str, Any]]
) -> None:
    for step in normalizers:
        if step.get("type") != "NFC":
            raise fields.unsupported(f"its tokenizer changes text by {step.get('type')!r}")
    for step in steps:
        if step.get("type") not in LOSSLESS_STEPS or step.get("behavior") == "Removed":
            raise fields.unsupported(f"its tokenizer may drop text by {step.get('type')!r}")
        if step.get("add_prefix_space") is True:
            raise fields.unsupported("its byte-level tokenizer puts a space in front of text")


def _sentence_piece_rules(
    fields: Fields, steps: Sequence[Mapping[str, Any]], normalizers: Sequence[Mapping[str, Any]]
) -> tuple[SpacePrefix, bool]:
    """Which text gets a space in front, and whether words are cut at spaces before merging."""
    prefix: SpacePrefix = "never"
    splits_words = False
    marks_spaces = False
    for step in normalizers:
        kind = step.get("type")
        if kind == "Prepend" and step.get("prepend") == SPACE_MARK:
            prefix = "pieces"
        elif kind == "Replace" and step.get("pattern") == {"String": " "}:
            marks_spaces = step.get("content") == SPACE_MARK
        else:
            raise fields.unsupported(f"its tokenizer changes text by {kind!r}")
    for step in steps:
        if step.get("type") != "Metaspace" or step.get("replacement") != SPACE_MARK:
            raise fields.unsupported(f"its tokenizer cuts text by {step.get('type')!r}")
        marks_spaces = True
        scheme = step.get("prepend_scheme", "always")
        if scheme != "never" and step.get("add_prefix_space") is not False:
            prefix = "start" if scheme == "first" else "pieces"
        splits_words = step.get("split", True) is True
    if not marks_spaces:
        raise fields.unsupported(f"its tokenizer does not spell spaces as {SPACE_MARK!r}")
    return prefix, splits_words


def _build_pre_tokenizer(fields: Fields, description: Any) -> Any:
    """The library's pre-tokenizer from its description in JSON."""
    empty = {"type": "BPE", "vocab": {}, "merges": []}
    text = json.dumps({"version": "1.0", "model": empty, "pre_tokenizer": description})
    try:
        return tokenizers.Tokenizer.from_str(text).pre_tokenizer
    except Exception as error:  # The library raises bare exceptions.
        raise fields.wrong("pre_tokenizer", "a pre-tokenizer that `tokenizers` knows") from error


def _object(fields: Fields, key: str) -> dict[str, Any]:
    value = fields.get(key)
    if not isinstance(value, dict):
        raise fields.wrong(key, "an object")
    return value
