from __future__ import annotations

from collections.abc import Sequence

import pytest
from rich.console import Console

from oneglance.checkpoints.base import Tokenizer
from oneglance.cli.render import (
    MARKS,
    MEANINGS,
    STYLES,
    Segment,
    TraceRenderer,
    engine_text,
    is_coloured,
    legend,
    pass_segments,
    rate_text,
    render_passes,
    summary_line,
    tokens_per_second,
)
from oneglance.show.visible import harmless, visible
from oneglance.types import ROOT, EngineInfo, PassTrace, SpeculationStats

CONTROL_ID = 300


WORDS = {256: b" the", 257: b" cat", 258: b" dog", 259: b"\n"}


class WordTokenizer(Tokenizer):
    """Ids below 256 are bytes, 300 is a control token, others are words."""

    vocab_size = 301
    bos_id = None
    eos_ids = frozenset({CONTROL_ID})
    special_ids = frozenset({CONTROL_ID})
    adds_bos = False

    def encode(self, text: str, parse_special: bool = False, add_bos: bool = False) -> list[int]:
        assert not parse_special
        assert not add_bos
        return list(text.encode())

    def token_bytes(self, token_id: int) -> bytes:
        if token_id == CONTROL_ID:
            return b""
        return WORDS[token_id] if token_id in WORDS else bytes([token_id])

    def token_label(self, token_id: int) -> str:
        return "<|end|>" if token_id == CONTROL_ID else repr(self.token_bytes(token_id))

    def decode(self, token_ids: Sequence[int]) -> str:
        return b"".join(map(self.token_bytes, token_ids)).decode("utf-8", "replace")

    def fingerprint(self) -> str:
        return "words"


def chain_pass(draft: list[int], num_kept: int, next_token: int | None) -> PassTrace:
    return PassTrace(
        drafter="test",
        draft_tokens=tuple(draft),
        parents=tuple(range(-1, len(draft) - 1)),
        accepted=tuple(range(num_kept)),
        next_token=next_token,
        kind="recovered" if num_kept < len(draft) else "bonus",
    )


def marked(trace: PassTrace) -> str:
    line = TraceRenderer(WordTokenizer(), has_colour=False).draw(trace).plain
    return line.removeprefix("  1 ")


def test_a_chain_shows_kept_then_rejected_then_own() -> None:
    assert marked(chain_pass([256, 257, 259], 1, 258)) == "[ the]~ cat~~⏎~+ dog+"


def test_an_empty_draft_shows_the_targets_token_alone() -> None:
    assert marked(chain_pass([], 0, 256)) == "+ the+"


def test_drafts_past_the_end_are_not_called_rejected() -> None:
    assert marked(chain_pass([256, CONTROL_ID, 257], 2, None)) == "[ the][<|end|>]( cat) ■ end"


def test_a_tree_shows_its_branches_apart() -> None:
    trace = PassTrace(
        drafter="test",
        draft_tokens=(256, 257, 258, 259, 65),
        parents=(ROOT, 0, 0, 2, ROOT),
        accepted=(0, 1),
        next_token=66,
        kind="bonus",
    )
    assert marked(trace) == "[ the][ cat] │ ~ dog~~⏎~ │ ~A~+B+"


def test_bytes_of_one_character_are_one_segment() -> None:
    letter = list("é".encode())
    segments, pending = pass_segments(chain_pass([*letter, 65], 3, 66), WordTokenizer())
    assert segments == [
        Segment("kept", "é", num_tokens=2),
        Segment("kept", "A"),
        Segment("own", "B"),
    ]
    assert pending == b""


def test_a_character_that_spans_passes_appears_where_it_is_complete() -> None:
    first, second, third, fourth = "😀".encode()
    traces = [chain_pass([first], 1, second), chain_pass([third, 65], 1, fourth)]
    lines = [line.plain for line in render_passes(traces, WordTokenizer(), has_colour=False)]
    # The rejected letter would have broken the character off, and is shown doing so.
    assert lines == ["  1 […]+…+", "  2 […]~\ufffdA~+😀+"]


def test_a_rejected_token_does_not_disturb_the_character_in_progress() -> None:
    first, second = "é".encode()
    _, pending = pass_segments(chain_pass([65], 0, first), WordTokenizer())
    assert pending == bytes([first])
    segments, pending = pass_segments(chain_pass([66], 0, second), WordTokenizer(), pending)
    assert segments[-1] == Segment("own", "é")
    assert pending == b""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\n\tb\r", "a⏎⇥b␍"),
        ("\x1b[31m", "␛[31m"),
        ("\x00\x7f\x9b", "␀␡\\u009b"),
        ("\u202eevil", "\\u202eevil"),
        ("👩\u200d🔬", "👩\u200d🔬"),
        ("naïve", "naïve"),
    ],
)
def test_visible_hides_nothing(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_harmless_keeps_layout_and_disarms_escapes() -> None:
    assert harmless("a\n\tb\x1b[2J\u200f") == "a\n\tb␛[2J\u200f"


def test_each_fate_differs_from_the_others_without_its_colour() -> None:
    attributes = [
        {"strike", "bold", "italic", "underline"} & set(style.split()) for style in STYLES.values()
    ]
    assert all(attributes)
    assert len({frozenset(found) for found in attributes}) == len(STYLES)


def test_coloured_lines_carry_the_styles_and_no_marks() -> None:
    trace = chain_pass([256, 257], 1, 258)
    line = TraceRenderer(WordTokenizer(), has_colour=True).draw(trace)
    assert line.plain == "  1  the cat dog"
    styles = [str(span.style) for span in line.spans]
    assert styles[-3:] == [STYLES["kept"], STYLES["rejected"], STYLES["own"]]


@pytest.mark.parametrize("has_colour", [True, False])
def test_the_legend_explains_every_fate(has_colour: bool) -> None:
    text = legend(has_colour).plain
    assert all(meaning in text for meaning in MEANINGS.values())
    assert all((before in text) is not has_colour for before, _ in MARKS.values())


def test_colour_is_for_terminals_that_may_have_it() -> None:
    terminal = Console(force_terminal=True, color_system="standard", no_color=False)
    assert is_coloured(terminal)
    assert not is_coloured(Console(force_terminal=True, color_system="standard", no_color=True))
    assert not is_coloured(Console(force_terminal=False, no_color=False))


def test_summary_gives_the_four_figures() -> None:
    stats = SpeculationStats(
        passes=4,
        drafted=10,
        accepted=6,
        delivered=10,
        prefill_seconds=100.0,
        draft_seconds=0.5,
        verify_seconds=1.0,
        accept_seconds=0.5,
    )
    assert summary_line(stats) == (
        "10 tokens in 4 passes · mean accepted length 2.50 · acceptance rate 60% (6/10) · 5.0 tok/s"
    )


def test_summary_of_plain_decoding_claims_no_rate() -> None:
    stats = SpeculationStats(passes=1, delivered=1, verify_seconds=1.0)
    assert "1 token in 1 pass ·" in summary_line(stats)
    assert "acceptance rate –" in summary_line(stats)
    assert rate_text(stats) == "–"


def test_tokens_per_second_of_no_time_is_zero() -> None:
    assert tokens_per_second(3, 0.0) == 0.0


def test_the_engine_in_a_few_words() -> None:
    assert engine_text(EngineInfo("native", "avx2", 2)) == "native engine (avx2, 2 threads)"
    kept = EngineInfo("reference", weights="bf16")
    assert engine_text(kept) == "reference engine (1 thread, bf16 weights)"
