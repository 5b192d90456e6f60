from __future__ import annotations

import re
import signal

import pytest

from oneglance.cli.chat import StopOnInterrupt
from tests.cli.processes import CTRL_C, CTRL_D, Terminal, run

FIXED = ("--logit-bias", "70=100", "--ignore-eos")
"""Makes a random model say one letter for ever."""


def context_used(stats: str) -> int:
    found = re.search(r"context: (\d+) of", stats)
    assert found is not None, stats
    return int(found[1])


def test_the_default_model_remembers_the_conversation() -> None:
    lines = "The capital of France is Paris. Say OK.\n/stats\nHello\n/stats\n"
    done = run("chat", "-n", "4", stdin=lines)
    assert done.returncode == 0, done.stderr
    first, second = re.findall(r"context: (\d+) of", done.stdout)
    assert int(second) > int(first)
    assert done.stderr == ""


def test_piped_lines_are_answered_without_prompts(tiny_model: str) -> None:
    done = run("chat", "-m", tiny_model, "-n", "3", *FIXED, stdin="one\n\ntwo\n")
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == second
    assert len(first) == 3


def test_a_backslash_continues_and_two_slashes_are_one(tiny_model: str) -> None:
    def used(lines: str) -> int:
        done = run("chat", "-m", tiny_model, "-n", "1", *FIXED, stdin=f"{lines}\n/stats\n")
        assert done.returncode == 0, done.stderr
        return context_used(done.stdout)

    one_letter = used("x")
    assert used("x\\\ny") == one_letter + 2
    assert used("//x") == one_letter + 1


def test_exit_leaves_the_rest_unread(tiny_model: str) -> None:
    done = run("chat", "-m", tiny_model, "-n", "1", stdin="/exit\n/nonsense\n")
    assert done.returncode == 0
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("lines", "words"),
    [("/nonsense\n", "'/nonsense'"), (b"a\xff\n", "UTF-8"), ("x" * 600 + "\n", "/reset")],
)
def test_a_bad_piped_line_fails_the_command(
    tiny_model: str, lines: str | bytes, words: str
) -> None:
    done = run("chat", "-m", tiny_model, "-n", "1", stdin=lines)
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_terminal_shows_prompts_answers_and_figures(tiny_model: str) -> None:
    with Terminal("chat", "-m", tiny_model, "-n", "3", *FIXED) as terminal:
        terminal.expect("/help")
        terminal.expect("> ")
        terminal.type("hello\n")
        terminal.expect("3 tokens in")
        terminal.expect("--max-tokens 3")
        terminal.expect("> ")
        terminal.type("/nonsense\n")
        terminal.expect("Unknown command '/nonsense'")
        terminal.expect("> ")
        terminal.type("two \\\n")
        terminal.expect(". ")
        terminal.type("lines\n")
        terminal.expect("3 tokens in")
        terminal.expect("> ")
        assert terminal.leave(CTRL_D) == 0


def test_ctrl_c_stops_the_answer_and_keeps_it(slow_model: str) -> None:
    with Terminal("chat", "-m", slow_model, "-n", "4000", "-d", "none", *FIXED) as terminal:
        terminal.expect("> ")
        terminal.type("hello\n")
        terminal.expect("CCC")
        terminal.type(CTRL_C)
        terminal.expect("Stopped; the answer is kept")
        terminal.expect("> ")
        terminal.type("/stats\n")
        terminal.expect("no figures yet")
        terminal.expect("> ")
        terminal.type("go on\n")
        terminal.expect("CCC")
        terminal.type(CTRL_C)
        terminal.expect("Stopped")
        terminal.expect("> ")
        assert terminal.leave(CTRL_C) == 0
        assert "Traceback" not in terminal.screen


def test_the_stopped_answer_is_part_of_the_next_prompt(slow_model: str) -> None:
    num_tokens = 1500  # without drafts, so that there is time to interrupt them
    given = ("-m", slow_model, "-n", str(num_tokens), "-d", "none", *FIXED)
    with Terminal("chat", *given) as terminal:
        terminal.expect("> ")
        terminal.type("hello\n")
        terminal.expect("CCC")
        terminal.type(CTRL_C)
        num_kept = 3 + terminal.expect("Stopped").replace("^C", "").count("C")
        assert num_kept < num_tokens
        terminal.expect("> ")
        terminal.type("hello\n")
        terminal.expect(f"{num_tokens} tokens in")
        terminal.expect("> ")
        terminal.type("/stats\n")
        used = context_used(terminal.expect("after the last"))
        num_of_template = len("<>user\nhello<>\n<>assistant\n<>\n<>user\nhello<>\n<>assistant\n")
        num_in_prompt = used - num_tokens - num_kept
        assert 0.6 * num_of_template < num_in_prompt < num_of_template
        terminal.expect("> ")
        assert terminal.leave(CTRL_D) == 0


def test_a_full_context_loses_nothing(tiny_model: str) -> None:
    with Terminal("chat", "-m", tiny_model, "-n", "2", *FIXED) as terminal:
        terminal.expect("> ")
        terminal.type("hello\n")
        terminal.expect("2 tokens in")
        terminal.expect("> ")
        terminal.type("/stats\n")
        before = context_used(terminal.expect("after the last") + " of")
        terminal.type("x" * 300 + "\n")
        terminal.expect("/reset starts a new one")
        terminal.expect("> ")
        terminal.type("hello\n")
        terminal.expect("2 tokens in")
        terminal.expect("> ")
        terminal.type("/stats\n")
        assert context_used(terminal.expect("after the last")) > before
        terminal.expect("> ")
        assert terminal.leave(CTRL_D) == 0


def test_the_first_interrupt_asks_and_the_second_insists() -> None:
    before = signal.getsignal(signal.SIGINT)
    with StopOnInterrupt() as interrupt:
        assert not interrupt.is_requested()
        signal.raise_signal(signal.SIGINT)
        assert interrupt.is_requested()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
