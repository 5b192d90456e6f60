"""Tokenizer and chat template out of a Hugging Face folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers

from oneglance.checkpoints.base import Tokenizer
from oneglance.checkpoints.bpe import SPACE_MARK, build_model
from oneglance.checkpoints.byte_level import ByteLevelTokenizer
from oneglance.checkpoints.chat import JinjaChatTemplate
from oneglance.checkpoints.fields import Fields
from oneglance.checkpoints.sentencepiece import SentencePieceTokenizer, SpacePrefix
from oneglance.checkpoints.vocabulary import Vocabulary, end_ids, looks_like_control
from oneglance.errors import CheckpointError


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
    vocabulary = _vocabulary(fields, model, tokenizer_config, id_settings, num_rows)
    merges = _merges(fields, model)
    steps = _flatten(fields, "pre_tokenizer", "pretokenizers")
    normalizers = _flatten(fields, "normalizer", "normalizers")
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
        if key.endswith("_token") and (spelling := _spelling(value)) is not None
    }
    return JinjaChatTemplate(source, special_tokens=spellings, origin=str(path))


@dataclass(frozen=True)
class _AddedToken:
    """An entry of `added_tokens`."""

    id: int
    content: str
    is_control: bool
    lstrip: bool
    rstrip: bool


def _vocabulary(
    fields: Fields,
    model: Mapping[str, Any],
    tokenizer_config: Mapping[str, Any],
    id_settings: Sequence[Mapping[str, Any]],
    num_rows: int,
) -> Vocabulary:
    added = [_added_token(fields, entry) for entry in fields.get("added_tokens") or []]
    ids = model.get("vocab")
    if not isinstance(ids, dict) or not ids:
        raise fields.wrong("model", "a model with a 'vocab'")
    spelling_of = {index: spelling for spelling, index in ids.items()}
    spelling_of.update({token.id: token.content for token in added})
    for index, spelling in spelling_of.items():
        if type(index) is not int or not 0 <= index < num_rows:
            raise CheckpointError(
                f"{fields.path}: token {spelling!r} has the id {index!r}, but the embedding has "
                f"{num_rows} rows. Download the model again."
            )
    size = max(spelling_of) + 1
    spellings = tuple(spelling_of.get(index, "") for index in range(size))
    bos_id, ends = _named_ids(fields, spelling_of, tokenizer_config, id_settings)
    control_ids = frozenset({token.id for token in added if token.is_control} | ends)
    return Vocabulary(
        spellings=spellings,
        control_ids=control_ids,
        literal_ids=frozenset(token.id for token in added) - control_ids,
        unused_ids=frozenset(range(size)) - frozenset(spelling_of),
        left_stripping_ids=frozenset(token.id for token in added if token.lstrip),
        right_stripping_ids=frozenset(token.id for token in added if token.rstrip),
        bos_id=bos_id,
        eos_ids=end_ids(spellings, control_ids, ends),
        adds_bos=_adds_bos(fields, tokenizer_config, bos_id, spellings),
    )


def _added_token(fields: Fields, entry: Any) -> _AddedToken:
    if not isinstance(entry, dict) or not isinstance(entry.get("content"), str):
        raise fields.wrong("added_tokens", "a list of tokens with id and content")
    content = entry["content"]
    token = _AddedToken(
        id=entry.get("id", -1),
        content=content,
        is_control=entry.get("special") is True or looks_like_control(content),
        lstrip=entry.get("lstrip") is True,
        rstrip=entry.get("rstrip") is True,
    )
    strips_text = not token.is_control and (token.lstrip or token.rstrip)
    if strips_text or entry.get("single_word") is True:
        raise fields.unsupported(
            f"the added token {content!r} is matched by white space or word boundaries around it, "
            "which is not supported"
        )
    return token


def _named_ids(
    fields: Fields,
    spelling_of: Mapping[int, str],
    tokenizer_config: Mapping[str, Any],
    id_settings: Sequence[Mapping[str, Any]],
) -> tuple[int | None, set[int]]:
    """The beginning-of-text token and the end tokens that the folder's files name."""
    id_of = {spelling: index for index, spelling in spelling_of.items()}
    begins = [id_of.get(_spelling(tokenizer_config.get("bos_token")) or "")]
    ends = [id_of.get(_spelling(tokenizer_config.get("eos_token")) or "")]
    for settings in id_settings:
        begins.append(settings.get("bos_token_id"))
        named = settings.get("eos_token_id")
        ends += named if isinstance(named, list) else [named]
    for token_id in (*begins, *ends):
        if token_id is not None and (type(token_id) is not int or token_id not in spelling_of):
            raise CheckpointError(
                f"{fields.path} has no token with the id {token_id!r}, which the model's settings "
                "name as its first or last. Download the model again."
            )
    bos_id = next((token_id for token_id in begins if token_id is not None), None)
    return bos_id, {token_id for token_id in ends if token_id is not None}


def _adds_bos(
    fields: Fields,
    tokenizer_config: Mapping[str, Any],
    bos_id: int | None,
    spellings: Sequence[str],
) -> bool:
    """Whether the tokenizer begins texts with the beginning-of-text token."""
    named = tokenizer_config.get("add_bos_token")
    if isinstance(named, bool):
        return named
    if bos_id is None:
        return False
    for step in _flatten(fields, "post_processor", "processors"):
        pieces = step.get("single") if step.get("type") == "TemplateProcessing" else None
        first = pieces[0] if isinstance(pieces, list) and pieces else None
        special = first.get("SpecialToken") if isinstance(first, dict) else None
        if isinstance(special, dict) and special.get("id") == spellings[bos_id]:
            return True
    return False


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
        if step.get("add_prefix_space") is True:
            raise fields.unsupported("its byte-level tokenizer puts a space in front of text")
        removes = step.get("behavior") == "Removed" or str(step.get("type")).startswith(
            "Whitespace"
        )
        if removes:
            raise fields.unsupported("its tokenizer drops parts of the text")


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


def _flatten(fields: Fields, key: str, children: str) -> list[dict[str, Any]]:
    """The steps of a pipeline that may be missing, single, or a sequence of sequences."""
    steps: list[dict[str, Any]] = []
    pending = [fields.get(key)]
    while pending:
        step = pending.pop(0)
        if step is None:
            continue
        if not isinstance(step, dict):
            raise fields.wrong(key, "an object or null")
        if step.get("type") == "Sequence" and isinstance(step.get(children), list):
            pending = [*step[children], *pending]
        else:
            steps.append(step)
    return steps


def _object(fields: Fields, key: str) -> dict[str, Any]:
    value = fields.get(key)
    if not isinstance(value, dict):
        raise fields.wrong(key, "an object")
    return value


def _spelling(value: Any) -> str | None:
    """A token's spelling in tokenizer_config.json, given as a text or as an object."""
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else None
