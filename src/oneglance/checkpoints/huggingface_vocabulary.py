"""The tokens of a Hugging Face folder: tokenizer.json and the files that name special ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oneglance.checkpoints.fields import Fields
from oneglance.checkpoints.vocabulary import Vocabulary, end_ids, looks_like_control
from oneglance.errors import CheckpointError


def read_vocabulary(
    fields: Fields,
    model: Mapping[str, Any],
    tokenizer_config: Mapping[str, Any],
    id_settings: Sequence[Mapping[str, Any]],
    num_rows: int,
) -> Vocabulary:
    """Tokens of tokenizer.json, and what the folder's other files say of them.

    Args:
        fields: tokenizer.json.
        model: its entry "model".
        tokenizer_config: tokenizer_config.json.
        id_settings: objects that may name `bos_token_id` and `eos_token_id`.
        num_rows: rows of the embedding, which bound the ids.

    Raises:
        CheckpointError: a token or an id is unsound, or matched in a way that is not supported.
    """
    added = [_added_token(fields, entry) for entry in fields.get("added_tokens") or []]
    ids = model.get("vocab")
    if not isinstance(ids, dict) or not ids:
        raise fields.wrong("model", "a model with a 'vocab'")
    spellings_by_id = {index: spelling for spelling, index in ids.items()}
    spellings_by_id.update({token.id: token.content for token in added})
    for index, spelling in spellings_by_id.items():
        if type(index) is not int or not 0 <= index < num_rows:
            raise CheckpointError(
                f"{fields.path}: token {spelling!r} has the id {index!r}, but the embedding has "
                f"{num_rows} rows. Download the model again."
            )
    size = max(spellings_by_id) + 1
    spellings = tuple(spellings_by_id.get(index, "") for index in range(size))
    bos_id, ends = _named_ids(fields, spellings_by_id, tokenizer_config, id_settings)
    control_ids = frozenset({token.id for token in added if token.is_control} | ends)
    return Vocabulary(
        spellings=spellings,
        control_ids=control_ids,
        literal_ids=frozenset(token.id for token in added) - control_ids,
        unused_ids=frozenset(range(size)) - frozenset(spellings_by_id),
        left_stripping_ids=frozenset(token.id for token in added if token.lstrip),
        right_stripping_ids=frozenset(token.id for token in added if token.rstrip),
        bos_id=bos_id,
        eos_ids=end_ids(spellings, control_ids, ends),
        adds_bos=_adds_bos(fields, tokenizer_config, bos_id, spellings),
    )


def pipeline_steps(fields: Fields, key: str, children: str) -> list[dict[str, Any]]:
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


def spelling_of(value: Any) -> str | None:
    """A token's spelling in tokenizer_config.json, given as a text or as an object."""
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else None


@dataclass(frozen=True)
class _AddedToken:
    """An entry of `added_tokens`."""

    id: int
    content: str
    is_control: bool
    lstrip: bool
    rstrip: bool


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
    spellings_by_id: Mapping[int, str],
    tokenizer_config: Mapping[str, Any],
    id_settings: Sequence[Mapping[str, Any]],
) -> tuple[int | None, set[int]]:
    """The beginning-of-text token and the end tokens that the folder's files name."""
    id_of = {spelling: index for index, spelling in spellings_by_id.items()}
    begins = [id_of.get(spelling_of(tokenizer_config.get("bos_token")) or "")]
    ends = [id_of.get(spelling_of(tokenizer_config.get("eos_token")) or "")]
    for settings in id_settings:
        begins.append(settings.get("bos_token_id"))
        named = settings.get("eos_token_id")
        ends += named if isinstance(named, list) else [named]
    for token_id in (*begins, *ends):
        if token_id is not None and (type(token_id) is not int or token_id not in spellings_by_id):
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
    for step in pipeline_steps(fields, "post_processor", "processors"):
        pieces = step.get("single") if step.get("type") == "TemplateProcessing" else None
        first = pieces[0] if isinstance(pieces, list) and pieces else None
        special = first.get("SpecialToken") if isinstance(first, dict) else None
        if isinstance(special, dict) and special.get("id") == spellings[bos_id]:
            return True
    return False
