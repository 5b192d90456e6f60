from __future__ import annotations

import json
import os
import signal
import subprocess
from typing import Any

import pytest

from tests.cli.processes import COMMAND, CTRL_C, Terminal, run, run_here, without_progress


def generate_json(*arguments: str, **options: Any) -> dict[str, Any]:
    # A stream or an environment of its own needs a process of its own.
    runner = run if options else run_here
    done = runner("generate", *arguments, "--json", **options)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.count("\n") == 1
    result = json.loads(done.stdout)
    assert isinstance(result, dict)
    return result


def test_the_default_model_answers() -> None:
    done = run("generate", "Name the capital of France.", "-n", "16")
    assert done.returncode == 0, done.stderr
    assert "Paris" in done.stdout
    assert done.stderr == ""


def test_json_has_every_field(tiny_model: str) -> None:
    result = generate_json("Hello", "-m", tiny_model, "-n", "8", "--ignore-eos", "--seed", "7")
    assert {"text", "token_ids", "finish_reason", "usage", "engine", "speculation"} <= set(result)
    assert result["finish_reason"] == "length"
    assert len(result["token_ids"]) == 8
    usage = result["usage"]
    assert usage["completion_tokens"] == 8
    assert usage["total_tokens"] == usage["prompt_tokens"] + 8
    speculation = result["speculation"]
    assert speculation["drafter"] == "suffix"
    assert {"passes", "drafted", "accepted", "acceptance_rate", "mean_accepted_length"} <= set(
        speculation
    )
    assert set(speculation["seconds"]) == {"prefill", "draft", "verify", "accept"}


def test_json_names_the_engine(tiny_model: str) -> None:
    arguments = ("Hello", "-m", tiny_model, "-n", "2")
    reference = generate_json(*arguments, "--engine", "reference", "--weights", "f32")["engine"]
    assert reference == {"kind": "reference", "isa": None, "threads": 1, "weights": "f32"}
    pytest.importorskip("oneglance._native")
    native = generate_json(*arguments, "--engine", "native", "--weights", "bf16", "--threads", "3")
    assert native["engine"]["isa"]
    assert {**native["engine"], "isa": None} == {
        "kind": "native",
        "isa": None,
        "threads": 3,
        "weights": "bf16",
    }


def test_an_engine_that_is_not_known_ends_it_before_the_model_is_read() -> None:
    done = run_here("generate", "Hello", "-m", "no-such-model", "--engine", "fast")
    assert done.returncode == 2
    assert done.stderr.strip().endswith(
        "--engine 'fast' is not known; choose auto, native or reference."
    )


def test_json_with_trace_tells_the_same_counts(tiny_model: str) -> None:
    prompt = "the the the the"
    result = generate_json(prompt, "-m", tiny_model, "-n", "24", "--ignore-eos", "--trace")
    passes, speculation = result["trace"], result["speculation"]
    assert len(passes) == speculation["passes"]
    assert sum(len(item["accepted"]) for item in passes) == speculation["accepted"]
    assert sum(len(item["draft_tokens"]) for item in passes) == speculation["drafted"]


def test_the_stream_is_the_text_of_json_with_and_without_drafting(tiny_model: str) -> None:
    arguments = ("the the the the", "-m", tiny_model, "-n", "24", "--ignore-eos", "-t", "0.8")
    drafted = generate_json(*arguments, "--seed", "3", "-k", "4")
    plain = generate_json(*arguments, "--seed", "3", "--drafter", "none")
    assert drafted["token_ids"] == plain["token_ids"]
    assert drafted["speculation"]["drafted"] > 0
    assert plain["speculation"]["drafted"] == 0
    streamed = run("generate", *arguments, "--seed", "3", "-k", "4")
    assert streamed.stdout == drafted["text"] + "\n"


def test_options_of_the_law_change_the_answer(tiny_model: str) -> None:
    arguments = ("Hello", "-m", tiny_model, "-n", "4", "--ignore-eos")
    assert set(generate_json(*arguments, "--logit-bias", "70=100")["token_ids"]) == {70}


def test_a_stop_string_ends_the_answer(tiny_model: str) -> None:
    arguments = ("Hello", "-m", tiny_model, "-n", "9", "--ignore-eos", "--logit-bias", "70=100")
    letter = generate_json(*arguments)["text"][0]
    result = generate_json(*arguments, "--stop", letter * 3)
    assert result["finish_reason"] == "stop"
    assert result["text"] == ""


def test_a_prompt_from_stdin_is_the_same_prompt(tiny_model: str) -> None:
    arguments = ("-m", tiny_model, "-n", "4", "--ignore-eos")
    direct = generate_json("naïve the", *arguments)
    piped = generate_json("-", *arguments, stdin="naïve the\n")
    assert piped["token_ids"] == direct["token_ids"]
    assert piped["usage"] == direct["usage"]


def test_raw_keeps_the_last_line_break_and_skips_the_template(tiny_model: str) -> None:
    arguments = ("-m", tiny_model, "-n", "1", "--raw")
    bare = generate_json("abc", *arguments)
    piped = generate_json("-", *arguments, stdin="abc\n")
    templated = generate_json("abc", "-m", tiny_model, "-n", "1")
    assert bare["usage"]["prompt_tokens"] == 3
    assert piped["usage"]["prompt_tokens"] == 4
    assert templated["usage"]["prompt_tokens"] > 4


def test_a_system_message_is_part_of_the_prompt(tiny_model: str) -> None:
    arguments = ("abc", "-m", tiny_model, "-n", "1")
    without, with_system = generate_json(*arguments), generate_json(*arguments, "--system", "xyz")
    assert with_system["usage"]["prompt_tokens"] > without["usage"]["prompt_tokens"] + 3


def test_trace_in_a_pipe_has_marks_and_no_escapes(tiny_model: str) -> None:
    done = run("generate", "the the the", "-m", tiny_model, "-n", "12", "--ignore-eos", "--trace")
    assert done.returncode == 0, done.stderr
    legend, *lines = done.stdout.splitlines()
    assert legend.startswith("[draft, kept]")
    assert lines[0].startswith("  1 ")
    assert "+" in lines[0]
    assert "\x1b" not in done.stdout


def test_trace_on_a_terminal_is_coloured_and_followed_by_figures(tiny_model: str) -> None:
    arguments = ("generate", "the the", "-m", tiny_model, "-n", "6", "--ignore-eos", "--trace")
    with Terminal(*arguments) as terminal:
        assert "\x1b[1;94m" in terminal.expect("6 tokens in")
        terminal.expect("tok/s")
        terminal.expect("engine (")
        assert terminal.wait() == 0


def test_no_color_is_obeyed_on_a_terminal(tiny_model: str) -> None:
    arguments = ("generate", "the the", "-m", tiny_model, "-n", "6", "--ignore-eos", "--trace")
    with Terminal(*arguments, environment={"NO_COLOR": "1"}) as terminal:
        terminal.expect("[draft, kept]")
        shown = terminal.expect("tok/s")
        assert "\x1b[1;94m" not in shown
        assert "+" in shown
        assert terminal.wait() == 0


def test_a_reader_that_leaves_ends_it_quietly(slow_model: str) -> None:
    process = subprocess.Popen(
        [*COMMAND, "generate", "Hi", "-m", slow_model, "-n", "2000", "--ignore-eos", "-d", "none"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(1)
    process.stdout.close()
    assert without_progress(process.stderr.read().decode()) == ""
    process.stderr.close()
    assert process.wait(120) == 1


def test_json_for_no_reader_ends_quietly(tiny_model: str) -> None:
    process = subprocess.Popen(
        [*COMMAND, "generate", "Hi", "-m", tiny_model, "-n", "1", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # What is still in the buffer when the program ends has no reader either.
        env={key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"},
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert without_progress(process.stderr.read().decode()) == ""
    process.stderr.close()
    assert process.wait(120) == 1


def test_an_interrupt_ends_it_quietly(slow_model: str) -> None:
    process = subprocess.Popen(
        [*COMMAND, "generate", "Hi", "-m", slow_model, "-n", "4000", "--ignore-eos", "-d", "none"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.read(1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert without_progress(errors.decode()) == ""
    assert process.returncode == 130


def test_ctrl_c_on_a_terminal_ends_it_with_130(slow_model: str) -> None:
    # Plainly, as drafts of a text that repeats itself could end it before the key is pressed.
    words = ("generate", "Hi", "-m", slow_model, "-n", "4000", "--ignore-eos", "-d", "none")
    with Terminal(*words) as terminal:
        terminal.expect("a")
        terminal.type(CTRL_C)
        assert terminal.wait() == 130
        assert "Traceback" not in terminal.screen


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_json_survives_the_encoding_of_stdout(tiny_model: str, encoding: str) -> None:
    byte_of_no_character = ("--logit-bias", "258=100")
    arguments = ("é", "-m", tiny_model, "-n", "2", "--ignore-eos", *byte_of_no_character)
    result = generate_json(*arguments, environment={"PYTHONIOENCODING": encoding})
    assert result["text"] == "\ufffd\ufffd"
