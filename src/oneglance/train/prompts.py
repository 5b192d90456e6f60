"""The user's prompts, read from JSON lines again and again without holding them in memory."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from oneglance.config import SamplingParams
from oneglance.errors import ParameterError

KEY_BITS = 63
"""Bits of a prompt's key: it fits a signed 64-bit number."""


@dataclass(frozen=True)
class TrainingPrompt:
    """A prompt that the target is to answer.

    Attributes:
        text: what the user says, or the beginning of a text.
        is_raw: the text is continued as it is, without the chat template.
    """

    text: str
    is_raw: bool = False

    @property
    def key(self) -> int:
        """A hash below 2^63, by which the prompt's answers are trained on or held out."""
        digest = hashlib.sha256(f"{self.is_raw}\n{self.text}".encode()).digest()
        return int.from_bytes(digest[:8], "big") >> (64 - KEY_BITS)


@dataclass(frozen=True)
class Job:
    """One answer to collect: a function of this alone, since its randomness has a seed.

    Attributes:
        number: from 0, in the order of collection.
        prompt: what is answered.
        params: how.
    """

    number: int
    prompt: TrainingPrompt
    params: SamplingParams


def read_prompts(files: Sequence[Path]) -> Iterator[TrainingPrompt]:
    """Prompts of JSON lines, in order; files whose name ends with .gz are unpacked.

    An object has `prompt` (asked as a user's message), `turns` (a list, of which the first is
    asked: the others answer what another model said) or `text` (continued as it is); other
    fields are the user's own.

    Raises:
        ParameterError: a file cannot be read, or a line is no such object.
    """
    for path in files:
        number = 0
        try:
            with _open(path) as lines:
                for line in lines:
                    number += 1
                    if line.strip():
                        yield _parse(line)
        except (OSError, EOFError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ParameterError(
                f"The prompts {str(path)!r} cannot be read ({reason}); name a file of JSON lines."
            ) from None
        except (ValueError, LookupError, RecursionError):
            raise ParameterError(
                f"Line {number} of {str(path)!r} is no prompt; give an object with prompt, turns "
                "or text."
            ) from None


def check_prompts(files: Sequence[Path]) -> int:
    """Reads all prompts, so that an unsound line is not found after hours of work.

    Returns:
        How many there are.

    Raises:
        ParameterError: as `read_prompts`, or there are none.
    """
    count = sum(1 for _ in read_prompts(files))
    if count == 0:
        names = ", ".join(repr(str(path)) for path in files)
        raise ParameterError(f"There is no prompt in {names}; give a file that has some.")
    return count


def make_jobs(
    files: Sequence[Path],
    temperatures: Sequence[float],
    num_answers: int,
    max_tokens: int,
    seed: int,
) -> Iterator[Job]:
    """The first `num_answers` answers to collect, the prompts in turn, again where they end.

    Neighbouring prompts are answered at different temperatures, and in the next round each at the
    next one, so that any beginning of the list has its share of all. A greedy answer to the same
    prompt would come out the same a second time, so it is asked for once; with nothing but greedy
    answers the list ends when each prompt has one.

    Args:
        files: of prompts.
        temperatures: at least one.
        num_answers: most jobs.
        max_tokens: of each answer.
        seed: of the sampled ones.

    Raises:
        ParameterError: as `read_prompts`.
    """
    number = turn = 0
    while number < num_answers:
        before = number
        for index, prompt in enumerate(read_prompts(files)):
            temperature = temperatures[(index + turn) % len(temperatures)]
            if temperature == 0 and turn >= len(temperatures):
                continue
            if number == num_answers:
                return
            params = SamplingParams(
                max_tokens=max_tokens, temperature=temperature, seed=seed, choice=number
            )
            yield Job(number, prompt, params)
            number += 1
        if number == before and turn >= len(temperatures):
            return
        turn += 1


def _open(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8")
    return path.open(encoding="utf-8")


def _parse(line: str) -> TrainingPrompt:
    value: Any = json.loads(line)
    if not isinstance(value, dict):
        raise ValueError(line)
    if "prompt" in value:
        return TrainingPrompt(_string(value["prompt"]))
    if "turns" in value:
        return TrainingPrompt(_string(value["turns"][0]))
    return TrainingPrompt(_string(value["text"]), is_raw=True)


def _string(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(value)
    return value
