"""docs/server.md tells the truth: its tables, and its examples run as they stand."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.docs.documents import between, code_blocks, read
from tests.docs.server import SERVER, metrics_table, settings_table
from tests.server.running import Running

ADDRESS = "http://127.0.0.1:8000"
EXAMPLES = [block for block in code_blocks(read(SERVER), "sh") if block.startswith("curl")]


def test_the_tables_are_those_of_the_code() -> None:
    hint = "run `python -m tests.docs.server`"
    assert between(read(SERVER), "settings") == settings_table(), hint
    assert between(read(SERVER), "metrics") == metrics_table(), hint


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_the_examples_of_curl_run(running: Running, example: str) -> None:
    assert example.count("curl") == example.count(ADDRESS)
    words = ["bash", "-euc", example.replace(ADDRESS, running.url)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    if '"stream": true' in example:
        assert done.stdout.endswith("data: [DONE]\n\n")
    elif example.count("curl") == 1:
        answer = json.loads(done.stdout)
        assert all(choice["finish_reason"] for choice in answer["choices"])
        assert len(answer["choices"]) == (3 if '"n": 3' in example else 1)


def test_the_example_in_python_runs(running: Running, capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = code_blocks(read(SERVER), "python")
    exec(compile(example.replace(ADDRESS, running.url), SERVER.name, "exec"), {})
    assert capsys.readouterr().out.strip()
