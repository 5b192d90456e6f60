"""The words after `--drafter suffix`: nothing, `:global`, or `:global=FILE`."""

from __future__ import annotations

import os
from pathlib import Path

from oneglance.checkpoints.base import Tokenizer
from oneglance.drafters.suffix import SuffixDrafter
from oneglance.drafters.suffix_file import VocabularyStamp
from oneglance.drafters.suffix_memory import SuffixMemory
from oneglance.errors import ParameterError


def make_suffix(argument: str, tokenizer: Tokenizer) -> SuffixDrafter:
    """Makes the drafter, and reads its file if there is one already.

    Args:
        argument: "": from the request alone; "global": from past answers of this process too;
            "global=FILE": from those in the file as well, which is written again at the end.
        tokenizer: the target's.

    Raises:
        ParameterError: another argument, or a file that cannot be read or written.
        UnsupportedError: a file with another vocabulary's tokens.
    """
    if not argument:
        return SuffixDrafter()
    word, separator, name = argument.partition("=")
    if word != "global" or bool(separator) != bool(name):
        raise ParameterError(
            f"The drafter suffix makes nothing of {argument!r}; write suffix, suffix:global or "
            "suffix:global=FILE."
        )
    memory = SuffixMemory(VocabularyStamp(tokenizer.fingerprint(), tokenizer.vocab_size))
    path = _writable(Path(name)) if name else None
    drafter = SuffixDrafter(memory=memory, path=path)
    if path is not None and path.exists():
        drafter.load(path)
    return drafter


def _writable(path: Path) -> Path:
    """The path, made absolute, as the process may change its folder until the file is written."""
    path = path.absolute()
    if path.is_dir() or not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise ParameterError(
            f"Past answers cannot be kept in {str(path)!r}; name a file in a folder that exists "
            "and can be written to."
        )
    return path
