"""Write coding prompts that a target model answers, so that a draft head can learn from it.

    python -m recipes.code_prompts --out prompts.jsonl --count 6000 --seed 0

Every line is `{"prompt": …, "source": …}`. The same count and seed give the same file. No task is
one of HumanEval's, on which heads are measured; only the wording around a function is the same.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Annotated, Any

import typer

from recipes.code_tasks import KINDS, Task
from recipes.code_tasks_lists import LIST_TASKS
from recipes.code_tasks_numbers import NUMBER_TASKS
from recipes.code_tasks_projects import write_project, write_test_request
from recipes.code_tasks_snippets import correct_snippet, write_snippet_request
from recipes.code_tasks_structures import STRUCTURE_TASKS
from recipes.code_tasks_text import TEXT_TASKS
from recipes.code_tasks_world import WORLD_TASKS

SOURCE = "oneglance code prompts"
TASKS = (*TEXT_TASKS, *LIST_TASKS, *NUMBER_TASKS, *STRUCTURE_TASKS, *WORLD_TASKS)
TYPING_NAMES = ("List", "Dict", "Tuple", "Optional", "Any")
ATTEMPTS_PER_PROMPT = 50
"""Prompts drawn for each one wanted before the generator counts as exhausted."""

BENCH_WORDING = "Complete this function.\n\n```python\n{stub}\n```"
"""As `oneglance.bench.prompts` words HumanEval, the form that heads are measured on."""
STUB_WORDINGS = (
    "{stub}",
    "```python\n{stub}\n```",
    "Finish this function and return only the code:\n\n{stub}",
    "Finish this function and return only the code:\n\n```python\n{stub}\n```",
    "Complete the following Python function:\n\n```python\n{stub}\n```",
    "Implement the body of this function.\n\n```python\n{stub}\n```",
    "```python\n{stub}\n```\n\nWrite the missing body. Answer with the whole function.",
    "Read the docstring and complete the code.\n\n{stub}",
    "Please fill in this function and explain briefly how it works:\n\n```python\n{stub}\n```",
)
REQUEST_WORDINGS = (
    "Write a Python function that {does}",
    "Write a Python function `{call}` that {does}",
    "Implement a function `{call}` in Python that {does}",
    "Write Python code for a function that {does}",
    "I need a Python function `{name}` that {does}",
    "In Python, write `{call}`, which {does}",
    "Create a function named {name} in Python that {does}",
)
CONSTRAINTS = (
    "",
    " Use type hints.",
    " Add a docstring.",
    " Use type hints and a docstring.",
    " Do not import anything.",
    " Handle invalid input with suitable exceptions.",
    " Add a few tests with assert.",
    " Add pytest tests.",
    " Return only the code.",
    " Show an example call.",
    " Explain the time complexity.",
    " Use a single expression if that stays readable.",
    " Do not use recursion.",
    " Keep it short.",
)
NOTES = (
    "Do not modify the arguments.",
    "The arguments can be assumed to be valid.",
    "Use only the standard library.",
    "The function has no side effects.",
)


@dataclass(frozen=True)
class Draft:
    """A task with its free choices made: names, annotations' style, wording and constants."""

    task: Task
    name: str
    argument_names: tuple[str, ...]
    constants: Mapping[str, Any]
    doc: str


def generate_prompts(count: int, seed: int) -> Iterator[str]:
    """Yield `count` prompts, all different.

    Raises:
        ValueError: there are not that many.
    """
    random = Random(seed)
    seen: set[str] = set()
    for _ in range(ATTEMPTS_PER_PROMPT * count):
        if len(seen) == count:
            return
        prompt = make_prompt(random)
        if prompt not in seen:
            seen.add(prompt)
            yield prompt
    if len(seen) < count:
        raise ValueError(f"only {len(seen)} different prompts were found; ask for fewer than that")


def make_prompt(random: Random) -> str:
    """One prompt: 60 % stubs, 20 % requests, 10 % projects and tests, 10 % snippets."""
    share = random.random()
    if share < 0.6:
        return _write_stub_prompt(random)
    if share < 0.8:
        return _write_request(random)
    if share < 0.88:
        return write_project(random)
    if share < 0.9:
        return write_test_request(correct_snippet(random), random)
    return write_snippet_request(random)


def _draft(random: Random, docs: slice) -> Draft:
    """A random task in some of its wordings: one sentence after the other says the same."""
    task = random.choice(TASKS)
    names = tuple(random.choice(parameter.names) for parameter in task.parameters)
    constants = {key: random.choice(values) for key, values in task.choices.items()}
    doc = " ".join(task.docs[docs]).format(*names, **constants)
    return Draft(task, random.choice(task.names), names, constants, doc)


def _write_stub_prompt(random: Random) -> str:
    draft = _draft(random, random.choice((slice(1), slice(1, None), slice(None))))
    annotate = random.choice((_as_typing, _as_typing, _as_builtin, _as_bare, _as_nothing))
    header = _write_header(draft, annotate)
    docstring = _write_docstring(draft, random)
    imports = _imports_for(header)
    stub = f"{imports}{header}\n{textwrap.indent(docstring, '    ')}"
    wording = BENCH_WORDING if random.random() < 0.5 else random.choice(STUB_WORDINGS)
    return wording.replace("{stub}", stub)


def _write_request(random: Random) -> str:
    draft = _draft(random, slice(1))
    verb, rest = draft.doc.split(" ", 1)
    does = f"{_third_person(verb)} {rest}"
    call = f"{draft.name}({', '.join(draft.argument_names)})"
    wording = random.choice(REQUEST_WORDINGS)
    if "{call}" not in wording:
        # Without a signature the reader must learn what comes in.
        types = [KINDS[parameter.kind].annotation for parameter in draft.task.parameters]
        does += f" It takes {' and '.join(f'`{a}` ({t})' for a, t in _named(draft, types))}."
    text = wording.format(does=does, call=call, name=draft.name)
    return text + random.choice(CONSTRAINTS)


def _named(draft: Draft, types: Sequence[str]) -> list[tuple[str, str]]:
    return list(zip(draft.argument_names, types, strict=True))


def _third_person(verb: str) -> str:
    """The verb as after "that": Return → returns, Classify → classifies, Match → matches."""
    verb = verb.lower().rstrip(",")
    if re.search(r"(s|x|z|ch|sh)$", verb):
        return f"{verb}es"
    if re.search(r"[^aeiou]y$", verb):
        return f"{verb[:-1]}ies"
    return f"{verb}s"


def _write_header(draft: Draft, annotate: Callable[[str], str]) -> str:
    """The `def` line; `annotate` spells a type, or returns nothing to leave it out."""
    types = [annotate(KINDS[parameter.kind].annotation) for parameter in draft.task.parameters]
    arguments = [f"{name}: {kind}" if kind else name for name, kind in _named(draft, types)]
    returns = annotate(draft.task.returns)
    arrow = f" -> {returns}" if returns else ""
    return f"def {draft.name}({', '.join(arguments)}){arrow}:"


def _as_typing(annotation: str) -> str:
    """The type in the older spelling, which most training code has: List[int], Optional[str]."""
    for name in ("list", "dict", "tuple"):
        annotation = re.sub(rf"\b{name}\[", f"{name.capitalize()}[", annotation)
    annotation = re.sub(r"(\w+) \| None", r"Optional[\1]", annotation)
    return re.sub(r"^(.+) \| None$", r"Optional[\1]", annotation)


def _as_builtin(annotation: str) -> str:
    return annotation


def _as_bare(annotation: str) -> str:
    return "" if "None" in annotation else annotation.split("[")[0]


def _as_nothing(_annotation: str) -> str:
    return ""


def _imports_for(header: str) -> str:
    names = [name for name in TYPING_NAMES if re.search(rf"\b{name}\b", header)]
    return f"from typing import {', '.join(names)}\n\n\n" if names else ""


def _write_docstring(draft: Draft, random: Random) -> str:
    quote = "'''" if random.random() < 0.1 else '"""'
    doc = draft.doc
    if random.random() < 0.15:
        doc += f" {random.choice(NOTES)}"
    # A wrapped line must not end inside quotes: ', ' would become ',' there.
    is_wrapped = random.random() < 0.6 and not re.search("'[^']* [^']*'", doc)
    lines = textwrap.wrap(doc, 90, break_on_hyphens=False) if is_wrapped else [doc]
    lines += _write_sections(draft) if random.random() < 0.1 else []
    lines += _write_examples(draft, random)
    if len(lines) == 1 and random.random() < 0.7:
        return f"{quote}{lines[0]}{quote}"
    opening = random.choice((quote, f"{quote} ", f"{quote}\n"))
    return f"{opening}{chr(10).join(lines)}\n{quote}"


def _write_sections(draft: Draft) -> list[str]:
    """Google's sections, which only repeat the types."""
    types = [KINDS[parameter.kind].annotation for parameter in draft.task.parameters]
    arguments = [f"    {name} ({kind})" for name, kind in _named(draft, types)]
    return ["", "Args:", *arguments, "", "Returns:", f"    {draft.task.returns}"]


def _write_examples(draft: Draft, random: Random) -> list[str]:
    """Up to three calls with their results, in one of several notations."""
    number = random.choice((0, 1, 2, 2, 3))
    calls = dict(_call(draft, random) for _ in range(number))
    # A result of None prints nothing, and a backslash would have to be escaped once more.
    shown = {call: result for call, result in calls.items() if _is_plain(call + result)}
    if not shown:
        return []
    style = random.random()
    start = [""] if random.random() < 0.3 else []
    if style < 0.7:
        return start + [line for pair in shown.items() for line in (f">>> {pair[0]}", pair[1])]
    heading = random.choice(("For example:", "Examples:", "Example:"))
    sign = random.choice(("==", "=>", "->", "returns"))
    return ["", heading, *(f"{call} {sign} {result}" for call, result in shown.items())]


def _is_plain(text: str) -> bool:
    return "\\" not in text and len(text) < 160


def _call(draft: Draft, random: Random) -> tuple[str, str]:
    """The text of a call with random arguments, and of its result."""
    arguments = [KINDS[parameter.kind].make(random) for parameter in draft.task.parameters]
    text = f"{draft.name}({', '.join(map(repr, arguments))})"
    # The reference must not change what has been, or is still to be, shown.
    return text, repr(draft.task.reference(*deepcopy(arguments), **draft.constants))


def write_prompts(out: Path, prompts: Sequence[str], source: str) -> None:
    """Writes a file of JSON lines that `oneglance train --data` reads."""
    lines = [json.dumps({"prompt": text, "source": source}, ensure_ascii=False) for text in prompts]
    out.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main(
    out: Annotated[Path, typer.Option(help="The file of JSON lines to write.")],
    count: Annotated[int, typer.Option(min=1, help="How many prompts.")] = 6000,
    seed: Annotated[int, typer.Option(help="Where the random choices start.")] = 0,
) -> None:
    """Write different coding prompts, one JSON object a line."""
    try:
        prompts = list(generate_prompts(count, seed))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    write_prompts(out, prompts, SOURCE)


if __name__ == "__main__":
    typer.run(main)
