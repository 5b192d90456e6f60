"""The JSON of a trace reads back as the same trace; what is none is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from oneglance.config import SamplingParams
from oneglance.errors import ParameterError
from oneglance.show.branches import branches
from oneglance.show.figures import figures, race_figures, race_sentence
from oneglance.show.trace import Pass, Race, Run, Seconds
from oneglance.show.trace_json import from_dict, to_dict, to_json
from oneglance.testing import ScriptedDrafter
from oneglance.types import ROOT
from tests.show.letters import chain, flat_law, node_of, recorded, trace_of

PASSES = (chain("ab", "c"), chain("", own="d"), chain("ef"), chain("a", own=None, unused="bc"))


def run_of(seconds: float, passes: int = 5) -> Run:
    return Run(seconds, 10, passes, 8, 5, Seconds(0.1 * seconds, 0.6 * seconds, 0.1 * seconds))


RACE = Race(
    plain=(run_of(4.0, 10), run_of(2.0, 10), run_of(99.0, 10)),
    speculative=(run_of(1.0), run_of(2.0), run_of(50.0)),
    plain_text="abdefa",
    is_identical=True,
)


def test_it_reads_back_as_it_was_written() -> None:
    _, passes = recorded(
        ScriptedDrafter(flat_law, branches=(2, 1)),
        SamplingParams(max_tokens=9, temperature=1.0, seed=1),
    )
    trace = trace_of(passes, race=RACE, origin={"date": "2026-01-02"})
    again = from_dict(json.loads(to_json(trace)))
    assert again == trace
    assert to_dict(again) == to_dict(trace)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "no trace of version 1"),
        ({"schema": "report"}, "no trace of version 1"),
        ({"passes": [{}]}, "is damaged"),
        ({"answer": None}, "is damaged"),
        ({"race": {"plain": []}}, "is damaged"),
    ],
)
def test_what_is_no_trace_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        from_dict({**to_dict(trace_of(PASSES)), **change})


def test_figures_follow_from_the_passes() -> None:
    found = figures(trace_of(PASSES))
    assert (found.passes, found.drafted, found.accepted, found.delivered) == (4, 8, 5, 8)
    assert found.acceptance_rate == 5 / 8
    assert found.mean_accepted_length == 2.0
    assert found.accepted_lengths == (1, 1, 2)
    assert found.shares == pytest.approx({"draft": 0.1, "verify": 0.8, "accept": 0.1, "rest": 0.0})


def test_nothing_drafted_is_no_error() -> None:
    found = figures(trace_of([chain("", own="x")]))
    assert (found.acceptance_rate, found.accepted_lengths, found.race) == (0.0, (1,), None)


def test_what_a_stop_string_took_back_is_not_counted_as_accepted() -> None:
    trace = trace_of(PASSES)
    answer = replace(trace.answer, num_tokens=6, num_accepted=3)
    found = figures(replace(trace, answer=answer))
    assert (found.accepted, found.delivered) == (3, 6)


def test_a_race_is_judged_by_its_medians() -> None:
    found = race_figures(RACE)
    assert found.speedup == 2.0
    assert (found.plain_speed, found.speculative_speed) == (2.5, 5.0)
    assert (found.plain_passes, found.speculative_passes, found.rounds) == (10, 5, 3)
    assert found.shares["rest"] == pytest.approx(0.2)
    assert race_sentence(found) == (
        "The texts are identical, bit for bit. Drafting made it 2.00 times as fast."
    )


def test_a_loss_and_a_difference_are_said() -> None:
    lost = race_figures(replace(RACE, plain=RACE.speculative, speculative=RACE.plain))
    assert "slower here: 0.50 times" in race_sentence(lost)
    assert "THE TEXTS DIFFER" in race_sentence(replace(lost, is_identical=False))


def tree_pass() -> Pass:
    """Root: a (wrong) and b (kept); below b: c (kept) and d."""
    nodes = (
        node_of("a", "behind"),
        node_of("b", "kept"),
        node_of("x", "behind", 0, 2),
        node_of("d", "behind", 1, 2),
        node_of("c", "kept", 1, 2),
    )
    return replace(chain(""), nodes=nodes, accepted=(1, 4))


def test_branches_begin_with_the_accepted_one() -> None:
    assert branches(tree_pass()) == [[1, 4], [0, 2], [3]]


def test_a_chain_is_one_branch() -> None:
    assert branches(chain("ab", "cd")) == [[0, 1, 2, 3]]
    assert branches(chain("")) == []


def test_what_was_considered_stands_at_the_parent() -> None:
    _, (first, *_) = recorded(ScriptedDrafter(flat_law), SamplingParams(max_tokens=4))
    assert first.considered_at(ROOT) == first.considered
    assert first.considered_at(0) == first.nodes[0].considered
