"""Let a target think of functions, and make coding prompts of what it thought of.

    python -m recipes.code_ideas ask --out ideas.jsonl --count 2400 --seed 1
    oneglance train eagle -m MODEL --data ideas.jsonl --answers ideas … (collects the answers)
    python -m recipes.code_ideas stubs ideas -m MODEL --out stubs.jsonl

The first asks for a signature with its docstring, about one of many combinations of an aim, a
kind of data and a theme. The second reads the answers, and asks for the function's body in the
wordings of `recipes.code_prompts`. So the tasks are as many as the target can think of, where
`code_prompts` has those that somebody wrote down. The same arguments give the same files.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Annotated

import typer

from oneglance.drafting import read_model
from oneglance.train.collection import Collection
from recipes.code_idea_words import AIMS, DATA, THEMES
from recipes.code_prompts import BENCH_WORDING, STUB_WORDINGS, write_prompts

IDEA_SOURCE = "oneglance code ideas"
STUB_SOURCE = "written by the target"
QUESTIONS = (
    "Think of a function that {does}. Write its Python signature and a docstring with two "
    "examples, but not its body.",
    "Write the signature, with type hints, and the docstring of a Python function that {does}. "
    "Show two examples with >>> in the docstring. Leave the body out.",
    "I collect small programming exercises. Give me one as a Python stub: imports, def line and "
    "docstring, no body. The function {does}.",
    "Only the header and a one-sentence docstring, please: a Python function that {does}.",
    "Invent an exercise: a Python function that {does}. Write `def`, the arguments with their "
    "types, and a docstring of several sentences with an example; end there.",
)
MAX_STUB_CHARS = 1200
COMMON_WORDS = 8
"""Words in a row that a docstring may not share with a text that is left out."""
BENCH_SHARE = 0.7
"""Of the prompts in the wording that heads are measured on."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


def make_questions(count: int, seed: int) -> list[str]:
    """Different questions that ask for a stub.

    Raises:
        ValueError: there are not that many.
    """
    if count > len(AIMS) * len(DATA) * len(THEMES) // 2:
        raise ValueError(f"{count} questions cannot be found; ask for fewer")
    random = Random(seed)
    found: dict[str, None] = {}
    while len(found) < count:
        does = random.choice(AIMS).format(data=random.choice(DATA))
        theme = f" (theme: {random.choice(THEMES)})" if random.random() < 0.9 else ""
        found[random.choice(QUESTIONS).format(does=does + theme)] = None
    return list(found)


def stub_of(answer: str) -> str | None:
    """The first function of an answer down to the end of its docstring, with the imports before.

    None where there is no function with a docstring, or it ends too soon or too late.
    """
    block = re.search(r"```(?:python)?\n(.*?)(?:```|\Z)", answer, re.DOTALL)
    source = block.group(1) if block else answer
    lines = source.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith("def ")), None)
    if start is None:
        return None
    # The body may be cut anywhere, so the shortest beginning that is a function is looked for.
    for end in range(start + 2, len(lines) + 1):
        function = _parsed("\n".join(lines[start:end]))
        if function is not None:
            break
    else:
        return None
    docstring = function.body[0]
    if ast.get_docstring(function) is None or docstring.end_lineno is None:
        return None
    head = [line for line in lines[:start] if re.match(r"(from|import) ", line)]
    stub = "\n".join(lines[start : start + docstring.end_lineno])
    text = "\n".join([*head, "", "", stub]) if head else stub
    return text if len(text) <= MAX_STUB_CHARS else None


def _parsed(text: str) -> ast.FunctionDef | None:
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError):
        return None
    return body[0] if len(body) == 1 and isinstance(body[0], ast.FunctionDef) else None


def make_stub_prompts(stubs: Iterable[str], seed: int) -> list[str]:
    """Each different stub in one wording."""
    random = Random(seed)
    prompts: dict[str, None] = {}
    for stub in dict.fromkeys(stubs):
        is_bench = random.random() < BENCH_SHARE
        wording = BENCH_WORDING if is_bench else random.choice(STUB_WORDINGS)
        prompts[wording.replace("{stub}", stub)] = None
    return list(prompts)


def without_like(stubs: Iterable[str], left_out: Iterable[str]) -> Iterator[str]:
    """Those that share no function's name and no `COMMON_WORDS` words in a row with a text."""
    names: set[str] = set()
    runs: set[tuple[str, ...]] = set()
    for text in left_out:
        names.update(_names(text))
        runs.update(_runs(text))
    for stub in stubs:
        if names.isdisjoint(_names(stub)) and runs.isdisjoint(_runs(stub)):
            yield stub


def _names(text: str) -> list[str]:
    return re.findall(r"\bdef (\w+)", text)


def _runs(text: str) -> Iterator[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return (tuple(words[i : i + COMMON_WORDS]) for i in range(len(words) - COMMON_WORDS + 1))


@app.command()
def ask(
    out: Annotated[Path, typer.Option(help="The file of JSON lines to write.")],
    count: Annotated[int, typer.Option(min=1, help="How many questions.")] = 2400,
    seed: Annotated[int, typer.Option(help="Where the random choices start.")] = 1,
) -> None:
    """Write questions that ask for stubs, one JSON object a line."""
    try:
        questions = make_questions(count, seed)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    write_prompts(out, questions, IDEA_SOURCE)


@app.command()
def stubs(
    answers: Annotated[Path, typer.Argument(help="Folder of the target's answers.")],
    model: Annotated[str, typer.Option("--model", "-m", help="What gave the answers.")],
    out: Annotated[Path, typer.Option(help="The file of JSON lines to write.")],
    leave_out: Annotated[
        list[Path] | None,
        typer.Option(help="JSON lines with prompt; what resembles one is left out."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Where the random choices start.")] = 1,
) -> None:
    """Write prompts that ask for the bodies of the stubs in the answers."""
    tokenizer = read_model(model).tokenizer
    collection = Collection(answers)
    items = (collection.item(index) for index in range(len(collection)))
    texts = (tokenizer.decode(item.tokens[item.prompt_length :].tolist()) for item in items)
    found = [stub for stub in map(stub_of, texts) if stub is not None]
    left_out = [
        json.loads(line)["prompt"]
        for path in leave_out or []
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    prompts = make_stub_prompts(without_like(found, left_out), seed)
    write_prompts(out, prompts, STUB_SOURCE)
    typer.echo(f"{len(collection)} answers, {len(found)} stubs, {len(prompts)} prompts")


if __name__ == "__main__":
    app()
