"""The file in which past answers outlive a process: token ids, tenant by tenant.

A first line with name and version, a line of JSON (vocabulary, tenants and the lengths of their
answers), the tokens of all answers as little-endian int32, and the SHA-256 of all that. The trees
are made again from the tokens, so that the format knows nothing of them.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from oneglance.errors import ParameterError, UnsupportedError

FORMAT = b"oneglance past answers 1\n"
_DIGEST_BYTES = hashlib.sha256().digest_size


@dataclass(frozen=True)
class VocabularyStamp:
    """Which vocabulary token ids belong to.

    Attributes:
        fingerprint: hash of the whole vocabulary, see `Tokenizer.fingerprint`.
        size: ids are below this.
    """

    fingerprint: str
    size: int


def write_answers(
    path: Path, vocabulary: VocabularyStamp, answers: Mapping[str, Sequence[NDArray[np.int32]]]
) -> None:
    """Writes a file, for its owner alone to read; whoever reads it sees the old one or the new.

    Args:
        path: the file.
        vocabulary: of the tokens.
        answers: token ids of each answer, by tenant.

    Raises:
        ParameterError: the file cannot be written.
    """
    header = {
        "vocabulary": vocabulary.fingerprint,
        "vocab_size": vocabulary.size,
        "tenants": [[name, [len(each) for each in those]] for name, those in answers.items()],
    }
    tokens = [each.astype("<i4").tobytes() for each in chain.from_iterable(answers.values())]
    content = b"".join([FORMAT, json.dumps(header).encode(), b"\n", *tokens])
    try:
        _replace(path, content + hashlib.sha256(content).digest())
    except OSError as error:
        raise ParameterError(
            f"The past answers cannot be written to {str(path)!r} ({error.strerror}); name a file "
            "in a folder that can be written to."
        ) from error


def read_answers(path: Path, vocabulary: VocabularyStamp) -> dict[str, list[NDArray[np.int32]]]:
    """Reads what `write_answers` has written, in the same order.

    Raises:
        ParameterError: the file cannot be read, is corrupt or of another format.
        UnsupportedError: its tokens are those of another vocabulary.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ParameterError(
            f"The past answers in {str(path)!r} cannot be read ({error.strerror}); name another "
            "file."
        ) from error
    if not content.startswith(FORMAT):
        raise ParameterError(
            f"{str(path)!r} is no file of past answers of this version; delete it or name another."
        )
    body, digest = content[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
    if hashlib.sha256(body).digest() != digest:
        raise ParameterError(
            f"The file of past answers {str(path)!r} is corrupt, its checksum does not match; "
            "delete it or name another."
        )
    try:
        stamp, answers = _parse(body[len(FORMAT) :])
    except (ValueError, TypeError, KeyError) as error:
        raise ParameterError(
            f"The file of past answers {str(path)!r} contradicts itself; delete it or name another."
        ) from error
    if stamp != vocabulary:
        raise UnsupportedError(
            f"The past answers in {str(path)!r} are in the tokens of another vocabulary "
            f"({stamp.size} tokens, the model's has {vocabulary.size}); name another file for this "
            "model."
        )
    return answers


def _parse(content: bytes) -> tuple[VocabularyStamp, dict[str, list[NDArray[np.int32]]]]:
    first_line, _, data = content.partition(b"\n")
    header = json.loads(first_line)
    stamp = VocabularyStamp(header["vocabulary"], header["vocab_size"])
    tokens = np.frombuffer(data, dtype="<i4").astype(np.int32)
    lengths = [length for _, those in header["tenants"] for length in those]
    if sum(lengths) != len(tokens) or min(lengths, default=0) < 0:
        raise ValueError("lengths and tokens do not agree")
    if len(tokens) and not 0 <= tokens.min() <= tokens.max() < stamp.size:
        raise ValueError("a token is not in the vocabulary")
    parts = iter(np.split(tokens, np.cumsum(lengths[:-1], dtype=np.int64)))
    return stamp, {name: [next(parts) for _ in those] for name, those in header["tenants"]}


def _replace(path: Path, content: bytes) -> None:
    """Writes beside the file first, so that a crash leaves the old one."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=path.name, delete=False) as draft:
        try:
            draft.write(content)
            draft.flush()
            os.fsync(draft.fileno())
            Path(draft.name).replace(path)
        except BaseException:
            Path(draft.name).unlink()
            raise
