"""The prompts of a benchmark, read from JSON lines of the usual shapes.

Spec-Bench (`question_id`, `category`, `turns`: the first turn is asked), HumanEval (`task_id`,
`prompt`: "complete this function"), code edits (`id`, `language`, `file`, `instruction`), and plain
ones (`id`, `category`, `prompt`, and `prediction` where the answer is nearly known).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oneglance.errors import ParameterError

BUILT_IN = Path(__file__).parent / "prompts.jsonl"
"""A few prompts of our own, of eight kinds."""


@dataclass(frozen=True)
class BenchPrompt:
    """One question.

    Attributes:
        id: names it in results; different for every prompt of a file.
        category: results are told for each category.
        text: the user's message.
        prediction: what the answer will probably be; None where nothing is known of it.
    """

    id: str
    category: str
    text: str
    prediction: str | None = None

    @property
    def seed(self) -> int:
        """For sampled answers: the same for every drafter and in every round."""
        return int.from_bytes(hashlib.sha256(self.id.encode()).digest()[:4], "big")


@dataclass(frozen=True)
class PromptFile:
    """A file's prompts, and what identifies it wherever it lies."""

    name: str
    sha256: str
    prompts: tuple[BenchPrompt, ...]


def read_prompts(path: Path) -> PromptFile:
    """Reads a file of JSON lines.

    Raises:
        ParameterError: the file cannot be read, is empty, or has a line of another shape or an id
            that comes twice.
    """
    try:
        content = path.read_bytes()
        lines = content.decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ParameterError(
            f"The prompts {path.name!r} cannot be read ({error}); name a file of JSON lines."
        ) from None
    prompts = [_read_line(path.name, number, line) for number, line in enumerate(lines, 1)]
    ids = {prompt.id for prompt in prompts}
    if not prompts or len(ids) < len(prompts):
        raise ParameterError(
            f"The prompts {path.name!r} hold {len(prompts)} lines with {len(ids)} ids; give at "
            "least one line, and every line an id of its own."
        )
    return PromptFile(path.name, hashlib.sha256(content).hexdigest(), tuple(prompts))


def first_of_each_category(
    prompts: Sequence[BenchPrompt], limit: int | None
) -> tuple[BenchPrompt, ...]:
    """At most `limit` prompts of each category, in their order; None: all of them."""
    chosen = []
    counts: dict[str, int] = {}
    for prompt in prompts:
        counts[prompt.category] = counts.get(prompt.category, 0) + 1
        if limit is None or counts[prompt.category] <= limit:
            chosen.append(prompt)
    return tuple(chosen)


def _read_line(file_name: str, number: int, line: str) -> BenchPrompt:
    try:
        return _make_prompt(json.loads(line))
    except (ValueError, KeyError, TypeError, IndexError):
        raise ParameterError(
            f"Line {number} of the prompts {file_name!r} is of no known shape; give objects with "
            "id, category and prompt, or those of Spec-Bench, HumanEval or the code edits."
        ) from None


def _make_prompt(line: Mapping[str, Any]) -> BenchPrompt:
    if "turns" in line:
        return BenchPrompt(str(line["question_id"]), line["category"], line["turns"][0])
    if "task_id" in line:
        function = line["prompt"].strip("\n")
        text = f"Complete this function.\n\n```python\n{function}\n```"
        return BenchPrompt(line["task_id"], "HumanEval", text)
    if "instruction" in line:
        return _code_edit(line)
    return BenchPrompt(
        str(line["id"]), line["category"], line["prompt"], prediction=line.get("prediction")
    )


def _code_edit(line: Mapping[str, Any]) -> BenchPrompt:
    """The instruction and the file; predicted is the file as it is, in the block asked for."""
    block = f"```{line['language']}\n{line['file'].rstrip()}\n```"
    text = (
        f"{line['instruction']}\n\n{block}\n\nAnswer with the whole edited file, in one code block."
    )
    category = "Python" if line["language"] == "python" else "other languages"
    return BenchPrompt(line["id"], category, text, prediction=block)
