"""Prompts made of what a target thought of: whole stubs, and none like those of a benchmark."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from oneglance.drafting import read_model
from oneglance.train.answering import Answer
from oneglance.train.answers import AnswerWriter, open_collection
from oneglance.train.prompts import read_prompts
from recipes.code_ideas import app, make_questions, make_stub_prompts, stub_of, without_like

STUB = 'def double(n: int) -> int:\n    """Twice n.\n\n    >>> double(2)\n    4\n    """'


def test_questions_are_a_function_of_the_seed_and_all_different() -> None:
    questions = make_questions(400, seed=2)
    assert len(set(questions)) == 400
    assert questions == make_questions(400, seed=2)
    assert len(set(questions) & set(make_questions(400, seed=3))) < 20
    assert not any("{" in question for question in questions)
    with pytest.raises(ValueError, match="ask for fewer"):
        make_questions(10**6, seed=0)


@pytest.mark.parametrize(
    "answer",
    [
        f"```python\n{STUB}\n```",
        f"Certainly:\n\n```python\n{STUB}\n    return 2 * n\n\nprint(double(2))\n```\nIt doubles.",
        f"{STUB}\n    return 2 *",
        f"```\n{STUB}\n    pass",
    ],
)
def test_the_stub_of_an_answer(answer: str) -> None:
    assert stub_of(answer) == STUB


def test_imports_stay_and_decorations_go() -> None:
    answer = f"```python\nfrom typing import List\nx = 1\n\n{STUB}\n```"
    assert stub_of(answer) == f"from typing import List\n\n\n{STUB}"


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "No function here.",
        "def double(n: int) -> int:",
        'def double(n):\n    """Twice',
        "def double(n):\n    return 2 * n",
        'class A:\n    def double(self):\n        """Twice."""',
        f'def double(n):\n    """{"long " * 400}"""',
    ],
)
def test_what_is_no_stub(answer: str) -> None:
    assert stub_of(answer) is None


def test_what_resembles_a_text_is_left_out() -> None:
    words = "one two three four five six seven eight"
    same_name = 'def double(x):\n    """Other."""'
    same_words = f'def other(x):\n    """Zero, {words.title()}."""'
    seven = f'def third(x):\n    """{words.removesuffix(" eight")}"""'
    kept = without_like([STUB, same_name, same_words, seven], [f"def double(n): {words}"])
    assert list(kept) == [seven]


def test_each_stub_is_asked_once() -> None:
    prompts = make_stub_prompts([STUB, STUB, "def f():\n    '''F.'''"], seed=0)
    assert len(prompts) == 2
    assert STUB in prompts[0]


def test_from_answers_to_prompts(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["ask", "--out", str(tmp_path / "q.jsonl"), "--count", "30"])
    assert result.exit_code == 0, result.output
    questions = [prompt.text for prompt in read_prompts([tmp_path / "q.jsonl"])]
    assert questions == make_questions(30, seed=1)
    tokenizer = read_model("smollm2-135m").tokenizer
    open_collection(tmp_path / "answers", {"target": "a", "hidden_layers": [1]})
    writer = AnswerWriter(tmp_path / "answers")
    names = ("triple", "quadruple")
    for number, name in enumerate(names):
        tokens = tokenizer.encode(f"Sure.```python\n{STUB.replace('double', name)}\n    pass\n```")
        zeros = np.zeros(len(tokens) - 2, dtype=np.float32)
        hidden = np.zeros((len(tokens) - 1, 1, 4), dtype=np.float16)
        row = np.asarray(tokens, dtype=np.int32)
        writer.add(Answer(number, 0, True, row, 2, hidden, zeros, zeros.astype(np.int32)))
    writer.flush()
    (tmp_path / "bench.jsonl").write_text(json.dumps({"prompt": "def triple(n):"}) + "\n")
    words = ["stubs", str(tmp_path / "answers"), "-m", "smollm2-135m"]
    words += ["--out", str(tmp_path / "s.jsonl"), "--leave-out", str(tmp_path / "bench.jsonl")]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert result.output == "2 answers, 2 stubs, 1 prompts\n"
    (prompt,) = read_prompts([tmp_path / "s.jsonl"])
    assert STUB.replace("double", "quadruple") in prompt.text
    ast.parse(STUB.replace("double", "quadruple"))
