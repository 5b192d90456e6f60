"""What a model's tokens are: spellings, kinds, and which of them end an answer."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

END_OF_ANSWER = frozenset(
    {
        "</s>",
        "<|endoftext|>",
        "<|end_of_text|>",
        "<|im_end|>",
        "<|eot_id|>",
        "<|eom_id|>",
        "<|end|>",
        "<|end_of_turn|>",
        "<end_of_turn>",
        "<EOT>",
        "<|fim_pad|>",
        "<fim_pad>",
        "<|fim_repo|>",
        "<|repo_name|>",
        "<reponame>",
        "<|file_sep|>",
    }
)
"""Control tokens that end an answer, whatever else a model file names as its end token.

A chat model may end a turn with either of its two end tokens, while files name only one. Those of
fill-in-the-middle models separate files of a repository: after one of them the answer is another
file. llama.cpp takes the same tokens for ends of generation."""


@dataclass(frozen=True)
class Vocabulary:
    """The tokens of a model.

    Attributes:
        spellings: of each id, as the file spells it; padding at the end is left out.
        control_ids: tokens without text, which only a template or `parse_special` produces.
        literal_ids: ordinary tokens that the file wants recognised as wholes wherever their
            spelling occurs ("<tool_call>", say); their spelling is their text.
        unused_ids: ids within the vocabulary that no text and no template produces.
        left_stripping_ids, right_stripping_ids: control tokens that swallow white space before
            or after them.
        bos_id: the beginning-of-text token.
        eos_ids: tokens that end an answer.
        adds_bos: whether a raw prompt begins with `bos_id`.
    """

    spellings: tuple[str, ...]
    control_ids: frozenset[int]
    literal_ids: frozenset[int] = frozenset()
    unused_ids: frozenset[int] = frozenset()
    left_stripping_ids: frozenset[int] = frozenset()
    right_stripping_ids: frozenset[int] = frozenset()
    bos_id: int | None = None
    eos_ids: frozenset[int] = frozenset()
    adds_bos: bool = False

    @property
    def ordinary_ids(self) -> list[int]:
        """Ids of the tokens that text is made of by merging, in order."""
        others = self.control_ids | self.literal_ids | self.unused_ids
        return [index for index in range(len(self.spellings)) if index not in others]


def looks_like_control(spelling: str) -> bool:
    """Whether a token is a control token by its looks, though a file calls it ordinary.

    Qwen's tokenizer.json lists "<|fim_prefix|>" as an ordinary added token, and so do some GGUF
    files; converters make such tokens control tokens, and so does this package, lest user text
    could forge them.
    """
    return any(
        len(spelling) > 4 and spelling.startswith(f"<{bar}") and spelling.endswith(f"{bar}>")
        for bar in ("|", "\N{FULLWIDTH VERTICAL LINE}")
    )


def end_ids(
    spellings: tuple[str, ...], control_ids: frozenset[int], named: Iterable[int]
) -> frozenset[int]:
    """Tokens that end an answer: those that the file names, and the control tokens known for it."""
    known = {index for index in control_ids if spellings[index] in END_OF_ANSWER}
    return frozenset(known | set(named))


def fingerprint(vocabulary: Vocabulary, token_bytes: Callable[[int], bytes]) -> str:
    """Hash of the vocabulary: what each id means, whatever file format it came from.

    Args:
        vocabulary: the tokens.
        token_bytes: text of an ordinary token.
    """
    digest = hashlib.sha256()
    for index, spelling in enumerate(vocabulary.spellings):
        if index in vocabulary.unused_ids:
            entry = b"u"
        elif index in vocabulary.control_ids:
            entry = b"c" + spelling.encode()
        else:
            entry = b"t" + token_bytes(index)
        digest.update(len(entry).to_bytes(4, "little"))
        digest.update(entry)
    return digest.hexdigest()
