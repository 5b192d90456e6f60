from __future__ import annotations

import subprocess
import sys

import pytest

import oneglance
from tests.cli.processes import run, run_here


def error_of(*arguments: str, stdin: str | bytes | None = None) -> str:
    """The single line that a failing command leaves on stderr."""
    done = run_here(*arguments) if stdin is None else run(*arguments, stdin=stdin)
    assert done.returncode == 2, done
    assert done.stdout == ""
    assert done.stderr.startswith("oneglance: ")
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.endswith(".\n")
    return done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("generate", "x", "-t", "-1"), ["temperature = -1.0", "0 or more"]),
        (("generate", "x", "-t", "nan"), ["temperature = nan"]),
        (("generate", "x", "-t", "hot"), ["--temperature", "'hot'", "--help"]),
        (("generate", "x", "-n", "1.5"), ["--max-tokens", "'1.5'"]),
        (("generate", "x", "-n", "0"), ["max_tokens = 0"]),
        (("generate", "x", "-k", "0"), ["-k 0", "--drafter none"]),
        (("generate", "x", "-k", "few"), ["-k 'few'", "auto"]),
        (("generate", "x", "--top-p", "2"), ["top_p = 2.0"]),
        (("generate", "x", "--seed", "-1"), ["seed = -1"]),
        (("generate", "x", "--stop", ""), ["stop", "empty"]),
        (("generate", "x", "--logit-bias", "a=b"), ["'a=b'", "42=-5"]),
        (("generate", "x", "--raw", "--system", "y"), ["--system", "--raw"]),
        (("generate", "x", "--bogus"), ["--bogus", "oneglance generate --help"]),
        (("generate", "x", "y"), ["(y)"]),
        (("generate",), ["PROMPT"]),
        (("generat",), ["'generat'", "Did you mean 'generate'"]),
        (("chat", "--min-p", "3"), ["min_p = 3.0"]),
    ],
)
def test_a_bad_value_is_named_before_anything_is_loaded(
    arguments: tuple[str, ...], words: list[str]
) -> None:
    message = error_of(*arguments)
    assert all(word in message for word in words), message


def test_an_unknown_model_is_named() -> None:
    arguments = ("generate", "x", "-m", "no-such-model")
    assert "'no-such-model'" in error_of(*arguments, stdin="")


def test_an_unknown_drafter_is_named(tiny_model: str) -> None:
    message = error_of("generate", "x", "-m", tiny_model, "-d", "oracle")
    assert "'oracle'" in message
    assert "ngram" in message


def test_a_missing_file_is_named() -> None:
    assert "missing.gguf" in error_of("generate", "x", "-m", "./missing.gguf")


def test_a_truncated_file_is_named(truncated_model: str) -> None:
    assert "truncated.gguf" in error_of("generate", "x", "-m", truncated_model)


def test_a_missing_draft_model_is_named(tiny_model: str) -> None:
    message = error_of("generate", "x", "-m", tiny_model, "-d", "draft:./missing.gguf")
    assert "missing.gguf" in message


def test_a_token_beyond_the_vocabulary_is_named(tiny_model: str) -> None:
    message = error_of("generate", "x", "-m", tiny_model, "--logit-bias", "99999=1")
    assert "99999" in message


def test_a_prompt_beyond_the_context_is_refused(tiny_model: str) -> None:
    message = error_of("generate", "-", "-m", tiny_model, stdin="0123456789" * 60)
    assert "256" in message


def test_an_empty_raw_prompt_is_refused(tiny_model: str) -> None:
    assert "no tokens" in error_of("generate", "", "--raw", "-m", tiny_model)


def test_stdin_that_is_not_text_is_refused(tiny_model: str) -> None:
    assert "byte 1" in error_of("generate", "-", "-m", tiny_model, stdin=b"a\xff")


def test_version_and_bare_call() -> None:
    assert run("--version").stdout == f"oneglance {oneglance.__version__}\n"
    bare = run()
    assert bare.returncode == 0
    assert all(name in bare.stdout for name in ("generate", "chat", "demo", "models"))


def test_help_does_not_wait_for_heavy_imports() -> None:
    script = (
        "import sys; from oneglance.cli import main; code = main(['generate', '--help']); "
        "heavy = {'numpy', 'tokenizers', 'gguf', 'jinja2', 'huggingface_hub', 'rich'}; "
        "sys.exit(code or ' '.join(heavy & set(sys.modules)) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "--temperature" in done.stdout
