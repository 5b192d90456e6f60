"""`oneglance show`: drawn on terminals and pipes, written to files, refused before work."""

from __future__ import annotations

import io
import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text

from oneglance.cli.show_terminal import Screen
from oneglance.show import run
from oneglance.show.trace import Pass, Race, Run, Seconds, Trace
from oneglance.show.trace_json import from_dict
from oneglance.types import EngineInfo
from tests.cli.processes import Terminal, run_here
from tests.show.letters import chain, node_of, trace_of

PASSES = (
    chain("ab", "cx", "D"),
    chain("", own="d"),
    chain("ef"),
    chain("a", own=None, unused="bc"),
)
RACE = Race(
    (Run(2.0, 8, 8, 0, 0, Seconds(0.0, 1.8, 0.1)),),
    (Run(1.0, 8, 4, 9, 5, Seconds(0.1, 0.7, 0.1)),),
    "abDdef!a",
    True,
)


def drawn(passes: tuple[Pass, ...], width: int = 80, race: Race | None = None) -> str:
    """On a pipe: no terminal, no colours."""
    console = Console(file=io.StringIO(), width=width, color_system=None)
    trace = trace_of(passes, race=race)
    screen = Screen(console)
    screen.begin(trace.request, "draft", EngineInfo("scripted"))
    for item in passes:
        screen.add(item)
    screen.end(trace)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_marks_tell_what_colours_would() -> None:
    lines = drawn(PASSES).splitlines()
    assert lines[4:11] == [
        "  1 ✎ abcx",
        "    ✓ [ab]~c~+D+  25% against 75%",
        "  2 ✓ +d+",
        "  3 ✎ ef",
        "    ✓ [ef]_!_",
        "  4 ✎ abc",
        "    ✓ [a] ■ end",
    ]
    assert "[kept]" in lines[2]
    assert "~first wrong token~" in lines[2]


def test_the_summary_has_the_figures() -> None:
    text = drawn(PASSES, race=RACE)
    assert "8 tokens in 4 passes: 2.00 a pass; acceptance rate 56% (5/9)." in text
    assert [line.split() for line in text.splitlines() if "█" in line] == [
        ["0", "█" * 16, "1"],
        ["1", "█" * 16, "1"],
        ["2", "█" * 32, "2"],
    ]
    assert "Time of the recorded passes: draft 10%, verify 80%, accept 10%." in text
    assert "4.0 tokens/s plain, 8.0 with drafts" in text
    assert "The texts are identical, bit for bit. Drafting made it 2.00 times as fast." in text


def test_a_run_without_drafts_has_no_histogram() -> None:
    text = drawn((chain(""),))
    assert "acceptance rate –" in text
    assert "█" not in text


def test_branches_are_drawn_one_after_the_other() -> None:
    nodes = (node_of("a", "kept"), node_of("b", "behind"))
    text = drawn((replace(chain(""), nodes=nodes, accepted=(0,)),))
    assert "  1 ✎ a │ b\n    ✓ [a]+!+" in text


def styles(line: Text) -> dict[str, str]:
    return {line.plain[span.start : span.end]: str(span.style) for span in line.spans}


def test_on_a_terminal_styles_tell() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, color_system="standard")
    screen = Screen(console)
    ink = styles(screen._ink(PASSES[0]))
    assert ink["c"] == "red strike"
    assert ink["D"] == "bold bright_blue"
    assert "underline" in styles(screen._ink(PASSES[2]))["!"]
    assert screen._pencil(PASSES[0]).plain == "abcx"
    assert str(screen._pencil(PASSES[0]).spans[0].style) == "dim"


def test_a_narrow_terminal_shows_everything() -> None:
    console = Console(file=io.StringIO(), width=30, force_terminal=True, color_system=None)
    screen = Screen(console)
    screen.add(chain("abc" * 30, "x"))
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert max(len(line.rstrip()) for line in lines) <= 30
    assert "".join(line[6:].strip() for line in lines).startswith("abc" * 30)
    assert all(line[:6] in ("  1 ✎ ", "    ✓ ", "      ") for line in lines)


def test_it_writes_all_files(tiny_model: str, tmp_path: Path) -> None:
    html, svg, trace = (tmp_path / f"answer.{kind}" for kind in ("html", "svg", "json"))
    done = run_here(
        *("show", "the the the", "-m", tiny_model, "--raw", "-n", "12", "-d", "suffix", "-k", "3"),
        *("--rounds", "1", "-t", "0.9", "-s", "4", "--top-k", "20"),
        *("--html", str(html), "--svg", str(svg), "--json", str(trace)),
    )
    assert done.returncode == 0, done.stderr
    assert "temperature 0.9, seed 4" in done.stdout
    assert "The texts are identical" in done.stdout
    read = from_dict(json.loads(trace.read_text()))
    assert read.answer.num_tokens == 12
    assert (read.request.seed, read.request.temperature) == (4, 0.9)
    assert read.request.sampling == {"max_tokens": 12, "top_k": 20}
    assert read.race is not None
    assert shlex.split(str(read.origin["command"])) == [
        *("oneglance", "show", "the the the", "--model", tiny_model, "--drafter", "suffix"),
        *("-k", "3", "--temperature", "0.9", "--top-k", "20", "--seed", "4", "--max-tokens", "12"),
        *("--raw", "--rounds", "1"),
    ]
    assert html.read_text().startswith("<!doctype html>")
    assert svg.read_text().startswith("<svg")


def test_json_on_standard_output_stands_alone(tiny_model: str) -> None:
    done = run_here(
        "show", "a b", "-m", tiny_model, "--raw", "-n", "4", "-d", "none", "--json", "-"
    )
    trace = from_dict(json.loads(done.stdout))
    assert trace.race is None, "with nothing drafted there is nothing to race"
    assert len(trace.passes) == 4


def test_an_answer_sampled_without_a_seed_says_which_it_drew(tiny_model: str) -> None:
    done = run_here("show", "a b", "-m", tiny_model, "--raw", "-n", "4", "-t", "1", "--json", "-")
    trace = from_dict(json.loads(done.stdout))
    assert trace.request.seed is not None
    assert trace.race is not None
    assert trace.race.is_identical


def test_a_difference_fails_the_command(
    tiny_model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the files are written all the same: they are what shows the bug."""
    show_answer = run.show_answer

    def wrongly(*arguments: Any) -> Trace:
        trace = show_answer(*arguments)
        assert trace.race is not None
        return replace(trace, race=replace(trace.race, is_identical=False))

    monkeypatch.setattr(run, "show_answer", wrongly)
    path = tmp_path / "answer.json"
    words = ("-m", tiny_model, "--raw", "-n", "4", "--rounds", "1", "--json", str(path))
    assert run_here("show", "a b", *words).returncode == 1
    assert path.exists()


def test_without_a_race_no_seed_is_needed_and_none_drawn(tiny_model: str) -> None:
    done = run_here(
        *("show", "a b", "-m", tiny_model, "--raw", "-n", "4", "-t", "1", "--rounds", "0"),
        *("--json", "-"),
    )
    request = from_dict(json.loads(done.stdout)).request
    assert (request.seed, request.temperature) == (None, 1.0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--html", "/nowhere/a.html"), "--html '/nowhere/a.html' cannot be written"),
        (("--svg", "."), "--svg '.' cannot be written"),
        (("--json", "/nowhere/a"), "--json '/nowhere/a' cannot be written"),
        (("--html", "a.x", "--svg", "./a.x"), "--html and --svg both name 'a.x'"),
        (("--raw", "--system", "be brief"), "--system is part of a conversation"),
        (("--rounds", "-1"), "Invalid value for '--rounds'"),
        (("-k", "0"), "-k 0 drafts nothing"),
        (("--trace",), "No such option: --trace"),
    ],
)
def test_what_cannot_be_done_is_refused_before_the_model_is_loaded(
    words: tuple[str, ...], message: str
) -> None:
    done = run_here("show", "a b", "-m", "/no/such/model.gguf", *words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_terminal_without_colours_gets_marks(tiny_model: str) -> None:
    words = ("show", "the the", "-m", tiny_model, "--raw", "-n", "6", "--rounds", "0")
    with Terminal(*words, environment={"NO_COLOR": "1"}) as terminal:
        assert "+the expert's own+" in terminal.expect("bonus")
        assert terminal.wait() == 0
